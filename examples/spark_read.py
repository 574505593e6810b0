"""Ask Spark about the history of a queue, up to this very moment:

    python examples/producer.py                                  # some clicks to ask about
    python examples/spark_read.py [ROOT [HOST:PORT [QUEUE]]]     # or spark-submit, with your cluster's master

ROOT is the cold store (jjq-data/cold, or s3://bucket/prefix), which executors read by themselves. What is not
there yet comes from the server.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import jjq.spark

root = sys.argv[1] if len(sys.argv) > 1 else "jjq-data/cold"
server = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:7575"
queue = sys.argv[3] if len(sys.argv) > 3 else "clicks"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.appName("clicks").getOrCreate()

clicks = jjq.spark.read(spark, root, queue, start="ago:1h", server=server)
pages = jjq.spark.from_json(clicks, "page string").groupBy("value.page").count()
for row in pages.orderBy("page").collect():
    print(f"{row.page}: {row['count']} clicks")

last = jjq.spark.to_text(jjq.spark.read(spark, root, queue, start="last:1", server=server))
print(f"the last one is at offset {last.first()['offset']}")

for row in jjq.spark.subscribers(spark, server, queue).orderBy("subscriber").collect():
    print(f"{row.subscriber} is {row.lag} behind")
