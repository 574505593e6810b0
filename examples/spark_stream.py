"""Count clicks per page with Spark, and write the counts to another queue:

    python examples/producer.py                            # some clicks to count
    python examples/spark_stream.py [HOST:PORT [FOLDER]]   # or spark-submit, with your cluster's master

FOLDER holds the checkpoint. Started again, it counts what came since; killed at any moment and started again, it
leaves out no click, counts none twice, and writes no count twice.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

import jjq
import jjq.spark

server = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7575"
folder = sys.argv[2] if len(sys.argv) > 2 else "page-counts"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.appName("page counts").getOrCreate()
jjq.spark.register(spark)

with jjq.connect(server) as client:
    client.create_queue("page-counts", content="json")

    clicks = (
        spark.readStream.format("jjq")
        .options(server=server, queue="clicks", start="beginning", maxOffsetsPerTrigger=50_000)
        .load()  # with option root, too, history would come from the cold store
    )
    counts = (
        clicks.groupBy(F.get_json_object("value", "$.page").alias("page"))
        .count()
        .select(F.col("page").alias("key"), F.to_json(F.struct("page", "count")).alias("value"))
    )
    query = (
        counts.writeStream.format("jjq")
        .options(server=server, queue="page-counts", checkpointLocation=folder)
        .outputMode("complete")
        .trigger(availableNow=True)  # leave this out to go on for ever
        .start()
    )
    query.awaitTermination()

    latest = {element.key: element.value for element in client.replay("page-counts").elements()}
    for _, value in sorted(latest.items()):
        print(value)
