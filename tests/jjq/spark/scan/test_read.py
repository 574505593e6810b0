"""`jjq.spark.read`: a native scan of just the files that hold a range."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jjq.spark
from coldstore.objects.settings import S3Settings
from jjq.spark import limits
from jjq.spark.scan.native import reachable, s3a
from tests.jjq.spark.making import elements, make, offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("start", "end", "expected", "files"),
    [
        ("beginning", "end", range(70), 5),
        ("offset:12", "offset:25", range(12, 25), 1),
        ("offset:10", "offset:30", range(10, 30), 1),
        ("last:8", "last:2", range(62, 68), 2),
        ("time:2026-01-01T00:00:05Z", "time:2026-01-01T00:00:11Z", range(5, 11), 2),
        ("end", "end", range(0), 0),
    ],
)
def test_spark_opens_just_the_files_of_the_range(
    spark: SparkSession, tmp_path: Path, start: str, end: str, expected: range, files: int
) -> None:
    made = make(tmp_path, [10, 20, 30], [5, 5])
    frame = jjq.spark.read(spark, tmp_path, "orders", start, end)
    assert offsets(frame) == list(expected)
    assert len(frame.inputFiles()) == files
    assert frame.schema == spark.read.parquet(made.data).schema


def test_the_frame_shows_what_was_there_when_it_was_made(spark: SparkSession, tmp_path: Path) -> None:
    made = make(tmp_path, [10], [5])
    frame = jjq.spark.read(spark, str(tmp_path), "orders")
    made.add(20)
    assert offsets(frame) == list(range(15))
    assert offsets(jjq.spark.read(spark, tmp_path.as_uri(), "orders", columns=["offset"])) == list(range(35))


def test_many_blocks_are_listed_by_their_folder(spark: SparkSession, tmp_path: Path) -> None:
    count = limits.NAMED_FILES_MAX + 8
    made = make(tmp_path, [10] * count, [5, 5])
    # What a writer leaves that died after its data, before its metadata: no part of the queue.
    (Path(made.data) / f"{10 * count:020d}.parquet").write_bytes(
        (Path(made.data) / f"{0:020d}.parquet").read_bytes()
    )
    whole = jjq.spark.read(spark, tmp_path, "orders")
    assert offsets(whole) == list(range(10 * count + 10))
    part = jjq.spark.read(spark, tmp_path, "orders", "offset:15", f"offset:{10 * count - 13}")
    assert offsets(part) == list(range(15, 10 * count - 13))
    assert len(part.inputFiles()) == count - 2


def test_many_young_blocks_are_listed_by_their_folder_too(spark: SparkSession, tmp_path: Path) -> None:
    made = make(tmp_path, [10], [2] * (limits.NAMED_FILES_MAX + 3))
    orphan = next((tmp_path / "queues/orders/young").glob("*.parquet"))
    orphan.with_name(f"{10:020d}-0badcafe.parquet").write_bytes(orphan.read_bytes())
    assert offsets(jjq.spark.read(spark, tmp_path, "orders")) == list(range(made.queue.next_offset))


def test_a_file_that_is_still_to_be_put_in_its_place_is_read_from_its_copy(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, [10])
    left = made.store.create_queue("other").write_block(elements(0, 10, width=50))
    assert left
    # Another writer's file is in the way of the next block, and the swap of ours for it fails.
    (Path(made.data) / f"{10:020d}.parquet").write_bytes(b"what another writer had")
    monkeypatch.setattr("coldstore.queue.commit.settle", lambda *_: None)
    made.add(5)
    assert (Path(made.data) / f"{10:020d}.parquet").read_bytes() == b"what another writer had"
    assert offsets(jjq.spark.read(spark, tmp_path, "orders")) == list(range(15))


def test_s3_is_scanned_natively_where_spark_knows_s3a(spark: SparkSession) -> None:
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    assert reachable(spark, "s3://bucket/jjq") is None
    settings.set("fs.s3a.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        assert reachable(spark, "s3://bucket/jjq/") == "s3a://bucket/jjq"
    finally:
        settings.unset("fs.s3a.impl")


def test_hadoop_is_told_what_the_s3_settings_say() -> None:
    told = s3a(S3Settings(endpoint="http://here:1", region="eu", access_key="me", secret_key="hush"))
    assert told == {
        "fs.s3a.endpoint": "http://here:1",
        "fs.s3a.endpoint.region": "eu",
        "fs.s3a.access.key": "me",
        "fs.s3a.secret.key": "hush",
        "fs.s3a.path.style.access": "true",
    }
    assert s3a(S3Settings(addressing="virtual")) == {}


def test_every_public_name_is_there() -> None:
    assert jjq.spark.__all__ == sorted(jjq.spark.__all__)
    assert all(callable(getattr(jjq.spark, name)) for name in jjq.spark.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'write'"):
        jjq.spark.__getattr__("write")
