"""Pops that survive a lost reply: nothing is skipped, and nothing is given twice.

A pop moves the subscriber, so a pop whose reply is lost cannot simply be made again. The client
remembers where each subscriber was when it last heard of it; an attempt after a lost reply names that
place, and the store answers with the very elements of the lost reply, or with the next ones if the
lost request never arrived. First attempts name no place, so several clients may share a subscriber.

The place is certain only while one pop of a subscriber is under way in this client. Otherwise the
lost one is reported to its caller and not repeated.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

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


class Pops:
    """The pops of one client. With `seconds` of 0, as in-process, no reply is ever lost."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._seconds = seconds
        self._places: BoundedDict[str, _Place] = BoundedDict(_REMEMBERED)

    def moved(self, subscriber: str, offset: int) -> None:
        """This client has placed the subscriber at `offset`."""
        if subscriber in self._places:
            self._places[subscriber] = _Place(offset)

    def forget(self, subscriber: str) -> None:
        self._places.pop(subscriber)

    async def pop(self, subscriber: str, rows: int, wait: float) -> Popped:
        if not self._seconds:
            return await self._store.pop(subscriber, rows, wait)
        place = self._places.get(subscriber) or await self._learn(subscriber)
        place.under_way += 1
        place.begun += 1
        turn, alone = place.begun, place.under_way == 1
        try:
            popped = await self._attempts(subscriber, place, rows, wait, turn if alone else -1)
        except (Unavailable, asyncio.CancelledError):
            place.unsure = True
            if not alone or place.begun != turn:
                self.forget(subscriber)
            raise
        except Conflict:
            self.forget(subscriber)
            raise
        finally:
            place.under_way -= 1
        place.offset, place.unsure = popped.next, False
        return popped

    async def _attempts(self, subscriber: str, place: _Place, rows: int, wait: float, turn: int) -> Popped:
        backoff = Backoff(BACKOFF_SECONDS, BACKOFF_SECONDS_MAX, self._chance)
        deadline = self._clock.monotonic() + self._seconds + wait
        while True:
            try:
                position = place.offset if place.unsure and turn >= 0 else None
                return await self._store.pop(subscriber, rows, wait, position=position)
            except Unavailable as error:
                if place.begun != turn or not error.reached:
                    raise
                place.unsure = True
                if not await backoff.wait(self._clock, deadline):
                    raise

    async def _learn(self, subscriber: str) -> _Place:
        found = await self._store.get_subscriber(subscriber)
        place = self._places.get(subscriber)
        if place is None:  # nobody else has learnt it meanwhile
            place = self._places[subscriber] = _Place(found.offset)
        return place
