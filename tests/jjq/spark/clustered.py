"""Jobs on a cluster of two executors, each a process of its own: run by test_cluster.py through spark-submit.

    clustered.py OPTIONS ROOT ENDPOINT TO

OPTIONS are those of the data source, as JSON; the others are for the pipeline's jobs. Prints one line of JSON
for each job. The store's keys come from the environment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import jjq.spark
from coldstore.objects.settings import S3Settings
from jjq import pipeline
from jjq.spark.jobs.bulk_import import import_history
from jjq.spark.jobs.export import export
from jjq.spark.jobs.session import session
from jjq.spark.jobs.stats import stats
from jjq.spark.jobs.verify import verify_store
from jjq.spark.scan.native import reachable

ROWS = 5_000


def main(options: str, root: str, endpoint: str, to: str) -> None:
    with session("clustered") as spark:
        read(spark, json.loads(options))
        jobs(spark, root, endpoint, to)


def read(spark: SparkSession, options: dict[str, str]) -> None:
    """How many elements each executor has read."""

    def who(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What a task was given, and by which executor: each has a folder of its own."""
        elements = size = 0
        for batch in batches:
            elements += batch.num_rows
            size += batch.column("value").nbytes
        yield pa.RecordBatch.from_pylist([{"executor": str(Path.cwd()), "elements": elements, "bytes": size}])

    jjq.spark.register(spark)
    frame = spark.read.format("jjq").options(**options).load()
    parts = frame.mapInArrow(who, "executor string, elements long, bytes long").collect()
    told = [[row.executor, row.elements, row.bytes] for row in parts]
    say({"s3a": reachable(spark, options["root"]), "read": told, "here": str(Path.cwd())})


def jobs(spark: SparkSession, root: str, endpoint: str, to: str) -> None:
    from pyspark.sql import functions as f

    s3 = S3Settings(
        endpoint=endpoint,
        region="us-east-1",
        access_key=os.environ["JJQ_S3_ACCESS_KEY"],
        secret_key=os.environ["JJQ_S3_SECRET_KEY"],
    )
    n = f.col("id") * 7_919 % ROWS
    rows = spark.range(ROWS).select(n.alias("n"), f.concat(f.lit("row "), n).alias("value"))
    say(asdict(import_history(rows, root, "history", order="n", block_bytes=64 * 1024, s3=s3)))
    sys.argv[1:] = ["compact", "--cold", root, "--s3-endpoint", endpoint, "--all", "--json"]
    try:
        pipeline.main()
    except SystemExit as ended:
        say({"ended": ended.code})
    say([report.ok for report in verify_store(spark, root, s3=s3, section_blocks=2)])
    say(asdict(export(spark, root, "history", to, by="none", s3=s3)))
    say([hour.elements for hour in stats(spark, root, s3=s3)])
    workers = spark.sparkContext.range(0, 64, numSlices=16).map(lambda _: os.getppid()).distinct().count()
    say({"workers": workers})


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
