"""Beats of this node, and the watch over the tenures of the other nodes.

A beat is a swap of our own tenure document. A look at the others is one listing: its etags tell which nodes have
beaten since the last look. A node that has not, for longer than LEASE_MARGIN leases by our own monotonic clock, is
dead (documents/liveness.py). Its tenure is ended and, if its journal is on object storage, its queues are taken over.
If we are mistaken about a node, that node must restart, but no element is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, Fenced, InvalidInput, JjqError, Unavailable
from hotstore.runner import Runner
from sharding.documents import tenure
from sharding.documents.liveness import Liveness
from sharding.documents.tenure import OwnTenure, StoredTenure
from sharding.journal.lease import Lease
from sharding.limits import (
    CUT_OFF_LEASES,
    LEASE_MARGIN,
    LEASE_SECONDS,
    TAKE_AGAIN_SECONDS,
    TENURE_BEAT_SECONDS,
    TENURE_LOOK_SECONDS,
)
from sharding.takeover.takeover import TakeoverWorker

log = logging.getLogger("jjq.sharding")


@dataclass(frozen=True, slots=True)
class TenureSettings:
    """How often to beat and to look, and how long a lease lasts."""

    beat_seconds: float = TENURE_BEAT_SECONDS
    look_seconds: float = TENURE_LOOK_SECONDS
    lease_seconds: float = LEASE_SECONDS

    @classmethod
    def for_lease(cls, seconds: float) -> TenureSettings:
        """Beats and looks that fit a lease of so many seconds."""
        share = seconds / LEASE_SECONDS
        return cls(share * TENURE_BEAT_SECONDS, share * TENURE_LOOK_SECONDS, seconds)

    def __post_init__(self) -> None:
        if not 0 < 3 * self.beat_seconds <= self.lease_seconds or self.look_seconds <= 0:
            raise InvalidInput("lease_seconds must be positive, and last for three beats at least")


class Heartbeat:
    """Renews the lease every few seconds. Its tasks run on the event loop, requests to the store in `runner`."""

    def __init__(self, lease: Lease, runner: Runner, settings: TenureSettings) -> None:
        self.on_lost: Callable[[Exception], None] = lambda error: None
        self._lease = lease
        self._runner = runner
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks.append(self._repeat(self._settings.beat_seconds, self.beat))

    def _repeat(self, seconds: float, step: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return asyncio.create_task(_every(seconds, step), name=f"jjq-{step.__name__}")

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def beat(self) -> None:
        """Renew the lease; `on_lost` is called if the tenure is over."""
        try:
            await self._runner.run(self._lease.renew)
        except Fenced as error:
            self.on_lost(error)
            raise


async def _every(seconds: float, step: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await step()
        except JjqError as error:
            log.warning("tenure: %s", error)
        except Exception:
            log.exception("tenure")
        await asyncio.sleep(seconds)


class TenureWatch(Heartbeat):
    """The heartbeat of a node of a cluster, which also watches the other nodes."""

    def __init__(
        self,
        objects: ObjectStore,
        held: OwnTenure,
        takeovers: TakeoverWorker,
        lease: Lease,
        runner: Runner,
        clock: Clock,
        settings: TenureSettings,
    ) -> None:
        super().__init__(lease, runner, settings)
        self._objects = objects
        self._held = held
        self._takeovers = takeovers
        self._clock = clock
        # While this process was paused it has seen nothing, and could reach nobody: such time does not count.
        self._others = Liveness(clock, settings.lease_seconds * LEASE_MARGIN, 2 * settings.look_seconds)
        self._own = Liveness(clock, settings.lease_seconds * CUT_OFF_LEASES, 2 * settings.beat_seconds)
        self._own.look({held.node: repr(lease.begun)})
        self._again: dict[str, float] = {}  # when to try once more to take over from a node

    def start(self) -> None:
        super().start()
        self._tasks.append(self._repeat(self._settings.look_seconds, self.look))
        self._tasks.append(self._repeat(self._settings.beat_seconds, self.check_cut_off))

    async def check_cut_off(self) -> None:
        """Stop if we have been cut off for so long that other nodes have most likely taken over.

        A node that is cut off cannot acknowledge in any case; its clients had better go to the others. A node goes on
        waiting if it sees no other living node, or if its journal is on its disk: then nobody takes over.
        """
        node = self._held.node
        self._own.look({node: repr(self._lease.begun)})  # it changes with every beat that arrived
        others = any(other != node and self._others.is_alive(other) for other in self._others.names)
        if self._held.tenure.journal == "s3" and others and self._own.is_silent(node):
            self.on_lost(
                Unavailable(
                    f"node {node} has not reached the object store for {self._own.silence(node):.0f} s: other nodes "
                    f"serve its queues by now; start it again"
                )
            )

    async def look(self) -> None:
        """See which nodes are dead, and take over from them."""
        etags = await self._runner.run(self._list)
        self._others.look(etags)
        now = self._clock.monotonic()
        for node in etags:
            if now >= self._again.get(node, 0.0) and (node == self._held.node or self.is_dead(node)):
                await self._runner.run(lambda node=node: self._take(node))  # type: ignore[misc]

    def is_dead(self, node: str) -> bool:
        """Whether a node has not beaten for longer than LEASE_MARGIN leases, while we were watching."""
        return self._others.is_silent(node)

    # In a worker thread -----------------------------------------------------------------------------

    def _list(self) -> dict[str, str]:
        found = {paths.tenure_node(info.key): info.etag for info in self._objects.list(paths.TENURES)}
        return {node: etag for node, etag in found.items() if node is not None}

    def _take(self, node: str) -> None:
        found = tenure.read(self._objects, node)
        if found is None or found.tenure.journal != "s3" or not self._is_for_us(found):
            return
        if found.tenure.state == "open" and node != self._held.node:
            found = self.end(found)
            if found is None:
                return
        self._again[node] = self._clock.monotonic() + TAKE_AGAIN_SECONDS
        self._takeovers.take(node)

    def _is_for_us(self, found: StoredTenure) -> bool:
        """Whether there is something to take over, and no other living node is doing it."""
        now = found.tenure
        if now.node == self._held.node:
            return bool(now.orphans)
        if now.state == "open":
            return True
        by = now.by
        return (now.state == "ended" or bool(now.orphans)) and (
            by is None or by == self._held.node or not self._others.is_alive(by)
        )

    def end(self, found: StoredTenure) -> StoredTenure | None:
        """End the tenure of a dead node; None if it beat after all, or another node was quicker."""
        if self._others.version(found.tenure.node) != found.etag:
            return None
        try:
            ended = tenure.end(self._objects, found, self._held.node)
        except Conflict:
            return None
        log.warning("node %s is dead: its tenure is ended", found.tenure.node)
        failpoint.reach("tenure.ended")
        return ended
