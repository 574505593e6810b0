"""`df.write.format("jjq")`: a job in Spark, tasks that fail, and what the user is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
from pyspark.sql.types import BinaryType, StructField, StructType

from coldstore.shared.errors import InvalidInput, JjqError
from jjq.spark.write.sink import SinkWriter, StreamWriter
from tests.jjq.spark.serving import Serving
from tests.servers.waiting import free_ports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUES = StructType([StructField("value", BinaryType())])


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """Rows that say their number, in two partitions."""
    return spark.range(0, count, 1, 2).selectExpr("cast(id AS string) AS value")


def save(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("jjq").options(**options).mode("append").save()


def test_rows_become_elements(spark: SparkSession, serving: Serving) -> None:
    queue = serving.new_queue(content="json")
    frame = numbers(spark, 100).select(
        F.to_json(F.struct(F.col("value").alias("n"))).alias("value"),
        F.when(F.col("value") == "7", F.col("value")).alias("key"),
        F.create_map(F.lit("of"), F.lit("spark")).alias("headers"),
    )
    save(frame, serving.options(queue))
    table = serving.client.replay(queue).to_table().sort_by("value").to_pylist()
    assert sorted(row["value"] for row in table) == sorted(f'{{"n":"{n}"}}' for n in range(100))
    assert [row["key"] for row in table if row["value"] == '{"n":"7"}'] == [b"7"]
    assert {tuple(row["headers"]) for row in table} == {(("of", b"spark"),)}


def test_a_task_that_fails_after_it_pushed_adds_nothing_twice(
    spark: SparkSession, serving: Serving, tmp_path: Path
) -> None:
    queue, address, marker = serving.new_queue(), serving.address, str(tmp_path / "failed")

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path

        import jjq
        from tests.servers.waiting import wait_until

        yield from batches
        if not Path(marker).exists():
            with jjq.connect(address) as client:
                wait_until(lambda: client.get_queue(queue).next_offset > 0, "something was pushed", 60)
                Path(marker).write_text(str(client.get_queue(queue).next_offset))
            raise RuntimeError("on purpose")

    rows = spark.range(0, 30_000, 1, 1).selectExpr("lpad(cast(id AS string), 300, '0') AS value")
    save(rows.mapInArrow(fails_once, "value string"), serving.options(queue))
    assert 0 < int(Path(marker).read_text()) < 30_000
    assert serving.values(queue) == [b"%0300d" % n for n in range(30_000)]


def test_a_job_run_again_under_its_name_adds_nothing(spark: SparkSession, serving: Serving) -> None:
    queue = serving.new_queue()
    for _ in range(2):
        save(numbers(spark, 100), serving.options(queue, producer="nightly-2026-01-31"))
    assert len(serving.values(queue)) == 100
    save(numbers(spark, 100), serving.options(queue))  # without a name it is another job
    assert len(serving.values(queue)) == 200


def test_a_job_run_again_with_other_rows_fails_and_says_so(spark: SparkSession, serving: Serving) -> None:
    queue = serving.new_queue()
    options = serving.options(queue, producer="nightly")
    save(numbers(spark, 100), options)
    with pytest.raises(PySparkException) as caught:
        save(numbers(spark, 99), options)
    assert "the rows differ from attempt to attempt" in str(caught.value)


def test_what_is_wrong_is_told_in_one_line_before_anything_is_pushed(
    spark: SparkSession, serving: Serving
) -> None:
    queue = serving.new_queue(content="text")
    frame, options = numbers(spark, 10), serving.options(queue)
    with pytest.raises(AnalysisException, match="holds text: make it a string") as caught:
        save(frame.select(F.col("value").cast("binary")), options)
    assert "Traceback" not in str(caught.value)
    with pytest.raises(AnalysisException, match="no queue nowhere") as caught:
        save(frame, options | {"queue": "nowhere"})
    assert "Traceback" not in str(caught.value)
    assert serving.client.get_queue(queue).next_offset == 0


def test_reserved_headers_are_refused(spark: SparkSession, serving: Serving) -> None:
    queue = serving.new_queue()
    frame = numbers(spark, 10).withColumn("headers", F.create_map(F.lit("jjq-of"), F.lit("spark")))
    with pytest.raises(PySparkException, match="its header 'jjq-of' is reserved") as caught:
        save(frame, serving.options(queue))
    assert "Traceback" not in str(caught.value)
    assert serving.client.get_queue(queue).next_offset == 0


def test_every_bad_option_is_refused(serving: Serving) -> None:
    options = serving.options(serving.new_queue())
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    refused: list[tuple[dict[str, str], str]] = [
        (options | {"queue": "nowhere"}, "no queue nowhere"),
        (options | {"server": nobody}, f"nobody listens on {nobody}"),
        (options | {"stage": "safe"}, "stage is 'safe': use one of ready"),
        (options | {"producer": "x" * 110}, "is too long"),
        (options | {"produced": "x"}, "'produced' is not known"),
        ({"root": "/nowhere", "queue": "orders"}, "writing needs option server"),
    ]
    for told, said in refused:
        with pytest.raises(JjqError, match=said) as caught:
            SinkWriter(told, VALUES, overwrite=False)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInput, match="a queue only grows"):
        SinkWriter(options, VALUES, overwrite=True)
    with pytest.raises(InvalidInput, match="known by its checkpoint"):
        StreamWriter(options | {"producer": "me"}, VALUES, overwrite=False)
