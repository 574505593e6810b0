"""The hot-hot block: element batches in memory, in order, not yet in the cold store.

Small batches are gathered: once `_GATHER` of them follow each other they become one, and `_GATHER`
of those one again, so that a million single pushes read as fast as one push of a million, at a
cost of a few copies of each element.
"""

from __future__ import annotations

from bisect import bisect_right

import pyarrow as pa
import pyarrow.compute as pc

from coldstore.errors import check

_GATHER = 32
_SMALL_ROWS = 1_024


class TailBlock:
    """Elements `first` up to, not including, `next`; appended to by its queue's writer only."""

    def __init__(self, first: int, opened: float = 0.0) -> None:
        self.first = first
        self.next = first
        self.bytes = 0
        self.opened = opened  # monotonic time of the first element, for sealing by age
        self.sequence: int | None = None  # journal batch that holds the first element
        self.min_us = 0
        self.max_us = 0
        self._batches: list[pa.RecordBatch] = []
        self._starts: list[int] = []  # offset of the first element of each batch
        self._small: list[int] = []  # how many equally small batches end the list, by level

    def __len__(self) -> int:
        return self.next - self.first

    def append(self, batch: pa.RecordBatch, timestamp_us: int, sequence: int, now: float) -> None:
        """Add the elements that follow; they share one timestamp."""
        if not self._batches:
            self.opened, self.sequence = now, sequence
            self.min_us = self.max_us = timestamp_us
        self._starts.append(self.next)
        self._batches.append(batch)
        self.next += batch.num_rows
        self.bytes += batch.nbytes
        self.min_us = min(self.min_us, timestamp_us)
        self.max_us = max(self.max_us, timestamp_us)
        if batch.num_rows < _SMALL_ROWS // _GATHER:
            self._gather()
        else:
            self._small.clear()

    def _gather(self) -> None:
        # `_small[level]` counts batches made of `_GATHER ** level` small ones at the end of the list.
        if not self._small:
            self._small.append(0)
        self._small[0] += 1
        level = 0
        while self._small[level] == _GATHER:
            merged = pa.concat_batches(self._batches[-_GATHER:])
            del self._batches[-_GATHER:], self._starts[-_GATHER + 1 :]
            self._batches.append(merged)
            self._small[level] = 0
            if merged.num_rows >= _SMALL_ROWS:
                self._small.clear()
                return
            level += 1
            if len(self._small) == level:
                self._small.append(0)
            self._small[level] += 1

    def slice(self, position: int, rows: int, max_bytes: int) -> pa.RecordBatch:
        """Up to `rows` elements from `position` on, cut where they pass `max_bytes`, at least one."""
        check(self.first <= position < self.next, f"{position} is not in {self.first}..{self.next}")
        index = bisect_right(self._starts, position) - 1
        batch = self._batches[index].slice(position - self._starts[index], rows)
        if batch.num_rows == rows or index + 1 == len(self._batches):
            return cut(batch, max_bytes)
        found, have, size = [batch], batch.num_rows, batch.nbytes
        for following in self._batches[index + 1 :]:
            if have == rows or size >= max_bytes:
                break
            batch = following.slice(0, rows - have)
            found.append(batch)
            have, size = have + batch.num_rows, size + batch.nbytes
        return cut(pa.concat_batches(found), max_bytes)

    def table(self) -> pa.Table:
        """All of it, without a copy."""
        return pa.Table.from_batches(self._batches)

    def at_time(self, timestamp_us: int) -> int | None:
        """Offset of the first element that is not before `timestamp_us`."""
        if not self._batches or self.max_us < timestamp_us:
            return None
        for start, batch in zip(self._starts, self._batches, strict=True):
            found = first_at(batch.column("timestamp"), timestamp_us)
            if found is not None:
                return start + found
        return None

    def drop_before(self, offset: int) -> None:
        """Forget elements that turned out to be in the cold store already."""
        if offset <= self.first or not self._batches:
            return
        kept = self.slice(offset, self.next - offset, 1 << 62) if offset < self.next else None
        self.first, self._small = min(offset, self.next), []
        self._batches, self._starts = ([kept], [offset]) if kept is not None else ([], [])
        self.bytes = kept.nbytes if kept is not None else 0


def cut(batch: pa.RecordBatch, max_bytes: int) -> pa.RecordBatch:
    """`batch`, shortened until it has at most `max_bytes` or one element."""
    while batch.nbytes > max_bytes and batch.num_rows > 1:
        batch = batch.slice(
            0, max(1, min(batch.num_rows - 1, int(batch.num_rows * max_bytes / batch.nbytes)))
        )
    return batch


def first_at(times: pa.Array | pa.ChunkedArray, timestamp_us: int) -> int | None:
    """Index of the first time that is not before `timestamp_us`; times need not be in order."""
    wanted = pa.scalar(timestamp_us, pa.timestamp("us", tz="UTC"))
    index: int = pc.index(pc.greater_equal(times, wanted), True).as_py()
    return index if index >= 0 else None
