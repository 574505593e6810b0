"""Where the journal begins and how far it is known to be durable, kept beside its folder.

A journal alone cannot tell that its first or its last files are gone, nor that the folder is another one.
So a small file outside of the folder, and a document in the cold store (witness.py), say what must be there:

    <data>/journal.bounds    two slots, written in turns and in place, so that a full disk does not matter
    slot      magic "jjqe" · version u16 · flags u16 · turn u64 · journal u64 · begin u64 · synced u64 ·
              count u32 · count × segment number u64 · CRC32C u32; integers are little-endian

`begin` is the first sequence number that is not trimmed. The segments named are those that were given out
and not taken back: each is named after its own name is durable and before its first batch, and forgotten
before its name is. So a segment that is named and not there is lost, with what it held.
"""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from coldstore.shared.errors import Conflict
from hotstore.journal import layout
from hotstore.journal.disk import Disk, read_all, write_all
from hotstore.journal.port import Extent
from hotstore.limits import BOUNDS_SEGMENTS_MAX

NAME: Final = "journal.bounds"
_VERSION: Final = 1
_MAGIC: Final = b"jjqe"
_SLOT: Final = struct.Struct("<4sHHQQQQI")
_UNTOLD: Final = 1  # flag: a loss was found, and the journal does not yet say whose it is
_SLOT_BYTES: Final = layout.pages(_SLOT.size + 8 * BOUNDS_SEGMENTS_MAX + layout.CHECKSUM.size)


class JournalBounds:
    """The file, and what it says. Two threads change it: the journal's, and the one that prepares segments."""

    def __init__(self, disk: Disk | None) -> None:
        self._disk = disk  # None: nothing is kept, and nothing is promised
        self._lock = threading.Lock()
        self._turn = 0
        self._there = False
        self.extent = Extent(0, None, 0)

    def read(self) -> Extent | None:
        """What the last run wrote; None if it wrote nothing. Raises Conflict if it is of a newer version."""
        if self._disk is None or NAME not in self._disk.list():
            return None
        self._there = True
        file = self._disk.open(NAME)
        try:
            slots = [_decode(read_all(file, start, _SLOT_BYTES)) for start in (0, _SLOT_BYTES)]
        finally:
            file.close()
        sound = [slot for slot in slots if slot is not None]
        if not sound:
            return None
        self._turn, said = max(sound, key=lambda slot: slot[0])
        if len(sound) < len(slots):
            # The other slot may have been the newer one: what it said of segments must not raise a false alarm.
            return replace(said, begin=None, segments=frozenset())
        return said

    def begin(self, extent: Extent) -> None:
        """Write down what there is, before anything is taken out of the folder."""
        with self._lock:
            self.extent = extent
            self._save()

    def given(self, number: int) -> None:
        """A segment became part of the journal; nothing was written to it yet."""
        with self._lock:
            self._segments(self.extent.segments | {number})

    def taken(self, numbers: Iterable[int], begin: int | None = None) -> None:
        """Segments are about to leave the journal, which begins at `begin` then."""
        with self._lock:
            first = self.extent.begin if begin is None else begin
            self.extent = replace(self.extent, begin=first)
            self._segments(self.extent.segments.difference(numbers))

    def note(self, synced: int, *, loss_stored: bool) -> None:
        """All before `synced` is durable; `loss_stored`: the journal says by now which queues lost something."""
        with self._lock:
            noted = replace(self.extent, synced=synced, untold=self.extent.untold and not loss_stored)
            if noted != self.extent:
                self.extent = noted
                self._save()

    def _segments(self, numbers: frozenset[int]) -> None:
        self.extent = replace(self.extent, segments=numbers)
        self._save()

    def _save(self) -> None:
        if self._disk is None:
            return
        data = _encode(self.extent, self._turn + 1)
        if self._there:  # if it is gone, so is more: the next open raises it
            file = self._disk.open(NAME)
            try:
                write_all(file, (self._turn + 1) % 2 * _SLOT_BYTES, [data], len(data))
                file.sync()
            finally:
                file.close()
        elif not self._create(data):
            return
        self._turn += 1

    def _create(self, data: bytes) -> bool:
        """Both slots say the same. On a full disk the journal goes on without the file, as it did before."""
        disk, new = self._disk, f"{NAME}.tmp"
        if disk is None:
            return False
        with suppress(FileNotFoundError):
            disk.remove(new)
        try:
            file = disk.open(new, create=True)
            try:
                write_all(file, 0, [data, data], 2 * len(data))
                file.sync()
            finally:
                file.close()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            with suppress(OSError):
                disk.remove(new)
            return False
        disk.rename(new, NAME)
        disk.sync_directory()
        self._there = True
        return True


def _encode(extent: Extent, turn: int) -> bytes:
    numbers = sorted(extent.segments)[-BOUNDS_SEGMENTS_MAX:]
    flags = _UNTOLD if extent.untold else 0
    begin = extent.begin or 0
    head = _SLOT.pack(
        _MAGIC, _VERSION, flags, turn, extent.journal, begin, extent.synced, len(numbers)
    ) + struct.pack(f"<{len(numbers)}Q", *numbers)
    return (head + layout.CHECKSUM.pack(layout.checksum(0, head))).ljust(_SLOT_BYTES, b"\0")


def _decode(data: bytes) -> tuple[int, Extent] | None:
    """Turn and content of a slot, None if it is damaged."""
    if len(data) < _SLOT_BYTES:
        return None
    magic, version, flags, turn, journal, begin, synced, count = _SLOT.unpack_from(data)
    end = _SLOT.size + 8 * count
    if magic != _MAGIC or end > len(data) - layout.CHECKSUM.size:
        return None
    if layout.CHECKSUM.unpack_from(data, end)[0] != layout.checksum(0, data[:end]):
        return None
    if version > _VERSION:
        raise Conflict(
            f"{NAME} has format {version}, this jjq reads up to {_VERSION}: start a newer jjq; nothing was changed"
        )
    numbers = struct.unpack_from(f"<{count}Q", data, _SLOT.size)
    return turn, Extent(journal, begin, synced, frozenset(numbers), untold=bool(flags & _UNTOLD))
