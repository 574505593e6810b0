"""`stats`: what each queue holds, hour by hour, as rows and as a picture. Executors read blocks, Spark adds up.

A row has elements, bytes (key, value and headers), element sizes, keys, and stored bytes: the stored bytes of a block
are shared out among its elements by their sizes. Distinct keys and the middle sizes are estimates, within about 5 %
and 0.01 % of the ranks.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from coldstore.objects.settings import S3Settings
from coldstore.shared import batch
from coldstore.shared.errors import InvalidInput
from jjq.spark import cold
from jjq.spark.jobs import ranges, tasks
from jjq.spark.jobs.ranges import OffsetRange
from jjq.spark.jobs.tasks import Failures, Progress, silent
from jjq.spark.scan.partition import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SEEN: Final = "queue int, hour long, size long, stored double, key binary"
_SCHEMA: Final = pa.schema(
    [
        ("queue", pa.int32()),
        ("hour", pa.int64()),
        ("size", pa.int64()),
        ("stored", pa.float64()),
        ("key", pa.binary()),
    ]
)
_HOUR_US: Final = 3_600_000_000
_COLUMNS: Final = ("timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class HourStats:
    """One queue in one hour."""

    queue: str
    hour: datetime
    elements: int
    bytes: int
    size_min: int
    size_avg: float
    size_p50: int
    size_p99: int
    size_max: int
    keyed: int  # elements with a key
    keys: int  # distinct ones
    stored_bytes: int

    @property
    def compression(self) -> float:
        """Bytes of elements for each stored one."""
        return self.bytes / self.stored_bytes if self.stored_bytes else 0.0


def stats(
    spark: SparkSession,
    root: str,
    queues: Sequence[str] = (),
    *,
    start: str = "beginning",
    end: str = "end",
    s3: S3Settings | None = None,
    progress: Progress = silent,
) -> list[HourStats]:
    """A row for each queue and hour that has elements."""
    names, found = _find(root, queues, start, end, s3 or S3Settings())
    pieces = [(at, piece) for at, each in enumerate(found) for piece in each.pieces]
    if not pieces:
        return []
    failures = Failures(spark)
    done = spark.sparkContext.accumulator(0)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                at, piece = pieces[number]
                yield from failures.guard(lambda at=at, piece=piece: _measure_elements(at, found[at], piece))  # type: ignore[misc]
                done.add(1)

    numbers = spark.range(0, len(pieces), numPartitions=len(pieces))
    seen = tasks.map_in_arrow(numbers, read, _SEEN)
    rows = tasks.run_watched(
        spark, "stats", lambda: _sum_up(seen).collect(), lambda: progress(done.value, len(pieces))
    )
    failures.raise_first()
    return [
        HourStats(
            names[row["queue"]],
            batch.from_us(row["hour"] * _HOUR_US),
            row["elements"],
            row["bytes"],
            row["least"],
            row["average"],
            row["middle"][0],
            row["middle"][1],
            row["most"],
            row["keyed"],
            row["keys"],
            round(row["stored"]),
        )
        for row in rows
    ]


def check_stats(root: str, queues: Sequence[str], start: str, end: str, plot: bool, s3: S3Settings) -> None:
    """Refuse what `stats` would refuse now. Without names it would be a look at every queue: one of them will do."""
    if plot:
        check_matplotlib()
    _find(root, queues or cold.store(root, s3).queue_names()[:1], start, end, s3)


def _find(
    root: str, queues: Sequence[str], start: str, end: str, s3: S3Settings
) -> tuple[list[str], list[OffsetRange]]:
    """The names of the queues, and the range of each."""
    store = cold.store(root, s3)
    names = list(queues) or store.queue_names()
    return names, [ranges.find(root, s3, name, start, end) for name in names]


def _measure_elements(at: int, found: OffsetRange, piece: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
    """On an executor: hour, size and key of every element, a batch for each block."""
    for part, table in zip(piece, found.blocks(piece, _COLUMNS), strict=True):
        rows = table.combine_chunks().to_batches()[0]
        sizes = batch.element_bytes(rows)
        share = part.block.stored_bytes * len(sizes) / part.block.count
        weights = (sizes + 1) / float((sizes + 1).sum())  # empty elements take room, too
        hours = np.floor_divide(rows.column("timestamp").cast(pa.int64()).to_numpy(), _HOUR_US)
        columns = [
            pa.repeat(pa.scalar(at, pa.int32()), len(sizes)),
            pa.array(hours),
            pa.array(sizes),
            pa.array(weights * share),
            rows.column("key"),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _sum_up(seen: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    size = f.col("size")
    return (
        seen.groupBy("queue", "hour")
        .agg(
            f.count("*").alias("elements"),
            f.sum(size).alias("bytes"),
            f.min(size).alias("least"),
            f.avg(size).alias("average"),
            f.percentile_approx(size, [0.5, 0.99]).alias("middle"),
            f.max(size).alias("most"),
            f.count("key").alias("keyed"),
            f.approx_count_distinct("key").alias("keys"),
            f.sum("stored").alias("stored"),
        )
        .orderBy("queue", "hour")
    )


def check_matplotlib() -> None:
    """Say before hours of work that there can be no picture after it."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise InvalidInput(
            "a plot needs matplotlib, which is not installed: pip install 'jjq[spark]'"
        ) from None


def draw_hours(hours: Sequence[HourStats], path: Path) -> None:
    """Write a PNG."""
    check_matplotlib()
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(11, 9), layout="constrained")
    counts, volumes, sizes = figure.subplots(3, 1, sharex=True)
    for queue in dict.fromkeys(hour.queue for hour in hours):
        rows = [hour for hour in hours if hour.queue == queue]
        times = [row.hour for row in rows]
        counts.plot(times, [row.elements for row in rows], marker=".", label=queue)
        line = volumes.plot(times, [row.bytes / 1e6 for row in rows], marker=".", label=queue)[0]
        volumes.plot(times, [row.stored_bytes / 1e6 for row in rows], linestyle=":", color=line.get_color())
        sizes.plot(times, [row.size_p50 for row in rows], marker=".", color=line.get_color(), label=queue)
        sizes.plot(times, [row.size_p99 for row in rows], linestyle=":", color=line.get_color())
    counts.set_ylabel("elements in an hour")
    volumes.set_ylabel("MB in an hour (dotted: stored)")
    sizes.set_ylabel("bytes of an element, middle\n(dotted: 99th percentile)")
    for axes in (counts, volumes, sizes):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    if hours:
        counts.legend(loc="best")
    try:
        figure.savefig(path, format="png", dpi=120)
    except OSError as error:
        raise InvalidInput(
            f"cannot write the plot to {path}: {error.strerror}; choose another place"
        ) from None
