"""The catalog's checkpoint: how long a worker thread is busy with it. Nobody waits for it.

The targets are for processor time. A write is the work of one thread and waits for the disk only at
its end, so on a quiet machine the clock says 5 to 10 ms more; on a busy one it measures the others.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow as pa

from bench.row import Row, at_most
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from hotstore.catalog.catalog import QUEUES, SUBSCRIBERS, Catalog

CREATED_US = 1_767_225_600_000_000


def run(quick: bool) -> list[Row]:
    count = 10_000 if quick else 100_000
    repeats = 3 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        return _measure(Path(folder), count, repeats)


def _measure(folder: Path, count: int, repeats: int) -> list[Row]:
    catalog = Catalog(folder / "catalog.duckdb", folder / "quarantine", SystemClock(), SystemChance())
    begin, _ = _write(catalog, _subscribers(count, 0))
    every, busy = min(_write(catalog, _subscribers(count, step)) for step in range(1, repeats + 1))
    one, one_busy = min(
        _write(catalog, _subscribers(1, step)) for step in range(repeats + 1, 2 * repeats + 1)
    )
    restarted = Catalog(folder / "catalog.duckdb", folder / "quarantine", SystemClock(), SystemChance())
    first, _ = _write(restarted, _subscribers(count, 0))
    asked = time.perf_counter()
    restarted.lag("orders")
    lag = (time.perf_counter() - asked) * 1_000
    return [
        at_most(f"write, all of {count:,} subscribers moved: processor", busy, "ms", 150),
        Row("… by the clock", every, "ms"),
        at_most(f"write, 1 of {count:,} subscribers moved: processor", one_busy, "ms", 50),
        Row("… by the clock", one, "ms"),
        Row(f"write, {count:,} subscribers into a new file", begin, "ms"),
        Row(f"write, {count:,} subscribers, first after a start (child included)", first, "ms"),
        Row(f"ask for the lag of {count:,} subscribers", lag, "ms"),
        Row("file", (folder / "catalog.duckdb").stat().st_size / 1e6, "MB"),
    ]


def _write(catalog: Catalog, subscribers: pa.Table) -> tuple[float, float]:
    """Milliseconds of one write: by the clock, and of the processor."""
    queues = _queues()
    start, busy = time.perf_counter(), time.process_time()
    outcome = catalog.write(queues, subscribers, sequence=1, everything=catalog.behind)
    taken = (time.perf_counter() - start) * 1_000, (time.process_time() - busy) * 1_000
    assert outcome.stored, outcome
    return taken


def _queues() -> pa.Table:
    created = pa.array([CREATED_US], pa.int64()).cast(QUEUES.field("created").type)
    columns = [["0" * 32], ["orders"], ["bytes"], [1 << 26], [300.0], created, [0], [10**9], [10**9]]
    return pa.table(columns, schema=QUEUES)


def _subscribers(count: int, step: int) -> pa.Table:
    names = [f"subscriber-{i:06}" for i in range(count)]
    offsets = pa.array(range(step * 1_000, step * 1_000 + count))
    created = pa.array([CREATED_US] * count, pa.int64()).cast(SUBSCRIBERS.field("created").type)
    blocks = pa.array([step * 1_000] * count)
    asleep = pa.array([False] * count)
    ids = [f"orders/{name}" for name in names]
    start = ["end"] * count
    columns = [ids, names, ["0" * 32] * count, blocks, offsets, blocks, start, created, asleep]
    return pa.table(columns, schema=SUBSCRIBERS)
