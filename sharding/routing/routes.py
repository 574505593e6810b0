"""The map of the cluster in this node's memory: queue → who serves it.

It is filled queue by queue when somebody asks, by one small read each, and corrected when a node
says that it is not the owner. So it is never complete, sometimes wrong, and that costs one retry:
a node that is asked for a queue of another one refuses, before anything is written, and names it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.clock import Clock
from coldstore.shared.single_flight import SingleFlight
from sharding.documents.shards import Range, Shards
from sharding.limits import ROUTES_MAX


@dataclass(frozen=True, slots=True)
class Route:
    """Who serves a queue, as this node knows it."""

    owner: str
    epoch: int  # 0: by hearsay
    ranges: tuple[Range, ...]
    read: float  # when, by the monotonic clock

    def server_of(self, offset: int) -> tuple[str, int | None]:
        """The node for the element at `offset`, and where its responsibility ends (None: nowhere)."""
        for found in self.ranges:
            if offset < found.first:
                return self.owner, found.first
            if offset < found.next:
                return found.node, found.next
        return self.owner, None


class Routes:
    """All routes that this node knows."""

    def __init__(self, read: Callable[[str], Awaitable[Shards | None]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._known: BoundedDict[str, Route] = BoundedDict(ROUTES_MAX)
        self._reads: SingleFlight[str, Route | None] = SingleFlight()

    def known(self, queue: str) -> Route | None:
        """From memory."""
        return self._known.get(queue)

    async def find(self, queue: str, max_age: float | None = None) -> Route | None:
        """From memory, or read if it is not there or older than `max_age`; None: nobody owns the queue."""
        route = self._known.get(queue)
        if route is not None and (max_age is None or self._clock.monotonic() - route.read <= max_age):
            return route
        return await self._reads.run(queue, lambda: self._learn(queue), f"jjq-route-{queue}")

    async def _learn(self, queue: str) -> Route | None:
        shards = await self._read(queue)
        known = self._known.get(queue)
        if shards is None:
            self.forget(queue)
            return None
        if known is not None and known.epoch > shards.epoch:
            return known  # somebody was quicker
        return self._set(queue, Route(shards.owner, shards.epoch, shards.ranges, self._clock.monotonic()))

    def _set(self, queue: str, route: Route) -> Route:
        self._known[queue] = route
        return route

    def moved(self, queue: str, owner: str | None) -> None:
        """A node refused the queue; `owner` is whom it named."""
        known = self._known.get(queue)
        if owner is None or (known is not None and known.owner == owner):
            self.forget(queue)  # no news: read it anew
            return
        ranges = () if known is None else known.ranges
        self._set(queue, Route(owner, 0, ranges, self._clock.monotonic()))

    def forget(self, queue: str) -> None:
        self._known.pop(queue)
