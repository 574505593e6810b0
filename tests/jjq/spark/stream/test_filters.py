"""Streams of one frame do not share their filters; Spark hands none to a stream that is written in Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstore.shared.errors import InvalidInput
from tests.jjq.spark.making import make, offsets
from tests.jjq.spark.stream.reading import reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def streamed(spark: SparkSession, frame: DataFrame, name: str, checkpoint: Path) -> list[int]:
    """The offsets of all that is there, by a query of its own."""
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(checkpoint / name))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return offsets(spark.table(name))


@pytest.mark.timeout(300)
def test_a_filter_ends_with_its_stream(spark: SparkSession, tmp_path: Path) -> None:
    made = make(tmp_path / "store", [20, 20], [5])
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = spark.readStream.format("jjq").options(**made.options()).load()
        some = frame.where("offset >= 30")
        assert streamed(spark, some, "some", tmp_path) == list(range(30, 45))
        assert streamed(spark, frame.unionAll(some), "both", tmp_path) == sorted([*range(45), *range(30, 45)])
    finally:
        spark.conf.unset(PUSHDOWN)


@pytest.mark.parametrize("option", [{"push_filters": "once"}, {"times": "1,2"}])
def test_a_stream_refuses_the_options_of_tables(tmp_path: Path, option: dict[str, str]) -> None:
    made = make(tmp_path / "store", [5])
    with pytest.raises(InvalidInput, match="is not known"):
        reader(made.options(**option)).initialOffset()
