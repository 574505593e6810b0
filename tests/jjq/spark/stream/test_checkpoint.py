"""Streams in Spark: rate limit, restart, `Trigger.AvailableNow`; a file sink shows what came, and how often."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from tests.jjq.spark.making import Made, make, offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def queue(tmp_path: Path) -> Made:
    return make(tmp_path / "cold", [100, 200, 300], [20, 30])


def drained(spark: SparkSession, folder: Path, options: dict[str, str]) -> list[int]:
    """Run a query to the end of the queue, with its checkpoint and output in `folder`; rows of each batch."""
    query = (
        spark.readStream.format("jjq")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    # An idle trigger reports itself, too, with the number of the batch that would come next.
    rows: dict[int, int] = {}
    for progress in query.recentProgress:
        rows[progress.batchId] = max(rows.get(progress.batchId, 0), progress.numInputRows)
    return [count for _, count in sorted(rows.items()) if count]


def test_a_restarted_stream_goes_on_where_its_checkpoint_says(
    spark: SparkSession, tmp_path: Path, queue: Made
) -> None:
    assert drained(spark, tmp_path, queue.options(maxOffsetsPerTrigger=250)) == [250, 250, 150]
    queue.queue.merge(everything=True)
    queue.add(100)
    # The starting point counts for the first start alone.
    assert drained(spark, tmp_path, queue.options(start="beginning")) == [100]
    assert drained(spark, tmp_path, queue.options(start="end")) == []
    assert offsets(spark.read.parquet(str(tmp_path / "out"))) == list(range(750))


def test_a_batch_that_was_not_committed_is_run_again_with_the_same_elements(
    spark: SparkSession, tmp_path: Path, queue: Made
) -> None:
    drained(spark, tmp_path, queue.options(maxOffsetsPerTrigger=400))
    queue.queue.merge(everything=True)
    queue.add(100)
    last = tmp_path / "checkpoint" / "commits" / "1"
    last.unlink()  # as if Spark had been killed before it wrote it
    last.with_name(".1.crc").unlink(missing_ok=True)
    drained(spark, tmp_path, queue.options(maxOffsetsPerTrigger=400))
    assert offsets(spark.read.parquet(str(tmp_path / "out"))) == list(range(750))


def test_bad_options_end_the_query_with_one_line(spark: SparkSession, tmp_path: Path, queue: Made) -> None:
    with pytest.raises(StreamingQueryException) as caught:
        drained(spark, tmp_path, queue.options(maxOffsetsPerTrigger="many"))
    first = str(caught.value).split("SQLSTATE")[0]
    assert "maxOffsetsPerTrigger is 'many': use a whole number above 0" in first
    assert "Traceback" not in first
