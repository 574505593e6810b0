"""The short way for a single value: it takes what `check_payload` would take, and little of that."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.batch import check_payload, payload, payload_schema
from coldstore.shared.limits import ELEMENT_BYTES_MAX
from hotstore.write.push import only_value

ANY_HEADERS = st.none() | st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3)


@given(
    st.lists(
        st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9), ANY_HEADERS),
        min_size=1,
        max_size=3,
    ),
    st.data(),
)
def test_the_short_way_takes_nothing_but_one_sound_value(rows: list[Any], data: st.DataObject) -> None:
    values, keys, headers = (list(column) for column in zip(*rows, strict=True))
    start = data.draw(st.integers(0, len(rows) - 1))
    one = payload("bytes", values, keys, headers).slice(start, 1)

    plain = keys[start] is None and headers[start] is None
    assert only_value(one, "bytes") == (values[start] if plain else None)
    assert check_payload(one, "bytes").column("value").to_pylist() == [values[start]]


@pytest.mark.parametrize(
    "given_",
    [
        payload("bytes", [b"a", b"b"]),
        payload("bytes", [b"a"]).slice(1),
        payload("bytes", [b"a" * (ELEMENT_BYTES_MAX + 1)]),
        pa.record_batch({"value": pa.array([b"a"])}),
        pa.record_batch([pa.nulls(1, f.type) for f in payload_schema("bytes")], payload_schema("bytes")),
        payload("text", ["a"]),
        [b"a"],
    ],
    ids=["two", "none", "too large", "other columns", "null", "text", "no batch"],
)
def test_whatever_else_there_is_goes_the_long_way(given_: Any) -> None:
    assert only_value(given_, "bytes") is None
    assert only_value(payload("text", ["a"]), "text") is None
    assert only_value(payload("json", ["1"]), "json") is None
