"""What is wrong is said in the driver, in one line; damage names its block, or is skipped and reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import jjq.spark
from coldstore.layout import sealed_json
from coldstore.objects.settings import S3Settings
from coldstore.shared.errors import Denied, InvalidInput, JjqError, NotFound, OutOfRange
from jjq.spark.errors import LOGGING
from tests.jjq.spark.making import Made, make, make_at, offsets
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEWER = sealed_json.seal({"store": "0" * 32, "created": 0}, 99)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make(tmp_path / "store", [10, 20, 30], [5])


CASES: dict[str, tuple[dict[str, str], type[JjqError], str]] = {
    "unknown queue": ({"queue": "nope"}, NotFound, "no queue nope: create it, or correct the name"),
    "not a store": ({"root": "{tmp}"}, NotFound, "is not a jjq store, it has no jjq.json"),
    "no root": ({"root": "{tmp}/nowhere"}, NotFound, "is not a jjq store"),
    "not a place": ({"root": "ftp://here/there"}, InvalidInput, "names no store"),
    "after the end": ({"start": "offset:20", "end": "offset:10"}, InvalidInput, "swap or correct them"),
    "out of range": ({"start": "offset:66"}, OutOfRange, "offset 66 is outside 0..65"),
    "newer format": ({"root": "{tmp}/newer"}, InvalidInput, "jjq.json has format 99, newer than 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_driver_is_told_before_anything_runs(
    spark: SparkSession, tmp_path: Path, made: Made, case: str
) -> None:
    changes, kind, said = CASES[case]
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer/jjq.json").write_bytes(NEWER)
    given: dict[str, Any] = made.options() | {
        key: value.format(tmp=tmp_path) for key, value in changes.items()
    }
    with pytest.raises(kind) as caught:
        jjq.spark.read(spark, **given)
    assert said in str(caught.value)
    with pytest.raises(PySparkException) as told:
        spark.read.format("jjq").options(**given).load()
    line = str(told.value).splitlines()[0]
    assert said in line
    assert kind.__name__ in line
    assert "Traceback" not in str(told.value)


def test_a_schema_that_does_not_fit_is_refused(spark: SparkSession, made: Made) -> None:
    for schema, said in (
        ("offset long, colour string", "column 'colour' is not known"),
        ("offset long, value int", "column value is binary, not int"),
    ):
        frame = spark.read.format("jjq").schema(schema).options(**made.options()).load()
        with pytest.raises(PySparkException, match=said) as told:
            frame.collect()
        assert "Traceback" not in str(told.value)


def test_missing_rights_on_s3_are_said(spark: SparkSession, seaweed: S3Server) -> None:
    objects = seaweed.objects("rights")
    make_at(objects, f"s3://{seaweed.bucket}/rights", [5])
    stranger = S3Settings(
        endpoint=seaweed.endpoint, region=seaweed.region, access_key="stranger", secret_key="wrong"
    )
    with pytest.raises(Denied):
        jjq.spark.read(spark, f"s3://{seaweed.bucket}/rights", "orders", s3=stranger)


def damage(made: Made, first: int) -> str:
    """Flip a bit of a value in the middle of a block's file; returns the block's id."""
    path = Path(made.data) / f"{first:020d}.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path.stem


def test_a_damaged_block_fails_the_scan_that_meets_it(spark: SparkSession, made: Made) -> None:
    block = damage(made, 10)
    with pytest.raises(PySparkException) as told:
        spark.read.format("jjq").options(**made.options()).load().collect()
    assert f"the data of block {block}, is damaged" in str(told.value)
    assert "Traceback" not in str(told.value)
    with pytest.raises((PySparkException, Py4JJavaError), match=f"{block}.parquet"):
        jjq.spark.read(spark, made.root, "orders").collect()
    assert offsets(jjq.spark.read(spark, made.root, "orders", start="offset:30")) == list(range(30, 65))


@pytest.fixture
def gathered(spark: SparkSession) -> Iterator[None]:
    """Spark gathers what workers say."""
    spark.conf.set(LOGGING, "true")
    yield
    spark.conf.unset(LOGGING)


@pytest.mark.usefixtures("gathered")
def test_damage_may_be_skipped_and_what_was_left_out_is_told(spark: SparkSession, made: Made) -> None:
    block = damage(made, 10)
    left = [*range(10), *range(30, 65)]
    assert offsets(jjq.spark.read(spark, made.root, "orders", on_damage="skip")) == left
    said: list[Any] = jjq.spark.skipped(spark).where(f"key like '%{made.name}/data/{block}%'").collect()
    assert [(row.queue, row.start, row.end) for row in said] == [("orders", 10, 30)]
    assert "its sha256 is not the one that was committed" in said[0].why
