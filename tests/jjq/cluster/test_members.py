"""Real nodes together: any request anywhere, rebalance, drain, split, and restarts under load."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest

from coldstore.shared.errors import JjqError
from jjq.remote.settings import ClientTls, RemoteSettings
from jjq.remote.store import RemoteStore
from sharding.documents.tenure import JournalKind
from tests.jjq.cluster.members import real_cluster
from tests.jjq.cluster.serving import wired
from tests.jjq.server.test_tls import Authority
from tests.jjq.serving import numbers, said, until

BOTH = pytest.mark.parametrize("journal", ["disk", "s3"])


class Load:
    """An idempotent producer and a subscriber that go on whatever happens, and remember everything."""

    def __init__(self, pusher: RemoteStore, reader: RemoteStore, queue: str) -> None:
        self._pusher = pusher
        self._reader = reader
        self._queue = queue
        self._stopping = False
        self.acked: list[int] = []
        self.seen: list[int] = []
        self._tasks = [asyncio.create_task(self._push()), asyncio.create_task(self._read())]

    async def _push(self) -> None:
        n = 0
        while not self._stopping:
            receipt = await self._pusher.push(self._queue, numbers(n * 10, 10), producer="p", sequence=n)
            assert receipt.first_offset == n * 10
            self.acked.append(receipt.first_offset)
            n += 1
            await asyncio.sleep(0.002)

    async def _read(self) -> None:
        async with self._reader.subscribe(f"{self._queue}/s") as deliveries:
            async for delivery in deliveries:
                self.seen += map(int, said(delivery.batch))
                await deliveries.confirm(delivery)

    async def grown(self, pushes: int = 10) -> None:
        """Wait for progress."""
        wanted = len(self.acked) + pushes
        async with asyncio.timeout(30):
            while len(self.acked) < wanted:
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.005)

    async def check(self) -> None:
        """Nothing is lost, doubled or out of order; the subscriber was where it should be."""
        self._stopping = True
        await self._tasks[0]
        total = len(self.acked) * 10
        await until(lambda: len(self.seen) >= total, 30)
        self._tasks[1].cancel()
        await asyncio.gather(self._tasks[1], return_exceptions=True)
        found = [int(v) async for batch in self._reader.read(self._queue) for v in said(batch)]
        assert found == list(range(total))
        assert self.seen == list(range(total))


@BOTH
async def test_any_node_answers_and_a_queue_moves_under_load(tmp_path: Path, journal: JournalKind) -> None:
    async with real_cluster(tmp_path, journal, "n1", "n2", "n3") as cluster:
        clients = [await cluster.client(name) for name in cluster.nodes]
        await clients[0].create_queue("q")
        await clients[1].create_subscriber("q", "s", "beginning")
        load = Load(clients[1], clients[2], "q")
        for n in range(6):
            await load.grown()
            moved = await cluster.operator("n1").move("q", f"n{n % 3 + 1}")
            assert moved.node == f"n{n % 3 + 1}"
        await load.grown()
        await cluster.operator("n2").split("q")
        await load.check()
        assert [queue.name for queue in await clients[2].list_queues()] == ["q"]
        for client in clients:
            assert (await client.get_subscriber("q/s")).lag == 0


async def test_rebalance_gives_a_new_node_its_part_and_drain_takes_it_back(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "disk", "n1", "n2") as cluster:
        client = await cluster.client("n1")
        for n in range(12):
            await client.create_queue(f"q{n:02}")
            await client.push(f"q{n:02}", numbers(0, 10))
        await cluster.add("n3")
        operator = cluster.operator("n3")
        plan = await operator.plan()
        assert plan.shares[2].before == 0
        assert plan.shares[2].after >= 20  # of a fair part of 33; shards are of different weight
        for each in plan.moves:
            await operator.move(each.shard.queue, each.to)
        assert list((await cluster.owners()).values()).count("n3") >= 2
        await operator.drain("n1")
        for each in (await operator.plan(leaving="n1")).moves:
            await operator.move(each.shard.queue, each.to)
        assert set((await cluster.owners()).values()) == {"n2", "n3"}
        await cluster.nodes["n1"].stop()
        await cluster.look()
        other = await cluster.client("n2", "n3")
        for n in range(12):
            found = [int(v) async for batch in other.read(f"q{n:02}") for v in said(batch)]
            assert found == list(range(10))


async def test_a_rolling_restart_under_load_loses_nothing(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "disk", "n1", "n2", "n3") as cluster:
        clients = [await cluster.client(*cluster.nodes) for _ in range(2)]
        await clients[0].create_queue("q")
        await clients[0].create_subscriber("q", "s", "beginning")
        load = Load(clients[0], clients[1], "q")
        for name, node in cluster.nodes.items():
            await load.grown()
            others = [each for each in cluster.nodes if each != name]
            operator = cluster.operator(*others)
            await operator.drain(name)
            for each in (await operator.plan(leaving=name)).moves:
                await operator.move(each.shard.queue, each.to)
            await load.grown()
            await node.stop()
            await load.grown()
            await node.start()
            await cluster.look()
        await load.check()


async def test_nodes_that_use_tls_reach_each_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    certificate, key = authority.issue("node")
    flags = {
        "tls_certificate": str(certificate),
        "tls_key": str(key),
        "tls_client_ca": str(authority.path),
    }
    async with real_cluster(tmp_path, "disk", "n1", "n2", **flags) as cluster:
        tls = ClientTls(authority.path, *authority.issue("client"))
        client = await cluster.client("n1", tls=tls)
        for n in range(6):
            await client.create_queue(f"q{n}")
            assert (await client.push(f"q{n}", numbers(0, 1))).first_offset == 0
        assert len(await client.list_queues()) == 6
        n1 = cluster.nodes["n1"].clustering
        assert n1 is not None
        await wired(n1.router)
        for n in range(6):
            assert (await client.push(f"q{n}", numbers(1, 1), producer="p", sequence=0)).first_offset == 1
        owners = {
            (await node.member.ownership.shards(f"q{n}")).owner  # type: ignore[union-attr]
            for node in cluster.nodes.values()
            if node.member is not None
            for n in range(6)
        }
        assert owners == {"n1", "n2"}  # so some of them were forwarded


async def test_the_metrics_of_a_node_are_those_of_its_own_store(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "disk", "n1") as cluster:
        client = await cluster.client("n1")
        await client.create_queue("q")
        await client.create_subscriber("q", "s", "beginning")
        await client.push("q", numbers(0, 10))
        server = cluster.nodes["n1"].server
        assert server is not None
        assert server.metrics_port is not None
        url = f"http://127.0.0.1:{server.metrics_port}/metrics"
        page = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
        assert "jjq_queues 1.0" in page
        assert 'jjq_subscriber_lag_elements{queue="q",subscriber="s"} 10.0' in page


async def test_a_restart_without_drain_only_makes_its_queues_wait(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "disk", "n1", "n2") as cluster:
        clients = [await cluster.client(*cluster.nodes) for _ in range(2)]
        await clients[0].create_queue("q")
        await clients[0].create_subscriber("q", "s", "beginning")
        load = Load(clients[0], clients[1], "q")
        for _ in range(2):
            await load.grown()
            owner = cluster.nodes[(await cluster.owners())["q"]]
            await owner.stop()
            await owner.start()
            await cluster.look()
        await load.grown()
        await load.check()


async def test_a_queue_of_a_node_that_is_away_is_unavailable_and_says_which(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "disk", "n1", "n2") as cluster:
        client = await cluster.client("n1")
        names = [f"q{n}" for n in range(8)]
        for name in names:
            await client.create_queue(name)
        owners = await cluster.owners()
        lost = next(name for name in names if owners[name] == "n2")
        await cluster.nodes["n2"].stop()
        await cluster.look()
        fresh = RemoteStore(cluster.address("n1"), RemoteSettings(timeout_seconds=1.0))
        with pytest.raises(JjqError, match="node n2"):
            await fresh.push(lost, numbers(0, 1))
        await fresh.close()
