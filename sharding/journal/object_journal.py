"""The journal on object storage: losing the node loses nothing.

    append   encode the batch, give it the next number, begin to put it if absent
    sync     wait for the puts of all that was appended, in order. Then read whether this process is still the node
             (tenure.py). One answer covers all puts that had landed when it was asked for
    trim     write in the tenure where the journal begins; then delete the objects before that, but no fence
    recover  read the runs before ours and end them with a fence (fencing.py)

If the outcome of a put is unknown, the put is repeated under the same number until it is known, however long the store
cannot be reached. Nothing is acknowledged meanwhile. If the number is taken, the token in the object tells whether we
put it. If not, the journal was fenced: it is poisoned, and the process must start again.

One thread appends and trims; a second thread may sync meanwhile. Both may find that the oldest put has landed: a lock
keeps them in order.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, Fenced, JjqError, NotFound, check
from hotstore.journal.port import Damage, JournalBatch, Poisoned, Record
from sharding.documents.tenure import OwnTenure
from sharding.journal import objects as journal_objects
from sharding.journal.checkpoint_objects import remove_tenures
from sharding.journal.fencing import FencingWalk
from sharding.journal.objects import JournalObject
from sharding.limits import (
    JOURNAL_BATCHES_MAX,
    JOURNAL_OBJECT_BYTES_MIN,
    JOURNAL_PUTS_MAX,
    JOURNAL_RETRY_SECONDS,
    JOURNAL_TRIM_BYTES,
    JOURNAL_TRIM_SECONDS,
)

log = logging.getLogger("jjq.sharding")

T = TypeVar("T")

_SWEEPERS: Final = 4


class ObjectJournal:
    """A `Journal` at journals/<node>/ for the node that `held` says we are."""

    in_flight: Final = JOURNAL_BATCHES_MAX

    def __init__(
        self, objects: ObjectStore, held: OwnTenure, clock: Clock, *, kinds: Container[int] | None = None
    ) -> None:
        self.next_sequence = 0
        self.used_bytes = 0
        self.damage: list[Damage] = []
        self._objects = objects
        self._held = held
        self._clock = clock
        self._kinds = kinds
        self._sizes: dict[int, int] = {}  # of live objects, by number, in order
        self._flying: deque[Future[None]] = deque()
        self._landed = 0  # every number before it is known to be there
        self._landing = threading.Lock()
        self._unchecked = False  # something was put since we last knew that we are still the node
        self._poison: Exception | None = None
        self._ready = False
        self._hurry = threading.Event()
        self._trimmed = clock.monotonic()
        self._puts = ThreadPoolExecutor(JOURNAL_PUTS_MAX, "jjq-journal-put")
        self._sweeps = ThreadPoolExecutor(_SWEEPERS, "jjq-journal-sweep")

    @property
    def identity(self) -> int:
        """The first run of the tenure: a later tenure of the node begins with nothing."""
        return self._held.tenure.since

    def recover(self) -> Iterator[JournalBatch]:
        """Yield what the runs before ours left; then no process of theirs can write any more."""
        check(not self._ready, "a journal is recovered once")
        held = self._held
        walk = FencingWalk(self._objects, held.node, held.tenure.boundary, held.run - 1, held.token)
        self.damage = walk.damage
        yield from journal_objects.batches(self._counted(walk), self._kinds)
        self.next_sequence = self._landed = walk.next
        self._ready = True
        needed = min([held.tenure.boundary, *(orphan.first for orphan in held.tenure.orphans)])
        self._sweeps.submit(self._sweep, needed)

    def _counted(self, walk: FencingWalk) -> Iterator[JournalObject]:
        for found in walk.batches():
            self._count(found.number, found.size)
            yield found

    def append(self, records: Sequence[Record]) -> int:
        """Begin to put one batch. It is durable after `sync`."""
        self._check_usable()
        first = self.next_sequence
        for data in journal_objects.encode(records, first, self._held.run, self._held.token):
            while len(self._flying) >= JOURNAL_PUTS_MAX:
                self._land()
            self._count(self.next_sequence, len(data))
            self._flying.append(self._puts.submit(self._put, self.next_sequence, data))
            self.next_sequence += 1
        return first

    def sync(self) -> None:
        """Return when all that was appended is durable and this process is still the node; else raise `Poisoned`."""
        self._check_usable()
        upto = self.next_sequence
        while self._landed < upto:
            self._land()
        while self._flying and _is_there(self._flying[0]):  # the answer below covers these as well
            self._land()
        with self._landing:
            # Before the question: what lands from now on is not covered by its answer.
            unchecked, self._unchecked = self._unchecked, False
        if unchecked:
            self._poisoning(lambda: self._until_known(self._held.check, "look at our tenure"))
            failpoint.reach("journal.synced")

    def trim(self, before: int) -> None:
        """Free the objects below `before`. Not at every call: each trim costs a put and deletes."""
        self._check_usable()
        free = [number for number in self._sizes if number < before]
        size = sum(self._sizes[number] for number in free)
        now = self._clock.monotonic()
        due = now - self._trimmed >= JOURNAL_TRIM_SECONDS or size >= JOURNAL_TRIM_BYTES
        if not free or not due:
            return
        self._trimmed = now
        boundary = min(before, self.next_sequence)
        try:
            self._held.advance(boundary)
        except Fenced as error:
            raise self._poisoned(error) from error
        except JjqError as error:
            log.warning("journal: not trimmed, will try again: %s", error)
            return
        failpoint.reach("journal.boundary")
        damaged = {found.first for found in self.damage}
        for number in free:
            self.used_bytes -= self._sizes.pop(number)
            if number not in damaged:
                self._sweeps.submit(self._delete, paths.journal(self._held.node, number))

    def chapter(self, coming: int) -> int | None:
        """Always the same: objects are lost one by one, and the number of a lost one is missing."""
        return 0

    def note(self, *, durable: bool) -> None:
        """Nothing to write: the tenure says where the journal begins, and it ends at the first absent number."""

    def hurry(self) -> None:
        """The process ends soon: a put that the store does not answer now stays unknown."""
        self._hurry.set()

    def close(self, clean: bool = True) -> None:
        """Wait for the puts under way if `clean`. May be repeated."""
        try:
            if self._ready and clean and self._poison is None:
                self.sync()
        finally:
            self._ready = False
            self._hurry.set()
            self._puts.shutdown(wait=True, cancel_futures=True)
            self._sweeps.shutdown(wait=True)

    def _check_usable(self) -> None:
        if self._poison is not None:
            raise Poisoned(f"the journal failed earlier ({self._poison}): restart the process")
        check(self._ready, "a journal is recovered before it is used, and not used after close")

    def _count(self, number: int, size: int) -> None:
        """Count an object with a minimum size: replaying it costs a request, however small it is."""
        size = max(size, JOURNAL_OBJECT_BYTES_MIN)
        self._sizes[number] = size
        self.used_bytes += size

    def _land(self) -> None:
        """Wait for the oldest put."""
        with self._landing:
            if not self._flying:  # the other thread was quicker
                return
            self._poisoning(self._flying[0].result)
            self._flying.popleft()
            self._landed += 1
            self._unchecked = True
        failpoint.reach("journal.written")

    # In the threads that put ------------------------------------------------------------------------

    def _put(self, number: int, data: bytes) -> None:
        key = paths.journal(self._held.node, number)
        self._until_known(lambda: self._put_once(key, number, data), f"write {key}")

    def _put_once(self, key: str, number: int, data: bytes) -> None:
        try:
            self._objects.put_if_absent(key, data)
        except Conflict:
            if not self._is_ours(key, number):
                raise Fenced(
                    f"{key} was put by another node, which has taken over this node's queues: start this node again"
                ) from None

    def _is_ours(self, key: str, number: int) -> bool:
        """Whether an attempt of ours that seemed to fail did put the object."""
        try:
            found = journal_objects.decode(self._objects.get(key).data, number, key)
        except NotFound:  # deleted again: only who took over does that
            return False
        return not found.is_fence and found.token == self._held.token

    def _until_known(self, attempt: Callable[[], None], doing: str) -> None:
        """Repeat while the store cannot be reached, or refuses: a missing right or a full quota may be mended."""
        while True:
            try:
                return attempt()
            except (Conflict, DataLoss):
                raise
            except JjqError as error:
                if self._hurry.is_set():
                    raise
                log.warning("journal: cannot %s, will try again: %s", doing, error)
            self._hurry.wait(JOURNAL_RETRY_SECONDS)

    # Errors and leftovers ---------------------------------------------------------------------------

    def _poisoning(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Exception as error:
            raise self._poisoned(error) from error

    def _poisoned(self, error: Exception) -> Poisoned:
        self._poison = error
        self._hurry.set()
        return Poisoned(f"the journal failed ({error}), so what is durable is unknown: restart the process")

    def _delete(self, key: str) -> None:
        with suppress(JjqError):  # it lies before the boundary, so nobody reads it; the next start sweeps
            self._objects.delete(key)

    def _sweep(self, before: int) -> None:
        """Delete the objects that an earlier trim left. An object without a body is a fence, and stays."""
        folder = paths.journal_folder(self._held.node)
        with suppress(JjqError):
            tenure = self._held.tenure
            needed = [tenure.since, *(orphan.since for orphan in tenure.orphans)]
            remove_tenures(self._objects, self._held.node, needed)
            for info in self._objects.list(folder):
                number = paths.journal_sequence(info.key)
                if number is None or number >= before or self._hurry.is_set():
                    return
                if info.size > journal_objects.HEADER_BYTES:
                    self._delete(info.key)


def _is_there(put: Future[None]) -> bool:
    """Whether the put has landed. A put that failed is raised by the sync of its own batch, or of a later one."""
    return put.done() and not put.cancelled() and put.exception() is None
