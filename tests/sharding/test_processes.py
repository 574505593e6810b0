"""Real nodes, a real S3 server, real deaths: what was acknowledged is there, once, and zombies are silent."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path

import pytest

import jjq
from coldstore.shared.chance import SystemChance
from coldstore.shared.errors import JjqError
from jjq.remote.operate.operator import RemoteOperator
from jjq.remote.settings import RemoteSettings
from jjq.wire.services import OPERATOR
from sharding.documents import shards
from tests.servers.faultproxy import running_proxy
from tests.servers.jjq_server import JjqServer, together
from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until

# What is under way when a node stops gets no long time: it would not be acknowledged in the end.
QUICK = ("--lease-seconds", "2", "--grace-seconds", "1")

pytestmark = pytest.mark.xdist_group("sharding-processes")


class Nodes:
    """Nodes of one cluster, each a process."""

    def __init__(self, folder: Path, s3: S3Server) -> None:
        self.prefix = f"t-{SystemChance().token()}"
        self.s3 = s3
        self.objects = s3.objects(self.prefix)
        self._folder = folder

    def make(
        self, name: str, journal: str = "s3", endpoint: str | None = None, failpoints: str = ""
    ) -> JjqServer:
        keys = {"JJQ_S3_ACCESS_KEY": self.s3.access_key, "JJQ_S3_SECRET_KEY": self.s3.secret_key}
        if failpoints:
            keys["JJQ_FAILPOINTS"] = failpoints
        cold = (
            "--cold",
            f"s3://{self.s3.bucket}/{self.prefix}",
            "--s3-endpoint",
            endpoint or self.s3.endpoint,
        )
        return JjqServer(
            self._folder / name, *cold, "--node", name, "--journal", journal, *QUICK, environment=keys
        )

    def owner(self, queue: str) -> str | None:
        found = shards.read(self.objects, queue)
        return None if found is None else found.shards.owner

    def wait_for_owner(self, queue: str, node: str) -> None:
        wait_until(lambda: self.owner(queue) == node, f"{queue} is served by {node}", 60)


@pytest.fixture
def nodes(tmp_path: Path, seaweed: S3Server) -> Nodes:
    return Nodes(tmp_path, seaweed)


class Load:
    """Pushes numbered values until told to stop, and notes what was acknowledged."""

    def __init__(self, *addresses: str, queue: str = "orders") -> None:
        self.acked: list[tuple[int, bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(addresses, queue))
        self._thread.start()

    def _run(self, addresses: tuple[str, ...], queue: str) -> None:
        for address in cycle(addresses):  # the next one after an error, until told to stop
            if self._stop.is_set():
                return
            with jjq.connect(address, timeout=2.0) as client, suppress(JjqError):
                while not self._stop.is_set():
                    self._push(client, queue)

    def _push(self, client: jjq.Client, queue: str) -> None:
        """Where the outcome is unknown, the same push is made again under the same number."""
        number = len(self.acked)
        value = b"v%d" % number
        receipt = client.push(queue, [value], producer="load", sequence=number)
        self.acked.append((receipt.first_offset, value))

    def wait_for(self, more: int) -> None:
        goal = len(self.acked) + more
        wait_until(lambda: len(self.acked) >= goal, f"{more} more pushes are acknowledged", 60)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


@contextmanager
def load(*servers: JjqServer) -> Iterator[Load]:
    made = Load(*[server.address for server in servers])
    try:
        yield made
    finally:
        made.stop()


def check(address: str, made: Load, queue: str = "orders") -> None:
    """Every acknowledged value is there once, at its offset; and offsets have no hole."""
    with jjq.connect(address) as client:
        there = [(e.offset, e.value) for e in client.replay(queue).elements()]
    assert [offset for offset, _ in there] == list(range(len(there)))
    assert len({value for _, value in there}) == len(there), "a value is there twice"
    lost = [pair for pair in made.acked if there[pair[0]] != pair]
    assert not lost, lost[:5]


def test_one_node_with_its_journal_on_object_storage_survives_kill_nine(nodes: Nodes) -> None:
    with nodes.make("a") as a:
        with jjq.connect(a.address) as client:
            client.create_queue("orders")
            sub = client.create_subscriber("orders", name="s", start="beginning")
            assert [client.push("orders", [b"%d" % n]).first_offset for n in range(20)] == list(range(20))
            assert [e.offset for e in client.pop(sub, max=5)] == list(range(5))
        a.restart()
        with jjq.connect(a.address) as client:
            assert [e.offset for e in client.pop("orders/s", max=100)] == list(range(5, 20))
            assert client.push("orders", [b"more"]).first_offset == 20
        assert a.stop() == 0
        assert not list((a.data / "journal").glob("*")), "nothing is on the disk"
        a.start()
        with jjq.connect(a.address) as client:
            assert client.get_queue("orders").next_offset == 21


def test_the_owner_is_killed_under_load(nodes: Nodes) -> None:
    a, b = nodes.make("a"), nodes.make("b")
    with together(a, b):
        with jjq.connect(a.address) as client:
            client.create_queue("orders")
        owner, other = (a, b) if nodes.owner("orders") == "a" else (b, a)
        with jjq.connect(owner.address) as client:
            client.create_subscriber("orders", name="s", start="beginning")
        with load(owner, other) as made:
            made.wait_for(20)
            with jjq.connect(owner.address) as client:
                popped = len(client.pop("orders/s", max=10))
            owner.kill()
            made.wait_for(20)
        check(other.address, made)
        with jjq.connect(other.address) as client:
            assert client.pop("orders/s", max=1)[0].offset == popped


def test_a_node_that_was_paused_past_its_lease_acknowledges_nothing_any_more(nodes: Nodes) -> None:
    a, b = nodes.make("a"), nodes.make("b")
    with together(a, b):
        with jjq.connect(a.address) as client:
            client.create_queue("orders")
        owner, other = (a, b) if nodes.owner("orders") == "a" else (b, a)
        name = "b" if owner is a else "a"
        with load(owner, other) as made:
            made.wait_for(10)
            owner.process.send_signal(signal.SIGSTOP)
            nodes.wait_for_owner("orders", name)
            made.wait_for(10)
            owner.process.send_signal(signal.SIGCONT)
            made.wait_for(10)
            assert owner.process.wait(60) == 1, "it noticed, and stopped"
        check(other.address, made)
        owner.start()
        check(owner.address, made)


def test_a_node_that_is_cut_off_from_the_store_is_taken_over(nodes: Nodes) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(running_proxy(nodes.s3.endpoint))
        a = stack.enter_context(nodes.make("a", endpoint=proxy.endpoint))
        with jjq.connect(a.address) as client:
            client.create_queue("orders")
        b = stack.enter_context(nodes.make("b"))
        with load(a, b) as made:
            made.wait_for(10)
            with proxy.outage():
                nodes.wait_for_owner("orders", "b")
                made.wait_for(10)
            assert a.process.wait(60) == 1
        check(b.address, made)


@pytest.mark.parametrize("point", ["move.state_put", "move.swapped"])
def test_the_owner_is_killed_in_the_middle_of_a_move(nodes: Nodes, point: str) -> None:
    """Before the swap the queue is the old owner's, from then on the new one's; asking again finishes the move."""
    armed = nodes.make("a", failpoints=f"{point}:1:kill").start()
    with jjq.connect(armed.address) as client:
        client.create_queue("orders")
    with nodes.make("b") as b:
        with load(armed) as made:
            made.wait_for(10)
            with pytest.raises(JjqError):
                asyncio.run(moved(armed.address))
            assert armed.process.wait(30) == -signal.SIGKILL
        if point == "move.swapped":
            assert nodes.owner("orders") == "b"
        with nodes.make("a") as a:  # if it comes too late, b has taken over, and the queue is there anyway
            check(a.address, made)
            asyncio.run(moved(a.address))
            assert nodes.owner("orders") == "b"
            check(b.address, made)


async def moved(address: str) -> None:
    operator = RemoteOperator(address, RemoteSettings(timeout_seconds=5.0, direct=False, service=OPERATOR))
    try:
        await operator.move("orders", "b")
    finally:
        await operator.close()
