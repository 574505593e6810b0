"""Names of headers that are reserved are refused, by the position of the element that has one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from coldstore.shared import batch
from coldstore.shared.batch import HEADERS, check_payload, payload
from coldstore.shared.errors import InvalidInput


def refused(rows: pa.RecordBatch) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check_payload(rows, "bytes")
    return caught.value


def headed(*headers: dict[str, bytes] | None) -> pa.RecordBatch:
    return payload("bytes", [b"v"] * len(headers), headers=headers)


def test_a_reserved_name_is_refused_and_the_element_named() -> None:
    error = refused(headed(None, {"a": b"1"}, {"b": b"2", "jjq-lost": b"3"}, {"jjq-more": b""}))
    assert error.position == 2
    assert str(error) == (
        "element 2: the name of its header 'jjq-lost' is reserved, as are all that begin with 'jjq-': "
        "choose another one, or leave the header out"
    )


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_it_is_in_every_form_of_text(kind: pa.DataType) -> None:
    names = pa.array(["a", "jjq-x"]).cast(kind)
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), names, pa.array([b"1", b"2"]))
    rows = pa.RecordBatch.from_arrays([pa.array([b"v", b"w"]), maps], ["value", "headers"])
    try:
        maps.cast(HEADERS)
    except pa.ArrowException:
        assert "headers" in str(refused(rows))  # a form that no queue takes, whatever the names
    else:
        assert refused(rows).position == 1


@pytest.mark.parametrize("name", ["jjq", "jjqx-a", "JJQ-a", "x-jjq-a", " jjq-a", ""])
def test_names_that_only_look_alike_are_free(name: str) -> None:
    assert check_payload(headed({name: b"1"}, None), "bytes").num_rows == 2


def test_what_a_slice_or_a_null_hides_is_nobodys() -> None:
    rows = headed({"jjq-a": b"1"}, {"b": b"2"}, {"c": b"3"}, {"jjq-d": b"4"})
    assert check_payload(rows.slice(1, 2), "bytes").num_rows == 2
    assert refused(rows.slice(1)).position == 2
    whole = pa.array([[("jjq-a", b"1")], [("b", b"2")]], HEADERS)
    hidden = pa.Array.from_buffers(
        HEADERS, 2, [pa.py_buffer(b"\x02"), whole.buffers()[1]], children=[_entries(whole)]
    )
    assert hidden.to_pylist() == [None, [("b", b"2")]]
    rows = pa.RecordBatch.from_arrays([pa.array([b"v", b"w"]), hidden], ["value", "headers"])
    assert check_payload(rows, "bytes").num_rows == 2


def _entries(maps: Any) -> pa.StructArray:
    fields = [maps.type.key_field, maps.type.item_field]
    return pa.StructArray.from_arrays([maps.keys, maps.items], fields=fields)


def test_batches_without_headers_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: Any) -> None:
        raise AssertionError("names were looked at, though there are none")

    monkeypatch.setattr(batch, "refuse_reserved", looked)
    assert check_payload(payload("bytes", [b"v"] * 100), "bytes").num_rows == 100
    with pytest.raises(AssertionError, match="names were looked at"):
        check_payload(headed({"a": b"1"}), "bytes")
