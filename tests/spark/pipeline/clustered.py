"""Jobs on a cluster of two workers, each a process of its own: run by test_cluster.py through spark-submit.

    clustered.py ROOT ENDPOINT TO

Prints one line of JSON for each job. The store's keys come from the environment.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from coldstore.objects.settings import S3Settings
from jjq import pipeline
from jjq.spark.pipeline.export import export
from jjq.spark.pipeline.history import import_history
from jjq.spark.pipeline.session import session
from jjq.spark.pipeline.stats import stats
from jjq.spark.pipeline.verify import verify_store

ROWS = 5_000


def main(root: str, endpoint: str, to: str) -> None:
    s3 = S3Settings(
        endpoint=endpoint,
        region="us-east-1",
        access_key=os.environ["JJQ_S3_ACCESS_KEY"],
        secret_key=os.environ["JJQ_S3_SECRET_KEY"],
    )
    with session("clustered") as spark:
        from pyspark.sql import functions as f

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
