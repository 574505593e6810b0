"""`jjq pipeline compact` against a loop of merges in one process, over the same young blocks.

Both sides get a copy of the same store, in turns, in one run. Spark's own start is left out, and that of its
Python workers: a job of hours does not notice them.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from bench.row import Row, at_least, at_most
from coldstore.objects.local import LocalObjects
from coldstore.shared import batch, limits
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore

YOUNG_BLOCKS = 2_000
QUEUES = 125  # 16 young blocks of 400 kB each: what a queue has after an hour and a half of little traffic
ELEMENTS = 4_000
VALUE_BYTES = 100
CORES = 2


def run(quick: bool) -> list[Row]:
    """All figures of compaction; none where Spark is not installed."""
    if find_spec("pyspark") is None:
        return []
    from jjq.spark.jobs.session import session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        original = Path(folder) / "original"
        _make(original)
        with session("bench", f"local[{CORES}]", conf) as spark:
            return _measure(spark, original, 1 if quick else 3)


def _measure(spark: Any, original: Path, rounds: int) -> list[Row]:
    from jjq.spark.jobs import tasks
    from jjq.spark.jobs.compact import compact

    def with_spark(root: Path) -> int:
        done = compact(spark, str(root), everything=True)
        return sum(each.young - each.left for each in done)

    with_spark(
        _copied(original, "warm")
    )  # the Python workers of both cores are there from here on, with all that they import
    before = max(tasks.raise_failures(tasks.run(spark, "bench", list(range(4 * CORES)), memory)))
    times: dict[Callable[[Path], int], list[float]] = {alone: [], with_spark: []}
    for at in range(rounds):
        for side, taken in times.items():
            root = _copied(original, f"{side.__name__}-{at}")
            os.sync()
            start = time.perf_counter()
            merged = side(root)
            taken.append(time.perf_counter() - start)
            assert merged == YOUNG_BLOCKS, merged
            shutil.rmtree(root)
    peak = max(tasks.raise_failures(tasks.run(spark, "bench", list(range(4 * CORES)), memory)))
    loop, job = (statistics.median(taken) for taken in times.values())
    return [
        Row("merge 2,000 young blocks of 125 queues in one process", YOUNG_BLOCKS / loop, "blocks/s"),
        Row("compact them with Spark on two cores", YOUNG_BLOCKS / job, "blocks/s"),
        at_least("… of one process", loop / job, "×", 1.5),
        at_most("… memory of a task's process", peak, "× block_bytes", 6.0),
        Row("… after the first round", before, "× block_bytes"),
    ]


def _copied(original: Path, name: str) -> Path:
    """The same files by other names; nothing in a store is ever changed in place, but its lock."""
    copy = original.with_name(name)
    shutil.copytree(original, copy, copy_function=os.link, ignore=shutil.ignore_patterns(".lock"))
    return copy


def alone(root: Path) -> int:
    """The loop that it is compared with: one queue after the other, in this process."""
    store = _store(root)
    merged = 0
    for name in store.queue_names():
        queue = store.open_queue(name)
        merged += len(queue.list_blocks().young)
        queue.merge(everything=True)
    return merged


def memory(_: int) -> float:
    """On an executor: the most that this process ever held, in blocks."""
    peak = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, psutil.Process().memory_info().rss)
    return peak / limits.BLOCK_BYTES_DEFAULT


def _store(root: Path) -> ColdStore:
    return ColdStore(LocalObjects(root), SystemClock(), SystemChance())


def _make(root: Path) -> None:
    store = _store(root)
    chance = np.random.default_rng(1)
    for at in range(QUEUES):
        queue = store.create_queue(f"queue-{at}")
        for _ in range(YOUNG_BLOCKS // QUEUES):
            queue.write_block(_elements(queue.next_offset, chance), final=False)


def _elements(first: int, chance: np.random.Generator) -> pa.Table:
    letters = chance.integers(33, 127, size=ELEMENTS * VALUE_BYTES, dtype=np.uint8)
    ends = np.arange(0, ELEMENTS * VALUE_BYTES + 1, VALUE_BYTES, dtype=np.int32)
    values = pa.Array.from_buffers(pa.binary(), ELEMENTS, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    columns = [pa.nulls(ELEMENTS, pa.binary()), values, pa.nulls(ELEMENTS, batch.HEADERS)]
    payload = pa.RecordBatch.from_arrays(columns, schema=batch.payload_schema("bytes"))
    return pa.Table.from_batches([batch.stamp(payload, first, 1_767_225_600_000_000)])
