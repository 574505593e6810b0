"""Blocking calls to servers from Spark's threads. They run on the event loop of the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from coldstore.shared.errors import JjqError, NotFound, check
from coldstore.shared.results import BlockInfo, QueueInfo, Resolved, SubscriberInfo
from jjq.client.loop_thread import portal
from jjq.limits import CALL_SECONDS
from jjq.remote.settings import ClientTls, RemoteSettings
from jjq.remote.store import RemoteStore

T = TypeVar("T")


class ServerConnection:
    """The verbs that Spark needs, over one connection; close it, or use it as a context manager."""

    def __init__(
        self, servers: str, tls: ClientTls | None = None, seconds: float = CALL_SECONDS, *, task: bool = False
    ) -> None:
        """A `task` is patient from the start: the driver has reached the servers before, so they are restarting."""
        self._portal = portal()
        self.store = self.run(_connect(servers, RemoteSettings(seconds, tls, patient_at_first=task)))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a verb of `store`."""
        return self._portal.run(work)

    def queue(self, named: str) -> QueueInfo:
        """A queue by name, or by id."""
        try:
            return self.run(self.store.get_queue(named))
        except NotFound:
            for queue in self.run(self.store.list_queues()):
                if queue.id == named:
                    return queue
            raise

    def resolve(self, queue: str, point: str) -> Resolved:
        """Where a starting point leads at this instant."""
        found = self.run(self.store.create_subscriber(queue, None, point, dry_run=True)).resolved
        if found is None:
            raise AssertionError("the reply to a dry run does not say where it leads")
        return found

    def blocks(self, queue: str) -> list[BlockInfo]:
        return self.run(self.store.list_blocks(queue))

    def subscribers(self, queue: str | None) -> list[SubscriberInfo]:
        return self.run(self.store.list_subscribers(queue))

    def read(self, queue: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The elements `start`..`end` (exclusive): each once, none left out."""
        batches = self.store.read(queue, f"offset:{start}", f"offset:{end}")
        position = start
        while position < end:
            batch = self.run(_next(batches))
            check(batch.num_rows > 0, f"queue {queue} ended at {position}, before {end}")
            yield batch
            position += batch.num_rows

    def close(self) -> None:
        self.run(self.store.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except JjqError:
            if error is None:
                raise


async def _next(batches: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch:
    """The next batch; one without rows at the end."""
    return await anext(batches, pa.record_batch({}))


async def _connect(servers: str, settings: RemoteSettings) -> RemoteStore:
    return RemoteStore(servers, settings)
