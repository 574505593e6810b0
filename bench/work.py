"""Worker groups in process: take and ack with durable acks, keys, backlogs, memory, recovery, and the ledger's bytes;
and workers over the network, beside the peers (bench/groups).

The targets are those of an idle machine. tarantool/queue in process, with an fsync for each commit, takes and acks
20,600 tasks a second with 64 callers; without a disk, 30,000 keys take it 0.26 s to put and 2.1 s to take and ack.
Garbage is collected as seldom as in a server.

All of it takes some minutes; `python -m bench.work ROW…` measures some rows only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import shutil
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console

from bench.__main__ import table
from bench.groups.network import network_rows
from bench.hotstore import open_in
from bench.row import Row, at_least, at_most
from coldstore.shared.batch import payload
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import check
from coldstore.shared.limits import GIB
from hotstore.engine import Engine
from hotstore.groups.values import GroupSettings, Take, TaskChange
from hotstore.settings import HotSettings
from hotstore.store import HotStore
from jjq.server.stalls import frozen

CALLERS = 64
_VALUE = b"x" * 100
_ROOMY = HotSettings(unsealed_bytes_max=4 * GIB, journal_bytes_max=16 * GIB)


def run(quick: bool, only: Collection[str] = ()) -> list[Row]:
    """All rows of worker groups, or some."""
    share = 10 if quick else 1
    rows: list[Row] = []
    with frozen():
        for name, measure in _MEASURES.items():
            if not only or name in only:
                with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
                    rows += asyncio.run(measure(Path(folder), share))
    if not only or _NETWORK in only:
        rows += network_rows(40_000 // share, 1 if quick else 2)
    return rows


def main() -> int:
    names = [*_MEASURES, _NETWORK]
    parser = argparse.ArgumentParser(prog="python -m bench.work", description="Measure some rows of `work`.")
    parser.add_argument("row", nargs="*", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.row) - set(names)):
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(names)}")
    rows = run(asked.quick, asked.row)
    Console().print(table("work", rows))
    return 1 if any(row.ok is False for row in rows) else 0


async def _open(root: Path, **settings: object) -> tuple[Engine, HotStore]:
    engine = await open_in(root, _ROOMY)
    await engine.store.create_queue("q", block_bytes=1 * GIB)
    await engine.store.create_group("q", "g", GroupSettings(**settings))  # type: ignore[arg-type]
    return engine, engine.store


async def _fill(
    store: HotStore, count: int, headers: dict[str, bytes] | None = None, value: bytes = _VALUE
) -> None:
    for first in range(0, count, 10_000):
        some = min(10_000, count - first)
        batch = payload("bytes", [value] * some, headers=None if headers is None else [headers] * some)
        await store.push("q", batch)


async def _take_and_ack(store: HotStore, most: int, wait: float = 0.0) -> int:
    taken = await store.take(Take("q/g", most, wait, session="bench"))
    ids = taken.ids
    if ids:
        await store.change_tasks(TaskChange("q/g", "ack", ids, taken.attempts, "bench"))
    return len(ids)


async def _drain(store: HotStore, callers: int, most: int, wait: float = 0.0) -> tuple[float, float]:
    """Tasks a second until none comes within `wait`, and microseconds of processor time for each: that hangs less on
    what else the machine does."""
    done, ended = 0, 0.0

    async def worker() -> None:
        nonlocal done, ended
        while some := await _take_and_ack(store, most, wait):
            done += some
            ended = time.perf_counter()

    started, worked = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(callers)))
    return done / (ended - started), (time.process_time() - worked) / done * 1_000_000


async def _calls(root: Path, share: int) -> list[Row]:
    engine, store = await _open(root)
    await _fill(store, 200_000 // share)
    rate, cost = await _drain(store, CALLERS, 1)
    await engine.close()
    name = "one task a call, 64 callers: take + ack"
    return [at_least(name, rate, "/s", 20_600), at_most(f"{name}, processor time", cost, "µs", 50)]


async def _batches(root: Path, share: int) -> list[Row]:
    engine, store = await _open(root)
    await _fill(store, 2_000_000 // share)
    rate, cost = await _drain(store, 8, 100)
    await engine.close()
    name = "batches of 100, 8 callers: take + ack"
    return [at_least(name, rate, "/s", 300_000), at_most(f"{name}, processor time", cost, "µs", 3.3)]


async def _keys(root: Path, share: int) -> list[Row]:
    engine, store = await _open(root, driver="utube")
    count = 30_000 // share
    pushes = [payload("bytes", [_VALUE], keys=[b"%d" % key]) for key in range(count)]
    started = time.perf_counter()
    await asyncio.gather(*(store.push("q", push) for push in pushes))
    put = time.perf_counter() - started
    started = time.perf_counter()
    await asyncio.gather(*(_take_and_ack(store, 1) for _ in range(count)))
    worked = time.perf_counter() - started
    await engine.close()
    return [
        at_most(f"{count} keys × 1 task, a call each: put", put, "s", 0.26 / share),
        at_most(f"{count} keys × 1 task, a call each: take + ack", worked, "s", 2.0 / share),
    ]


async def _busy_keys(root: Path, share: int) -> list[Row]:
    """More callers than keys: those without a task wait until a key is free."""
    rows = []
    for each in (1_000, 10_000, 100_000 // share):
        engine, store = await _open(root / str(each), driver="utube")
        for key in range(10):
            for first in range(0, each, 10_000):
                some = min(10_000, each - first)
                await store.push("q", payload("bytes", [_VALUE] * some, keys=[b"%d" % key] * some))
        await store.get_group("q/g")  # all tasks are known
        rate, cost = await _drain(store, CALLERS, 1, wait=0.1)
        name = f"10 busy keys × {each}, 64 callers: take + ack"
        rows += [at_least(name, rate, "/s", 25_000), at_most(f"{name}, processor time", cost, "µs", 40)]
        await engine.close()
    return rows


async def _backlog(root: Path, share: int) -> list[Row]:
    """A take from a long backlog is as quick as one from a short one, and its group needs no more memory."""
    seconds, sizes = [], []
    for count in (1_000, 10_000_000 // share):
        engine, store = await _open(root / str(count))
        await _fill(store, count, value=b"x")
        await _take_and_ack(store, 1)
        started = time.perf_counter()
        for _ in range(300):
            await _take_and_ack(store, 1)
        seconds.append((time.perf_counter() - started) / 300)
        await engine.close()
        engine = await open_in(root / str(count), _ROOMY)
        with _grown() as grown:
            await engine.store.get_group("q/g")
        sizes.append(grown[0])
        await engine.close()
    name = f"{10_000_000 // share} ready tasks against 1,000"
    return [
        at_most(f"take + ack, {name}", seconds[1] / seconds[0], "×", 1.3),
        at_most(f"memory of the group, {name}", sizes[1] / sizes[0], "×", 1.3),
    ]


async def _taken(root: Path, share: int) -> list[Row]:
    """Memory of open tasks."""
    engine, store = await _open(root, ttr=3_600.0)
    taken = 500_000 // share
    await _fill(store, taken, value=b"x")
    with _grown() as grown:
        await _take_each(store, taken)
    await engine.close()
    return [at_most(f"{taken} tasks taken one by one", grown[0] / taken, "B each", 200)]


async def _take_each(store: HotStore, count: int) -> None:
    """One task each for 64 sessions by turns, so that no two rows of the ledger can be joined."""
    sessions = [f"bench-{n}" for n in range(CALLERS)]
    for session in sessions:
        await store.attach_session(session, 3_600.0)
    for n in range(count):
        await store.take(Take("q/g", 1, session=sessions[n % CALLERS]))
        if not n % 1_000:
            await asyncio.sleep(0)  # seals and snapshots go on meanwhile


async def _delayed(root: Path, share: int) -> list[Row]:
    """Memory of tasks that wait for their time. Each push has a delay of its own, or all would share one timer.

    The group is loaded after all were pushed, so that what grows is the group alone.
    """
    engine, store = await _open(root, driver="fifottl")
    count = 500_000 // share
    for first in range(0, count, 10_000):
        delay = {"jjq-delay": b"%d" % (86_400 + first // 10_000)}
        await store.push("q", payload("bytes", [b"x"] * 10_000, headers=[delay] * 10_000))
    await engine.close()
    engine = await open_in(root, _ROOMY)
    with _grown() as grown:
        found = await engine.store.get_group("q/g")
    await engine.close()
    return [at_most(f"{found.tasks['delayed']} tasks delayed", grown[0] / count, "B each", 25)]


async def _recovery(root: Path, share: int) -> list[Row]:
    """A start after kill -9, with and without open tasks: of a copy of the files, as they were at that moment."""
    count = 1_000_000 // share
    seconds = []
    for taken in (0, count):
        engine, store = await _open(root / f"{taken}", ttr=3_600.0)
        await _fill(store, count, value=b"x")
        await _take_each(store, taken)
        await store.update_group("q/g", {"ttr": 3_601.0})  # all before it is durable, too
        copied = await asyncio.to_thread(shutil.copytree, root / f"{taken}", root / f"{taken}-killed")
        await engine.close()
        started = time.process_time()
        engine = await open_in(copied, _ROOMY)
        found = await engine.store.get_group("q/g")
        seconds.append(time.process_time() - started)
        check(found.tasks["taken"] == taken, f"{found.tasks} after a restart with {taken} open tasks")
        await engine.close()
    name = f"start after kill -9 with {count} open tasks, more than without (processor time)"
    return [at_most(name, seconds[1] - seconds[0], "s", 1.5)]


@contextmanager
def _grown() -> Iterator[list[float]]:
    """The bytes that Python has more at the end. Not those of the process: blocks come and go, and heaps keep what is
    free."""
    found: list[float] = []
    gc.collect()
    tracemalloc.start()
    try:
        yield found
        gc.collect()
        found.append(float(tracemalloc.get_traced_memory()[0]))
    finally:
        tracemalloc.stop()


async def _ledger(root: Path, share: int) -> list[Row]:
    engine, store = await _open(root)
    tasks = 500_000 // share
    await _fill(store, tasks)
    await _drain(store, CALLERS, 1)
    rows = (await store.get_queue("q~g")).next_offset
    await store.seal("q~g")
    files = _files(root / "cold/queues/q~g")
    size = sum(file.stat().st_size for file in files)
    names = ", ".join(f"'{file}'" for file in files)
    query = (
        f'SELECT state, count(*) FROM (SELECT value.task AS task, arg_max(value.state, "offset") AS state '
        f"FROM read_parquet([{names}]) WHERE value.state IS NOT NULL GROUP BY 1) GROUP BY 1"
    )
    started = time.perf_counter()
    duckdb.execute(query).fetchall()
    looked = time.perf_counter() - started
    started = time.perf_counter()
    found = await store.tasks_at("q/g", SystemClock().now_us())
    asked = time.perf_counter() - started
    check(found.num_rows == tasks, f"{found.num_rows} tasks of {tasks}")
    await engine.close()
    return [
        at_most(f"ledger of {2 * tasks} transitions in {rows} rows", size / (2 * tasks), "B each", 10),
        at_most("tasks by state from the ledger in DuckDB", looked, "s", 0.5),
        at_most("tasks_at: all tasks at a time", asked, "s", 0.5),
    ]


def _files(queue: Path) -> list[Path]:
    return [*queue.glob("data/*"), *queue.glob("young/*")]


_NETWORK = "network"
_MEASURES: dict[str, Callable[[Path, int], Coroutine[Any, Any, list[Row]]]] = {
    "calls": _calls,
    "batches": _batches,
    "keys": _keys,
    "busy_keys": _busy_keys,
    "backlog": _backlog,
    "taken": _taken,
    "delayed": _delayed,
    "recovery": _recovery,
    "ledger": _ledger,
}

if __name__ == "__main__":
    sys.exit(main())
