"""`writeStream.format("jjq")`: from queue to queue, through restarts, each element once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from coldstore.shared.limits import BLOCK_BYTES_MIN
from tests.jjq.spark.making import Made, make
from tests.jjq.spark.serving import Serving

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def source(tmp_path: Path) -> Made:
    return make(tmp_path / "cold", [100, 200], [30])


def copied(frame: DataFrame, options: dict[str, str], checkpoint: Path) -> None:
    query = (
        frame.writeStream.format("jjq")
        .options(**options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_restarted_query_adds_nothing_that_its_last_batch_pushed_before_it_was_committed(
    spark: SparkSession, serving: Serving, tmp_path: Path, source: Made
) -> None:
    queue = serving.new_queue(block_bytes=BLOCK_BYTES_MIN)
    stream = spark.readStream.format("jjq").options(**source.options(maxOffsetsPerTrigger=200)).load()
    frame = stream.select("key", "value", "headers")
    checkpoint = tmp_path / "checkpoint"
    copied(frame, serving.options(queue), checkpoint)
    assert len(serving.values(queue)) == 330
    for commit in (checkpoint / "commits").glob("*1*"):  # of batch 1: as if Spark had been killed before it
        commit.unlink()
    source.queue.merge(everything=True)  # what was young when the batch was planned is final now
    source.add(70)
    copied(frame, serving.options(queue), checkpoint)
    written = serving.client.replay(queue).to_table().select(["key", "value", "headers"]).to_pylist()
    wanted = spark.read.format("jjq").options(**source.options()).load().select("key", "value", "headers")
    assert sorted(row["value"] for row in written) == sorted(bytes(row["value"]) for row in wanted.collect())
    assert len(written) == 400
    copied(frame, serving.options(queue), tmp_path / "another")  # another query is another producer
    assert len(serving.values(queue)) == 800


def test_an_aggregate_whose_order_may_change_adds_nothing_twice(
    spark: SparkSession, serving: Serving, tmp_path: Path, source: Made
) -> None:
    queue = serving.new_queue()
    stream = spark.readStream.format("jjq").options(**source.options()).load()
    counted = stream.selectExpr("offset % 50 AS n").groupBy("n").count()
    frame = counted.selectExpr("concat(n, '=', count) AS value")
    checkpoint = tmp_path / "checkpoint"
    options = serving.options(queue)
    for _ in range(2):
        query = (
            frame.writeStream.format("jjq")
            .options(**options)
            .option("checkpointLocation", str(checkpoint))
            .outputMode("complete")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        shutil.rmtree(checkpoint / "commits")
    assert len(serving.values(queue)) == 50


def test_a_stream_is_told_in_one_line_what_it_cannot_do(
    spark: SparkSession, serving: Serving, tmp_path: Path, source: Made
) -> None:
    queue = serving.new_queue()
    frame = spark.readStream.format("jjq").options(**source.options()).load().select("value")
    with pytest.raises(StreamingQueryException) as caught:
        copied(frame, serving.options(queue, producer="me"), tmp_path / "one")
    first = str(caught.value).split("SQLSTATE")[0]
    assert "a stream is known by its checkpoint: leave out option producer" in first
    assert "Traceback" not in first
