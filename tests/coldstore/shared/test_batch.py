"""Element batches: what is accepted, what is refused, and which element is named."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared import batch, limits
from coldstore.shared.batch import check_payload, elements, from_us, payload, stamp, to_us
from coldstore.shared.errors import InvalidInput
from coldstore.shared.json_text import check_json

ANY_HEADERS = st.none() | st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3)


def refused(content: str, make: Callable[[], pa.RecordBatch]) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check_payload(make(), batch.check_content(content))
    return caught.value


@given(st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9), ANY_HEADERS), min_size=1))
def test_elements_come_back_as_they_were_given(given_: list[tuple[bytes, bytes | None, Any]]) -> None:
    values, keys, headers = (list(column) for column in zip(*given_, strict=True))

    checked = check_payload(payload("bytes", values, keys, headers), "bytes")
    found = list(elements(stamp(checked, first=7, timestamp_us=1_767_225_600_000_001)))

    assert [e.value for e in found] == values
    assert [e.key for e in found] == keys
    assert [dict(e.headers) for e in found] == [h or {} for h in headers]
    assert [e.offset for e in found] == list(range(7, 7 + len(values)))
    assert {e.timestamp for e in found} == {datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)}


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9), ANY_HEADERS), min_size=1),
    st.data(),
)
def test_the_bytes_of_each_element_are_counted_in_any_slice(rows: list[Any], data: st.DataObject) -> None:
    values, keys, headers = (list(column) for column in zip(*rows, strict=True))
    start = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(start + 1, len(rows)))

    counted = batch.element_bytes(payload("bytes", values, keys, headers).slice(start, stop - start))

    assert counted.tolist() == [
        len(v) + len(k or b"") + sum(len(n.encode()) + len(x) for n, x in (h or {}).items())
        for v, k, h in rows[start:stop]
    ]


@pytest.mark.parametrize(
    "form",
    [
        pa.large_binary(),
        pa.binary_view(),
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.binary()),
    ],
)
def test_other_forms_of_bytes_are_accepted(form: pa.DataType) -> None:
    column = (
        pa.array(["a", "b"]).cast(pa.binary()).dictionary_encode() if pa.types.is_dictionary(form) else None
    )
    column = pa.array(["a", "b"]).cast(form) if column is None else column

    checked = check_payload(pa.RecordBatch.from_arrays([column], ["value"]), "bytes")

    assert checked.schema.equals(batch.payload_schema("bytes"))
    assert checked.column("value").to_pylist() == [b"a", b"b"]


def test_columns_may_come_in_any_order() -> None:
    given_ = pa.RecordBatch.from_arrays([pa.array([b"v"]), pa.array([b"k"])], ["value", "key"])

    checked = check_payload(given_, "bytes")

    assert (checked.column("key")[0].as_py(), checked.column("value")[0].as_py()) == (b"k", b"v")


def test_a_null_value_is_refused_by_its_position() -> None:
    error = refused("bytes", lambda: pa.RecordBatch.from_arrays([pa.array([b"a", None, b"c"])], ["value"]))

    assert error.position == 1
    assert "element 1" in str(error)
    assert "null" in str(error)


@pytest.mark.parametrize(
    ("content", "values", "position"),
    [
        ("bytes", [b"a", 1], 1),
        ("text", ["a", "b", b"\xff"], 2),
        ("bytes", [b"a", None], 1),
        ("json", ["{}", 3], 1),
    ],
)
def test_a_python_value_of_the_wrong_type_is_refused_by_its_position(
    content: str, values: list[Any], position: int
) -> None:
    assert refused(content, lambda: payload(batch.check_content(content), values)).position == position


def test_text_that_is_not_utf8_is_refused_by_its_position() -> None:
    column = pa.array([b"fine", b"also", b"\xff\xfe"])

    assert refused("text", lambda: pa.RecordBatch.from_arrays([column], ["value"])).position == 2


@pytest.mark.parametrize(
    "values",
    [
        ["{}", "{"],
        ["1", "1,2"],
        ["[3", "4]"],
        ["1,2", "[3", "4]"],
        ["", "1"],
        ["1 2"],
        ["NaN"],
        ["{}", '"'],
        ["//"],
    ],
)
def test_a_value_that_is_not_json_is_refused_however_its_neighbours_complete_it(values: list[str]) -> None:
    error = refused("json", lambda: payload("json", values))

    assert error.position is not None
    assert "not JSON" in str(error)


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
            lambda inner: st.lists(inner, max_size=4),
            max_leaves=8,
        ),
        min_size=1,
        max_size=8,
    )
)
def test_json_is_accepted(values: list[Any]) -> None:
    import json

    texts = [json.dumps(value) for value in values]

    assert check_payload(payload("json", texts), "json").column("value").to_pylist() == texts


def test_json_nested_as_deep_as_the_parser_goes_is_accepted() -> None:
    deep = "[" * 1_000 + "]" * 1_000

    assert check_payload(payload("json", [deep, deep]), "json").num_rows == 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": pa.array([1, 2])}, "int64"),
        ({"key": pa.array([b"k"])}, "no column value"),
        ({"value": pa.array([b"v"]), "offset": pa.array([1])}, "offset"),
        ({"value": pa.array([b"v"]), "headers": pa.array(["x"])}, "headers"),
    ],
)
def test_a_wrong_schema_is_refused_with_what_is_wrong(columns: dict[str, pa.Array], said: str) -> None:
    error = refused("bytes", lambda: pa.RecordBatch.from_arrays(list(columns.values()), list(columns)))

    assert said in str(error)


def test_a_null_header_value_is_refused_by_its_position() -> None:
    nullable = pa.map_(pa.string(), pa.binary())
    headers = pa.array([[("a", b"1")], None, [("b", None)]], type=nullable)
    columns = [pa.array([b"1", b"2", b"3"]), headers]

    error = refused("bytes", lambda: pa.RecordBatch.from_arrays(columns, ["value", "headers"]))

    assert error.position == 2


@given(
    st.lists(
        st.none() | st.lists(st.tuples(st.text(max_size=2), st.none() | st.just(b"v")), max_size=3),
        min_size=1,
        max_size=12,
    ),
    st.data(),
)
def test_the_first_null_header_is_named_in_any_slice(rows: list[Any], data: st.DataObject) -> None:
    """By the children of the map and its offsets, which are those of the whole: a slice has only some of them."""
    first = data.draw(st.integers(0, len(rows) - 1))
    count = data.draw(st.integers(1, len(rows) - first))
    column = pa.array(rows, pa.map_(pa.string(), pa.binary())).slice(first, count)
    cut = rows[first : first + count]
    bad = [n for n, row in enumerate(cut) if row is not None and any(value is None for _, value in row)]
    given_ = pa.RecordBatch.from_arrays([pa.array([b"x"] * count), column], ["value", "headers"])

    if bad:
        assert refused("bytes", lambda: given_).position == bad[0]
    else:
        assert check_payload(given_, "bytes").num_rows == count


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(lambda good: not all(good)))
def test_the_first_value_that_is_no_text_is_named(good: list[bool]) -> None:
    column = pa.array([b"text" if each else b"\xff" for each in good], pa.binary())

    error = refused("text", lambda: pa.RecordBatch.from_arrays([column], ["value"]))

    assert error.position == good.index(False)


def test_the_first_value_that_is_no_text_is_found_by_halves() -> None:
    """One by one, a million values took ten seconds."""
    count, looks = 100_000, 0
    column = pa.array([b"x"] * (count - 1) + [b"\xff"], pa.binary())

    class Counted:
        """A column that counts how often it is cut."""

        def __len__(self) -> int:
            return count

        def slice(self, first: int, size: int) -> pa.Array:
            nonlocal looks
            looks += 1
            return column.slice(first, size)

    assert batch._first_bad_text(Counted()) == count - 1
    assert looks <= 17


@pytest.mark.parametrize("bad", [0, 999, 1_000, 2_345])
def test_json_is_checked_in_steps_and_the_first_bad_value_is_named(bad: int) -> None:
    texts = ["1"] * 2_500
    steps = sum(1 for _ in check_json(pa.array(texts)))
    assert steps == 2, "three steps, and others work between them"
    texts[bad] = "1,1"

    assert refused("json", lambda: payload("json", texts)).position == bad


def test_long_json_is_checked_few_values_at_a_time() -> None:
    texts = [f'"{"x" * 30_000}"'] * 20

    assert sum(1 for _ in check_json(pa.array(texts))) == 9
    assert sum(1 for _ in check_json(pa.array(["1"] * 1_000))) == 0, "a small batch has one step"


def test_an_empty_batch_and_a_bare_value_are_refused() -> None:
    assert "empty" in str(refused("bytes", lambda: payload("bytes", [])))
    assert "list" in str(refused("bytes", lambda: payload("bytes", b"ab")))  # type: ignore[arg-type]
    assert "keys" in str(refused("bytes", lambda: payload("bytes", [b"a", b"b"], keys=[b"k"])))


def test_limits_are_inclusive_and_name_the_element() -> None:
    largest = b"x" * limits.ELEMENT_BYTES_MAX
    assert check_payload(payload("bytes", [largest]), "bytes").num_rows == 1

    assert refused("bytes", lambda: payload("bytes", [b"", largest + b"x"])).position == 1
    assert refused("bytes", lambda: payload("bytes", [largest], keys=[b"k"])).position == 0
    assert "split" in str(refused("bytes", lambda: payload("bytes", [largest] * 3)))
    many = [None, {str(n): b"" for n in range(limits.HEADERS_MAX + 1)}]
    assert refused("bytes", lambda: payload("bytes", [b"", b""], headers=many)).position == 1


def test_times_are_exact_and_need_a_zone() -> None:
    time = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=2)))

    assert from_us(to_us(time)) == time
    with pytest.raises(InvalidInput, match="zone"):
        to_us(datetime(2026, 1, 1))  # noqa: DTZ001 - that it has none is the point
