"""What is left to push after earlier attempts: never a row twice, never one lost, whatever the order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.batch import payload
from coldstore.shared.errors import Conflict
from jjq.spark.write.pushes import leave_out

ROWS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c", b""]), st.sampled_from([None, b"k"])), max_size=12
)


def cut(rows: list[tuple[bytes, bytes | None]], size: int) -> list[pa.RecordBatch]:
    """The rows as batches, each third one with a header."""
    return [
        payload(
            "bytes",
            [value for value, _ in part],
            [key for _, key in part],
            [{"v": value} if value == b"a" else None for value, _ in part],
        )
        for part in (rows[at : at + size] for at in range(0, len(rows), size))
    ]


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[bytes, bytes | None]]:
    return [(row["value"], row["key"]) for batch in batches for row in batch.to_pylist()]


@given(rows=ROWS, done=st.integers(0, 12), mine=st.integers(1, 4), theirs=st.integers(1, 4))
def test_after_an_attempt_in_the_same_order_the_rest_remains(
    rows: list[tuple[bytes, bytes | None]], done: int, mine: int, theirs: int
) -> None:
    left = list(leave_out(cut(rows, mine), iter(cut(rows[:done], theirs))))
    assert rows_of(left) == rows[done:]


@given(rows=ROWS, order=st.randoms(use_true_random=False), done=st.integers(0, 12), mine=st.integers(1, 4))
def test_after_an_attempt_in_another_order_nothing_is_missing_or_double(
    rows: list[tuple[bytes, bytes | None]], order: object, done: int, mine: int
) -> None:
    shuffled = list(rows)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    left = list(leave_out(cut(rows, mine), iter(cut(shuffled[:done], 3))))
    assert sorted(map(repr, rows_of(left) + shuffled[:done])) == sorted(map(repr, rows))


@pytest.mark.parametrize(
    "earlier",
    [
        [(b"a", None), (b"x", None)],
        [(b"a", b"k")],
        [(b"a", None), (b"b", None), (b"b", None)],
        [(b"b", None)] * 2,
    ],
)
def test_rows_that_this_attempt_does_not_have_are_a_conflict(
    earlier: list[tuple[bytes, bytes | None]],
) -> None:
    rows: list[tuple[bytes, bytes | None]] = [(b"a", None), (b"b", None)]
    with pytest.raises(Conflict, match="make the query deterministic"):
        list(leave_out(cut(rows, 1), iter(cut(earlier, 2))))


def test_a_header_makes_a_difference() -> None:
    plain, headed = payload("bytes", [b"a"]), payload("bytes", [b"a"], headers=[{"h": b"1"}])
    with pytest.raises(Conflict):
        list(leave_out([plain], iter([headed])))
