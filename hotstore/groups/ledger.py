"""Rows of a ledger: tuples while they are made and folded, Arrow columns in the journal and in the cold store.

A run of tasks to which the same happened is one row. Rows of one group commit become one payload, which is the only
place where Arrow is used: nothing here is done for each verb.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coldstore.shared.batch import HEADERS, LEDGER_FIELDS, LEDGER_ROW_BYTES, LEDGER_VALUE, payload_schema
from coldstore.shared.limits import NAME_CHARS_MAX
from coldstore.shared.lists import null_column
from hotstore.limits import REASON_CHARS_MAX

_SCHEMA: Final = payload_schema("ledger")
_LARGEST_ROW_BYTES: Final = LEDGER_ROW_BYTES + 4 * REASON_CHARS_MAX + 2 * NAME_CHARS_MAX


class LedgerRow(NamedTuple):
    """One transition; see coldstore.layout.ledger. Times are microseconds, None where there is none."""

    task: int
    count: int  # type: ignore[assignment]
    event: str
    state: str | None = None
    attempt: int = 0
    worker: str | None = None
    session: str | None = None
    until: int | None = None
    expires: int | None = None
    priority: int | None = None
    reason: str | None = None


class LedgerRows:
    """Rows that wait for the next group commit. A row that goes on where one of the last two ends is joined to it.

    Of the last two: a worker that takes and acks one task after another makes rows of both kinds by turns. The row in
    between must not be about the same task, whose rows have to stay in order.
    """

    __slots__ = ("_counts", "rows")

    def __init__(self) -> None:
        self.rows: list[LedgerRow] = []  # each with the count that it had when it was added …
        self._counts: list[int] = []  # … and with that of all that were joined to it since

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, row: LedgerRow) -> None:
        rows, counts = self.rows, self._counts
        if rows:
            last, task = rows[-1], row[0]
            end = last[0] + counts[-1]
            if end == task and last[2:] == row[2:]:
                counts[-1] += row[1]
                return
            if len(rows) > 1 and last[3] is not None and (end <= task or last[0] >= task + row[1]):
                other = rows[-2]
                if other[0] + counts[-2] == task and other[2:] == row[2:]:
                    counts[-2] += row[1]
                    return
        rows.append(row)
        counts.append(row[1])

    def clear(self) -> None:
        """Forget all rows."""
        self.rows.clear()
        self._counts.clear()

    def take(self, most_bytes: int) -> list[LedgerRow]:
        """The rows, or as many of the first ones as have about so many bytes; they are not here any more."""
        rows, at = self.rows, len(self.rows)
        if at * _LARGEST_ROW_BYTES > most_bytes:
            sizes = accumulate(
                LEDGER_ROW_BYTES + len(row.reason or "") * 4 + len(row.session or "") + len(row.worker or "")
                for row in rows
            )
            at = max(1, sum(size <= most_bytes for size in sizes))
        counts, self._counts = self._counts[:at], self._counts[at:]
        self.rows = rows[at:]
        return [
            row if row[1] == count else LedgerRow(row[0], count, *row[2:])
            for row, count in zip(rows[:at], counts, strict=True)
        ]


def encode_rows(rows: Sequence[LedgerRow], shift_us: int = 0) -> pa.RecordBatch:
    """The rows as a payload of the ledger. Every group commit makes one, often of a single row: so by hand.

    What is stored fits the times of the rows, which are `shift_us` later than that of the group.
    """
    count = len(rows)
    if shift_us:
        rows = [
            row._replace(until=row.until and row.until + shift_us, expires=row.expires and row.expires + shift_us)
            for row in rows
        ]  # fmt: skip
    columns = [
        (_text_column if pa.types.is_string(field.type) else _number_column)(column, field.type)
        for column, field in zip(zip(*rows, strict=True), LEDGER_FIELDS, strict=True)
    ]
    value = pa.Array.from_buffers(LEDGER_VALUE, count, [None], 0, 0, columns)
    return pa.RecordBatch.from_arrays(
        [null_column(count, pa.binary()), value, null_column(count, HEADERS)], schema=_SCHEMA
    )


@lru_cache(maxsize=4_096)
def _no_values(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


def _number_column(items: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    missing = items.count(None)
    if missing == len(items):
        return _no_values(missing, kind)
    width = "q" if kind.bit_width == 64 else "i"
    numbers = pa.py_buffer(array(width, [item or 0 for item in items]))
    return pa.Array.from_buffers(kind, len(items), [_validity(items) if missing else None, numbers], missing)


def _text_column(items: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    missing = items.count(None)
    if missing == len(items):
        return _no_values(missing, kind)
    texts = [(item or "").encode() for item in items]
    ends = array("i", [0, *accumulate(map(len, texts))])
    validity = _validity(items) if missing else None
    buffers = [validity, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(kind, len(items), buffers, missing)


def _validity(items: Sequence[object]) -> pa.Buffer:
    bits = 0
    for at, item in enumerate(items):
        if item is not None:
            bits |= 1 << at
    return pa.py_buffer(bits.to_bytes((len(items) + 7) // 8, "little"))


def decode_rows(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[int, LedgerRow]]:
    """The rows of elements of a ledger, each with its time."""
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    return zip(times, map(LedgerRow._make, zip(*_columns(batch), strict=True)), strict=True)


def _columns(batch: pa.RecordBatch | pa.Table) -> list[list[Any]]:
    values = batch.column("value")
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, LEDGER_VALUE)
    found = []
    for number, field in enumerate(LEDGER_FIELDS):
        column = values.field(number)
        if len(column) != len(values):  # a slice of a struct has its children whole
            column = column.slice(values.offset, len(values))
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.int64())
        found.append(column.to_pylist())
    return found
