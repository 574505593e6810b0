"""Segments: names, preparation with zeros, and the one that is being written."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from coldstore.shared.chance import Chance
from coldstore.shared.errors import check
from hotstore.journal import layout
from hotstore.journal.disk import Disk, File, write_all
from hotstore.limits import PAGE_BYTES, ZERO_BYTES

LIVE: Final = "seg"  # has, or may get, batches
FREE: Final = "free"  # of full size, content worthless: the next life of the file starts here
NEW: Final = "tmp"  # not yet of full size
QUARANTINE: Final = "quarantine"
_ZEROS: Final = memoryview(bytes(ZERO_BYTES))
_NAME: Final = re.compile(r"([0-9]{20})\.(seg|free|tmp)")


def name_of(number: int, state: str) -> str:
    return f"{number:020d}.{state}"


def parse_name(name: str) -> tuple[int, str] | None:
    """Number and state, or None if the name is not one of a segment."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), match[2]) if match and int(match[1]) < 2**64 else None


@dataclass(slots=True)
class Segment:
    """What the journal remembers of a segment that has batches."""

    number: int
    first: int
    last: int
    used_bytes: int
    hold: bool = False  # has damage that could not be copied away: must not be recycled


def zeroed(disk: Disk, number: int, segment_bytes: int) -> str:
    """Make a free segment: written once with zeros, so that later writes allocate nothing."""
    new, free = name_of(number, NEW), name_of(number, FREE)
    try:
        file = disk.open(new, create=True)
        try:
            for position in range(0, segment_bytes, ZERO_BYTES):
                length = min(ZERO_BYTES, segment_bytes - position)
                write_all(file, position, [_ZEROS[:length]], length)
            file.sync()
        finally:
            file.close()
        disk.rename(new, free)  # not yet part of the log: `publish` makes a name durable
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(new)  # gives the space back now; otherwise the next start does
        raise
    return free


def new_header(
    chance: Chance,
    number: int,
    segment_bytes: int,
    synced_upto: int,
    replaces: int = layout.NO_SEGMENT,
    journal: int = 0,
) -> layout.SegmentHeader:
    """A header with a new identity."""
    return layout.SegmentHeader(number, new_identity(chance), segment_bytes, synced_upto, replaces, journal)


def new_identity(chance: Chance) -> int:
    """Random, and not 0, which stands for one that is not known."""
    return int(chance.token()[:16], 16) or 1


def begin(disk: Disk, free: str, header: layout.SegmentHeader) -> SegmentWriter:
    """Start a new life of a free segment; it is not part of the log before `publish`."""
    file = disk.open(free)
    try:
        write_all(file, 0, [layout.encode_segment(header)], 2 * PAGE_BYTES)
    except BaseException:
        file.close()
        raise
    return SegmentWriter(file, header, PAGE_BYTES, None)


def publish(disk: Disk, free: str, writer: SegmentWriter) -> None:
    """Make it part of the log: what was written is durable before the name, the name before any more."""
    writer.sync()
    disk.rename(free, name_of(writer.header.number, LIVE))
    disk.sync_directory()


class SegmentWriter:
    """The segment that is being written."""

    def __init__(
        self, file: File, header: layout.SegmentHeader, position: int, opened_at: int | None
    ) -> None:
        self.header = header
        self.position = position
        self.opened_at = opened_at  # sequence of the first batch, None if there is none
        self._file = file

    @property
    def room(self) -> int:
        return self.header.segment_bytes - self.position

    def write(self, body: layout.Body, sequence: int, synced_upto: int) -> None:
        """Write a batch and, where there is room, the zero page that ends the log."""
        room, span = self.header.segment_bytes - self.position, body.span
        check(span <= room, "the batch does not fit into the segment")
        opened_at = sequence if self.opened_at is None else self.opened_at
        length = span if span == room else span + PAGE_BYTES
        buffers = layout.encode_batch(
            body,
            self.header,
            self.position,
            length,
            sequence=sequence,
            synced_upto=synced_upto,
            opened_at=opened_at,
        )
        write_all(self._file, self.position, buffers, length)
        self.position += span
        self.opened_at = opened_at

    def sync(self) -> None:
        self._file.sync()

    def is_linked(self, disk: Disk) -> bool:
        """Whether the name of the segment still leads to the file that is written."""
        return disk.leads_to(name_of(self.header.number, LIVE), self._file)

    def dismiss(self) -> None:
        """The segment is full, and synced: it will only be read after a crash."""
        self._file.forget()
        self._file.close()

    def close(self) -> None:
        self._file.close()


def retire(disk: Disk, segments: Sequence[Segment]) -> list[str]:
    """Take segments out of the log, oldest first; returns the names of those that may be reused.

    Each name is durable before the next is touched: were several lost together in a power cut, a gap
    in the middle could remain, and a gap is corruption.
    """
    free: list[str] = []
    for segment in segments:
        live = name_of(segment.number, LIVE)
        if segment.hold:
            disk.rename(live, f"{QUARANTINE}/{live}")
            disk.sync_directory(QUARANTINE)
        else:
            free.append(name_of(segment.number, FREE))
            disk.rename(live, free[-1])
        disk.sync_directory()
    return free
