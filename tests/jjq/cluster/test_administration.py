"""Operators' verbs in a cluster: any node takes them, the owner does them, and all nodes see it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coldstore.shared import failpoint
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, NotFound
from coldstore.store import ColdStore
from sharding.documents.tenure import JournalKind
from tests.jjq.cluster.members import RealCluster, real_cluster
from tests.jjq.serving import numbers, said

BOTH = pytest.mark.parametrize("journal", ["disk", "s3"])


async def other_than_owner(cluster: RealCluster, queue: str) -> str:
    owner = (await cluster.owners())[queue]
    return next(name for name in cluster.nodes if name != owner)


@BOTH
async def test_a_queue_is_changed_sealed_deleted_and_brought_back_by_whichever_node(
    tmp_path: Path, journal: JournalKind
) -> None:
    async with real_cluster(tmp_path, journal, "a", "b") as cluster:
        either = await cluster.client("a")
        made = await either.create_queue("orders", block_bytes=1 << 20)
        await either.create_subscriber("orders", "s", "beginning")
        await either.push("orders", numbers(0, 10), producer="p", sequence=0)
        other = await cluster.client(await other_than_owner(cluster, "orders"))
        assert said((await other.pop("orders/s", 4)).batch) == [b"0", b"1", b"2", b"3"]
        assert (await other.update_queue("orders", block_bytes=1 << 21)).block_bytes == 1 << 21
        assert (await other.seal("orders")).cold_offset == 10
        await other.push("orders", numbers(10, 1))
        # Both have read its history, and remember it.
        assert len([batch async for batch in other.read("orders", "offset:0", "offset:10")]) > 0

        deleted = await other.delete_queue("orders")
        assert deleted.id == made.id
        for client in (either, other):
            assert await client.delete_queue("orders") == deleted
            assert await client.list_queues() == []
            with pytest.raises(NotFound, match="was deleted"):
                await client.pop("orders/s")
            with pytest.raises(NotFound, match="was deleted"):
                _ = [batch async for batch in client.read("orders", "offset:0", "offset:10")]
            with pytest.raises(Conflict, match="undelete"):
                await client.create_queue("orders")

        assert (await other.undelete_queue("orders")).next_offset == 11
        assert said((await either.pop("orders/s", 9)).batch) == [b"4", b"5", b"6", b"7", b"8", b"9"]
        assert said((await either.pop("orders/s", 9)).batch) == [b"10"]
        assert (await other.push("orders", numbers(0, 10), producer="p", sequence=0)).duplicate
        # It can be moved and deleted again like any other.
        target = await other_than_owner(cluster, "orders")
        await cluster.operator().move("orders", target)
        assert (await either.get_subscriber("orders/s")).offset == 11
        await either.delete_queue("orders", grace_seconds=0)
        cold = ColdStore(cluster.objects, SystemClock(), SystemChance())
        assert cold.sweep_deleted() == ["orders"]
        with pytest.raises(NotFound):
            await other.get_queue("orders")
        assert [info.key for info in cluster.objects.list("queues/")] == ["queues/orders/queue.json"]


async def test_the_status_tells_of_every_node_also_of_one_that_is_away(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a", "b") as cluster:
        client = await cluster.client("a")
        await client.create_queue("orders")
        found = await client.status()
        assert [(status.node, status.error, status.cold_error) for status in found] == [
            ("a", "", ""),
            ("b", "", ""),
        ]
        assert sum(status.figures["queues"] for status in found) == 1
        nodes = await cluster.operator().nodes()
        assert {each.node.version for each in nodes} == {found[0].version}
        assert all(each.node.uptime_seconds >= 0 for each in nodes)
        server, http = cluster.nodes["b"].server, cluster.nodes["b"].http
        assert server is not None
        assert http is not None
        await asyncio.gather(
            server.stop(0.0), http.stop(0.0)
        )  # it does not answer, and its heartbeat goes on
        found = await client.status()
        assert found[0].error == ""
        assert found[1].error != ""


async def test_a_dry_run_of_taking_over_a_living_node_says_that_it_lives(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "disk", "a", "b") as cluster:
        operator = cluster.operator("a")
        with pytest.raises(Conflict, match="node b is alive"):
            await operator.take_over("b", dry_run=True)
        with pytest.raises(Conflict, match="this is node a"):
            await operator.take_over("a", dry_run=True)


@BOTH
@pytest.mark.parametrize("point", ["delete.retired", "delete.noted", "delete.marked"])
async def test_a_deletion_that_breaks_off_is_done_or_not_and_the_queue_can_be_moved_either_way(
    tmp_path: Path, journal: JournalKind, point: str
) -> None:
    async with real_cluster(tmp_path, journal, "a", "b") as cluster:
        client = await cluster.client("a")
        await client.create_queue("orders")
        await client.create_subscriber("orders", "s", "beginning")
        await client.push("orders", numbers(0, 3))
        failpoint.arm(point)
        try:
            deleted = await client.delete_queue("orders")  # the client asks again by itself
        finally:
            failpoint.disarm()
        assert await client.delete_queue("orders") == deleted
        assert (await client.undelete_queue("orders")).next_offset == 3
        await client.push("orders", numbers(3, 1))
        await cluster.operator().move("orders", await other_than_owner(cluster, "orders"))
        assert said((await client.pop("orders/s", 3)).batch) == [b"0", b"1", b"2"]
        assert said((await client.pop("orders/s", 3)).batch) == [b"3"]
