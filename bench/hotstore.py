"""The hot store: durable pushes and pops in process, against what the machine's disk can do.

The machine's rate is that of overwriting a recycled file with the same bytes and fdatasync after
each write, measured in turns with ours. Blocks are large here, so that no sealing runs meanwhile:
`history` measures the store with everything running.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path

import pyarrow as pa

from bench.row import Row, at_least, at_most
from coldstore.objects.local import LocalObjects
from coldstore.shared.batch import payload
from coldstore.shared.chance import SeededChance, SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import GIB
from coldstore.store import ColdStore
from hotstore.engine import Engine
from hotstore.opening import open_engine
from hotstore.settings import HotSettings
from hotstore.store import HotStore

CALLERS = 4
PER_CALL = 1_000
VALUE_BYTES = 100
_PUSHES = 60  # of each caller, in one round


def run(quick: bool) -> list[Row]:
    """All figures of the hot store's data path."""
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        root = Path(folder)
        return asyncio.run(_pushes(root / "push", quick)) + asyncio.run(_pops(root / "pop", quick))


async def open_in(root: Path, settings: HotSettings | None = None) -> Engine:
    clock, chance = SystemClock(), SystemChance()
    cold = ColdStore(LocalObjects(root / "cold", clock=clock, chance=chance), clock, chance)
    settings = settings or HotSettings(unsealed_bytes_max=4 * GIB)
    return await open_engine(root, cold, settings=settings, clock=clock, chance=chance)


def values(count: int = PER_CALL) -> list[bytes]:
    chance = SeededChance(count)
    return [bytes.fromhex(chance.token() * 7)[:VALUE_BYTES] for _ in range(count)]


class Machine:
    """Overwrites a recycled file and fdatasyncs it, as the journal must."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(self._file, bytes(64 * 1024 * 1024), 0)
        os.fsync(self._file)
        self._data = bytes(range(256)) * (size // 256 + 1)
        self._size = size
        self._places = 64 * 1024 * 1024 // (size + 4096)
        self._at = 0

    def write(self) -> None:
        self._at = (self._at + 1) % self._places
        place = self._at * ((self._size + 4095) // 4096 * 4096)
        os.pwrite(self._file, memoryview(self._data)[: self._size], place)
        os.fdatasync(self._file)

    def seconds(self, times: int) -> float:
        started = time.perf_counter()
        for _ in range(times):
            self.write()
        return (time.perf_counter() - started) / times

    def close(self) -> None:
        os.close(self._file)


async def _pushes(root: Path, quick: bool) -> list[Row]:
    engine = await open_in(root)
    await engine.store.create_queue("q", block_bytes=GIB)
    batched = await _batched(engine.store, root, rounds=4 if quick else 10)
    single = await _single(engine.store, root, count=400 if quick else 2_000)
    await engine.close()
    return batched + single


async def _batched(store: HotStore, root: Path, rounds: int) -> list[Row]:
    """Record batches, each its own memory, from four callers; and lists of bytes, made into batches by us."""
    content = values()
    batches = cycle([payload("bytes", content) for _ in range(2 * CALLERS * _PUSHES)])
    machine = Machine(root / "machine", PER_CALL * VALUE_BYTES)
    await _callers(store, lambda: next(batches), _PUSHES)
    rates: dict[str, list[float]] = {"arrow": [], "list": [], "machine": []}
    for _ in range(rounds):
        rates["arrow"].append(await _callers(store, lambda: next(batches), _PUSHES))
        rates["list"].append(await _callers(store, lambda: payload("bytes", content), _PUSHES))
        rates["machine"].append(PER_CALL / machine.seconds(2 * _PUSHES))
    machine.close()
    arrow, lists, raw = (statistics.median(rates[name]) for name in ("arrow", "list", "machine"))
    return [
        Row("machine: overwrite 100 KB + fdatasync", raw / 1e6, "M elements/s"),
        at_least("durable push, 1,000 × 100 B, 4 callers", arrow / 1e6, "M elements/s", 2.5),
        at_least("… × the machine's rate", arrow / raw, "×", 0.5),
        at_least("… from lists of bytes", lists / 1e6, "M elements/s", 2.5),
        Row("… × the machine's rate", lists / raw, "×"),
    ]


async def _callers(store: HotStore, make: Callable[[], pa.RecordBatch], pushes: int) -> float:
    async def caller() -> None:
        for _ in range(pushes):
            await store.push("q", make())

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return CALLERS * pushes * PER_CALL / (time.perf_counter() - started)


async def _single(store: HotStore, root: Path, count: int) -> list[Row]:
    batch = payload("bytes", values(1))
    machine = Machine(root / "single", VALUE_BYTES)
    ours: list[float] = []
    raw: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        await store.push("q", batch)
        between = time.perf_counter()
        machine.write()
        ours.append(between - started)
        raw.append(time.perf_counter() - between)
    machine.close()
    p50, raw_p50 = statistics.median(ours), statistics.median(raw)
    return [
        Row("machine: overwrite 100 B + fdatasync, p50", raw_p50 * 1e6, "µs"),
        Row("one caller, one element, p50", p50 * 1e6, "µs"),
        at_most("… × the machine's", p50 / raw_p50, "×", 1.5),
    ]


async def _pops(root: Path, quick: bool) -> list[Row]:
    engine = await open_in(root)
    store = engine.store
    await store.create_queue("q", block_bytes=GIB)
    batch = payload("bytes", values())
    pushes = 200 if quick else 500
    for _ in range(pushes):
        await store.push("q", batch)
    rows = [
        at_least(
            "pop 1,000 as Arrow, 4 subscribers", await _pop_rate(store, pushes) / 1e6, "M elements/s", 3.0
        )
    ]
    few = await _pop_seconds(store, "few")
    total = 10_000 if quick else 100_000
    for start in range(0, total, 1_000):
        await asyncio.gather(
            *(store.create_subscriber("q", f"s{n}", "beginning") for n in range(start, start + 1_000))
        )
    many = await _pop_seconds(store, "many")
    rows.append(at_most(f"cost of a pop with {total:,} subscribers × with 10", many / few, "×", 1.3))
    await engine.close()
    return rows


async def _pop_rate(store: HotStore, pushes: int) -> float:
    subscribers = [await store.create_subscriber("q", f"r{n}", "beginning") for n in range(CALLERS)]

    async def drain(subscriber: str) -> None:
        for _ in range(pushes):
            await store.pop(subscriber, PER_CALL)

    started = time.perf_counter()
    await asyncio.gather(*(drain(s.id) for s in subscribers))
    return CALLERS * pushes * PER_CALL / (time.perf_counter() - started)


async def _pop_seconds(store: HotStore, name: str) -> float:
    subscriber = await store.create_subscriber("q", name, "beginning")
    return await median_seconds(lambda: store.pop(subscriber.id, 100), 400)


async def median_seconds(call: Callable[[], Awaitable[object]], times: int) -> float:
    taken: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)
