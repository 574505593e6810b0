"""Segments kept ready, so that rolling to the next one does not wait for a disk to be filled with zeros.

Besides the segment being written there is always one more file: the spare. Recovery after a crash
needs one to copy into, so a start succeeds even when the disk is full. Therefore the spare is only
used up when another file stands behind it.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

from coldstore.shared import failpoint
from coldstore.shared.chance import Chance
from coldstore.shared.errors import Exhausted
from hotstore.journal.bounds import JournalBounds
from hotstore.journal.disk import Disk
from hotstore.journal.layout import NO_SEGMENT
from hotstore.journal.segment import SegmentWriter, begin, new_header, publish, zeroed
from hotstore.limits import FREE_SEGMENTS_MAX, PAGE_BYTES

T = TypeVar("T")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Background(Protocol):
    """Where work off the push path runs: one thread, or inline for simulation."""

    def submit(self, work: Callable[[], T], /) -> Future[T]: ...

    def shutdown(self) -> None: ...


class Thread:
    """One worker thread, started when first needed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "journal-spares")

    def submit(self, work: Callable[[], T], /) -> Future[T]:
        return self._pool.submit(work)

    def shutdown(self) -> None:
        self._pool.shutdown(wait=True)


class Inline:
    """Runs the work at once in the calling thread. Ships with the product, for simulation."""

    def submit(self, work: Callable[[], T], /) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for, as a pool does
            future.set_exception(error)
        return future

    def shutdown(self) -> None:
        """Nothing runs."""


class Spares:
    """The spare, and the free files behind it. Driven by the journal's thread; work runs in the background."""

    def __init__(
        self, disk: Disk, chance: Chance, segment_bytes: int, background: Background, bounds: JournalBounds
    ) -> None:
        self._bounds = bounds
        self._disk = disk
        self._chance = chance
        self._segment_bytes = segment_bytes
        self._background = background
        self._lock = threading.Lock()  # over _free and _number, which both threads use
        self._free: list[str] = []
        self._number = 0
        self._spare: Future[SegmentWriter] | None = None
        self._reserve: Future[None] | None = None

    def start(self, number: int, free: Iterable[str]) -> None:
        """`number` is the highest ever seen, `free` what recovery found to reuse."""
        self._number = number
        self._free = list(free)

    def prepare(self, synced_upto: int) -> Future[SegmentWriter]:
        """Begin to prepare the next segment, unless that was done and did not fail for lack of room."""
        if self._spare is None or _lacked_room(self._spare):
            self._spare = self._background.submit(lambda: self._fresh(synced_upto))
        return self._spare

    def reserve(self) -> Future[None]:
        """Begin to see to it that a file stands behind the spare; as `prepare`."""
        if self._reserve is None or _lacked_room(self._reserve):
            self._reserve = self._background.submit(self._stock)
        return self._reserve

    def take(self, synced_upto: int) -> SegmentWriter:
        """The next segment to write. Raises Exhausted if the disk is full: nothing has changed then."""
        with room_needed():
            writer = self.prepare(synced_upto).result()
            self.reserve().result()
        self._spare = self._reserve = None
        return writer

    def dismiss(self, full: SegmentWriter) -> None:
        """Give the memory back that the system holds for a full segment. A next one is zeroed in it: in memory
        that is new to a virtual machine, that took five times as long."""
        self._background.submit(full.dismiss)

    def begin(self, synced_upto: int, replaces: int, span: int) -> tuple[str, SegmentWriter]:
        """Start a segment with room for `span` bytes, here and now, and leave it to the caller to publish."""
        with self._lock:
            self._number += 1
            number = self._number
        # Larger than usual only when segments were larger before: what is copied has to fit.
        segment_bytes = max(self._segment_bytes, PAGE_BYTES + span)
        free = self._pop(segment_bytes) or zeroed(self._disk, number, segment_bytes)
        try:
            journal = self._bounds.extent.journal
            header = new_header(self._chance, number, segment_bytes, synced_upto, replaces, journal)
            return free, begin(self._disk, free, header)
        except OSError:
            self.put_back([free])
            raise

    def put_back(self, free: Iterable[str]) -> None:
        """Keep retired files for reuse, as many as are useful; give the others back to the file system."""
        for name in free:
            with self._lock:
                keep = len(self._free) < FREE_SEGMENTS_MAX
                if keep:
                    self._free.append(name)
            if not keep:
                self._disk.remove(name)

    def close(self) -> None:
        """Wait for what runs in the background; the spare stays on disk for the next start."""
        self._background.shutdown()
        if self._spare and not self._spare.exception():
            self._spare.result().close()
        self._spare = None

    def _fresh(self, synced_upto: int) -> SegmentWriter:
        free, writer = self.begin(synced_upto, NO_SEGMENT, 0)
        publish(self._disk, free, writer)
        self._bounds.given(writer.header.number)
        failpoint.reach("journal.segment_created")
        return writer

    def _stock(self) -> None:
        with self._lock:
            if self._free:
                return
            self._number += 1
            number = self._number
        self.put_back([zeroed(self._disk, number, self._segment_bytes)])

    def _pop(self, segment_bytes: int) -> str | None:
        """A free file of this size; files of another one, left by other settings, are given back."""
        while True:
            with self._lock:
                if not self._free:
                    return None
                name = self._free.pop()
            file = self._disk.open(name)
            try:
                size = file.size()
            finally:
                file.close()
            if size == segment_bytes:
                return name
            self._disk.remove(name)


def _lacked_room(future: Future[T]) -> bool:
    """Whether it failed for lack of room, which may have come back. Other errors of a disk stay."""
    error = future.exception() if future.done() else None
    return error is not None and not (isinstance(error, OSError) and error.errno not in _FULL)


@contextmanager
def room_needed() -> Iterator[None]:
    """Turn "the disk is full" into Exhausted; only around steps before which nothing of a batch was written."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise Exhausted("the journal's disk is full: free some space, then retry", retry_after=5.0) from error
