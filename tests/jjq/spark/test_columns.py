"""Helpers for what is in values, keys and headers; subscribers as a table."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import jjq.spark
from coldstore.shared.errors import InvalidInput, Unavailable
from tests.jjq.spark.making import make
from tests.jjq.spark.serving import Serving
from tests.servers.waiting import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_bytes_become_text_and_headers_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, [5])
    frame = jjq.spark.to_text(jjq.spark.read(spark, tmp_path, "orders"))
    rows = frame.select("key", "value", jjq.spark.header("n")).orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [
        ("k0", "value 0", "0"),
        (None, "value 1", None),
        (None, "value 2", None),
        ("k3", "value 3", None),
        (None, "value 4", "4"),
    ]


def test_what_is_no_text_fails_or_is_null(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(b"tea",), (b"\xff\xfe",)], "value binary")
    with pytest.raises(PySparkException, match="INVALID_UTF8_STRING"):
        jjq.spark.to_text(frame).collect()
    found = jjq.spark.to_text(frame, "value", on_error="null").collect()
    assert [row.value for row in found] == ["tea", None]
    with pytest.raises(InvalidInput, match="use fail or null"):
        jjq.spark.to_text(frame, on_error="ignore")  # type: ignore[arg-type]


def test_json_is_read_with_a_schema(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, [4], content="json")
    frame = jjq.spark.read(spark, tmp_path, "orders")
    parsed = jjq.spark.from_json(frame, "n long, odd boolean")
    assert [row.n for row in parsed.where("value.odd").select("value.n").orderBy("n").collect()] == [1, 3]
    wrong = "n array<long>, odd boolean"
    with pytest.raises((PySparkException, Py4JJavaError), match="MALFORMED_RECORD"):
        jjq.spark.from_json(frame, wrong).collect()
    lenient = jjq.spark.from_json(frame, wrong, on_error="null")
    assert [row.odd for row in lenient.select("value.odd").orderBy("offset").collect()] == [False, True] * 2


def test_subscribers_have_positions_and_lag(spark: SparkSession, serving: Serving) -> None:
    queue = serving.new_queue()
    serving.client.push(queue, [b"%d" % n for n in range(10)])
    for name, start in (("billing", "offset:4"), ("audit", "end")):
        serving.client.create_subscriber(queue, name, start)
    rows = jjq.spark.subscribers(spark, serving.address, queue).orderBy("subscriber").collect()
    assert [(row.queue, row.subscriber, row.offset, row.lag, row.asleep) for row in rows] == [
        (queue, "audit", 10, 0, False),
        (queue, "billing", 4, 6, False),
    ]
    assert isinstance(rows[0].created, datetime)
    everyone = jjq.spark.subscribers(spark, serving.address)
    assert everyone.where(f"queue = '{queue}' and lag > 0").count() == 1


def test_a_server_that_is_not_there_is_named(spark: SparkSession) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(Unavailable, match=nobody):
        jjq.spark.subscribers(spark, nobody, seconds=0.5)
