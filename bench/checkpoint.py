"""Checkpoints: what one costs a worker thread, for how long it holds the event loop, and how long a start takes.

The targets are for processor time, of the whole process: on a busy machine the clock measures the others. The start is
compared with one that reads the same state from the journal alone, as releases did that kept checkpoints there.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from bench.row import Row, at_most
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.local import LocalObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from hotstore.checkpoint.checkpoint_store import FOLDER
from hotstore.engine import Engine
from hotstore.journal import records
from hotstore.opening import open_engine
from hotstore.queue.changes import StateChanges
from hotstore.queue.moves import chunks, commit_state
from hotstore.queue.registry import Registry
from hotstore.queue.subscriber import Subscriber
from hotstore.settings import HotSettings

MOVED = 1_000


def run(quick: bool) -> list[Row]:
    subscribers, queues = (10_000, 1_000) if quick else (100_000, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), subscribers, queues, 3 if quick else 7))


async def _measure(folder: Path, subscribers: int, queues: int, repeats: int) -> list[Row]:
    engine = await _open(folder)
    await _populate(engine, subscribers, queues)
    whole, whole_busy, _ = await _write(engine)
    some: list[tuple[float, float, float]] = []
    for step in range(repeats):
        await _move(engine, list(engine.registry.subscribers.values())[step * MOVED :][:MOVED])
        some.append(await _write(engine))
    changed, busy, held = (min(each) for each in zip(*some, strict=True))
    size = max(path.stat().st_size for path in (folder / "data" / FOLDER).glob("*.duckdb"))
    await engine.close()
    starts = [await _start(folder) for _ in range(repeats)]
    shutil.rmtree(folder / "data" / FOLDER)  # the journal is whole: nothing was trimmed
    without = [await _start(folder) for _ in range(repeats)]
    many, of = f"{subscribers:,} subscribers", f"{queues:,} queues"
    return [
        at_most(f"checkpoint, {MOVED:,} of {many} moved, {of}: processor", busy, "ms", 60),
        Row("… by the clock", changed, "ms"),
        at_most("… the event loop was held for", held, "ms", 2),
        Row(f"checkpoint, all of {many} and {of} new: processor", whole_busy, "ms"),
        Row("… by the clock", whole, "ms"),
        Row("file", size / 1e6, "MB"),
        Row(f"start, {many}, {of}: processor", min(starts), "ms"),
        Row("… from the journal alone", min(without), "ms"),
        at_most("start ÷ start from the journal alone", min(starts) / min(without), "×", 1.0),
    ]


async def _open(folder: Path) -> Engine:
    cold = ColdStore(LocalObjects(folder / "cold"), SystemClock(), SystemChance())
    settings = HotSettings(maintain_seconds=1e6)  # nothing happens on its own
    return await open_engine(
        folder / "data", cold, settings=settings, clock=SystemClock(), chance=SystemChance()
    )


async def _populate(engine: Engine, subscribers: int, queues: int) -> None:
    """As many creations, without the cold store: a queue is nothing but its row until it is used."""
    registry, committer = engine.registry, engine.committer
    chance = SystemChance()
    made = [registry.add_queue(QueueSettings(f"orders-{n:06}", chance.token())) for n in range(queues)]
    for some in chunks(made):
        await registry._store_rows(some)
    for n in range(subscribers):
        name, created_us = f"subscriber-{n:06}", 1_767_225_600_000_000 + n
        registry.add_subscriber(made[n % queues], name, "end", False, created_us).asleep = True
    for each in chunks(list(registry.subscribers.values())):
        rows = [subscriber.row() for subscriber in each]
        await commit_state(
            committer,
            lambda rows=rows: [records.rows(records.SUBSCRIBERS, rows)],  # type: ignore[misc]
            done=lambda _, each=each: _stored(registry, each),  # type: ignore[misc]
        )


def _stored(registry: Registry, subscribers: list[Subscriber]) -> None:
    for subscriber in subscribers:
        registry.changes.stored(subscriber.queue, subscribers=[subscriber])


async def _move(engine: Engine, subscribers: list[Subscriber]) -> None:
    moves = engine.store._reading._moves
    for subscriber in subscribers:
        subscriber.previous, subscriber.offset = subscriber.offset, subscriber.offset + 1
    await asyncio.gather(*(moves.commit(subscriber) for subscriber in subscribers))


async def _write(engine: Engine) -> tuple[float, float, float]:
    """Milliseconds of one checkpoint: by the clock, of the processor, and the longest that the loop was held."""
    held = 0.0
    done = False

    async def watch() -> None:
        nonlocal held
        while not done:
            before = time.thread_time()
            await asyncio.sleep(0)
            held = max(held, time.thread_time() - before)

    start, busy = time.perf_counter(), time.process_time()
    await engine.checkpointer.write()
    clock, processor = time.perf_counter() - start, time.process_time() - busy
    watching = asyncio.create_task(watch())
    engine.registry.changes.queues.update(list(engine.registry.queues.values())[:MOVED])
    await engine.checkpointer.write()
    done = True
    await watching
    return clock * 1_000, processor * 1_000, held * 1_000


async def _start(folder: Path) -> float:
    """Milliseconds of processor time; the directory is as it was afterwards."""
    shutil.copytree(folder / "data", folder / "copy" / "data")
    (folder / "copy" / "cold").symlink_to(folder / "cold")
    busy = time.process_time()
    engine = await _open(folder / "copy")
    taken = time.process_time() - busy
    engine.registry.changes = StateChanges()
    await engine.close()
    shutil.rmtree(folder / "copy")
    return taken * 1_000
