"""The hot store with a past: replays under a budget, recovery, many blocks, many queues.

Each figure comes from a process of its own, so that memory is that of the work alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

from bench.coldstore import _make_long_queue
from bench.hotstore import median_seconds, open_in, values
from bench.row import Row, at_least, at_most
from coldstore.shared.batch import payload
from coldstore.shared.limits import GIB, MIB
from hotstore.settings import HotSettings
from hotstore.store import HotStore

Figures = dict[str, float]


def run(quick: bool) -> list[Row]:
    """All figures of a store with history."""
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        root = Path(folder)
        return (
            _replay(root / "replay", 512 * MIB if quick else 2 * GIB)
            + _recovery(root / "recovery", 256 * MIB if quick else GIB)
            + _blocks(root, 1_000 if quick else 100_000)
            + _queues(root / "queues", 1_000 if quick else 10_000)
        )


def _child(step: str, root: Path, size: int) -> Figures:
    command = [sys.executable, "-m", "bench.history", step, str(root), str(size)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(said.stdout)
    return figures


def _replay(root: Path, size: int) -> list[Row]:
    _child("fill", root, size)
    figures = _child("replay", root, size)
    return [
        Row(f"replay of {size / GIB:.2g} GB beside a pusher", figures["replay"] / 1e6, "MB/s"),
        at_most("… memory of the process, budget 256 MB", figures["rss"] / 1e6, "MB", 600.0),
        at_least("… the pusher's rate meanwhile", figures["during"] / figures["alone"], "× alone", 0.8),
    ]


def _recovery(root: Path, size: int) -> list[Row]:
    _child("journal", root, size)
    figures = _child("recover", root, size)
    return [at_least(f"recovery of a {size / GIB:.2g} GB journal", figures["rate"] / 1e6, "MB/s", 200.0)]


def _blocks(root: Path, count: int) -> list[Row]:
    _make_long_queue(root / "few" / "cold", 10)
    _make_long_queue(root / "many" / "cold", count)
    few, many = (_child("pop", root / name, count) for name in ("few", "many"))
    return [at_most(f"cost of a pop with {count:,} blocks × with 10", many["pop"] / few["pop"], "×", 1.3)]


def _queues(root: Path, count: int) -> list[Row]:
    made = _child("queues", root, count)
    again = _child("restart", root, count)
    return [
        Row(f"push one element to each of {count:,} queues", made["push"], "s"),
        at_most("… restart", again["restart"], "s", 5.0),
        at_most("… open files", max(made["files"], again["files"]), "", 200.0),
    ]


# What the children do --------------------------------------------------------------------------------


async def fill(root: Path, size: int) -> Figures:
    engine = await open_in(root, HotSettings(seal_on_close=True))
    await engine.store.create_queue("q")
    batch = payload("bytes", values())
    for _ in range(size // 120_000):
        await _push(engine.store, batch)
    await engine.close()
    return {}


async def _push(store: HotStore, batch: object) -> None:
    """Push, waiting where the store asks to wait: sealing may be slower than we are."""
    while True:
        usage = store.gauges()["exposed_bytes"]
        if usage < 256 * MIB:
            await store.push("q", batch)
            return
        await asyncio.sleep(0.01)


async def replay(root: Path, size: int) -> Figures:
    engine = await open_in(root, HotSettings(hot_bytes_max=256 * MIB))
    store = engine.store
    await store.create_queue("other")
    alone = await _pusher(store, asyncio.sleep(3.0))
    process, peak, read = psutil.Process(), 0, 0

    async def consume() -> None:
        nonlocal peak, read
        async for batch in store.read("q"):
            read += batch.nbytes
            peak = max(peak, process.memory_info().rss)

    started = time.perf_counter()
    during = await _pusher(store, consume())
    seconds = time.perf_counter() - started
    await engine.close()
    return {"replay": read / seconds, "rss": peak, "alone": alone, "during": during}


async def _pusher(store: HotStore, beside: Awaitable[None]) -> float:
    """Pushes per second of one caller while `beside` runs."""
    batch = payload("bytes", values(100))
    work = asyncio.ensure_future(beside)
    count, started = 0, time.perf_counter()
    while not work.done():
        await store.push("other", batch)
        count += 1
    await work
    return count / (time.perf_counter() - started)


def _large() -> HotSettings:
    return HotSettings(unsealed_bytes_max=4 * GIB, journal_bytes_max=8 * GIB)


async def journal(root: Path, size: int) -> Figures:
    engine = await open_in(root, _large())
    await engine.store.create_queue("q", block_bytes=GIB, block_seconds=86_400.0)
    batch = payload("bytes", values())
    while engine.journal.used_bytes < size:
        await engine.store.push("q", batch)
    print("{}", flush=True)
    os._exit(0)  # no farewell: the next start finds an unclean journal


async def recover(root: Path, size: int) -> Figures:
    started = time.perf_counter()
    engine = await open_in(root, _large())
    seconds = time.perf_counter() - started
    used = engine.journal.used_bytes
    await engine.close()
    return {"rate": used / seconds}


async def pop(root: Path, count: int) -> Figures:
    engine = await open_in(root)
    store = engine.store
    for _ in range(100):
        await store.push("long", payload("bytes", values()))
    subscriber = await store.create_subscriber("long", "s", "last:100000")
    seconds = await median_seconds(lambda: store.pop(subscriber.id, 100), 800)
    await engine.close()
    return {"pop": seconds}


async def queues(root: Path, count: int) -> Figures:
    engine = await open_in(root)
    store = engine.store
    for start in range(0, count, 100):
        await asyncio.gather(*(store.create_queue(f"q{n}") for n in range(start, start + 100)))
    batch = payload("bytes", values(1))
    started = time.perf_counter()
    for start in range(0, count, 1_000):
        await asyncio.gather(*(store.push(f"q{n}", batch) for n in range(start, min(start + 1_000, count))))
    seconds = time.perf_counter() - started
    files = psutil.Process().num_fds()
    await engine.close()
    return {"push": seconds, "files": files}


async def restart(root: Path, count: int) -> Figures:
    started = time.perf_counter()
    engine = await open_in(root)
    last = await engine.store.get_queue(f"q{count - 1}")
    seconds = time.perf_counter() - started
    files = psutil.Process().num_fds()
    found = len(engine.registry.queues)
    await engine.close()
    if found != count or last.next_offset != 1:
        raise AssertionError(
            f"{found} queues of {count} came back, the last with {last.next_offset} elements"
        )
    return {"restart": seconds, "files": files}


STEPS: dict[str, Callable[[Path, int], Awaitable[Figures]]] = {
    step.__name__: step for step in (fill, replay, journal, recover, pop, queues, restart)
}


if __name__ == "__main__":

    async def main() -> Figures:
        return await STEPS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))

    print(json.dumps(asyncio.run(main())))
