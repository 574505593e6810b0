"""Where a query gets what is not in the files of the cold store: how far a queue goes, its tail, system tables.

The engine runs in a thread or a process of its own and waits for answers (`EngineSource`). The answers come from
the verbs of a store, which are asynchronous (`StoreAnswers`):

    ColdSource    where there is no server, and no hot store: history alone; ColdVerbs are its verbs
    LoopSource    in the same process: runs the verbs on the event loop, from the engine's thread
    worker.py     in the process of a query on a server: asks the server over a pipe
    OpenQueues    the queues of a cold store, each opened once
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, NoReturn, Protocol, TypeVar

import pyarrow as pa

from coldstore.layout import paths
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.port import ObjectStore
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import InvalidInput, Unavailable, check
from coldstore.shared.results import BlockInfo, NodeStatus, QueueInfo, SubscriberInfo
from coldstore.store import ColdStore
from jjq.limits import SQL_QUEUES_OPEN
from jjq.sql import group_tables as _  # noqa: F401 - its tables are known wherever system tables are
from jjq.sql import system_tables
from jjq.sql.system_tables import ClusterVerbs, StoreVerbs, TableSource

T = TypeVar("T")


class QueueVerbs(StoreVerbs, Protocol):
    """The verbs of a `Store` that queries need."""

    async def get_queue(self, name: str) -> QueueInfo: ...

    def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncIterator[pa.RecordBatch]: ...


class EngineSource(Protocol):
    """Port: what the engine asks for, and waits for."""

    def queue(self, name: str) -> QueueInfo: ...

    def queue_names(self) -> list[str]: ...

    def read(self, queue: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Elements `start`..`end` (exclusive), wherever they are now."""
        ...

    def system(self, table: str, queues: Sequence[str] | None) -> pa.Table: ...


class StoreAnswers:
    """The same, asynchronously, from the verbs of a store."""

    def __init__(self, store: QueueVerbs, operator: ClusterVerbs | None = None) -> None:
        self._store = store
        self._tables = TableSource(store, operator)

    async def queue(self, name: str) -> QueueInfo:
        return await self._store.get_queue(name)

    async def queue_names(self) -> list[str]:
        return [queue.name for queue in await self._store.list_queues()]

    def read(self, queue: str, start: int, end: int) -> AsyncIterator[pa.RecordBatch]:
        return self._store.read(queue, f"offset:{start}", f"offset:{end}")

    async def system(self, table: str, queues: Sequence[str] | None) -> pa.Table:
        return await system_tables.make(table, self._tables, queues)


class LoopSource:
    """Answers for an engine in another thread of this process."""

    def __init__(self, answers: StoreAnswers, loop: asyncio.AbstractEventLoop) -> None:
        self._answers = answers
        self._loop = loop
        self._waiting: Future[Any] | None = None
        self._closed = False

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise Unavailable("the query was given up")
        self._waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            found: T = self._waiting.result()
        except CancelledError:
            raise Unavailable("the query was given up") from None
        return found

    def give_up(self) -> None:
        """Break off what the engine waits for; from any thread."""
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()

    def queue(self, name: str) -> QueueInfo:
        return self._run(self._answers.queue(name))

    def queue_names(self) -> list[str]:
        return self._run(self._answers.queue_names())

    def read(self, queue: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        batches: Any = self._answers.read(queue, start, end)

        async def following() -> pa.RecordBatch | None:
            return await anext(batches, None)

        try:
            while (batch := self._run(following())) is not None:
                yield batch
        finally:
            if not self._closed:
                self._run(batches.aclose())

    def system(self, table: str, queues: Sequence[str] | None) -> pa.Table:
        return self._run(self._answers.system(table, queues))


class OpenQueues:
    """Queues of a cold store that queries look at: opened once, and looked at again by each query."""

    def __init__(self, cold: ColdStore) -> None:
        self._cold = cold
        self._open: BoundedDict[str, ColdQueue] = BoundedDict(SQL_QUEUES_OPEN)

    @property
    def objects(self) -> ObjectStore:
        return self._cold.objects

    def queue_names(self) -> list[str]:
        return self._cold.queue_names()

    def open_queue(self, name: str) -> ColdQueue:
        """A queue with the blocks that it has now; `NotFound` if there is none, or if it was deleted."""
        known = self._open.get(name)
        if known is not None:
            settings = self._cold.find(name)
            if settings is not None and settings.id == known.settings.id and settings.deleted is None:
                known.refresh()
                return known
        found = self._open[name] = self._cold.open_queue(name)
        return found


class ColdVerbs:
    """A cold store without a server: queues and blocks. Elements that are not cold yet are not seen."""

    def __init__(self, cold: OpenQueues) -> None:
        self._cold = cold

    async def list_queues(self, *, after: str = "", limit: int | None = None) -> list[QueueInfo]:
        return await asyncio.to_thread(self._list_queues, after, limit)

    def _list_queues(self, after: str, limit: int | None) -> list[QueueInfo]:
        shown = (name for name in self._cold.queue_names() if paths.ledger_parts(name) is None)
        names = [name for name in shown if name > after][:limit]
        return [_info(queue.settings, queue) for queue in map(self._cold.open_queue, names)]

    async def list_blocks(
        self, queue: str, *, from_offset: int = 0, limit: int | None = None
    ) -> list[BlockInfo]:
        blocks = (await asyncio.to_thread(self._cold.open_queue, queue)).list_blocks()
        return [block.info(queue) for block in blocks if block.next > from_offset][:limit]

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[SubscriberInfo]:
        self._refuse("subscribers")

    async def status(self) -> list[NodeStatus]:
        self._refuse("nodes")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidInput(f"{what} are known to servers only: give the server, too (--server)")


class ColdSource:
    """Answers from a cold store alone, without an event loop: in the engine's own thread."""

    def __init__(self, cold: OpenQueues) -> None:
        self._cold = cold

    def give_up(self) -> None:
        """Nobody is waited for."""

    def queue(self, name: str) -> QueueInfo:
        queue = self._cold.open_queue(name)
        return _info(queue.settings, queue)

    def queue_names(self) -> list[str]:
        return self._cold.queue_names()

    def read(self, queue: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        check(False, f"queue {queue} goes no further than its blocks, but offset {start} was asked for")
        yield

    def system(self, table: str, queues: Sequence[str] | None) -> pa.Table:
        return asyncio.run(system_tables.make(table, TableSource(ColdVerbs(self._cold)), queues))


def _info(settings: QueueSettings, queue: ColdQueue) -> QueueInfo:
    end = queue.next_offset
    return QueueInfo(
        id=settings.id,
        name=settings.name,
        content=settings.content,
        block_bytes=settings.block_bytes,
        block_seconds=settings.block_seconds,
        created_us=settings.created_us,
        first_offset=0,
        next_offset=end,
        cold_offset=end,
        subscribers=0,
    )
