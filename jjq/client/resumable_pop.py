"""Pops that survive a lost reply: nothing is skipped, and nothing is given twice.

A pop moves the subscriber, so a pop whose reply is lost cannot simply be made again. The client
remembers where each subscriber was in the last reply; an attempt after a lost reply names that
place, and the store answers with the very elements of the lost reply, or with the next ones if the
lost request never arrived. First attempts name no place, so several clients may share a subscriber.

The place is certain only while one pop of a subscriber is under way in this client. Otherwise the
lost one is reported to its caller and not repeated.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

from coldstore.shared.backoff import Backoff
from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, Unavailable
from hotstore.port import Popped, Store
from jjq.limits import BACKOFF_SECONDS, BACKOFF_SECONDS_MAX

_REMEMBERED = 10_000


@dataclass(slots=True)
class _Place:
    """Where a subscriber is, as far as this client knows."""

    offset: int
    unsure: bool = False  # a pop may or may not have moved it on from `offset`
    under_way: int = 0
    begun: int = 0


class PopAttempt(NamedTuple):
    """A pop under way."""

    subscriber: str
    place: _Place
    number: int
    alone: bool  # no other one of its subscriber was under way


class ResumablePops:
    """The pops of one client. With `seconds` of 0, as in-process, no reply is ever lost."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._seconds = seconds
        self._places: BoundedDict[str, _Place] = BoundedDict(_REMEMBERED)
        self._lock = threading.Lock()  # threads of a blocking client begin and end pops, too

    def moved(self, subscriber: str, offset: int) -> None:
        """This client has placed the subscriber at `offset`."""
        with self._lock:
            if subscriber in self._places:
                self._places[subscriber] = _Place(offset)

    def forget(self, subscriber: str) -> None:
        with self._lock:
            self._places.pop(subscriber)

    async def pop(self, subscriber: str, rows: int, wait: float) -> Popped:
        if not self._seconds:
            return await self._store.pop(subscriber, rows, wait)
        place = self._places.get(subscriber) or await self._learn(subscriber)
        with self._lock:
            attempt = _enter(subscriber, place)
        return await self.resume(attempt, rows, wait)

    def begin(self, subscriber: str) -> PopAttempt | None:
        """For a pop whose first attempt is made by another thread; None: it must be made here."""
        with self._lock:
            place = self._places.get(subscriber)
            if place is None or place.unsure or place.under_way:
                return None
            return _enter(subscriber, place)

    def done(self, attempt: PopAttempt, popped: Popped) -> None:
        """That attempt gave this."""
        with self._lock:
            attempt.place.under_way -= 1
            attempt.place.offset, attempt.place.unsure = popped.next, False

    def failed(self, attempt: PopAttempt, error: BaseException) -> None:
        """It failed for good."""
        place = attempt.place
        in_doubt = isinstance(error, Unavailable) or not isinstance(error, Exception)
        with self._lock:
            place.under_way -= 1
            place.unsure = place.unsure or in_doubt
            is_lost = in_doubt and (not attempt.alone or place.begun != attempt.number)
            if is_lost or isinstance(error, Conflict):
                self._places.pop(attempt.subscriber)

    async def resume(self, attempt: PopAttempt, rows: int, wait: float) -> Popped:
        """All attempts; or the rest of them, if one was made by another thread and may be made again."""
        try:
            number = attempt.number if attempt.alone else -1
            popped = await self._attempts(attempt.subscriber, attempt.place, rows, wait, number)
        except BaseException as error:
            self.failed(attempt, error)
            raise
        self.done(attempt, popped)
        return popped

    async def _attempts(self, subscriber: str, place: _Place, rows: int, wait: float, number: int) -> Popped:
        backoff = Backoff(BACKOFF_SECONDS, BACKOFF_SECONDS_MAX, self._chance)
        deadline = self._clock.monotonic() + self._seconds + wait
        while True:
            try:
                position = place.offset if place.unsure and number >= 0 else None
                return await self._store.pop(subscriber, rows, wait, position=position)
            except Unavailable as error:
                if place.begun != number or not error.reached:
                    raise
                place.unsure = True
                if not await backoff.wait(self._clock, deadline):
                    raise

    async def _learn(self, subscriber: str) -> _Place:
        found = await self._store.get_subscriber(subscriber)
        with self._lock:
            place = self._places.get(subscriber)
            if place is None:  # nobody else has learnt it meanwhile
                place = self._places[subscriber] = _Place(found.offset)
        return place


def _enter(subscriber: str, place: _Place) -> PopAttempt:
    place.under_way += 1
    place.begun += 1
    return PopAttempt(subscriber, place, place.begun, place.under_way == 1)
