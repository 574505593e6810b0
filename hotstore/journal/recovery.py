"""From whatever a stop left behind to a journal that may be written: the part of it that changes the disk.

`JournalWalk` has read everything before the first change is made. After an unclean stop the last segment may
hold bytes that are in the page cache only, marked clean by a failed fsync; so what was read from it is
copied into a fresh segment and synced, and only then served from. The old segment is retired after the
new one, which names it as replaced, is durable; a crash in between leaves both, and the next recovery
knows which one counts. Every step may be repeated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from coldstore.shared import failpoint
from coldstore.shared.chance import Chance
from coldstore.shared.errors import Conflict, DataLoss
from hotstore.journal import layout
from hotstore.journal.bounds import JournalBounds
from hotstore.journal.disk import Disk, read_all, write_all
from hotstore.journal.port import Extent, JournalBatch, JournalPlace
from hotstore.journal.reader import JournalWalk
from hotstore.journal.scan import FoundBatch, SegmentScan
from hotstore.journal.segment import (
    FREE,
    LIVE,
    NEW,
    QUARANTINE,
    Segment,
    SegmentWriter,
    new_identity,
    parse_name,
    publish,
    retire,
)
from hotstore.journal.spares import Spares, room_needed
from hotstore.limits import PAGE_BYTES, SCAN_BYTES

CLEAN: Final = "clean"
_MARK: Final = struct.Struct(
    "<4s"  # magic "jjqc"
    "H"  # format version
    "H"  # length, checksum included
    "Q"  # next sequence: everything below it was synced
)
_MARK_MAGIC: Final = b"jjqc"


class Recovery:
    """One recovery. `batches` first, to its end; then `finish`."""

    def __init__(
        self,
        disk: Disk,
        spares: Spares,
        bounds: JournalBounds,
        elsewhere: Extent | None,
        checkpoints: Mapping[int, int],
        chance: Chance,
        kinds: Container[int] | None,
    ) -> None:
        self._disk = disk
        self._spares = spares
        self._bounds = bounds
        self._files = [(name, *parsed) for name in disk.list() if (parsed := parse_name(name))]
        scans = [SegmentScan(disk, number) for _, number, state in self._files if state == LIVE]
        replaced = {scan.header.replaces for scan in scans if scan.header}
        self._dead = [scan for scan in scans if scan.number in replaced]
        self._scans = [scan for scan in scans if scan.number not in replaced]
        self._mark = read_mark(disk)
        beside = bounds.read()
        self.journal = _identity(scans, beside, elsewhere, checkpoints) or new_identity(chance)
        if (
            elsewhere and elsewhere.closed and not scans and not checkpoints
            and (not beside or beside.synced <= elsewhere.synced)
        ):  # fmt: skip
            beside = elsewhere = (
                None  # all of it is gone, and it is known exactly what that was: see Engine.start
            )
            self.journal = new_identity(chance)
        far = elsewhere.synced if elsewhere else 0
        known = beside or Extent(self.journal, None, 0)
        # The batch in which a checkpoint begins is synced before the checkpoint is written.
        begun = checkpoints[self.journal] + 1 if self.journal in checkpoints else 0
        self._known = dataclasses.replace(
            known,
            synced=max(known.synced, far, self._mark or 0, begun),
            segments=known.segments.difference(replaced),
        )
        self.walk = JournalWalk(self._scans, self._known, kinds)

    def batches(self) -> Iterator[JournalBatch]:
        yield from self.walk.batches()
        failpoint.reach("recovery.scanned")

    def finish(self) -> tuple[list[Segment], SegmentWriter]:
        """Leave the journal ready; returns the segments that have batches and the one to write."""
        # What is said beside the journal names nothing that is taken out of it from here on.
        self._bounds.begin(self._extent((scan.number for scan in self._scans), self._known.synced))
        self._sweep()
        held = self._quarantine()
        # Before anything replaces their replacement: a segment that nobody replaces is alive.
        self._retire(self._dead, held)
        last, tail = self.walk.last, self.walk.tail
        if last and (not self.walk.segments or self.walk.segments[-1].number != last.number):
            tail = []
        segments = {segment.number: segment for segment in self.walk.segments}
        idle = [scan for scan in self._scans if scan.number not in segments and scan is not last]
        if last and last.header and tail and self._is_clean():
            writer = SegmentWriter(
                self._disk.open(last.name), last.header, tail[-1].end, tail[0].header.opened_at
            )
        else:
            writer = self._copy(last, tail, idle, held)
            if last:
                idle.append(last)
                copied = segments.pop(last.number, None)
                if copied:
                    segments[writer.header.number] = dataclasses.replace(copied, number=writer.header.number)
        self._bounds.begin(self._extent({*segments, writer.header.number}, self.walk.next_sequence))
        self._retire(idle, held)
        self._remove_mark()
        failpoint.reach("recovery.switched")
        for number in held & segments.keys():
            segments[number].hold = True
        return list(segments.values()), writer

    def _extent(self, numbers: Iterable[int], synced: int) -> Extent:
        """What to say of the journal; losses that were found are not in its own records yet."""
        walk = self.walk
        begin = walk.segments[0].first if walk.segments else walk.next_sequence
        lost = any(damage.kind == "corrupt" for damage in walk.damage)
        return Extent(self.journal, begin, synced, frozenset(numbers), untold=lost)

    def _sweep(self) -> None:
        """Forget segments that were never finished, and find those to reuse."""
        # The names that we see may be in memory only, if the last process was killed before it synced
        # them. To write into a file that a power cut gives its old name back would destroy the log.
        self._disk.sync_directory()
        for name, _, state in self._files:
            if state == NEW:
                self._disk.remove(name)
        numbers = [number for _, number, _ in self._files]
        numbers += self._known.segments  # also of those that are lost: they may come back
        self._spares.start(max(numbers, default=0), [name for name, _, state in self._files if state == FREE])

    def _is_clean(self) -> bool:
        """Whether the log ends exactly where a clean close left it."""
        return self._mark == self.walk.next_sequence and self.walk.ends_well

    def _copy(
        self, last: SegmentScan | None, tail: list[FoundBatch], idle: list[SegmentScan], held: set[int]
    ) -> SegmentWriter:
        """Write the batches of `last` into a fresh segment that replaces it."""
        replaces = last.number if last else layout.NO_SEGMENT
        span = sum(found.header.span for found in tail)
        try:
            free, writer = self._spares.begin(self.walk.next_sequence, replaces, span)
        except OSError:
            # The disk is full: the spare that the last process kept ready is for just this.
            self._bounds.taken(scan.number for scan in idle)
            self._retire(idle, held)
            idle.clear()
            with room_needed():
                free, writer = self._spares.begin(self.walk.next_sequence, replaces, span)
        if last and tail:
            writer.opened_at = tail[0].header.opened_at
            for found in tail:
                writer.write(_read_again(last, found), found.header.sequence, found.header.synced_upto)
            last.release()
        writer.sync()
        failpoint.reach("recovery.copied")
        publish(self._disk, free, writer)
        return writer

    def _retire(self, scans: list[SegmentScan], held: set[int]) -> None:
        numbers = sorted(scan.number for scan in scans)
        retired = [Segment(number, 0, 0, 0, hold=number in held) for number in numbers]
        self._spares.put_back(retire(self._disk, retired))

    def _quarantine(self) -> set[int]:
        """Copy what is damaged; returns the segments of which this was not possible on a full disk."""
        held: set[int] = set()
        scans = {scan.name: scan for scan in self._scans}
        for damage in self.walk.damage:
            for place in damage.places:
                self._disk.make_directory(QUARANTINE)
                name = f"{QUARANTINE}/{place.file}-{place.start}-{place.end}.{damage.kind}"
                try:
                    self._keep_aside(scans[place.file], place, name)
                except OSError:
                    held.add(scans[place.file].number)
                    with contextlib.suppress(OSError):
                        self._disk.remove(f"{name}.{NEW}")
        return held

    def _keep_aside(self, scan: SegmentScan, place: JournalPlace, name: str) -> None:
        if name.removeprefix(f"{QUARANTINE}/") in self._disk.list(QUARANTINE):
            return  # by an earlier recovery: the same damage is met again until it is trimmed
        new = f"{name}.{NEW}"
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(new)
        file = self._disk.open(new, create=True)
        try:
            for start in range(place.start, place.end, SCAN_BYTES):
                length = min(SCAN_BYTES, place.end - start)
                write_all(file, start - place.start, [scan.read(start, length)], length)
            file.sync()
        finally:
            file.close()
            scan.release()
        self._disk.rename(new, name)
        self._disk.sync_directory(QUARANTINE)

    def _remove_mark(self) -> None:
        if CLEAN in self._disk.list():
            self._disk.remove(CLEAN)
            self._disk.sync_directory()


def _identity(
    scans: Sequence[SegmentScan],
    beside: Extent | None,
    elsewhere: Extent | None,
    checkpoints: Mapping[int, int],
) -> int:
    """Whose journal this is, 0 if nothing tells. Raises Conflict if not all that tells says the same."""
    named = {scan.name: scan.header.journal for scan in scans if scan.header and scan.header.journal}
    known = beside.journal if beside else 0
    own = known or next(iter(named.values()), 0)
    if not own and not scans and len(checkpoints) == 1:
        own = next(iter(checkpoints))  # all files of the journal are gone, and what it had reached is known
    foreign = sorted(name for name, journal in named.items() if journal != own)
    if foreign:
        raise Conflict(
            f"the journal's folder has files of another data directory's journal ({', '.join(foreign[:3])}): put its "
            f"own files back; if they are lost, move the others away and start again, which says what is missing. "
            f"Nothing was changed"
        )
    if elsewhere and own and elsewhere.journal != own:
        raise Conflict(
            f"this data directory has journal {own:016x}, but the cold store says that this node writes "
            f"{elsewhere.journal:016x}: start it with its own data directory; if that is lost, with an empty one, "
            f"which says what is missing. Nothing was changed"
        )
    return own or (elsewhere.journal if elsewhere and scans else 0)


def _read_again(last: SegmentScan, found: FoundBatch) -> layout.Body:
    again = next(last.batches(found.position), None)
    if again is None or again.body is None or again.header != found.header:
        raise DataLoss(f"{last.name} at {found.position} reads differently each time; nothing was changed")
    return layout.Body([again.body], found.header.records, found.header.body_bytes, found.header.span)


def write_mark(disk: Disk, next_sequence: int) -> None:
    """Say, durably, that everything below `next_sequence` is synced and nothing was written after it."""
    fields = _MARK.pack(_MARK_MAGIC, layout.VERSION, _MARK.size + layout.CHECKSUM.size, next_sequence)
    new = f"{CLEAN}.{NEW}"
    with contextlib.suppress(FileNotFoundError):
        disk.remove(new)
    file = disk.open(new, create=True)
    try:
        data = fields + layout.CHECKSUM.pack(layout.checksum(0, fields))
        write_all(file, 0, [data], len(data))
        file.sync()
    finally:
        file.close()
    disk.rename(new, CLEAN)
    disk.sync_directory()


def read_mark(disk: Disk) -> int | None:
    """What `write_mark` wrote, None if there is no mark or it is damaged. Raises Conflict if it is newer."""
    if CLEAN not in disk.list():
        return None
    file = disk.open(CLEAN)
    try:
        data = read_all(file, 0, PAGE_BYTES)
    except OSError:
        return None
    finally:
        file.close()
    end = len(data) - layout.CHECKSUM.size
    if end < _MARK.size or layout.CHECKSUM.unpack_from(data, end)[0] != layout.checksum(0, data[:end]):
        return None
    magic, version, _, next_sequence = _MARK.unpack_from(data)
    if magic == _MARK_MAGIC and version > layout.VERSION:
        raise Conflict(
            f"the journal has format {version}, this jjq reads up to {layout.VERSION}; nothing was changed"
        )
    return int(next_sequence) if magic == _MARK_MAGIC else None
