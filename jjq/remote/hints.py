"""Which server to ask for a queue: what servers have told, as far as it can be reached from here.

A hint is used once a connection to the server that it names stands; until then, and where none can be
made, requests go on through the servers that the user named, which forward them. So an address that
is only valid inside of a cluster does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Unavailable
from jjq.limits import HINT_SECONDS, HINTS_MAX


class Hints:
    """Owners of queues, by address."""

    def __init__(self, connect: Callable[[str], Awaitable[None]], clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._owners: BoundedDict[str, str] = BoundedDict(HINTS_MAX)  # by queue: reached
        self._told: BoundedDict[str, str] = BoundedDict(HINTS_MAX)  # by queue: not reached yet
        self._reached: set[str] = set()
        self._trying: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, float] = {}  # when an address may be tried again

    def owner(self, queue: str) -> str | None:
        """The server to ask directly, if one is known and reached."""
        return self._owners.get(queue)

    def learn(self, queue: str, owner: str) -> None:
        """A server said that `owner` has the queue."""
        if self._owners.get(queue) == owner:
            return
        if self.reach(owner):
            self._owners[queue] = owner
        else:
            self._told[queue] = owner

    def reach(self, address: str) -> bool:
        """Whether a connection to `address` stands; if not, one is begun, unless that failed just now."""
        if address in self._reached:
            return True
        if address not in self._trying and self._clock.monotonic() >= self._again.get(address, 0.0):
            self._trying[address] = asyncio.create_task(self._try(address), name=f"jjq-hint-{address}")
        return False

    async def _try(self, address: str) -> None:
        try:
            await self._connect(address)
        except Unavailable:
            self._again[address] = self._clock.monotonic() + HINT_SECONDS
        else:
            self._reached.add(address)
        finally:
            del self._trying[address]
            for queue in [queue for queue, owner in self._told.items() if owner == address]:
                self._told.pop(queue)
                if address in self._reached:
                    self._owners[queue] = address

    def failed(self, address: str) -> None:
        """It did not answer: forget all that leads there."""
        if address in self._reached:
            self._reached.discard(address)
            for queue in [queue for queue, owner in self._owners.items() if owner == address]:
                self._owners.pop(queue)

    async def close(self) -> None:
        trying = list(self._trying.values())
        for task in trying:
            task.cancel()
        await asyncio.gather(*trying, return_exceptions=True)
