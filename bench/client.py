"""The client's surface: what it costs above the store, in process and over a server.

Every rate counts elements that are durable when the clock stops. Blocks of the batched pushes are
large, so that no sealing runs meanwhile: `history` measures the store with everything running.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import uvloop

import jjq
from bench.row import Row, at_least
from jjq.client.payload import to_payload

CALLERS = 4
PER_CALL = 1_000
VALUES = [bytes([n % 251]) * 100 for n in range(PER_CALL)]
LARGE = jjq.HotSettings(unsealed_bytes_max=4 << 30)
BLOCK_BYTES = 1 << 30
ROUNDS = 3  # the best counts: others use this machine, too


def run(quick: bool) -> list[Row]:
    """All figures of the client."""
    calls, singles = (400, 100_000) if quick else (4_000, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        root = Path(folder)
        rows = _pushes(root, calls)
        with jjq.open(root / "single") as client:
            rows.append(_single("producer().push(one), in process", client, singles))
        with running_server(root / "server") as address, jjq.connect(address) as client:
            rows.append(_single("producer().push(one), over a server", client, singles))
    return rows


def _pushes(root: Path, calls: int) -> list[Row]:
    batch = to_payload(VALUES)
    store = _best(lambda n: uvloop.run(_store_rate(root / f"store{n}", batch, calls, False)))
    fresh = _best(lambda n: uvloop.run(_store_rate(root / f"fresh{n}", batch, calls, True)))
    rows = [
        Row("push of a batch, 4 callers, store alone", store, "elements/s"),
        Row("push of a list, 4 callers, store alone", fresh, "elements/s"),
        at_least("push of a list, 4 callers, jjq.aio", _aio(root / "al", VALUES, calls), "elements/s", 2.5e6),
        at_least("push of a batch, 4 callers, jjq.aio", _aio(root / "ab", batch, calls), "elements/s", 2.5e6),
    ]
    with jjq.open(root / "blocking", settings=LARGE) as client:
        client.create_queue("q", block_bytes=BLOCK_BYTES)
        for what, values in (("list", VALUES), ("batch", batch)):
            rate = _best(lambda _, values=values: _blocking_rate(client, values, calls))  # type: ignore[misc]
            rows.append(at_least(f"push of a {what}, 4 threads, blocking", rate, "elements/s", 2.5e6))
    return rows


def _best(measure: Callable[[int], float]) -> float:
    return max(measure(n) for n in range(ROUNDS))


def _aio(root: Path, values: list[bytes] | pa.RecordBatch, calls: int) -> float:
    return _best(lambda n: uvloop.run(_aio_rate(Path(f"{root}{n}"), values, calls)))


async def _callers(push: Callable[[], Awaitable[object]], calls: int) -> float:
    async def caller() -> None:
        for _ in range(calls // CALLERS):
            await push()

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return calls * PER_CALL / (time.perf_counter() - began)


async def _aio_rate(root: Path, values: list[bytes] | pa.RecordBatch, calls: int) -> float:
    async with jjq.aio.open(root, settings=LARGE) as client:
        await client.create_queue("q", block_bytes=BLOCK_BYTES)
        return await _callers(lambda: client.push("q", values), calls)


async def _store_rate(root: Path, batch: pa.RecordBatch, calls: int, fresh: bool) -> float:
    async with jjq.aio.open(root, settings=LARGE) as client:
        await client.create_queue("q", block_bytes=BLOCK_BYTES)
        store = client._store
        return await _callers(lambda: store.push("q", to_payload(VALUES) if fresh else batch), calls)


def _blocking_rate(client: jjq.Client, values: list[bytes] | pa.RecordBatch, calls: int) -> float:
    def caller() -> None:
        for _ in range(calls // CALLERS):
            client.push("q", values)

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return calls * PER_CALL / (time.perf_counter() - began)


def _single(name: str, client: jjq.Client, count: int) -> Row:
    client.create_queue("single")

    def measure(_: int) -> float:
        began = time.perf_counter()
        with client.producer("single") as producer:
            push = producer.push
            for value in VALUES * (count // PER_CALL):
                push(value)
        return count / (time.perf_counter() - began)

    return at_least(name, _best(measure), "elements/s", 150_000)


@contextmanager
def running_server(root: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "jjq", "serve", "--data", str(root), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            greeting = process.stdout.readline() if process.stdout else ""
            yield greeting.removeprefix("jjq listens on ").split(",")[0]
        finally:
            process.terminate()
