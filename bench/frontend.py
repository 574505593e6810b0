"""The front end: a client and a server in two processes on this machine, against a bare echo.

Every push counts when it is durable. The echo is a grpc.aio server in the same process as ours, called
in the same way, so its figures are what gRPC alone costs here.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
import psutil
import pyarrow as pa

from bench.frontserver import run_on
from bench.hotstore import Machine, open_in, values
from bench.row import Row, at_least, at_most
from coldstore.shared.batch import payload
from jjq.remote.store import RemoteStore
from jjq.server.settings import ServerSettings
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import encode

BLOCK_BYTES = 1 << 30
PER_CALL = 1_000
SUBSCRIBERS = 8
IDLE = 1_000
ROUNDS = 3  # the best counts: others use this machine, too


def run(quick: bool, loop: str = "uvloop") -> list[Row]:
    """All figures of the front end."""
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        root = Path(folder)
        embedded = run_on(loop, _embedded(root / "embedded", 500 if quick else 2_000))
        with _server(root / "server", loop) as (addresses, process):
            rows: list[Row] = run_on(loop, _all(addresses, process, root, quick, embedded))
            return rows


@contextmanager
def _server(directory: Path, loop: str) -> Iterator[tuple[dict[str, str], psutil.Process]]:
    directory.mkdir()
    command = [sys.executable, "-m", "bench.frontserver", str(directory), loop]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("no pipes")
        try:
            yield json.loads(process.stdout.readline()), psutil.Process(process.pid)
        finally:
            process.stdin.close()


async def _all(
    addresses: dict[str, str], process: psutil.Process, root: Path, quick: bool, embedded: float
) -> list[Row]:
    calls = 1_000 if quick else 4_000
    async with RemoteStore(addresses["jjq"]) as remote:
        await remote.create_queue("bench", block_bytes=BLOCK_BYTES)
        rows = await _unary(remote, addresses, root, calls)
        # Few enough that no block is sealed meanwhile: `history` measures with everything running.
        streamed = await _best(lambda n: _stream(remote, f"p{n}", calls // 2))
        rows += [
            Row("embedded push, 1,000 × 100 B, 4 callers", embedded, "elements/s"),
            at_least("PushStream, 1,000 × 100 B", streamed, "elements/s", 1.5e6),
            at_least("PushStream / embedded", streamed / embedded, "×", 0.5),
        ]
        rows += await _pops(remote, calls // 8)
        rows += await _reads(remote)
        rows += await _followers(remote, process, quick)
    late = await asyncio.to_thread(_stall, addresses["metrics"], 0.99)
    rows.append(Row("event loop late in all of these, p99 is up to", 1e3 * late, "ms"))
    return rows


def _stall(address: str, share: float) -> float:
    """How late the server's event loop was at most in this share of all looks: a bound of a bucket."""
    with urlopen(f"http://{address}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    found = [
        line.split('le="')[1].split('"} ') for line in lines if line.startswith("jjq_loop_stall_seconds_b")
    ]
    looks = float(found[-1][1])
    return next(float(bound) for bound, count in found if float(count) >= share * looks)


async def _best(measure: Callable[[int], Awaitable[float]]) -> float:
    return max([await measure(n) for n in range(ROUNDS)])


async def _embedded(root: Path, calls: int) -> float:
    """Each push has memory of its own, which the store then holds, as what comes over the wire has."""
    engine = await open_in(root)
    store = engine.store
    await store.create_queue("bench", block_bytes=BLOCK_BYTES)
    batch = payload("bytes", values())
    raw = batch.serialize().to_pybytes()

    async def caller() -> None:
        for _ in range(calls // 4):
            own = pa.py_buffer(bytearray(raw))
            await store.push("bench", pa.ipc.read_record_batch(own, batch.schema))

    async def measure(_: int) -> float:
        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(4)))
        return calls // 4 * 4 * PER_CALL / (time.perf_counter() - started)

    rate = await _best(measure)
    await engine.close()
    return rate


async def _latencies(call: Callable[[], Awaitable[Any]], count: int) -> list[float]:
    found = []
    for _ in range(count):
        started = time.perf_counter()
        await call()
        found.append(time.perf_counter() - started)
    return found


async def _rate(call: Callable[[], Awaitable[Any]], count: int, in_flight: int) -> float:
    async def caller() -> None:
        for _ in range(count // in_flight):
            await call()

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(in_flight)))
    return count // in_flight * in_flight / (time.perf_counter() - started)


async def _unary(remote: RemoteStore, addresses: dict[str, str], root: Path, calls: int) -> list[Row]:
    """In turns, so that whatever else the machine does falls on all of them."""
    batch = payload("bytes", values(1))
    message = encode(pb.PushRequest(queue="bench"), batch, "arrow")
    machine = Machine(root / "machine", 4096)
    options = ServerSettings().options()
    async with (
        grpc.aio.insecure_channel(addresses["echo"], options) as channel,
        grpc.aio.insecure_channel(addresses["jjq"], options) as plain,
    ):
        echo: Any = channel.unary_unary("/bench/Echo")
        push_call: Any = plain.unary_unary("/jjq.v1.Jjq/Push")

        async def push() -> None:
            await remote.push("bench", batch)

        async def bare() -> None:
            await echo(message)

        async def call() -> None:
            await push_call(message)

        one_echo, one_push, one_call, syncs, many_echo, many_push = [], [], [], [], [], []
        for _ in range(2 * ROUNDS):
            for _ in range(calls // 8):
                one_echo += await _latencies(bare, 1)
                syncs.append(machine.seconds(1))  # a disk that had a rest takes longer than one kept busy
            one_push += await _latencies(push, calls // 8)
            one_call += await _latencies(call, calls // 8)
            many_echo.append(await _rate(bare, calls // 2, 64))
            many_push.append(await _rate(push, calls // 2, 64))
    machine.close()
    medians = [statistics.median(times) * 1e3 for times in (one_echo, one_push, syncs, one_call)]
    limit = 1.5 * medians[0] + medians[2]
    rate, best = max(many_push), max(many_echo)
    return [
        Row("echo, 1 in flight, p50", medians[0], "ms"),
        Row("fdatasync of 4 KiB, p50", medians[2], "ms"),
        at_most("Push, 1 in flight, p50, a bare client's call", medians[3], "ms", limit),
        at_most("… our client's, over its stream", medians[1], "ms", limit),
        Row("echo, 64 in flight", best, "calls/s"),
        Row("Push, 64 in flight, joined by the client", rate, "pushes/s"),
        at_least("Push / echo, 64 in flight", rate / best, "×", 0.7),
    ]


async def _stream(remote: RemoteStore, producer: str, calls: int) -> float:
    batch = payload("bytes", values())
    numbers = iter(range(calls))

    async def caller() -> None:
        for sequence in numbers:
            await remote.push("bench", batch, producer=producer, sequence=sequence)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(64)))
    return calls * PER_CALL / (time.perf_counter() - started)


async def _pops(remote: RemoteStore, calls: int) -> list[Row]:
    async def one(subscriber: str) -> None:
        position = 0
        for _ in range(calls):
            position = (await remote.pop(subscriber, PER_CALL, position=position)).next

    async def measure(prefix: str, count: int) -> float:
        names = [f"{prefix}-{n}" for n in range(count)]
        for name in names:
            await remote.create_subscriber("bench", name, "beginning")
        started = time.perf_counter()
        await asyncio.gather(*(one(f"bench/{name}") for name in names))
        return count * calls * PER_CALL / (time.perf_counter() - started)

    alone = await _best(lambda n: measure(f"alone{n}", 1))
    several = await _best(lambda n: measure(f"several{n}", SUBSCRIBERS))
    return [
        Row("Pop 1,000 per call, 1 subscriber", alone, "elements/s"),
        at_least(f"Pop 1,000 per call, {SUBSCRIBERS} subscribers", several, "elements/s", 2e6),
    ]


async def _reads(remote: RemoteStore) -> list[Row]:
    async def measure(_: int) -> tuple[float, float]:
        rows = size = 0
        started = time.perf_counter()
        async for batch in remote.read("bench"):
            rows += batch.num_rows
            size += batch.nbytes
        seconds = time.perf_counter() - started
        return rows / seconds, size / seconds

    found = [await measure(n) for n in range(ROUNDS)]
    return [
        at_least("Read as Arrow", max(rows for rows, _ in found), "elements/s", 5e6),
        at_least("Read as Arrow", max(size for _, size in found) / 1e6, "MB/s", 400),
    ]


async def _followers(remote: RemoteStore, process: psutil.Process, quick: bool) -> list[Row]:
    """Idle subscribers first, then a hundred of them that follow what is pushed."""
    await remote.create_queue("idle", block_bytes=BLOCK_BYTES)
    for n in range(IDLE):
        await remote.create_subscriber("idle", f"s{n}", "end")
    before = process.memory_info().rss
    subscriptions = [remote.subscribe(f"idle/s{n}", elements=10_000, nbytes=0) for n in range(IDLE)]
    waiting = [asyncio.ensure_future(anext(subscription)) for subscription in subscriptions]
    while any(subscription.confirmed < 0 for subscription in subscriptions):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    grown = process.memory_info().rss - before
    used = sum(process.cpu_times()[:2])
    await asyncio.sleep(2.0)
    idle = (sum(process.cpu_times()[:2]) - used) / 2.0
    for n in range(100, IDLE):
        waiting[n].cancel()
    await asyncio.gather(*waiting[100:], return_exceptions=True)
    await asyncio.gather(*(subscription.close() for subscription in subscriptions[100:]))
    rows = [
        at_most("1,000 idle subscribers, server's memory", grown / 1e6, "MB", 100),
        at_most("1,000 idle subscribers, server's processor", 100 * idle, "%", 3),
    ]
    for size in (100, 1_000):
        batch = payload("bytes", [bytes(size)] * 100)
        rows.append(await _delivery(remote, batch, subscriptions[:100], waiting, 10 if quick else 40))
    for follower in waiting:
        follower.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.gather(*(subscription.close() for subscription in subscriptions[:100]))
    return rows


async def _delivery(remote: RemoteStore, batch: Any, subscriptions: Any, waiting: Any, pushes: int) -> Row:
    rows = pushes * batch.num_rows

    async def follow(n: int) -> None:
        seen = 0
        while seen < rows:
            seen += (await waiting[n]).batch.num_rows
            waiting[n] = asyncio.ensure_future(anext(subscriptions[n]))

    started = time.perf_counter()
    followers = asyncio.gather(*(follow(n) for n in range(len(subscriptions))))
    for _ in range(pushes):
        await remote.push("idle", batch)
    await followers
    seconds = time.perf_counter() - started
    size = batch.column("value").nbytes // batch.num_rows
    return Row(f"100 followers, {size} B values", len(subscriptions) * rows / seconds, "elements/s")
