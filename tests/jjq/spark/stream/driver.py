"""A Spark driver that is there to be killed: python -m tests.jjq.spark.stream.driver SOURCE SINK CHECKPOINT

Copies a queue to another one, in small batches, until everything is copied. SOURCE and SINK are options as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

import jjq.spark
from tests.servers.jjq_server import QUICK_JAVA


def main(source: str, sink: str, checkpoint: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    jjq.spark.register(spark)
    copy(spark, json.loads(source), json.loads(sink), checkpoint)
    spark.stop()


def copy(spark: SparkSession, source: Mapping[str, str], sink: Mapping[str, str], checkpoint: str) -> None:
    """From queue to queue, from where the checkpoint says until everything is copied."""
    frame = spark.readStream.format("jjq").options(**source).load()
    query = (
        frame.select("key", "value", "headers")
        .writeStream.format("jjq")
        .options(**sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
