"""A queue that leaves, for another node or for good: closed, sealed, its state taken down; then it stays or goes.

    begin   an entry in the journal says LEAVING: what was accepted before is in the same group or in one
            before it, what comes later is refused for certain; new requests wait at the gate
            everything is sealed; the state is all that the next owner needs besides the cold store
    stay    nothing has happened, but for a pause
    leave   the next owner is named in the queue's shards document, or `queue.json` says that the queue is
            deleted: forget the queue here

A process that dies after `begin` finds the queue LEAVING in its journal and asks, when it is next asked
for it, whose it is by now (owners.py).
"""

from __future__ import annotations

from coldstore.shared import failpoint
from coldstore.shared.errors import Fenced, JjqError
from hotstore.journal import records
from hotstore.journal.port import Record
from hotstore.lifecycle.seal import Sealer
from hotstore.queue.moves import commit_state
from hotstore.queue.owners import QueueState
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.queue.state import Phase
from hotstore.read.hot_blocks import HotBlocks
from hotstore.write.committer import Committer

_ROUNDS = 4  # of sealing while pushes go on, so that little is left for the pause


class Departures:
    """Lets queues go."""

    def __init__(
        self, registry: Registry, committer: Committer, sealer: Sealer, blocks: HotBlocks, small_bytes: int
    ) -> None:
        self._registry = registry
        self._committer = committer
        self._sealer = sealer
        self._blocks = blocks
        self._small_bytes = small_bytes

    async def begin(self, name: str, why: JjqError) -> tuple[HotQueue, QueueState]:
        """Close the queue and seal all of it. Follow with `stay` or `leave`, whatever happens.

        Requests that come too late fail with `why`.
        """
        queue = await self._registry.queue(name)
        if queue.state.doubt is not None:  # another node would not know of it
            raise queue.state.doubt.with_traceback(None)
        for _ in range(_ROUNDS):
            if queue.unsealed_bytes <= self._small_bytes:
                break
            await self._sealer.seal(queue)
        if not queue.state.is_open:
            raise Fenced(f"queue {name} is being handed over already: ask again who serves it")
        queue.state.close()
        try:
            await commit_state(self._committer, lambda: _bar(queue, why))
            failpoint.reach("move.intended")
            await self._sealer.seal(queue)
            failpoint.reach("move.sealed")
        except BaseException:
            await self.stay(queue)
            raise
        return queue, state_of(queue, self._registry)

    async def stay(self, queue: HotQueue) -> None:
        """Serve it again."""
        queue.state.stay()
        journalled = False
        try:
            await commit_state(self._committer, lambda: [records.rows(records.QUEUES, [queue.row()])])
            journalled = True
        finally:
            queue.state.reopen(journalled=journalled)

    async def leave(self, queue: HotQueue, why: JjqError) -> None:
        """Another node serves it, or it is deleted: forget it. Readers that wait for elements fail with `why`."""
        number = queue.number
        for subscriber in self._registry.of(queue).values():
            self._blocks.leave(subscriber)
        self._registry.forget(number)
        queue.end_waits(why)
        await commit_state(self._committer, lambda: [records.rows(records.LEFT, [[number]])])
        failpoint.reach("move.left")

    def unsure(self, queue: HotQueue) -> None:
        """It cannot be known now whether the queue has left: the next request for it finds out."""
        queue.state.doubt_owner()


def state_of(queue: HotQueue, registry: Registry) -> QueueState:
    """What the queue is besides its elements, as the journal has it."""
    subscribers = [
        [s.name, s.start, s.clamp, s.created_us, *s.durable, s.asleep]
        for s in registry.of(queue).values()
        if s.stored and not s.deleted
    ]
    producers = [row for name in queue.producers.names() if (row := queue.producers.row(name))]
    return QueueState(queue.next, queue.last_us, subscribers, producers)


def moved(name: str, to: str) -> Fenced:
    return Fenced(f"queue {name} is served by node {to}: go there", owner=to)


def _bar(queue: HotQueue, why: JjqError) -> list[Record]:
    if queue.state.phase is Phase.CLOSING:  # else it was called off before the group was formed
        queue.state.leave(why)
    return [records.rows(records.QUEUES, [queue.row()])]
