"""The hot-hot block: payloads in memory, in order, not yet in the cold store.

A push is kept as it came, and becomes an element batch (offsets, timestamps) when it is first read:
the writer does not wait for what readers need. Small pushes are gathered: once `_GATHER` of them
follow each other they become one chunk, and `_GATHER` of those one again, so that a million single
pushes read as fast as one push of a million, at a cost of two copies of each element.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.queue.merge import is_enough
from coldstore.shared import lists
from coldstore.shared.batch import TIMESTAMP, payload_bytes, raw_bytes, stamp_each
from coldstore.shared.errors import check

_GATHER = 32
_SMALL_ROWS = 1_024
_STAMP_BYTES = 16  # what offset and timestamp add to an element
_AMPLE = 2  # chunks of so many times fewer bytes than are wanted surely fit: their sizes are only about right


class _Chunk:
    """Elements that were pushed together or gathered; `batch` is made when it is first asked for."""

    __slots__ = ("_batch", "_ends", "bytes", "payload", "times")

    def __init__(self, payload: pa.RecordBatch, times: list[tuple[int, int]], size: int) -> None:
        self.payload = payload
        self.times = times  # how many elements, and their timestamp, in order
        self.bytes = size  # about; a part of a chunk has no more
        self._batch: pa.RecordBatch | None = None
        self._ends: list[int] | None = None  # how many elements there are up to each of `times`

    def time_at(self, row: int) -> int:
        """Timestamp of one element."""
        if self._ends is None:
            self._ends = list(accumulate(rows for rows, _ in self.times))
        return self.times[bisect_right(self._ends, row)][1]

    def batch(self, first: int) -> pa.RecordBatch:
        if self._batch is None:
            counts, times = zip(*self.times, strict=True)
            stamps = np.repeat(np.array(times, dtype=np.int64), counts)
            self._batch = stamp_each(self.payload, first, stamps)
        return self._batch


class TailBlock:
    """Elements `first` up to, not including, `next`; appended to by its queue's writer only."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.next = first
        self.bytes = 0
        self.opened = 0.0  # monotonic time of the first element, for sealing by age
        self.sequence: int | None = None  # journal batch that holds the first element
        self.min_us = 0
        self.max_us = 0
        self._chunks: list[_Chunk] = []
        self._starts: list[int] = []  # offset of the first element of each chunk
        self._small: list[int] = []  # how many equally small chunks end the list, by level

    def __len__(self) -> int:
        return self.next - self.first

    def append(
        self, payload: pa.RecordBatch, size: int, timestamp_us: int, sequence: int, now: float
    ) -> None:
        """Add a payload of `size` bytes; its elements share one timestamp."""
        rows = payload.num_rows
        if self.next == self.first:
            self.opened, self.sequence = now, sequence
            self.min_us = self.max_us = timestamp_us
        small = self._small
        self._starts.append(self.next)
        size += rows * _STAMP_BYTES
        self._chunks.append(_Chunk(payload, [(rows, timestamp_us)], size))
        self.next += rows
        self.bytes += size
        if timestamp_us > self.max_us:
            self.max_us = timestamp_us
        elif timestamp_us < self.min_us:
            self.min_us = timestamp_us
        if rows < _SMALL_ROWS // _GATHER:
            if not small:
                small.append(0)
            small[0] += 1
            if small[0] == _GATHER:
                self._gather()
        elif small:
            small.clear()

    def _gather(self) -> None:
        # `_small[level]` counts chunks made of `_GATHER ** level` small ones at the end of the list.
        level = 0
        while self._small[level] == _GATHER:
            some = self._chunks[-_GATHER:]
            merged = _Chunk(
                pa.concat_batches([chunk.payload for chunk in some]),
                list(chain.from_iterable(chunk.times for chunk in some)),
                sum(chunk.bytes for chunk in some),
            )
            del self._chunks[-_GATHER:], self._starts[-_GATHER + 1 :]
            self._chunks.append(merged)
            self._small[level] = 0
            if merged.payload.num_rows >= _SMALL_ROWS:
                self._small.clear()
                return
            level += 1
            if len(self._small) == level:
                self._small.append(0)
            self._small[level] += 1

    def slice(self, position: int, rows: int, max_bytes: int) -> pa.RecordBatch:
        """Up to `rows` elements from `position` on, cut where they pass `max_bytes`, at least one."""
        if not self.first <= position < self.next:
            check(False, f"{position} is not in {self.first}..{self.next}")
        index = bisect_right(self._starts, position) - 1
        start = self._starts[index]
        chunk = self._chunks[index]
        if rows == 1:  # what a worker takes that wants one task
            return chunk.batch(start).slice(position - start, 1)
        found = [chunk.batch(start).slice(position - start, rows)]
        have, size = found[0].num_rows, chunk.bytes
        # Counting the bytes of a part costs more than cutting it out: it is done where they may be too many.
        exact = 0
        for at in range(index + 1, len(self._chunks)):
            if have == rows:
                break
            if size * _AMPLE > max_bytes:
                exact = exact or sum(batch.nbytes for batch in found)
                if exact >= max_bytes:
                    break
            chunk = self._chunks[at]
            batch = chunk.batch(self._starts[at]).slice(0, rows - have)
            found.append(batch)
            have, size = have + batch.num_rows, size + chunk.bytes
            exact = exact and exact + batch.nbytes
        whole = found[0] if len(found) == 1 else pa.concat_batches(found)
        return whole if size * _AMPLE <= max_bytes else cut(whole, max_bytes)

    def time_of(self, position: int) -> int:
        """Timestamp of one element, found without making a batch of it."""
        index = bisect_right(self._starts, position) - 1
        return self._chunks[index].time_at(position - self._starts[index])

    def table(self) -> pa.Table:
        """All of it, without a copy. Called by the sealer's thread once the block is frozen."""
        chunks = zip(self._chunks, self._starts, strict=True)
        return pa.Table.from_batches([chunk.batch(start) for chunk, start in chunks])

    def at_time(self, timestamp_us: int) -> int | None:
        """Offset of the first element that is not before `timestamp_us`."""
        if not self._chunks or self.max_us < timestamp_us:
            return None
        for start, chunk in zip(self._starts, self._chunks, strict=True):
            for rows, time in chunk.times:
                if time >= timestamp_us:
                    return start
                start += rows
        return None

    def drop_before(self, offset: int) -> None:
        """Forget elements that turned out to be in the cold store already."""
        while self._chunks and self._starts[0] + self._chunks[0].payload.num_rows <= offset:
            del self._chunks[0], self._starts[0]
        self._small.clear()
        if not self._chunks:
            self.first, self.bytes = self.next, 0
        elif offset > self._starts[0]:
            self._cut_first(offset)
        self.first = self._starts[0] if self._starts else self.next
        self.bytes = sum(c.payload.nbytes + c.payload.num_rows * _STAMP_BYTES for c in self._chunks)

    def _cut_first(self, offset: int) -> None:
        chunk, skip = self._chunks[0], offset - self._starts[0]
        times: list[tuple[int, int]] = []
        for rows, time in chunk.times:
            kept = min(rows, max(0, rows - skip))
            skip -= rows - kept
            if kept:
                times.append((kept, time))
        self._chunks[0] = _Chunk(chunk.payload.slice(offset - self._starts[0]), times, chunk.bytes)
        self._starts[0] = offset


def fills(block: TailBlock, table: pa.Table, block_bytes: int) -> bool:
    """Whether a frozen block may be a final one. Single pushes count more in the journal than in a file: a block
    of them may be full there and much too small here, and is merged with the next ones."""
    return block.bytes >= block_bytes and is_enough(raw_bytes(table), block_bytes)


def cut(batch: pa.RecordBatch, max_bytes: int) -> pa.RecordBatch:
    """`batch`, shortened until it has at most `max_bytes` or one element."""
    while batch.num_rows > 1 and (size := payload_bytes(batch)) > max_bytes:
        batch = batch.slice(0, max(1, min(batch.num_rows - 1, int(batch.num_rows * max_bytes / size))))
    return batch


def first_at(times: pa.Array | pa.ChunkedArray, timestamp_us: int) -> int | None:
    """Index of the first time that is not before `timestamp_us`; times need not be in order."""
    index: int = pc.index(
        pc.greater_equal(times, lists.scalar(timestamp_us, TIMESTAMP)), lists.scalar(True, pa.bool_())
    ).as_py()
    return index if index >= 0 else None
