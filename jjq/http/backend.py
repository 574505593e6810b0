"""What the routes work with: the store, and the parts of a server that gRPC and HTTP share.

They share them because both speak about the same subscribers, memory and end: a seek over HTTP moves a Subscribe stream
of gRPC, one budget holds what clients have not read, and a stop breaks off what waits behind either door.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from coldstore.shared.batch import Content
from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.chance import Chance, SystemChance
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.limits import NAME_REST_SECONDS
from coldstore.store import ColdStore
from hotstore.port import Store
from jjq.access.audit import AuditLog
from jjq.access.keyring import Keyring
from jjq.limits import HINTS_MAX, OUTGOING_BYTES_MAX
from jjq.server.incoming import LargeMessages
from jjq.server.loop_steps import StepScheduler
from jjq.server.memory import Memory
from jjq.server.metrics import Metrics
from jjq.server.open_streams import Streams
from jjq.server.outgoing import Outgoing
from jjq.server.shutdown import Drain
from jjq.sql.query import Queries
from sharding.ports import Operations

# A name is free again much later than its queue was deleted, so until then a queue's content is what it was.
_CONTENT_SECONDS: Final = NAME_REST_SECONDS / 60


@dataclass(slots=True)
class Backend:
    """See the module's docstring. `state` says why the server is not ready; empty: it is."""

    store: Store
    streams: Streams
    drain: Drain
    scheduler: StepScheduler
    large: LargeMessages
    outgoing: Outgoing
    memory: Memory
    metrics: Metrics
    clock: Clock
    chance: Chance
    log: structlog.typing.FilteringBoundLogger
    operator: Operations | None = None  # of a cluster
    cold: ColdStore | None = None  # where history is kept; None: somewhere else
    queries: Queries | None = None  # None: no SQL
    audit: AuditLog | None = None  # where there are keys
    keys: Keyring | None = None
    traced: bool = False  # calls are parts of traces
    state: Callable[[], str] = lambda: ""
    incoming_bytes: int = 0  # of bodies that are being received
    _contents: BoundedDict[str, tuple[Content, float]] = field(default_factory=lambda: BoundedDict(HINTS_MAX))

    @classmethod
    def over(
        cls,
        store: Store,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        log: structlog.typing.FilteringBoundLogger | None = None,
    ) -> Backend:
        """For an application that is not part of a server of ours."""
        clock = clock or SystemClock()
        outgoing = Outgoing(OUTGOING_BYTES_MAX, clock)
        metrics = Metrics()
        metrics.watch_outgoing(outgoing)
        return cls(
            store=store,
            streams=Streams(store),
            drain=Drain(),
            scheduler=StepScheduler(),
            large=LargeMessages(),
            outgoing=outgoing,
            memory=Memory(),
            metrics=metrics,
            clock=clock,
            chance=chance or SystemChance(),
            log=log or structlog.get_logger("jjq.http"),
        )

    async def content_of(self, queue: str) -> Content:
        """What the values of a queue are."""
        now = self.clock.monotonic()
        known = self._contents.get(queue)
        if known is not None and now < known[1]:
            return known[0]
        content = (await self.store.get_queue(queue)).content
        self._contents[queue] = (content, now + _CONTENT_SECONDS)
        return content
