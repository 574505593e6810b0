"""The first import of a session: a million rows of Parquet, by files as `jjq pipeline import` reads them, and by frame.

What a session does first is slow, so each figure is the median of fresh processes (`python -m bench.sparkimport`). The
clock starts when the session is there: before any job of Spark's ("started"), or after one (`spark.range(1).count()`,
"warm"). It stops when readers see the queue. A frame is read within that time, and without a job before it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.row import Row, at_least
from coldstore.objects.settings import S3Settings

ROWS: Final = 1_000_000
WAYS: Final = ("started", "warm", "frame")


def measure_imports(quick: bool) -> list[Row]:
    """Rows per second of each way."""
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        source = Path(folder) / "in.parquet"
        _write(source)
        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(1 if quick else 5):
            for way, found in rates.items():
                found.append(_rate(way, source))
    middle = {way: statistics.median(found) for way, found in rates.items()}
    return [
        at_least("first import of 1 M rows, Spark started", middle["started"], "rows/s", 200_000),
        at_least("… after another job", middle["warm"], "rows/s", 200_000),
        Row("… as a data frame", middle["frame"], "rows/s"),
    ]


def _write(to: Path) -> None:
    """About 16 MB, in no order."""
    numbers = np.random.default_rng(1).permutation(ROWS)
    table = pa.table(
        {
            "n": numbers,
            "at": pa.array(1_767_225_600_000_000 + numbers * 1_000, pa.timestamp("us", "UTC")),
            "who": [f"user {n % 1_000}" for n in numbers],
            "body": [f"order {n} of customer {n % 1_000}, paid" for n in numbers],
        }
    )
    pq.write_table(table, to, compression="zstd")


def _rate(way: str, source: Path) -> float:
    command = [sys.executable, "-m", "bench.sparkimport", way, str(source)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _import(spark: Any, way: str, source: str, root: str) -> int:
    from jjq.spark.jobs.bulk_import import import_files, import_history
    from jjq.spark.jobs.import_columns import Shape
    from jjq.spark.jobs.tasks import silent

    if way == "frame":
        done = import_history(
            spark.read.parquet(source), root, "orders", order="n", value="body", time="at", key="who"
        )
    else:
        shape = Shape(order=("n",), value="body", time="at", key="who")
        done = import_files(
            spark, [source], "parquet", root, "orders", shape, idle=False, s3=S3Settings(), progress=lambda _: silent
        )  # fmt: skip
    return done.next


def main(way: str, source: str) -> None:
    """In a process of its own: print the rate of one first import."""
    from jjq.spark.jobs.session import session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
    with (
        tempfile.TemporaryDirectory(prefix="jjq-bench-") as root,
        session("bench", "local[2]", conf) as spark,
    ):
        if way == "warm":
            spark.range(1).count()
        start = time.perf_counter()
        rows = _import(spark, way, source, root)
        print(rows / (time.perf_counter() - start))


if __name__ == "__main__":
    main(*sys.argv[1:])
