"""Reading one segment: every sound batch in it, whatever lies between them.

Memory is bounded by the read window; nothing that is read is believed before its checksum is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hotstore.journal import layout
from hotstore.journal.disk import Disk, File, read_all
from hotstore.journal.segment import LIVE, name_of
from hotstore.limits import (
    JOURNAL_BATCH_BYTES_MAX,
    PAGE_BYTES,
    SCAN_BYTES,
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
)

# Stands for bytes that cannot be read. Not zero, because a zero page says that the log ends there.
_UNREADABLE = b"\xff"


class FoundBatch(NamedTuple):
    """A batch whose header is sound; `body` is None if the rest of it is not."""

    header: layout.BatchHeader
    position: int
    body: memoryview | None

    @property
    def end(self) -> int:
        return self.position + self.header.span


class SegmentScan:
    """A segment to be read; open only while it is. Raises Conflict if it is of a newer version."""

    def __init__(self, disk: Disk, number: int) -> None:
        self.number = number
        self.name = name_of(number, LIVE)
        self._disk = disk
        self._file: File | None = None
        self._base = 0
        self._window = b""
        self.header = layout.decode_segment(self.read(0, PAGE_BYTES), number)
        self._identity = self.header.identity if self.header else None
        # A file that was cut short reads as unreadable up to the length that it should have, or must have.
        whole = min(self._opened().size(), SEGMENT_BYTES_MAX) // PAGE_BYTES * PAGE_BYTES
        self.bytes = self.header.segment_bytes if self.header else max(whole, SEGMENT_BYTES_MIN)
        self.begun = self.ends_dirty(PAGE_BYTES)
        self.release()

    def batches(self, position: int = PAGE_BYTES) -> Iterator[FoundBatch]:
        """Every batch from `position` on. After a bad one, goes on at the next page that starts a batch."""
        while position < self.bytes:
            at = self._look(position, PAGE_BYTES)
            if self._window[at : at + 4] != layout.BATCH_MAGIC or not (found := self._batch(position, at)):
                position += PAGE_BYTES
                continue
            yield found
            position = found.end

    def ends_dirty(self, position: int) -> bool:
        """Whether the page at `position`, where the log should end, is not the zero page that says so."""
        return position < self.bytes and self.read(position, PAGE_BYTES) != layout.ZEROS[:PAGE_BYTES]

    def debris(self, position: int) -> int:
        """Where the remains of batches that start at `position` end at the latest."""
        known = max(
            (found.end for found in self.batches(position)), default=position + JOURNAL_BATCH_BYTES_MAX
        )
        return min(known, self.bytes)

    def read(self, position: int, length: int) -> bytes:
        """Exactly `length` bytes. What the disk cannot give is replaced, page by page."""
        try:
            data = read_all(self._opened(), position, length)
        except OSError:
            if length <= PAGE_BYTES:
                return _UNREADABLE * length
            starts = range(position, position + length, PAGE_BYTES)
            return b"".join(self.read(start, min(PAGE_BYTES, position + length - start)) for start in starts)
        return data if len(data) == length else data.ljust(length, _UNREADABLE)

    def release(self) -> None:
        """Give file and window back until the next read: a journal may have thousands of segments."""
        if self._file:
            self._file.close()
        self._file, self._window = None, b""

    def _opened(self) -> File:
        self._file = self._file or self._disk.open(self.name)
        return self._file

    def _batch(self, position: int, at: int) -> FoundBatch | None:
        header = layout.decode_batch(self._window, at, self.number, position, self._identity)
        if header is None:
            return None
        self._identity = header.identity
        start = self._look(position, layout.HEADER_BYTES + header.body_bytes) + layout.HEADER_BYTES
        body = memoryview(self._window)[start : start + header.body_bytes]
        sound = layout.body_is_sound(header, body, self.number, position)
        return FoundBatch(header, position, body if sound else None)

    def _look(self, position: int, length: int) -> int:
        """See to it that the window has these bytes; returns where in the window they start.

        A new window is a new object: views of the old one, handed out with batches, stay as they were.
        """
        if not self._base <= position <= position + length <= self._base + len(self._window):
            wanted = min(max(length, SCAN_BYTES), self.bytes - position)
            self._window, self._base = self.read(position, wanted), position
        return position - self._base
