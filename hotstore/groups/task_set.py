"""A set of task ids that grows behind a floor: one byte for each task in chunks, whole chunks for nothing.

A group takes tasks out of order where priorities, keys or single deletes ask for it. Then tasks above the floor were
touched, and those between them were not. The set knows the touched ones. Chunks that are full share one constant, so
that a task which stays at the floor for months costs a few bytes for each thousand tasks behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

CHUNK: Final = 4_096
_SHIFT: Final = 12
_MASK: Final = CHUNK - 1
_FULL: Final = b"\x01" * CHUNK


class TaskSet:
    """Ids of tasks. All of its verbs cost as much as the chunks that they touch."""

    __slots__ = ("_chunks", "_counts", "count")

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray | bytes] = {}
        self._counts: dict[int, int] = {}
        self.count = 0

    def copy(self) -> TaskSet:
        other = TaskSet()
        other._chunks = {
            at: chunk if isinstance(chunk, bytes) else bytearray(chunk) for at, chunk in self._chunks.items()
        }
        other._counts, other.count = dict(self._counts), self.count
        return other

    def __contains__(self, task: int) -> bool:
        chunk = self._chunks.get(task >> _SHIFT)
        return chunk is not None and chunk[task & _MASK] == 1

    def __len__(self) -> int:
        return self.count

    def add(self, task: int) -> None:
        """As `add_run`, by a shorter way: sub-queues touch single tasks."""
        at, place = task >> _SHIFT, task & _MASK
        chunk = self._chunks.get(at)
        if chunk is None:
            chunk = self._chunks[at] = bytearray(CHUNK)
            self._counts[at] = 0
        if isinstance(chunk, bytearray) and not chunk[place]:
            chunk[place] = 1
            self.count += 1
            self._counts[at] += 1
            if self._counts[at] == CHUNK:
                self._chunks[at] = _FULL

    def add_run(self, first: int, count: int) -> None:
        """Add the tasks from `first` on, whether they are there or not."""
        if count == 1:
            self.add(first)
            return
        for at, start, end in _parts(first, count):
            chunk = self._chunks.get(at)
            if chunk is None:
                chunk = self._chunks[at] = bytearray(CHUNK)
            elif isinstance(chunk, bytes):
                continue
            fresh = chunk.count(0, start, end)
            chunk[start:end] = _FULL[start:end]
            self.count += fresh
            counted = self._counts[at] = self._counts.get(at, 0) + fresh
            if counted == CHUNK:
                self._chunks[at] = _FULL

    def discard(self, task: int) -> None:
        self.discard_run(task, 1)

    def discard_run(self, first: int, count: int) -> None:
        """Remove the tasks from `first` on, whether they are there or not."""
        for at, start, end in _parts(first, count):
            chunk = self._chunks.get(at)
            if chunk is None:
                continue
            gone = chunk.count(1, start, end)
            self.count -= gone
            self._counts[at] -= gone
            if not self._counts[at]:
                del self._chunks[at], self._counts[at]
                continue
            if isinstance(chunk, bytes):
                chunk = self._chunks[at] = bytearray(chunk)
            chunk[start:end] = bytes(end - start)

    def has_none(self, first: int, count: int) -> bool:
        """Whether none of these tasks is in the set."""
        if not self.count:
            return True
        if count == 1:
            return first not in self
        return all(
            at not in self._chunks or self._chunks[at].find(1, start, end) < 0
            for at, start, end in _parts(first, count)
        )

    def first_missing(self, task: int) -> int:
        """The first task from `task` on that is not in the set."""
        while True:
            chunk = self._chunks.get(task >> _SHIFT)
            if chunk is None:
                return task
            found = chunk.find(0, task & _MASK)
            if found >= 0:
                return task - (task & _MASK) + found
            task += CHUNK - (task & _MASK)

    def runs(self) -> Iterator[tuple[int, int]]:
        """The ids as runs (first, count), in order."""
        open_first, open_end = 0, -1
        for at in sorted(self._chunks):
            chunk, base, start = self._chunks[at], at << _SHIFT, 0
            while (start := chunk.find(1, start)) >= 0:
                end = chunk.find(0, start)
                end = CHUNK if end < 0 else end
                if base + start == open_end:
                    open_end = base + end
                else:
                    if open_end >= 0:
                        yield open_first, open_end - open_first
                    open_first, open_end = base + start, base + end
                start = end
        if open_end >= 0:
            yield open_first, open_end - open_first


def _parts(first: int, count: int) -> Iterator[tuple[int, int, int]]:
    """A run as (chunk, start in it, end in it)."""
    end = first + count
    while first < end:
        start = first & _MASK
        stop = min(CHUNK, start + end - first)
        yield first >> _SHIFT, start, stop
        first += stop - start
