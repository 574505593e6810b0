"""Push pictures, and let Spark make thumbnails of them:

    python examples/spark_thumbnails.py [ROOT [HOST:PORT]]       # needs Pillow

Each picture is an object of the queue `pictures`. Executors read the objects from the cold store by themselves (ROOT is
jjq-data/cold, or s3://bucket/prefix); the thumbnails are small enough to be values of the queue `thumbnails`.
"""

from __future__ import annotations

import io
import os
import sys

from PIL import Image
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import jjq
import jjq.spark

root = sys.argv[1] if len(sys.argv) > 1 else "jjq-data/cold"
server = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:7575"


def make_picture(red: int) -> io.BytesIO:
    file = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").point(lambda level: level * red // 255).save(file, "PNG")
    file.seek(0)
    return file


def make_thumbnail(picture: bytes) -> bytes:
    file = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        image.thumbnail((32, 32))
        image.save(file, "PNG")
    return file.getvalue()


with jjq.connect(server) as client:
    for queue in ("pictures", "thumbnails"):
        client.create_queue(queue)
    for red in (60, 120, 250):
        client.push_file("pictures", make_picture(red), key=f"red-{red}", name=f"red-{red}.png")

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("thumbnails").getOrCreate()
    pictures = jjq.spark.objects(
        jjq.spark.read(spark, root, "pictures", server=server, columns=("key", "headers")), root, "pictures"
    )
    small = F.udf(make_thumbnail, "binary", useArrow=True)
    thumbnails = pictures.where("media_type LIKE 'image/%'").select("key", small("bytes").alias("value"))
    thumbnails.write.format("jjq").options(server=server, queue="thumbnails").mode("append").save()

    for row in client.sql("SELECT decode(key) AS name, value FROM thumbnails ORDER BY key").to_pylist():
        with Image.open(io.BytesIO(row["value"])) as image:
            print(f"{row['name']}: {image.width} x {image.height} pixels")
