"""The lease of a node whose journal is on its own disk: it acknowledges only while others must wait.

A disk cannot be fenced from outside. So the node acknowledges only for LEASE_SECONDS after the beginning
of its last successful beat, by its own monotonic clock; and others end its tenure only after they have
seen no beat for longer than that, by theirs. Beat and end are swaps of the same document: one of them
takes effect. A node that was paused, or cut off, beats before the next acknowledgement until a beat
succeeds, or fails for ever because the tenure was ended. Whoever waits beats by itself: it may be the
event loop that waits, and then nobody else would.

A server that is alone is *patient*: nobody takes its store but an operator who says that it is gone, so it goes
on while the store is away (`stay`). Only after a pause, in which that may have happened, must it beat first.
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
        """`begun`: when the tenure was made ours, which is as good as a beat."""
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
        """Called now and then where `patient`: we are awake, so the lease goes on, though the store may be away."""
        if self.valid:  # not if it ran out: then we were paused, and only a beat can tell what happened since
            self._until = max(self._until, self._clock.monotonic() + self._seconds)

    def confirm(self) -> None:
        """Return if the lease is valid, or after one beat; `Exhausted`: nothing may be done at present."""
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
        """The tenure is over, or the process ends: nobody waits any longer."""
        self.lost = self.lost or why
        self._ended.set()

    def wait(self) -> None:
        """Return once the lease is valid; raises what ended it."""
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
    """A journal that is written and synced only under the lease."""

    def __init__(self, inner: Journal, lease: Lease) -> None:
        self._inner = inner
        self._lease = lease

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
            raise Exhausted(
                "this node has lost touch with the object store: nothing is accepted until it is back"
            )
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
