"""Rows as payloads: which columns fit which queue, and how much goes into one push."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from coldstore.shared.batch import Content, payload_bytes, payload_schema
from coldstore.shared.errors import InvalidInput
from jjq.spark.limits import PUSH_BYTES, PUSH_ELEMENTS
from jjq.spark.write.payload import check_columns, payloads


@pytest.mark.parametrize(
    ("columns", "content"),
    [
        ("value string", "bytes"),
        ("value binary", "bytes"),
        ("value string, key string", "text"),
        ("headers map<string,binary>, key binary, value string", "json"),
        ("value string, headers map<string,string>", "text"),
    ],
)
@pytest.mark.usefixtures("spark")  # reads the columns' types
def test_columns_that_fit(columns: str, content: Content) -> None:
    check_columns(StructType.fromDDL(columns), "orders", content)


@pytest.mark.parametrize(
    ("columns", "content", "said"),
    [
        ("key binary", "bytes", "one must be value"),
        ("value binary, VALUE2 int", "bytes", "column 'VALUE2' is not known"),
        ("value binary, timestamp timestamp", "bytes", "the queue gives it"),
        ("offset bigint, value binary", "bytes", "the queue gives it"),
        ("value binary", "text", "queue orders holds text: make it a string"),
        ("value struct<a:int>", "json", "holds json: make it a string, with to_json"),
        ("value int", "bytes", "column value is int, but queue orders takes bytes"),
        ("value binary, key bigint", "bytes", "column key is bigint"),
        ("value binary, headers array<string>", "bytes", "map<string,binary>"),
        ("value binary, headers map<string,int>", "bytes", "map<string,binary>"),
        ("value binary, headers map<binary,binary>", "bytes", "map<string,binary>"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_columns_that_do_not_fit_are_refused(columns: str, content: Content, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        check_columns(StructType.fromDDL(columns), "orders", content)
    assert "\n" not in str(caught.value)


def test_rows_are_given_the_form_of_the_queue() -> None:
    kinds = pa.schema([("headers", pa.map_(pa.string(), pa.string())), ("value", pa.large_string())])
    rows = pa.RecordBatch.from_pylist([{"value": "a", "headers": [("n", "1")]}, {"value": "b"}], kinds)
    (made,) = payloads([rows], "bytes")
    assert made.schema.equals(payload_schema("bytes"))
    assert made.to_pylist() == [
        {"key": None, "value": b"a", "headers": [("n", b"1")]},
        {"key": None, "value": b"b", "headers": None},
    ]


@pytest.mark.parametrize(
    ("rows", "size", "per_batch"), [(120_000, 1, 1_000), (300, 20_000, 300), (9, 3_000_000, 9), (0, 1, 1)]
)
def test_pushes_are_neither_too_large_nor_too_many(rows: int, size: int, per_batch: int) -> None:
    values = [b"%06d" % n + b"x" * size for n in range(rows)]
    table = pa.table({"value": values})
    made = list(payloads(table.to_batches(per_batch), "bytes"))
    assert [value for batch in made for value in batch.column("value").to_pylist()] == values
    for batch in made:
        assert batch.num_rows == 1 or payload_bytes(batch) <= PUSH_BYTES
        assert batch.num_rows <= PUSH_ELEMENTS
    for one, other in pairwise(made):  # two neighbours together would be too large
        rows_of_both = one.num_rows + other.num_rows
        assert rows_of_both > PUSH_ELEMENTS or payload_bytes(one) + payload_bytes(other) > PUSH_BYTES / 2


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(InvalidInput, match="null as its value"):
        list(payloads([pa.record_batch({"value": pa.array([b"a", None])})], "bytes"))
