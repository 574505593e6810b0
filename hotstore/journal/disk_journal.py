"""The journal on a local disk.

The layout is in `frame`, recovery in `walk` and `recovery`, the files kept ready in `spares`. One
thread at a time drives it; only the preparation of segments runs in the background.

    append   lay out, roll if the segment is full, one pwritev
    sync     one fdatasync
    roll     sync, then go on in the spare, which is durable already, name and header: no further wait
    trim     rename whole segments into the pool, oldest first, each name durable before the next
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from coldstore.shared import failpoint
from coldstore.shared.chance import Chance
from coldstore.shared.errors import InvalidInput, check
from hotstore.journal import layout
from hotstore.journal.bounds import JournalBounds
from hotstore.journal.disk import Disk
from hotstore.journal.port import Damage, Extent, JournalBatch, Poisoned, Record
from hotstore.journal.recovery import Recovery, write_mark
from hotstore.journal.segment import LIVE, Segment, SegmentWriter, name_of, retire
from hotstore.journal.spares import Background, Spares, Thread, room_needed
from hotstore.limits import PAGE_BYTES, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN


class DiskJournal:
    """A `Journal` over the root of `disk`, which it owns; see `hotstore.journal.directory_lock` for keeping others out.

    `kinds` are the record kinds that the caller knows; others make `recover` refuse. `background`
    belongs to the journal, which shuts it down. `beside` is a directory outside of the journal's own, where it
    keeps its bounds; `elsewhere` tells what is known of this journal in a further place; `checkpoints` which journals
    have checkpoints here, and up to which sequence.
    """

    in_flight: Final = 1  # a second write would only wait for the first one's fdatasync

    def __init__(
        self,
        disk: Disk,
        chance: Chance,
        *,
        segment_bytes: int = SEGMENT_BYTES_DEFAULT,
        kinds: Container[int] | None = None,
        background: Background | None = None,
        beside: Disk | None = None,
        elsewhere: Callable[[], Extent | None] = lambda: None,
        checkpoints: Callable[[], Mapping[int, int]] = dict,
    ) -> None:
        if not SEGMENT_BYTES_MIN <= segment_bytes <= SEGMENT_BYTES_MAX or segment_bytes % PAGE_BYTES:
            raise InvalidInput(
                f"segment_bytes must be a multiple of {PAGE_BYTES} from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
            )
        self.next_sequence = 0
        self.used_bytes = 0
        self.damage: list[Damage] = []
        self._disk = disk
        self._kinds = kinds
        self._segment_bytes = segment_bytes
        self._chance = chance
        self._elsewhere = elsewhere
        self._checkpoints = checkpoints
        self._bounds = JournalBounds(beside)
        self._spares = Spares(disk, chance, segment_bytes, background or Thread(), self._bounds)
        self._segments: list[Segment] = []  # that have batches, oldest first
        self._active: SegmentWriter | None = None  # None before recovery and after close
        self._synced_upto = 0
        self._identity = 0
        self._poison: OSError | None = None

    @property
    def identity(self) -> int:
        return self._identity

    def recover(self) -> Iterator[JournalBatch]:
        """Yield every live batch in order; the journal may be written once this has ended."""
        check(self._active is None, "a journal is recovered once")
        with self._poisoning("recovery"):
            self._disk.make_directory()
            recovery = Recovery(
                self._disk, self._spares, self._bounds, self._elsewhere(), self._checkpoints(), self._chance,
                self._kinds,
            )  # fmt: skip
            self._identity = recovery.journal
            self.damage = recovery.walk.damage
            yield from recovery.batches()
            self._segments, self._active = recovery.finish()
        self.next_sequence = self._synced_upto = recovery.walk.next_sequence
        self.used_bytes = sum(segment.used_bytes for segment in self._segments)
        self._spares.prepare(self._synced_upto)
        if self._active.room < self._active.header.segment_bytes // 2:
            self._spares.reserve()

    def append(self, records: Sequence[Record]) -> int:
        """Write one batch, atomically; durable after `sync`."""
        active = self._writable()
        body = layout.lay_out(records, self._segment_bytes - PAGE_BYTES)
        if body.span > active.room:
            active = self._roll(active)
        sequence = self.next_sequence
        try:
            active.write(body, sequence, self._synced_upto)
        except OSError as error:
            raise self._poisoned("write", error) from error
        self._count(active, sequence, body.span)
        failpoint.reach("journal.written")
        return sequence

    def sync(self) -> None:
        """Return when everything appended is durable."""
        active = self._writable()
        if self._synced_upto == self.next_sequence:
            return
        try:
            active.sync()
        except OSError as error:
            raise self._poisoned("fdatasync", error) from error
        self._synced_upto = self.next_sequence
        failpoint.reach("journal.synced")

    def trim(self, before: int) -> None:
        """Free the segments that have only batches below `before`.

        A synced batch always stays, because the sequence of the next one follows from it.
        """
        self._writable()
        count = len(self._segments)
        while self._may_free(before):
            with self._poisoning("trim"), room_needed():
                self._bounds.taken([self._segments[0].number], self._segments[1].first)
                free = retire(self._disk, self._segments[:1])
                self.used_bytes -= self._segments.pop(0).used_bytes
                self._spares.put_back(free)
        if len(self._segments) == count:
            return
        failpoint.reach("journal.trimmed")

    def chapter(self, coming: int) -> int | None:
        """The number of the segment that is written, None if the next batch may begin another."""
        active = self._active
        return active.header.number if active and layout.pages(coming) <= active.room else None

    def note(self, *, durable: bool) -> Extent:
        """Look whether the files are the ones in the folder; with `durable`, write down how far they go."""
        active = self._writable()
        self._check_place(active)
        if durable:
            names = set(self._disk.list())
            for segment in self._segments:
                if name_of(segment.number, LIVE) not in names:
                    raise self._displaced(segment.number)
            with self._poisoning("writing its bounds"):
                self._bounds.note(self._synced_upto, loss_stored=True)
        return replace(self._bounds.extent, synced=self._synced_upto)

    def close(self, clean: bool = True) -> None:
        """Sync and mark the journal clean, unless it is poisoned; free what it holds. May be repeated."""
        active, self._active = self._active, None
        try:
            if active and clean and not self._poison:
                with self._poisoning("close"):
                    active.sync()
                with suppress(OSError):  # on a full disk there is no mark, and the next start copies
                    self._bounds.note(self.next_sequence, loss_stored=False)
                    write_mark(self._disk, self.next_sequence)
        finally:
            if active:
                active.close()
            self._spares.close()

    def _may_free(self, before: int) -> bool:
        """Whether the oldest segment is not needed, and the one after it has a synced batch."""
        match self._segments:
            case [oldest, second, *_]:
                return oldest.last < before and second.first < self._synced_upto
        return False

    def _writable(self) -> SegmentWriter:
        if self._poison:
            raise Poisoned(
                f"the journal failed earlier ({self._poison}): restart the process"
            ) from self._poison
        if self._active is None:
            raise AssertionError("a journal is recovered before it is used, and not used after close")
        return self._active

    def _roll(self, active: SegmentWriter) -> SegmentWriter:
        """Go on in the next segment. The old one is synced first: only the last may have a torn tail."""
        self.sync()
        self._check_place(active)
        with self._poisoning("preparing a segment"):
            writer = self._spares.take(self._synced_upto)
        self._check_place(writer)
        self._active = writer
        self._spares.dismiss(active)
        failpoint.reach("journal.rolled")
        return writer

    def _check_place(self, writer: SegmentWriter) -> None:
        """Check that our files are still those in the folder: writes to deleted or replaced files would be lost."""
        with self._poisoning("looking for its files"):
            there = writer.is_linked(self._disk)
        if not there:
            raise self._displaced(writer.header.number)

    def _displaced(self, number: int) -> Poisoned:
        gone = OSError(
            errno.ENOENT, "is not in the folder any more: was the data directory deleted or replaced?"
        )
        gone.filename = name_of(number, LIVE)
        return self._poisoned("looking for its files", gone)

    def _count(self, active: SegmentWriter, sequence: int, span: int) -> None:
        header = active.header
        if not self._segments or self._segments[-1].number != header.number:
            self._segments.append(Segment(header.number, sequence, sequence, 0))
        segment = self._segments[-1]
        segment.last = sequence
        segment.used_bytes += span
        self.used_bytes += span
        self.next_sequence = sequence + 1
        # Not at once after a roll: that append waits for the disk already. Once: asking costs microseconds.
        whole, room = header.segment_bytes - PAGE_BYTES, header.segment_bytes - active.position
        if room < whole * 7 // 8 <= room + span:
            self._spares.prepare(self._synced_upto)
        if room < whole // 2 <= room + span:
            self._spares.reserve()

    @contextmanager
    def _poisoning(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._poisoned(doing, error) from error

    def _poisoned(self, doing: str, error: OSError) -> Poisoned:
        """Any error of the disk leaves the state unknown: say so now and in every later call."""
        self._poison = error
        return Poisoned(
            f"the journal failed ({doing}: {error}), so what is durable is unknown: restart the process"
        )
