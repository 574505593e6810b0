"""`spark.read.format("jjq")`: everything once, and no more opened than is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from coldstore.shared.batch import Content
from tests.jjq.spark.making import Made, elements, make, offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def load(spark: SparkSession, made: Made, **more: Any) -> DataFrame:
    return spark.read.format("jjq").options(**made.options(**more)).load()


@pytest.mark.parametrize("content", ["bytes", "text", "json"])
def test_every_column_of_every_element_comes_as_it_was_written(
    spark: SparkSession, tmp_path: Path, content: Content
) -> None:
    made = make(tmp_path, [10, 20], [5], content=content)
    frame = load(spark, made)
    assert frame.schema == spark.read.parquet(made.data).schema
    found = frame.orderBy("offset").toArrow()
    written = elements(0, 35, content)
    for name in ("offset", "timestamp", "key", "value"):
        assert found.column(name).to_pylist() == written.column(name).to_pylist(), name
    headers = [None if pairs is None else dict(pairs) for pairs in found.column("headers").to_pylist()]
    assert headers == [{"n": b"%d" % n} if n % 4 == 0 else None for n in range(35)]


def test_filters_choose_the_blocks_that_are_opened_if_the_frame_is_used_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = make(tmp_path, [10, 20, 30], [5, 5])
    # Damage proves it: whoever opens the first block fails.
    damage(made, 0)

    def frame() -> DataFrame:
        return load(spark, made, push_filters="once")

    spark.conf.set(PUSHDOWN, "true")
    try:
        assert offsets(frame().where("offset >= 25 and offset < 31 or false")) == list(range(25, 31))
        assert offsets(frame().where("timestamp >= timestamp'2026-01-01 00:01:02'")) == list(range(62, 70))
        assert offsets(frame().where("offset in (12, 69)")) == [12, 69]
        assert offsets(frame().where("offset > 9 and value = cast('value 66' as binary)")) == [66]
        plan = frame().where("offset > 25").select("value")._jdf.queryExecution().toString()
        assert "Filter (offset" not in plan.split("Physical Plan")[1]
    finally:
        spark.conf.unset(PUSHDOWN)


def damage(made: Made, first: int) -> str:
    """Flip a bit in the middle of a block's file; returns its id."""
    path = Path(made.data) / f"{first:020d}.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path.stem


def test_columns_are_chosen_by_option_or_schema(spark: SparkSession, tmp_path: Path) -> None:
    made = make(tmp_path, [10], [5])
    assert load(spark, made, columns="value,offset").columns == ["value", "offset"]
    chosen = spark.read.format("jjq").schema("offset long, headers map<string, binary>")
    found = chosen.options(**made.options()).load().where("offset = 4").collect()
    assert [(row.offset, row.headers) for row in found] == [(4, {"n": b"4"})]


def test_an_empty_queue_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    made = make(tmp_path)
    assert load(spark, made).count() == 0
    made.add(5)
    assert load(spark, made, start="end").count() == 0
    assert load(spark, made).where("offset > 100").count() == 0


def test_a_frame_shows_what_was_there_when_it_was_loaded(spark: SparkSession, tmp_path: Path) -> None:
    made = make(tmp_path, [10])
    frame = load(spark, made, start="last:3")
    made.add(5, final=False)
    assert offsets(frame) == [7, 8, 9]
    assert offsets(frame.where("offset > 7")) == [8, 9]
    assert offsets(load(spark, made, start="last:3")) == [12, 13, 14]


def test_large_elements_go_through(spark: SparkSession, tmp_path: Path) -> None:
    made = make(tmp_path, [3])
    big = elements(3, 4).drop_columns("value")
    values = pa.array([bytes([65 + n]) * (3 << 20) for n in range(4)], pa.binary())
    made.queue.write_block(big.add_column(3, pa.field("value", pa.binary(), False), values))
    found = load(spark, made).selectExpr("sum(length(value)) as bytes", "count(*) as n").collect()[0]
    assert (found.bytes, found.n) == (4 * (3 << 20) + 3 * len("value 0"), 7)
