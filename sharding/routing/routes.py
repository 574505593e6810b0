"""Routes: queue → the nodes that serve it, as this node remembers them.

A route is read when somebody asks for its queue: one small request. It is corrected when a node says that it is not
the owner. So the map is never complete and sometimes wrong. A wrong route costs one retry: a node that is asked for a
queue of another node refuses before it writes anything, and names the owner.
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
    epoch: int  # 0: another node named the owner
    ranges: tuple[Range, ...]
    read: float  # when, by the monotonic clock

    def server_of(self, offset: int) -> tuple[str, int | None]:
        """The node for the element at `offset`, and the offset at which it stops serving (None: it does not)."""
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
            return known  # a newer document was read meanwhile
        return self._set(queue, Route(shards.owner, shards.epoch, shards.ranges, self._clock.monotonic()))

    def _set(self, queue: str, route: Route) -> Route:
        self._known[queue] = route
        return route

    def moved(self, queue: str, owner: str | None) -> None:
        """A node refused the queue; `owner` is the node that it named."""
        known = self._known.get(queue)
        if owner is None or (known is not None and known.owner == owner):
            self.forget(queue)  # nothing new: read the document again
            return
        ranges = () if known is None else known.ranges
        self._set(queue, Route(owner, 0, ranges, self._clock.monotonic()))

    def forget(self, queue: str) -> None:
        self._known.pop(queue)
