"""A job on a cluster of two executors, each a process of its own: `python -m tests.spark.clustered OPTIONS`.

OPTIONS are those of the data source, as JSON. Says, as JSON, how many elements each executor has read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import jjq.spark
from jjq.spark.native import reachable


def main(options: dict[str, str]) -> dict[str, Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local-cluster[2,1,512]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        # Both executors, or the first to come would read it all.
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .getOrCreate()
    )
    try:
        jjq.spark.register(spark)
        frame = spark.read.format("jjq").options(**options).load()
        parts = frame.mapInArrow(_who, "executor string, elements long, bytes long").collect()
        return {
            "s3a": reachable(spark, options["root"]),
            "read": [[row.executor, row.elements, row.bytes] for row in parts],
            "here": str(Path.cwd()),
        }
    finally:
        spark.stop()


def _who(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task was given, and by which executor: each has a folder of its own."""
    elements = size = 0
    for batch in batches:
        elements += batch.num_rows
        size += batch.column("value").nbytes
    yield pa.RecordBatch.from_pylist([{"executor": str(Path.cwd()), "elements": elements, "bytes": size}])


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
