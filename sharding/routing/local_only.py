"""The store of this node as other nodes see it: it serves, or refuses with `Fenced`; it never forwards.

So requests between nodes cannot go in circles, even if several nodes are mistaken about an owner. The store also
counts the elements that each queue serves, for placement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, TypeVar, cast

import pyarrow as pa

from coldstore.shared.errors import Fenced, JjqError, OutOfRange, Unavailable
from coldstore.shared.push import Push, PushTarget
from coldstore.shared.results import queue_part
from coldstore.start_points import named_offset
from hotstore.port import (
    BlockInfo,
    Deletion,
    Loss,
    NodeStatus,
    Popped,
    QueueInfo,
    Receipt,
    Store,
    SubscriberInfo,
)
from sharding.documents.node_info import Node
from sharding.ports import Ownership
from sharding.routing.large_routing import LargeRouting
from sharding.routing.nodes import Nodes
from sharding.routing.traffic import Traffic
from sharding.routing.work_routing import WorkRouting

T = TypeVar("T")


class LocalOnlyStore(WorkRouting, LargeRouting, PushTarget):
    """Verbs of `hotstore.port.Store`; each names its queue and what to ask of the store that has it."""

    def __init__(self, local: Store, ownership: Ownership, traffic: Traffic) -> None:
        self.local = local
        self._ownership = ownership
        self._traffic = traffic

    async def _ask(self, queue: str, call: Callable[[Store], Awaitable[T]], *, safe: bool = True) -> T:
        """Let the store that has `queue` answer; `safe` calls may happen twice."""
        return await call(self.local)

    # Queues ---------------------------------------------------------------------------------------

    async def create_queue(
        self,
        name: str,
        *,
        content: str = "bytes",
        block_bytes: int | None = None,
        block_seconds: float | None = None,
    ) -> QueueInfo:
        return await self._ask(
            name,
            lambda store: store.create_queue(
                name, content=content, block_bytes=block_bytes, block_seconds=block_seconds
            ),
        )

    async def get_queue(self, name: str) -> QueueInfo:
        return await self._ask(queue_of(name), lambda store: store.get_queue(name))

    async def list_queues(
        self, *, after: str = "", limit: int | None = None, ledgers: bool = False
    ) -> list[QueueInfo]:
        return await self.local.list_queues(after=after, limit=limit, ledgers=ledgers)

    async def list_blocks(
        self, queue: str, *, from_offset: int = 0, limit: int | None = None
    ) -> list[BlockInfo]:
        return await self._ask(
            queue, lambda store: store.list_blocks(queue, from_offset=from_offset, limit=limit)
        )

    async def accept_loss(self, queue: str, *, next_offset: int | None = None, dry_run: bool = False) -> Loss:
        return await self._ask(
            queue, lambda store: store.accept_loss(queue, next_offset=next_offset, dry_run=dry_run)
        )

    async def update_queue(
        self, name: str, *, block_bytes: int | None = None, block_seconds: float | None = None
    ) -> QueueInfo:
        return await self._ask(
            name,
            lambda store: store.update_queue(name, block_bytes=block_bytes, block_seconds=block_seconds),
        )

    async def delete_queue(
        self, name: str, *, grace_seconds: float | None = None, dry_run: bool = False
    ) -> Deletion:
        return await self._ask(
            name, lambda store: store.delete_queue(name, grace_seconds=grace_seconds, dry_run=dry_run)
        )

    async def undelete_queue(self, name: str) -> QueueInfo:
        return await self._ask(name, lambda store: store.undelete_queue(name))

    async def seal(self, queue: str) -> QueueInfo:
        return await self._ask(queue, lambda store: store.seal(queue))

    async def status(self) -> list[NodeStatus]:
        return await self.local.status()

    # Subscribers ----------------------------------------------------------------------------------

    async def create_subscriber(
        self,
        queue: str,
        name: str | None = None,
        start: str = "end",
        *,
        clamp: bool = False,
        dry_run: bool = False,
    ) -> SubscriberInfo:
        return await self._ask(
            queue,
            lambda store: store.create_subscriber(queue, name, start, clamp=clamp, dry_run=dry_run),
            safe=dry_run or name is not None,
        )

    async def get_subscriber(self, subscriber: str) -> SubscriberInfo:
        return await self._ask(queue_of(subscriber), lambda store: store.get_subscriber(subscriber))

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[SubscriberInfo]:
        if queue is None:
            return await self.local.list_subscribers(after=after, limit=limit)
        return await self._ask(queue, lambda store: store.list_subscribers(queue, after=after, limit=limit))

    async def delete_subscriber(self, subscriber: str) -> None:
        # A second attempt after a success would find no subscriber, and fail.
        await self._ask(queue_of(subscriber), lambda store: store.delete_subscriber(subscriber), safe=False)

    async def seek(
        self, subscriber: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> SubscriberInfo:
        return await self._ask(
            queue_of(subscriber), lambda store: store.seek(subscriber, start, clamp=clamp, dry_run=dry_run)
        )

    async def sleep(self, subscriber: str) -> SubscriberInfo:
        return await self._ask(queue_of(subscriber), lambda store: store.sleep(subscriber))

    async def wakeup(self, subscriber: str) -> SubscriberInfo:
        return await self._ask(queue_of(subscriber), lambda store: store.wakeup(subscriber))

    # Elements -------------------------------------------------------------------------------------

    async def append(self, push: Push) -> Receipt:
        receipt = await self.local.append(push)
        self._traffic.count(push.queue, receipt.count)
        return receipt

    async def pop(
        self, subscriber: str, max: int = 1, wait: float = 0.0, *, position: int | None = None
    ) -> Popped:
        popped = await self._ask(
            queue_of(subscriber),
            lambda store: store.pop(subscriber, max, wait, position=position),
            safe=position is not None,
        )
        self._traffic.count(queue_of(subscriber), popped.next - popped.position)
        return popped

    async def peek(self, subscriber: str, max: int = 1, wait: float = 0.0) -> Popped:
        return await self._ask(queue_of(subscriber), lambda store: store.peek(subscriber, max, wait))

    async def confirm(self, subscriber: str, offset: int) -> None:
        await self._ask(queue_of(subscriber), lambda store: store.confirm(subscriber, offset))

    async def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Between two offsets, also of queues that other nodes own: every node can read history on object storage."""
        first, last = named_offset(start), named_offset(end)
        if not self._ownership.owns(queue) and first is not None and last is not None:
            history = counted(self._ownership.read_history(queue, first, last), queue, self._traffic)
            with suppress(OutOfRange):  # before the first element: only the owner has all of it
                async for batch in history:
                    yield batch
                return
        async for batch in counted(self.local.read(queue, start, end, follow=follow), queue, self._traffic):
            yield batch


async def counted(
    source: AsyncIterator[pa.RecordBatch], queue: str, traffic: Traffic
) -> AsyncGenerator[pa.RecordBatch, None]:
    async with aclosing(cast("Any", source)) as batches:
        async for batch in batches:
            traffic.count(queue, batch.num_rows)
            yield batch


async def statuses(nodes: Nodes, at: Callable[[str, str], Awaitable[Store]]) -> list[NodeStatus]:
    """The status of all nodes, by name. For a node that does not answer: the error."""

    async def one(node: Node) -> list[NodeStatus]:
        try:
            if not nodes.is_alive(node.id):
                raise Unavailable("it gives no signs of life")
            return await (await at(node.id, "")).status()
        except JjqError as error:
            return [NodeStatus(node.id, node.version, node.uptime_seconds, {}, error=error.message)]

    return [status for found in await asyncio.gather(*map(one, nodes.all())) for status in found]


def queue_of(name: str) -> str:
    """As `queue_part`. A name that is not text is passed to the store, which says what is wrong with it."""
    return queue_part(name) if isinstance(name, str) else name


def refused(queue: str, owner: str | None) -> Fenced:
    """The error for a request that no node can serve at the moment."""
    return Fenced(
        f"queue {queue} is changing hands between nodes: ask again" + (f", at {owner}" if owner else ""),
        owner=owner,
    )
