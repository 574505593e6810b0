"""A filter that is given to `jjq.spark.read`: blocks are left out by it, and elements by Spark."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.functions import col, lit

import jjq.spark
from coldstore.shared.batch import from_us, to_us
from coldstore.shared.errors import InvalidInput
from jjq.spark.options import TABLE_NAMES, Options
from jjq.spark.scan.bounds import ScanBounds
from jjq.spark.scan.condition import judge
from jjq.spark.scan.partition import Times
from tests.jjq.spark.making import SECOND_US, START_US, Made, make, make_at, offsets
from tests.jjq.spark.scan.test_reuse import s3_of
from tests.jjq.spark.sealed import sealed
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_US = 86_400 * SECOND_US
EVER = 2**63 - 1


@pytest.mark.parametrize(
    ("where", "bounds", "columns"),
    [
        ("offset >= 5 and offset < 9", ScanBounds(5, 9), {"offset"}),
        ("5 < offset and 9 >= offset", ScanBounds(6, 10), {"offset"}),
        ("offset between 5 and 9 or false", ScanBounds(5, 10), {"offset"}),
        ("offset in (7, 3)", ScanBounds(3, 8), {"offset"}),
        (f"offset in ({', '.join(map(str, range(3, 33)))})", ScanBounds(3, 33), {"offset"}),
        ("offset = 4 and value is not null", ScanBounds(4, 5), {"offset", "value"}),
        (
            "date(timestamp) = '2026-01-01'",
            ScanBounds(times=Times(START_US, START_US + DAY_US)),
            {"timestamp"},
        ),
        ("timestamp > '2026-01-01'", ScanBounds(times=Times(START_US, EVER)), {"timestamp"}),
        # What is not understood bounds nothing.
        ("offset = 4 or key is null", ScanBounds(), {"offset", "key"}),
        ("not offset = 4", ScanBounds(), {"offset"}),
        ("offset % 2 = 0", ScanBounds(), {"offset"}),
        ("offset = null", ScanBounds(), {"offset"}),
        ("headers['n'] = cast('4' as binary)", ScanBounds(), {"headers"}),
        # These mean another time whenever the frame is used.
        ("timestamp < current_timestamp() and offset > 3", ScanBounds(), {"timestamp", "offset"}),
        ("timestamp < now() - interval 1 hour", ScanBounds(), {"timestamp"}),
        ("date(timestamp) = current_date()", ScanBounds(), {"timestamp"}),
    ],
)
def test_what_a_condition_says(
    spark: SparkSession, where: str, bounds: ScanBounds, columns: set[str]
) -> None:
    found = judge(spark, where, "bytes")
    assert found.bounds == bounds
    assert set(found.columns) == columns


def test_columns_of_spark_are_conditions_too(spark: SparkSession) -> None:
    noon = from_us(START_US + DAY_US // 2)
    found = judge(spark, (col("offset") > 3) & (col("timestamp") < lit(noon)), "text")
    assert found.bounds == ScanBounds(4, times=Times(-EVER, to_us(noon)))


def test_what_cannot_be_asked_is_no_bound() -> None:
    """A session of Spark Connect has no JVM here."""
    nowhere: Any = object()
    found = judge(nowhere, "offset = 4", "bytes")
    assert found.bounds == ScanBounds()
    assert "headers" in found.columns


def damage(made: Made, first: int) -> None:
    """Whoever opens that block fails."""
    (Path(made.data) / f"{first:020d}.parquet").write_bytes(b"no Parquet at all")


@pytest.mark.parametrize("way", ["native", "fallback"])
def test_blocks_that_cannot_hold_such_elements_are_not_opened(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    made = make(tmp_path, [10, 20, 30], [5, 5])
    damage(made, 10)
    if way == "fallback":
        monkeypatch.setattr("jjq.spark.frame.reachable", lambda *_: None)

    def read(where: Any, **more: Any) -> DataFrame:
        return jjq.spark.read(spark, tmp_path, "orders", where=where, **more)

    assert offsets(read("offset > 55")) == list(range(56, 70))
    assert offsets(read("timestamp < timestamp'2026-01-01 00:00:04'")) == [0, 1, 2, 3]
    late = "timestamp between '2026-01-01 00:01:02' and '2026-01-01 00:01:06'"
    assert offsets(read(late, start="last:7")) == [63, 64, 65, 66]
    found = read("offset < 9 and key is not null and headers is not null", columns=["value"])
    assert found.columns == ["value"]
    assert sorted(bytes(row.value) for row in found.collect()) == [b"value 0"]
    with pytest.raises(AnalysisException, match="colour"):
        read("colour = 'red'")


def test_such_a_frame_is_used_again_as_any_other(spark: SparkSession, seaweed: S3Server) -> None:
    made = make_at(seaweed.objects("where"), f"s3://{seaweed.bucket}/where", [10, 20, 30], [5])
    frame = jjq.spark.read(
        spark, made.root, "orders", where="offset >= 20 and offset < 40", s3=s3_of(seaweed)
    )
    assert offsets(frame.where("offset < 25")) == list(range(20, 25))
    assert offsets(frame) == list(range(20, 40))
    both = frame.where("offset < 22").unionAll(frame.where("offset >= 39"))
    assert offsets(both) == [20, 21, 39]


async def test_cold_blocks_and_the_tail_are_filtered_alike(spark: SparkSession, tmp_path: Path) -> None:
    async with sealed(tmp_path) as queue:
        await queue.push(30)
        await queue.seal()
        await queue.push(30)

        def read() -> tuple[list[int], list[int]]:
            frame = jjq.spark.read(
                spark,
                queue.root,
                "orders",
                where="offset >= 20 and cast(value as string) like '%5'",
                server=queue.address,
                columns=["offset"],
            )
            return offsets(frame.where("offset > 30")), offsets(frame)

        assert await asyncio.to_thread(read) == ([35, 45, 55], [25, 35, 45, 55])


@pytest.mark.parametrize("times", ["1", "1,", "a,b", "1,2,3", "1.5,2"])
def test_times_that_are_none_are_refused(times: str) -> None:
    with pytest.raises(InvalidInput, match="times is"):
        Options.parse({"root": "/somewhere", "queue": "orders", "times": times}, also=TABLE_NAMES)
