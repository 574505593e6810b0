"""What may be pushed, and what is made of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from coldstore.shared.errors import InvalidInput
from jjq.client.payload import to_payload


def said(batch: pa.RecordBatch) -> list[Any]:
    return batch.column("value").to_pylist()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([b"a", b"b"], [b"a", b"b"]),
        ((b"a",), [b"a"]),
        (["ä", "b"], ["ä", "b"]),
        ([b"a", "b"], [b"a", b"b"]),
        ((value for value in [b"a", b"b"]), [b"a", b"b"]),
        (pa.array([b"a", b"b"]), [b"a", b"b"]),
        (pa.chunked_array([[b"a"], [b"b"]]), [b"a", b"b"]),
        (pa.record_batch({"value": [b"a"]}), [b"a"]),
        (pa.table({"value": pa.chunked_array([[b"a"], [b"b"]])}), [b"a", b"b"]),
        (pa.table({"value": pa.array([], pa.binary())}), []),
    ],
    ids=["list", "tuple", "text", "mixed", "generator", "array", "chunks", "batch", "table", "empty"],
)
def test_every_form_of_values_becomes_one_batch(values: Any, expected: list[Any]) -> None:
    assert said(to_payload(values)) == expected


def test_keys_and_headers_stand_beside_the_values() -> None:
    made = to_payload([b"a", b"b"], ["k", None], [None, {"h": b"1"}])
    assert made.column("key").to_pylist() == [b"k", None]
    assert made.column("headers").to_pylist() == [None, [("h", b"1")]]


def test_keys_may_stand_beside_an_arrow_array() -> None:
    made = to_payload(pa.array([b"a", b"b"]), keys=(key for key in [b"k", None]))
    assert made.column("key").to_pylist() == [b"k", None]


@pytest.mark.parametrize("alone", [b"abc", "abc"], ids=["bytes", "text"])
def test_a_single_value_is_not_taken_for_a_list_of_its_characters(alone: Any) -> None:
    with pytest.raises(InvalidInput, match="put a single value into a list"):
        to_payload(alone)


@pytest.mark.parametrize(
    ("values", "more", "why"),
    [
        (7, {}, "not int"),
        (pa.record_batch({"value": [b"a"]}), {"keys": [b"k"]}, "leave out keys="),
        ([b"a", b"b"], {"keys": [b"k"]}, "2 values but 1 keys"),
        ([b"a", 7], {}, "element 1"),
        ([b"a"], {"keys": b"k"}, "keys are b'k': .* put a single value into a list"),
        ([b"a"], {"keys": 5}, "keys are 5: give one entry for each value"),
        ([b"a"], {"headers": 5}, "headers are 5: give one entry for each value"),
    ],
)
def test_what_cannot_be_pushed_is_refused_with_the_reason(
    values: Any, more: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        to_payload(values, **more)
