"""A journal that takes several groups at once, whose batches land, fail or are refused when a test says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Exhausted
from hotstore.journal.port import Journal, Poisoned, Record
from hotstore.write.committer import Committer

SECONDS = 30.0


class FarJournal:
    """Batches are durable once `land` says so. Safe to be synced by a second thread."""

    def __init__(self, in_flight: int = 3) -> None:
        self.in_flight = in_flight
        self.next_sequence = 0
        self.batches: list[list[bytes]] = []
        self.landed = 0
        self.syncs = 0
        self.refusals: list[Exception] = []  # raised by the next appends, oldest first
        self._broken: int | None = None  # the first batch that never lands
        self._changed = threading.Condition()

    def append(self, records: Sequence[Record]) -> int:
        with self._changed:
            if self.refusals:
                raise self.refusals.pop(0)
            self.batches.append([bytes(record.payload) for record in records])  # type: ignore[arg-type]
            self.next_sequence += 1
            return self.next_sequence - 1

    def sync(self) -> None:
        with self._changed:
            self.syncs += 1
            upto = self.next_sequence
            known = self._changed.wait_for(
                lambda: self.landed >= upto or (self._broken is not None and self._broken < upto), SECONDS
            )
            assert known, "a test forgot to let its batches land"
            if self.landed < upto:
                raise Poisoned("by order of a test")

    def land(self, count: int = 1) -> None:
        with self._changed:
            self.landed += count
            self._changed.notify_all()

    def land_all(self) -> None:
        self.land(1 << 30)

    def break_down(self) -> None:
        """The oldest batch that has not landed never will."""
        with self._changed:
            self._broken = self.landed
            self._changed.notify_all()


class Word:
    """An entry of one record; `log` has its fate, in the order of all fates."""

    def __init__(self, made: Committing, name: str, size: int, rejected: bool) -> None:
        self._made = made
        self.name = name
        self.bytes = size
        self._rejected = rejected

    def prepare(self) -> None:
        self._made.prepared.append(self.name)
        if not self._rejected:
            self._made.committer.touch(self)

    def records(self) -> list[Record]:
        return [Record(1, self.name.encode())]

    def written(self) -> None:
        return None

    def settle(self, sequence: int) -> None:
        assert sequence < self._made.journal.landed, "settled before it was durable"
        self._made.log.append(("settled", self.name))

    def fail(self, error: Exception) -> None:
        self._made.log.append(("refused" if isinstance(error, Exhausted) else "unknown", self.name))


class Committing:
    """A committer over such a journal; groups hold 10 bytes."""

    def __init__(self, journal: FarJournal) -> None:
        self.journal = journal
        port: Journal = journal  # type: ignore[assignment]  # all that a committer asks of it
        self.committer = Committer(port, SystemClock(), 10 * journal.in_flight)
        self.prepared: list[str] = []
        self.log: list[tuple[str, str]] = []
        self.poisons: list[Exception] = []

    def submit(self, name: str, size: int = 10, *, rejected: bool = False) -> None:
        self.committer.submit(Word(self, name, size, rejected))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():  # noqa: ASYNC110 - other threads make it true
                await asyncio.sleep(0.001)

    async def appended(self, count: int) -> None:
        """Wait until so many batches were appended, and the committer knows."""
        await self.until(lambda: len(self.journal.batches) >= count and not self.committer._busy)

    async def refused_behind(self, error: Exception) -> None:
        """`a` is on its way, and the append of `b` behind it has failed like this."""
        self.submit("a")
        await self.appended(1)
        self.journal.refusals.append(error)
        self.submit("b")
        await self.until(lambda: not self.journal.refusals and not self.committer._busy)

    @property
    def fates(self) -> list[str]:
        return [f"{name} {fate}" for fate, name in self.log]


@asynccontextmanager
async def committing(in_flight: int = 3) -> AsyncIterator[Committing]:
    made = Committing(FarJournal(in_flight))
    made.committer.start(made.poisons.append)
    try:
        yield made
    finally:
        made.journal.land_all()
        await made.committer.close()
