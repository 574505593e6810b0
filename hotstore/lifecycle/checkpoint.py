"""Checkpoints: the state rows again, so that the journal before them can go.

Rows go through the same group commits as everything else, a chunk at a time, each chunk made when
its group is formed. So no push waits for a checkpoint, and replaying from its first chunk on gives
exactly the state, whatever came between the chunks. The journal is trimmed to the minimum of what
is still needed: the last whole checkpoint and the first unsealed element of every queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hotstore.journal import records
from hotstore.journal.port import Journal, Record
from hotstore.queue.moves import chunks, commit_state
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.queue.subscriber import Subscriber
from hotstore.write.committer import Committer

T = TypeVar("T")


class Checkpointer:
    """Writes checkpoints into the journal and trims it."""

    def __init__(self, registry: Registry, committer: Committer, journal: Journal, every_bytes: int) -> None:
        self._registry = registry
        self._committer = committer
        self._journal = journal
        self._every_bytes = every_bytes
        self._base_bytes = 0  # what the journal held after the last checkpoint and trim
        self._running = False
        self._file: int | None = None  # of the journal that the last checkpoint began in
        self.floor = 0  # the journal before it holds no state that is not written again after it

    @property
    def journal_bytes(self) -> int:
        return self._journal.used_bytes

    def due(self) -> bool:
        """As soon as the journal goes on in another file, too: should one of them be lost, the others say enough."""
        file = self._journal.chapter(0)
        if self._file is None:
            self._file = file  # what an earlier run wrote into the others stays as it is
        grown = self._journal.used_bytes - self._base_bytes
        return not self._running and (grown >= self._every_bytes or file != self._file)

    async def write(self) -> None:
        """Write all rows again."""
        self._running = True
        try:
            registry = self._registry
            self._file = self._journal.chapter(0)
            first = await self._chunk([], _queue_rows)
            for queues in chunks(list(registry.queues.values())):
                await self._chunk(queues, _queue_rows)
            for subscribers in chunks(list(registry.subscribers.values())):
                await self._chunk(subscribers, _subscriber_rows)
            producers = [(q, name) for q in registry.queues.values() for name in q.producers.names()]
            for some in chunks(producers):
                await self._chunk(some, _producer_rows)
            await self._doubts()
            self.floor = first
            self._base_bytes = self._journal.used_bytes
        finally:
            self._running = False

    async def _doubts(self) -> None:
        queues = [queue for queue in self._registry.queues.values() if queue.state.doubt is not None]
        rows = [queue.state.doubt_row(queue.number) for queue in queues]
        rows += [[0, name, cause] for name, cause in self._registry.suspects.items()]
        for some in chunks(rows):
            await self._chunk(some, _doubt_rows)

    async def _chunk(self, items: Sequence[T], make: Callable[[Sequence[T]], Record]) -> int:
        return await commit_state(self._committer, lambda: [make(items)])

    async def trim(self) -> None:
        """Let go of what nothing needs any more."""
        floors = [floor for queue in self._registry.queues.values() if (floor := queue.floor()) is not None]
        held = self._registry.hold()
        before = min([self.floor, *floors] if held is None else [self.floor, held, *floors])
        await self._committer.call(lambda: self._journal.trim(before))
        self._base_bytes = min(self._base_bytes, self._journal.used_bytes)


def _queue_rows(queues: Sequence[HotQueue]) -> Record:
    return records.rows(records.QUEUES, [queue.row() for queue in queues])


def _subscriber_rows(subscribers: Sequence[Subscriber]) -> Record:
    return records.rows(records.SUBSCRIBERS, [s.row() for s in subscribers if not s.deleted])


def _producer_rows(producers: Sequence[tuple[HotQueue, str]]) -> Record:
    rows = [[queue.number, *row] for queue, name in producers if (row := queue.producers.row(name))]
    return records.rows(records.PRODUCERS, rows)


def _doubt_rows(rows: Sequence[list[Any]]) -> Record:
    return records.rows(records.DOUBTS, rows)
