"""Reading with Spark: `jjq.spark.read` and `format("jjq")` against a plain scan of the same Parquet files; and imports.

A scan hands every column of every row to a sink that drops it (`noop`). Ratios are taken within one run and in
turns, so that a busy machine slows both sides; Spark's own start, and that of its workers, is left out.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from bench.coldstore import elements
from bench.row import Row, at_least
from bench.sparkimport import measure_imports
from coldstore.objects.local import LocalObjects
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore

BLOCKS = 1_000


def run(quick: bool) -> list[Row]:
    """All figures of reading and importing; none where Spark is not installed."""
    if find_spec("pyspark") is None:
        return []
    from jjq.spark import register
    from jjq.spark.jobs.session import session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        root = Path(folder)
        queue = _fill(root, 8_000 if quick else 16_000)
        with session("bench", "local[2]", conf) as spark:
            register(spark)
            rows = _measure(spark, root, queue, 2 if quick else 5)
    return rows + measure_imports(quick)


def _fill(root: Path, per_block: int) -> ColdQueue:
    queue = ColdStore(LocalObjects(root), SystemClock(), SystemChance()).create_queue("history")
    table = elements(per_block)
    for _ in range(BLOCKS):
        offsets = pc.add(table.column("offset"), queue.next_offset)
        queue.write_block(table.set_column(0, table.schema.field(0), offsets))
    return queue


def _measure(spark: Any, root: Path, queue: ColdQueue, rounds: int) -> list[Row]:
    import jjq.spark

    data = str(root / "queues/history/data")
    block = queue.list_blocks()[BLOCKS // 2]
    ways: dict[str, Callable[[], Any]] = {
        "plain": lambda: spark.read.parquet(data),
        "read": lambda: jjq.spark.read(spark, root, "history"),
        "slice": lambda: jjq.spark.read(
            spark, root, "history", f"offset:{block.first}", f"offset:{block.next}"
        ),
        "source": lambda: spark.read.format("jjq").options(root=str(root), queue="history").load(),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        _scan(way)  # compiled, and with workers started, from here on
    for _ in range(rounds):
        for name, way in ways.items():
            took[name].append(_scan(way))
    seconds = {name: statistics.median(times) for name, times in took.items()}
    return [
        Row(
            f"plain spark.read.parquet, {BLOCKS:,} blocks", queue.next_offset / seconds["plain"], "elements/s"
        ),
        at_least("jjq.spark.read, all of it", seconds["plain"] / seconds["read"], "× plain", 0.9),
        at_least("… one block of them", seconds["read"] / seconds["slice"], "× faster", 20.0),
        at_least('format("jjq"), all of it', seconds["plain"] / seconds["source"], "× plain", 0.35),
    ]


def _scan(way: Callable[[], Any]) -> float:
    start = time.perf_counter()
    way().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start
