"""A cluster on this machine: what routing costs, what moving costs, and the journal on object storage.

Nodes are processes over a real S3 server (SeaweedFS), all on the cores that the client uses, too. So a
hop costs what it costs the machine, not the network; pushes count when they are durable.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import uvloop

from bench.row import Row, at_least, at_most
from coldstore.objects.port import ObjectStore
from coldstore.shared.batch import payload
from jjq.remote.operate.operator import RemoteOperator
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.wire.services import OPERATOR
from sharding.limits import JOURNAL_FLUSH_SECONDS
from tests.servers.jjq_server import JjqServer
from tests.servers.s3 import S3Server
from tests.servers.seaweed import running_seaweed

BATCH = payload("bytes", [bytes([n % 251]) * 100 for n in range(1_000)])
BATCH_MB = 0.1
BLOCK_BYTES = 1 << 30
IN_FLIGHT = 64
ROUNDS = 6
NODES = ("n1", "n2", "n3")
MOVES = 20


def run(quick: bool) -> list[Row]:
    """All figures of sharding."""
    pushes = 100 if quick else 300  # all rounds of these are held in memory: nothing is sealed meanwhile
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder, ExitStack() as stack:
        root = Path(folder)
        (root / "s3").mkdir()
        s3 = stack.enter_context(running_seaweed(root / "s3", volume_mb=1_024))
        stack.callback(s3.close)
        return uvloop.run(_all(root, s3, pushes))


async def _all(root: Path, s3: S3Server, pushes: int) -> list[Row]:
    with (
        running(root / "alone", s3, "disk", ()) as alone,
        running(root / "disk", s3, "disk", NODES) as cluster,
    ):
        rows = await _on_disk(cluster, alone, pushes)
    with running(root / "objects", s3, "s3", NODES) as cluster:
        return rows + await _on_objects(cluster, s3.objects(), pushes)


@dataclass(frozen=True)
class Servers:
    """Addresses of nodes by name."""

    addresses: dict[str, str]

    def client(self, *names: str, direct: bool = True, transport: str = "auto") -> RemoteStore:
        """As `jjq.connect` has it: over WebSocket."""
        settings = RemoteSettings(timeout_seconds=60.0, direct=direct, transport=transport)
        return RemoteStore(self.address(*names), settings)

    def address(self, *names: str) -> str:
        return ",".join(self.addresses[name] for name in names or self.addresses)


@contextmanager
def running(folder: Path, s3: S3Server, journal: str, names: tuple[str, ...]) -> Iterator[Servers]:
    """A cluster of these nodes; without names, one node that is alone."""
    keys = {"JJQ_S3_ACCESS_KEY": s3.access_key, "JJQ_S3_SECRET_KEY": s3.secret_key}
    flags = (
        "--cold",
        f"s3://{s3.bucket}/{folder.name}",
        "--s3-endpoint",
        s3.endpoint,
        "--s3-region",
        s3.region,
        "--http-listen",
        "127.0.0.1:0",
    )
    with ExitStack() as stack:
        made = {}
        for name in names or ("alone",):
            mine = ("--node", name, "--journal", journal) if names else ()
            made[name] = JjqServer(folder / name, *flags, *mine, small=False, environment=keys)
            stack.enter_context(made[name])
        yield Servers({name: server.address for name, server in made.items()})


class Figures:
    """Of one way to push: medians over all rounds."""

    def __init__(self, store: RemoteStore, queue: str) -> None:
        self.store = store
        self.queue = queue
        self._taken: list[float] = []  # seconds, one in flight
        self._rates: list[float] = []  # MB/s, many in flight

    @property
    def p50(self) -> float:
        return statistics.median(self._taken)

    @property
    def rate(self) -> float:
        return statistics.median(self._rates)

    async def one(self) -> None:
        started = time.perf_counter()
        await self.store.push(self.queue, BATCH)
        self._taken.append(time.perf_counter() - started)

    async def many(self, pushes: int) -> None:
        producer = f"{id(self)}-{len(self._rates)}"
        self._rates.append(await _rate([(self.store, self.queue)], pushes, producer))


async def _in_turns(pushes: int, *ways: Figures) -> None:
    """Push by push, so that all of them see the machine as it is: its disk is three times as fast a moment later."""
    for _ in range(ROUNDS):
        for _ in range(pushes):
            for way in ways:
                await way.one()
        for way in ways:
            await way.many(pushes)


async def _rate(targets: list[tuple[RemoteStore, str]], pushes: int, producer: str) -> float:
    """MB/s of idempotent pushes to all targets at once."""

    async def one(store: RemoteStore, queue: str) -> None:
        gate = asyncio.Semaphore(IN_FLIGHT)

        async def push(sequence: int) -> None:
            async with gate:
                await store.push(queue, BATCH, producer=producer, sequence=sequence)

        await asyncio.gather(*(push(n) for n in range(pushes)))

    started = time.perf_counter()
    await asyncio.gather(*(one(store, queue) for store, queue in targets))
    return len(targets) * pushes * BATCH_MB / (time.perf_counter() - started)


async def _placed(servers: Servers, operator: RemoteOperator) -> None:
    """One queue on each node, named as the node is."""
    async with servers.client() as store:
        for name in servers.addresses:
            await store.create_queue(name, block_bytes=BLOCK_BYTES)
            await store.push(name, BATCH)
            await operator.move(name, name)


def _operator(servers: Servers) -> RemoteOperator:
    return RemoteOperator(
        servers.address(), RemoteSettings(timeout_seconds=60.0, direct=False, service=OPERATOR)
    )


async def _on_disk(servers: Servers, single: Servers, pushes: int) -> list[Row]:
    operator = _operator(servers)
    await _placed(servers, operator)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(single.client())
        await one.create_queue("bench", block_bytes=BLOCK_BYTES)
        near, far, third = [
            await stack.enter_async_context(servers.client(name, direct=False)) for name in NODES
        ]
        alone, direct, forwarded = Figures(one, "bench"), Figures(near, "n1"), Figures(far, "n1")
        await _in_turns(pushes, alone, direct, forwarded)
        over_grpc = [
            Figures(
                await stack.enter_async_context(servers.client(name, direct=False, transport="grpc")), "n1"
            )
            for name in NODES[:2]
        ]
        for _ in range(pushes):
            for way in over_grpc:
                await way.one()
        targets = list(zip((near, far, third), NODES, strict=True))
        three = statistics.median([await _rate(targets, pushes // 3, f"three{n}") for n in range(ROUNDS)])
    pause = await _moves(servers, operator)
    await operator.close()
    return [
        Row("push 1,000 × 100 B, one in flight, node that is alone, p50", alone.p50 * 1e3, "ms"),
        at_most("… the owner in a cluster / alone", direct.p50 / alone.p50, "×", 1.1),
        Row("… through another node, p50", forwarded.p50 * 1e3, "ms"),
        at_most("… through another node / the owner", forwarded.p50 / direct.p50, "×", 1.2),
        Row("… a client over gRPC, the owner, p50", over_grpc[0].p50 * 1e3, "ms"),
        at_most("… through another node / the owner", over_grpc[1].p50 / over_grpc[0].p50, "×", 1.2),
        Row("push 1,000 × 100 B, 64 in flight, node that is alone", alone.rate, "MB/s"),
        at_least("… the owner in a cluster / alone", direct.rate / alone.rate, "×", 0.95),
        at_least("… through another node / the owner", forwarded.rate / direct.rate, "×", 0.85),
        at_least("three nodes, a queue each / alone", three / alone.rate, "×", 0.8),
        at_most("pause of pushes to a queue that moves, p50", pause[0] * 1e3, "ms", 500),
        at_most("… p99", pause[1] * 1e3, "ms", 500),
    ]


async def _moves(servers: Servers, operator: RemoteOperator) -> tuple[float, float]:
    """Move a queue under load again and again: the longest time without a receipt around each move."""
    pauses: list[float] = []
    async with servers.client() as store:
        await store.create_queue("moving")
        receipts: list[float] = []
        stopping = asyncio.Event()

        async def push(worker: int) -> None:
            sequence = 0
            while not stopping.is_set():
                await store.push("moving", BATCH, producer=f"w{worker}", sequence=sequence)
                receipts.append(time.perf_counter())
                sequence += 1

        workers = [asyncio.create_task(push(n)) for n in range(4)]
        for n in range(MOVES):
            await asyncio.sleep(0.5)
            before, began = len(receipts) - 1, time.perf_counter()
            await operator.move("moving", NODES[n % len(NODES)])
            moved = time.perf_counter()
            while receipts[-1] < moved + 0.2:  # noqa: ASYNC110 - any of the workers may be next
                await asyncio.sleep(0.01)
            around = [at for at in receipts[before:] if at > began - 1.0]
            pauses.append(max(later - earlier for earlier, later in pairwise(around)))
        stopping.set()
        await asyncio.gather(*workers)
    pauses.sort()
    return statistics.median(pauses), pauses[int(len(pauses) * 0.99)]


async def _on_objects(servers: Servers, objects: ObjectStore, pushes: int) -> list[Row]:
    operator = _operator(servers)
    await _placed(servers, operator)
    put = await asyncio.to_thread(_one_put, objects)
    async with servers.client("n1", direct=False) as near, servers.client("n2", direct=False) as far:
        direct, forwarded = Figures(near, "n1"), Figures(far, "n1")
        await _in_turns(pushes // 2, direct, forwarded)
        wide = [(near, f"wide{n}") for n in range(4)]
        for _, queue in wide:
            await near.create_queue(queue, block_bytes=BLOCK_BYTES)
            await operator.move(queue, "n1")
        rate = statistics.median([await _rate(wide, pushes // 2, f"wide{n}") for n in range(ROUNDS)])
    await operator.close()
    return [
        Row("one put of 100 kB to the S3 server, p50", put * 1e3, "ms"),
        at_most(
            "journal on object storage: push 1,000 × 100 B, p50",
            direct.p50 * 1e3,
            "ms",
            round((1.5 * JOURNAL_FLUSH_SECONDS + put) * 1e3, 1),
        ),
        at_most("… through another node / the owner", forwarded.p50 / direct.p50, "×", 1.2),
        at_least("… 64 in flight to each of 4 queues", rate, "MB/s", 50),
        Row("… 64 in flight to one queue", direct.rate, "MB/s"),
        at_least("… through another node / the owner", forwarded.rate / direct.rate, "×", 0.85),
    ]


def _one_put(objects: ObjectStore) -> float:
    taken = []
    for n in range(30):
        started = time.perf_counter()
        objects.put_if_absent(f"probe/{n}", bytes(100_000))
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)
