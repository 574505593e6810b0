"""Columns of lists are those that pyarrow makes; what is not usual is left to it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared import lists
from coldstore.shared.batch import HEADERS, TIMESTAMP
from coldstore.shared.lists import _build_array

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
BYTES = st.binary(max_size=5)
VIEWS: st.SearchStrategy[Any] = st.builds(memoryview, BYTES)
WHOLE = st.integers(-(2**63), 2**63 - 1)


def check_same(items: list[Any], kind: pa.DataType) -> None:
    found = _build_array(items, kind)
    assert found is not None
    found.validate(full=True)
    assert found.type == kind
    assert found.equals(pa.array(items, kind))


@given(st.lists(st.none() | BYTES | TEXT | BYTES.map(bytearray) | VIEWS, max_size=20))
def test_bytes_of_every_form(items: list[Any]) -> None:
    check_same(items, pa.binary())


@given(st.lists(BYTES, max_size=20))
def test_bytes_alone(items: list[bytes]) -> None:
    check_same(items, pa.binary())


@given(st.lists(st.none() | TEXT, max_size=20))
def test_text(items: list[str | None]) -> None:
    check_same(items, pa.string())


@given(st.lists(st.none() | st.dictionaries(TEXT, BYTES | TEXT, max_size=3).map(lambda d: list(d.items()))))
def test_headers(items: list[Any]) -> None:
    check_same(items, HEADERS)


@given(st.lists(st.none() | WHOLE, max_size=20))
def test_numbers_and_times(items: list[int | None]) -> None:
    check_same(items, pa.int64())
    check_same(items, TIMESTAMP)


def test_truths_and_fractions() -> None:
    check_same([True, False, True], pa.bool_())
    check_same([0.5, -1.0], pa.float64())
    check_same([], pa.bool_())
    check_same([], pa.float64())
    check_same([1, None, 255], pa.uint8())


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ([1], pa.binary()),
        ([b"a"], pa.string()),  # it may be no UTF-8
        ([b"a", "b"], pa.string()),
        ([np.bytes_(b"a")], pa.binary()),
        (["a", 1.0], pa.string()),
        ([2**63], pa.int64()),
        ([256], pa.uint8()),
        ([-1], pa.uint8()),
        ([True], pa.int64()),
        ([1, None, True], pa.bool_()),
        ([{"a": b"1"}], HEADERS),
        ([[("a", None)]], HEADERS),
        ([[(None, b"1")]], HEADERS),
        ([[("a", 1)]], HEADERS),
        ([["ab"]], HEADERS),
        ([[1]], pa.list_(pa.int64())),
    ],
)
def test_what_is_not_usual_is_left_to_pyarrow(items: list[Any], kind: pa.DataType) -> None:
    assert _build_array(items, kind) is None


def test_text_that_cannot_be_encoded_is_refused_as_pyarrow_does() -> None:
    with pytest.raises(UnicodeError):
        _build_array(["\ud800"], pa.binary())
    with pytest.raises(UnicodeError):
        pa.array(["\ud800"], pa.binary())


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, -2, 3, 4], pa.int32()),
        pa.array([1, None, 3, 4], pa.int64()),
        pa.array([True, False, None, True] * 5),
        pa.array([], pa.int64()),
        pa.nulls(9, pa.bool_()),
    ],
)
def test_numbers_of_a_column(column: pa.Array) -> None:
    for cut in (column, column.slice(1), column.slice(1, 2)):
        assert lists.numbers(cut).tolist() == [int(value or 0) for value in cut.to_pylist()]


def test_a_table_and_a_batch_without_rows() -> None:
    schema = pa.schema([("id", pa.string()), ("created", TIMESTAMP)])
    columns: dict[str, list[Any]] = {"created": [1, 2], "id": ["a", "b"]}
    assert lists.table(columns, schema) == pa.table(columns, schema=schema)
    assert lists.no_rows(schema).schema == schema
    assert lists.no_rows(schema).num_rows == 0


def test_pandas_that_is_loaded_or_not_there_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lists, "_build_array", lambda *_: pytest.fail("made here, though pyarrow would be quicker")
    )
    monkeypatch.setitem(sys.modules, "pandas", sys)
    assert lists.array([b"a"], pa.binary()).to_pylist() == [b"a"]
    monkeypatch.delitem(sys.modules, "pandas")
    monkeypatch.setattr(lists, "_pandas_is_installed", lambda: False)
    assert lists.array([b"a"], pa.binary()).to_pylist() == [b"a"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a", b"", b"ccc"]),
        pa.array(["ä", "xyz", "q"]).slice(1),
        pa.array([b"a", None, b"bcd"]),
        pa.array(["q", "rst"], pa.large_string()).slice(1, 1),
        pa.array([b"xx", b"y"], pa.large_binary()),
        pa.array([], pa.binary()),
        pa.array([None, None], pa.string()),
    ],
    ids=str,
)
def test_lengths_are_those_that_arrow_finds(column: pa.Array) -> None:
    found = lists.byte_lengths(column)
    assert found.dtype == np.int64
    assert found.tolist() == [len(value.as_buffer()) if value.is_valid else 0 for value in column]
