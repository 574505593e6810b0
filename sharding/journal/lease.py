"""The lease of a node whose journal is on its own disk: until when the node may acknowledge.

Nobody can fence a disk from outside. So the node acknowledges only for LEASE_SECONDS after the beginning of its last
successful beat, by its own monotonic clock. Other nodes end its tenure only after they have seen no beat for longer
than that, by their clocks. Beat and end are swaps of the same document: only one of them takes effect. A node that was
paused or cut off beats again before its next acknowledgement, until a beat succeeds, or fails for ever because the
tenure was ended. The waiting thread renews the lease itself: if it blocks the event loop, the heartbeat cannot run.

The lease of a single server is *patient*. Only an operator who says that the server is gone can end its tenure. So the
server goes on while the store cannot be reached (`stay`). Only after a pause of its own, in which an operator may have
ended its tenure, must it beat first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, Fenced, JjqError
from hotstore.journal.port import Damage, Extent, Journal, JournalBatch, Poisoned, Record
from sharding.limits import JOURNAL_RETRY_SECONDS, LEASE_SECONDS


class Lease:
    """Until when this node may acknowledge."""

    def __init__(
        self,
        beat: Callable[[], None],
        clock: Clock,
        seconds: float = LEASE_SECONDS,
        *,
        patient: bool = False,
        begun: float | None = None,
    ) -> None:
        """`begun`: when this process began its tenure, which counts as a beat."""
        self._beat = beat
        self._clock = clock
        self._seconds = seconds
        self._ended = threading.Event()
        self.patient = patient
        self.begun = clock.monotonic() if begun is None else begun  # of the last beat that succeeded
        self._until = -1.0 if begun is None else begun + seconds
        self.lost: Exception | None = None

    @property
    def valid(self) -> bool:
        return self.lost is None and self._clock.monotonic() < self._until

    def renew(self) -> None:
        """Beat; `Fenced` if the tenure is over."""
        begun = self._clock.monotonic()
        try:
            self._beat()
        except Fenced as error:
            self.end(error)
            raise
        self.begun = max(self.begun, begun)
        self._until = max(self._until, self.begun + self._seconds)

    def stay(self) -> None:
        """Called every few seconds if `patient`: we are awake, so the lease goes on, even if no beat arrives."""
        if self.valid:  # if it has run out, we were paused, and only a beat can tell what happened since
            self._until = max(self._until, self._clock.monotonic() + self._seconds)

    def confirm(self) -> None:
        """Return if the lease is valid, or after one beat. `Exhausted` if nothing may be written now."""
        if self.valid:
            return
        try:
            if self.lost is None:
                self.renew()
        except JjqError as error:
            raise Exhausted(f"this server does not know whether its queues are its own: {error}") from error
        if self.lost is not None:
            raise Exhausted(f"this server must stop: {self.lost}") from self.lost

    def end(self, why: Exception) -> None:
        """The tenure is over, or the process ends: all that wait get `why`."""
        self.lost = self.lost or why
        self._ended.set()

    def wait(self) -> None:
        """Return once the lease is valid; raise the error that ended it."""
        while not self.valid:
            if self.lost is not None:
                raise self.lost
            try:
                self.renew()
            except Fenced:
                raise
            except JjqError:
                self._ended.wait(JOURNAL_RETRY_SECONDS)


class LeasedJournal:
    """A journal that is written and synced only while the lease is valid."""

    def __init__(self, inner: Journal, lease: Lease) -> None:
        self._inner = inner
        self._lease = lease

    @property
    def identity(self) -> int:
        return self._inner.identity

    @property
    def in_flight(self) -> int:
        return self._inner.in_flight

    @property
    def next_sequence(self) -> int:
        return self._inner.next_sequence

    @property
    def used_bytes(self) -> int:
        return self._inner.used_bytes

    @property
    def damage(self) -> Sequence[Damage]:
        return self._inner.damage

    def recover(self) -> Iterator[JournalBatch]:
        return self._inner.recover()

    def append(self, records: Sequence[Record]) -> int:
        if self._lease.patient and not self._lease.valid:
            with suppress(Exhausted):
                self._lease.confirm()
        if self._lease.lost is None and not self._lease.valid:
            raise Exhausted("this node cannot reach the object store: nothing is accepted until it can")
        self._check()
        return self._inner.append(records)

    def sync(self) -> None:
        self._inner.sync()
        self._check()

    def _check(self) -> None:
        try:
            self._lease.wait()
        except Exception as error:
            raise Poisoned(f"this node lost its lease ({error}): start it again") from error

    def trim(self, before: int) -> None:
        self._inner.trim(before)

    def chapter(self, coming: int) -> int | None:
        return self._inner.chapter(coming)

    def note(self, *, durable: bool) -> Extent | None:
        return self._inner.note(durable=durable)

    def close(self, clean: bool = True) -> None:
        self._inner.close(clean)
