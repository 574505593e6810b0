"""Reading the whole journal: deliver every sound batch in order, and judge what is missing. Changes nothing.

Torn tail or corruption? What was synced must be there; what was not may be cut. A batch was certainly
synced if

- a header of a later batch, of any segment, or the mark of a clean close says so (`synced_upto`), or
- a later segment has been begun, because a segment is synced before the next one is written, or
- what is kept beside the journal says so (bounds.py): where it begins, how far it went, which files it had.

A missing batch that was certainly synced is corruption: reported, and the batches after it are still
delivered. Anything else that is not sound lies at the end of the log and is a torn tail. With one
batch in flight, a sound later batch always covers the one before it.

The last batch alone stays ambiguous, as in any log: damaged after it was synced, it looks like one
that never was. It is reported as torn and its bytes are kept.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Literal, NamedTuple

from hotstore.journal import layout
from hotstore.journal.port import Damage, Extent, JournalBatch, JournalPlace
from hotstore.journal.scan import FoundBatch, SegmentScan
from hotstore.journal.segment import Segment
from hotstore.limits import PAGE_BYTES


class _Spot(NamedTuple):
    """A position in the journal as a whole: which segment of the walk, and where in it."""

    scan: int  # index of the segment
    position: int


class JournalWalk:
    """One pass over the segments, oldest first. The results are complete when `batches` has ended."""

    def __init__(self, scans: Sequence[SegmentScan], known: Extent, kinds: Container[int] | None) -> None:
        self._known = known  # what must be there
        self.damage: list[Damage] = []
        self.segments: list[Segment] = []  # those that have batches
        self.tail: list[FoundBatch] = []  # batches of the last segment that has any, without their bodies
        self.ends_well = True  # nothing follows the last batch, and nothing should
        self._kinds = kinds
        self._scans = scans
        self._last_begun = max((scan.number for scan in scans if scan.begun), default=layout.NO_SEGMENT)
        self._expected: int | None = None  # None: whatever comes first
        self._end = _Spot(0, PAGE_BYTES)  # up to here all is well, or judged
        self._synced_upto = max([known.synced, *(scan.header.synced_upto for scan in scans if scan.header)])

    @property
    def next_sequence(self) -> int:
        """What follows everything delivered, and everything that was synced and is lost."""
        return max(self._expected or 0, self._synced_upto)

    @property
    def missing(self) -> frozenset[int]:
        """Segments that were part of the journal and are not there."""
        return self._known.segments.difference(scan.number for scan in self._scans)

    @property
    def last(self) -> SegmentScan | None:
        """The segment that was being written; later ones are spares."""
        numbers = {segment.number for segment in self.segments}
        used = [scan for scan in self._scans if scan.begun or scan.number in numbers]
        return used[-1] if used else None

    def batches(self) -> Iterator[JournalBatch]:
        try:
            for index, scan in enumerate(self._scans):
                for found in scan.batches():
                    self._synced_upto = max(self._synced_upto, found.header.synced_upto)
                    if found.body is not None and self._is_next(index, found):
                        self._keep(index, found)
                        records = layout.decode_records(found.body, found.header.records, self._kinds)
                        yield JournalBatch(found.header.sequence, records)
                    elif not self.ends_well:
                        return
                scan.release()
            self._judge_end()
        finally:
            for scan in self._scans:
                scan.release()

    def _is_next(self, index: int, found: FoundBatch) -> bool:
        """Whether to deliver a sound batch; judges the gap before it, if there is one."""
        if self._expected is None:
            # Each batch tells where its segment began, so that the loss of the very first ones shows.
            self._expected = found.header.opened_at
            begin = self._known.begin
            lost = begin is not None and begin < self._expected
            if lost or any(scan.begun for scan in self._scans[:index]):
                first = begin if lost else None
                self._report("corrupt", first, self._expected - 1, _Spot(index, PAGE_BYTES))
            self._end = _Spot(index, PAGE_BYTES)
        if found.header.sequence < self._expected:
            # Delivered before: the copy of a segment that has not been retired, and cannot say so.
            self._end = _Spot(index, found.end)
            return False
        return found.header.sequence == self._expected or self._judge_gap(index, found)

    def _keep(self, index: int, found: FoundBatch) -> None:
        number, sequence = self._scans[index].number, found.header.sequence
        if not self.segments or self.segments[-1].number != number:
            self.segments.append(Segment(number, sequence, sequence, 0))
            self.tail = []
        self.segments[-1].last = sequence
        self.segments[-1].used_bytes += found.header.span
        self.tail.append(found._replace(body=None))
        self._expected = sequence + 1
        self._end = _Spot(index, found.end)

    def _judge_gap(self, index: int, found: FoundBatch) -> bool:
        """A sound batch does not follow the last one. Returns whether to deliver it all the same."""
        expected = self._expected or 0
        rolled = self._scans[index].number < self._last_begun
        if not rolled and self._synced_upto <= expected:
            ahead = self._scans[index].batches(found.position)
            self._synced_upto = max(later.header.synced_upto for later in ahead)
        if rolled or self._synced_upto > expected:
            self._report("corrupt", expected, found.header.sequence - 1, _Spot(index, found.position))
            return True
        # Appended together with others that did not all reach the disk, before any of them was synced.
        self._report("torn", expected, None, _Spot(index, self._scans[index].debris(found.position)))
        self.ends_well = False
        return False

    def _judge_end(self) -> None:
        """After the last sound batch: nothing, the remains of an unfinished write, or damage."""
        expected, remains = self._expected, list(self._remains(None))
        newest = self.segments[-1].number if self.segments else layout.NO_SEGMENT
        gone = any(number > newest for number in self.missing)
        self.ends_well = not remains and not gone and self._synced_upto <= (expected or 0)
        if gone or (self._known.untold and not any(damage.kind == "corrupt" for damage in self.damage)):
            # How much was in it cannot be known; or an earlier start knew it, and ended too soon to tell.
            self._report("corrupt", expected, None, None)
            return
        if self._synced_upto > (expected or 0):
            # The remains may be of more batches than those that are known to have been synced.
            last = None if remains else self._synced_upto - 1
            self._report("corrupt", expected, last, None)
            return
        for place, number in remains:
            kind: Literal["torn", "corrupt"] = "corrupt" if number < self._last_begun else "torn"
            self.damage.append(Damage(kind, expected, None, (place,), _REASONS[kind]))

    def _report(
        self, kind: Literal["torn", "corrupt"], first: int | None, last: int | None, until: _Spot | None
    ) -> None:
        places = tuple(place for place, _ in self._remains(until))
        self.damage.append(Damage(kind, first, last, places, _REASONS[kind]))

    def _remains(self, until: _Spot | None) -> Iterator[tuple[JournalPlace, int]]:
        """Where there is something between the end of what is well and `until` (None: the journal's end)."""
        for index in range(self._end.scan, len(self._scans)):
            scan = self._scans[index]
            start = self._end.position if index == self._end.scan else PAGE_BYTES
            if until and index == until.scan:
                if start < until.position:
                    yield JournalPlace(scan.name, start, until.position), scan.number
                return
            if scan.ends_dirty(start):
                yield JournalPlace(scan.name, start, scan.debris(start)), scan.number


_REASONS = {
    "torn": "the end of the log was being written when the machine stopped; it is cut",
    "corrupt": "batches that had been synced are damaged or missing; the others were delivered",
}
