"""A queue that leaves, for another node or for good: closed, sealed, its state taken down; then it stays or goes.

    begin   an entry in the journal says LEAVING: what was accepted before is in the same group or in one
            before it, what comes later is refused for certain; new requests wait at the gate
            everything is sealed, the ledgers of worker groups too; the state is all that the next owner needs
            besides the cold store
    stay    nothing has happened, but for a pause
    leave   the next owner is named in the queue's shards document, or `queue.json` says that the queue is
            deleted: forget the queue here

A process that dies after `begin` finds the queue LEAVING in its journal. At the next request for the queue it asks
which node owns it (owners.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

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
        self.end_groups: Callable[[str, JjqError], Awaitable[None]] = _no_groups  # of a queue that is closed

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
        for ledger in self._registry.ledgers_of(name):
            await self._registry.queue(ledger.name)
        await self._registry.opening.ended(lambda each: each == name)  # its ledgers may still be arriving
        _check_open(name, queue)
        queue.state.close()  # no ledger of it is opened from here on
        try:
            ledgers = await self._close_ledgers(name)
            await self.end_groups(name, why)
            await commit_state(self._committer, lambda: _bar([queue, *ledgers], self._registry, why))
            failpoint.reach("move.intended")
            for each in (*ledgers, queue):
                await self._sealer.seal(each)
            failpoint.reach("move.sealed")
        except BaseException:
            await self.stay(queue)
            raise
        return queue, state_of(queue, self._registry)

    async def _close_ledgers(self, name: str) -> list[HotQueue]:
        """All ledgers of a queue that is closed, closed too."""
        await self._registry.opening.ended(lambda each: each.startswith(f"{name}~"))
        ledgers = self._registry.ledgers_of(name)
        _check_open(name, *ledgers)
        for each in ledgers:
            each.state.close()
        return ledgers

    async def stay(self, queue: HotQueue) -> None:
        """Serve it again."""
        ledgers = self._registry.ledgers_of(queue.name)
        queues = [queue, *(each for each in ledgers if each.state.decision is not None)]
        for each in queues:
            each.state.stay()
            self._registry.changes.queues.add(each)
        journalled = False
        try:
            await commit_state(
                self._committer, lambda: [records.rows(records.QUEUES, [each.row() for each in queues])]
            )
            journalled = True
        finally:
            for each in queues:
                each.state.reopen(journalled=journalled)

    async def leave(self, queue: HotQueue, why: JjqError) -> None:
        """Another node serves it, or it is deleted: forget it. Readers that wait for elements fail with `why`."""
        queues = [queue, *self._registry.ledgers_of(queue.name)]
        for each in queues:
            for subscriber in self._registry.of(each).values():
                self._blocks.leave(subscriber)
            self._registry.forget(each.number)
            each.end_waits(why)
        numbers = [[each.number] for each in queues]
        await commit_state(self._committer, lambda: [records.rows(records.LEFT, numbers)])
        failpoint.reach("move.left")

    def unsure(self, queue: HotQueue) -> None:
        """It cannot be known now whether the queue has left: the next request for it finds out."""
        for each in (queue, *self._registry.ledgers_of(queue.name)):
            each.state.doubt_owner()


def _check_open(name: str, *queues: HotQueue) -> None:
    if not all(each.state.is_open for each in queues):
        raise Fenced(f"queue {name} is being handed over already: ask again who serves it")


async def _no_groups(_queue: str, _why: JjqError) -> None:
    return


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


def _bar(queues: Sequence[HotQueue], registry: Registry, why: JjqError) -> list[Record]:
    for queue in queues:
        if queue.state.phase is Phase.CLOSING:  # else it was called off before the group was formed
            queue.state.leave(why)
            registry.changes.queues.add(queue)
    return [records.rows(records.QUEUES, [queue.row() for queue in queues])]
