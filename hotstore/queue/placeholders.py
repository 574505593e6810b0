"""Placeholders: what stands at the offsets of elements that are lost, once an operator has accepted the loss.

Offsets stay dense and no offset is given out twice: each lost element is an element with an empty value
(`null` in a queue of JSON) and the header `jjq-lost`, which says when the loss was accepted. Everybody reads
them, and they are sealed like others. The journal keeps them as a range (FILLED in records.py), since they
are all alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coldstore.shared.batch import Content, payload
from hotstore.limits import LOST_BLOCK_ELEMENTS
from hotstore.queue.tail import TailBlock

HEADER: Final = "jjq-lost"
_CHUNK_ROWS: Final = 4_096
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Fill(NamedTuple):
    """Offsets `first` up to, not including, `next` whose loss was accepted; and the journal batch that says so."""

    first: int
    next: int
    accepted_us: int
    sequence: int


class GapPart(NamedTuple):
    """A part of a hole; `fill` is None where nobody has accepted the loss."""

    first: int
    next: int
    fill: Fill | None


def parts(first: int, next: int, fills: Sequence[Fill]) -> Iterator[GapPart]:
    """The hole from `first` up to `next`, cut where what was accepted begins and ends."""
    for fill in sorted(fills):
        start, end = max(first, fill.first), min(next, fill.next)
        if start >= end:
            continue
        if first < start:
            yield GapPart(first, start, None)
        yield GapPart(start, end, fill)
        first = end
    if first < next:
        yield GapPart(first, next, None)


def blocks(part: GapPart, fill: Fill, content: Content, timestamp_us: int, now: float) -> Iterator[TailBlock]:
    """Unsealed blocks of placeholders. Their memory is small however many there are: the columns are shared."""
    chunk = _chunk(content, fill.accepted_us)
    for first in range(part.first, part.next, LOST_BLOCK_ELEMENTS):
        block = TailBlock(first)
        end = min(part.next, first + LOST_BLOCK_ELEMENTS)
        while block.next < end:
            some = chunk.slice(0, end - block.next)
            block.append(some, some.nbytes, timestamp_us, fill.sequence, now)
        yield block


# What stands in the place of a lost element. In a ledger it is a row about no task.
_VALUES: Final[dict[Content, Any]] = {
    "bytes": b"",
    "text": "",
    "json": "null",
    "ledger": {"task": 0, "count": 0, "event": "lost", "attempt": 0},
}


def _chunk(content: Content, accepted_us: int) -> pa.RecordBatch:
    value = _VALUES[content]
    accepted = (_EPOCH + timedelta(microseconds=accepted_us)).isoformat(timespec="seconds")
    rows = _CHUNK_ROWS
    return payload(content, [value] * rows, headers=[{HEADER: accepted.encode()}] * rows)
