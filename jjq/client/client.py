"""The verbs of jjq over any `Store`: the one implementation, asynchronous; blocking.py calls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import pyarrow as pa

from coldstore.shared.batch import Element, elements, schema
from coldstore.shared.chance import Chance, SystemChance
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from coldstore.shared.limits import OBJECT_BYTES_MIN
from coldstore.shared.results import queue_part
from hotstore.port import (
    BlockInfo,
    QueueInfo,
    Receipt,
    Stage,
    Store,
    SubscriberInfo,
)
from jjq.arguments import (
    Size,
    Start,
    flag,
    number,
    queue_name,
    size,
    starting_point,
    text,
    whole,
)
from jjq.arguments import stage as check_stage
from jjq.arguments import subscriber_id as _id
from jjq.client.administration import QueueAdministration
from jjq.client.batcher import ProducerSettings
from jjq.client.groups.group_client import GroupClient
from jjq.client.groups.push_options import Priority, Seconds, with_options
from jjq.client.large.verbs import check_minimum
from jjq.client.local_subscription import Deliveries, LocalDeliveries
from jjq.client.payload import Headers, Keys, make_push, to_payload
from jjq.client.producer import AsyncProducer
from jjq.client.replay import AsyncReplay
from jjq.client.resumable_pop import ResumablePops
from jjq.client.sql_result import AsyncSqlResult
from jjq.client.subscription import CONFIRM_EVERY_SECONDS, AsyncSubscription

if TYPE_CHECKING:
    from coldstore.objects.settings import S3Settings
    from jjq.sql.query import Params, Queries

Sub = SubscriberInfo | str


@runtime_checkable
class _Streaming(Protocol):
    """A store that delivers by itself, as a server does."""

    def subscribe(self, subscriber: str) -> Deliveries: ...


class AsyncClient(GroupClient, QueueAdministration):
    """The verbs of jjq over any `Store`. Close it, or use it as a context manager."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        retry_seconds: float = 0.0,
        on_close: Callable[[], Awaitable[None]] | None = None,
        queries: Callable[[str | None, S3Settings | None], Queries] | None = None,
        object_bytes_min: int = OBJECT_BYTES_MIN,
    ) -> None:
        """`queries` tells who answers SQL, given a cold store to read history from."""
        self._store = store
        self._queries = queries
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()
        self._on_close = on_close
        self._object_seconds = retry_seconds
        self._object_bytes_min = check_minimum(object_bytes_min)
        self._pops = ResumablePops(store, self._clock, self._chance, retry_seconds)
        self._producers: set[AsyncProducer] = set()
        self._subscriptions: dict[AsyncSubscription, str] = {}
        self._local: dict[str, LocalDeliveries] = {}

    # Queues ---------------------------------------------------------------------------------------

    async def create_queue(
        self,
        name: str,
        *,
        block_bytes: Size | None = None,
        block_seconds: float | None = None,
        content: str = "bytes",
    ) -> QueueInfo:
        """Create a queue of bytes, text or json. The same request again returns the existing one.

        A block is sealed at `block_bytes` (a number, or "64MiB"), or when it is `block_seconds` old. What is not given
        is a default of a new queue, and may be anything in one that exists.
        """
        return await self._store.create_queue(
            text("name", name),
            content=text("content", content),
            block_bytes=None if block_bytes is None else size("block_bytes", block_bytes),
            block_seconds=None if block_seconds is None else number("block_seconds", block_seconds),
        )

    async def get_queue(self, queue: str | SubscriberInfo) -> QueueInfo:
        """A queue, by its name or by one of its subscribers."""
        return await self._store.get_queue(queue_name(queue))

    async def list_queues(self, *, ledgers: bool = False) -> list[QueueInfo]:
        """All queues, by name; with `ledgers` also those in which worker groups keep what happened to each task."""
        return await self._store.list_queues(ledgers=flag("ledgers", ledgers))

    async def list_blocks(self, queue: str) -> list[BlockInfo]:
        """The blocks of a queue, oldest first, in memory and in the cold store."""
        return await self._store.list_blocks(text("queue", queue))

    # Subscribers ----------------------------------------------------------------------------------

    async def create_subscriber(
        self,
        queue: str,
        name: str | None = None,
        start: Start = "end",
        *,
        clamp: bool = False,
        dry_run: bool = False,
    ) -> SubscriberInfo:
        """A named position, at a starting point such as beginning, end, offset:N, ago:1h or last:N.

        A starting point may also be an int (an offset), a datetime with its zone, or a timedelta (so long ago).
        """
        return await self._store.create_subscriber(
            text("queue", queue),
            None if name is None else text("name", name),
            starting_point("start", start),
            clamp=flag("clamp", clamp),
            dry_run=flag("dry_run", dry_run),
        )

    async def get_subscriber(self, subscriber: Sub) -> SubscriberInfo:
        """Where a subscriber is now."""
        return await self._store.get_subscriber(_id(subscriber))

    async def list_subscribers(self, queue: str | None = None) -> list[SubscriberInfo]:
        """The subscribers of a queue, or of all queues."""
        return await self._store.list_subscribers(None if queue is None else text("queue", queue))

    async def delete_subscriber(self, subscriber: Sub) -> None:
        """Forget a subscriber; elements stay."""
        name = _id(subscriber)
        await self._store.delete_subscriber(name)
        self._pops.forget(name)
        if name in self._local:
            self._local[name].end(NotFound(f"subscriber {name} was deleted"))

    async def seek(
        self, subscriber: Sub, start: Start, *, clamp: bool = False, dry_run: bool = False
    ) -> SubscriberInfo:
        """Move a subscriber to a starting point (see `create_subscriber`), also while it is being read."""
        name, start = _id(subscriber), starting_point("start", start)
        clamp, dry_run = flag("clamp", clamp), flag("dry_run", dry_run)
        local = self._local.get(name)
        if local is None or dry_run:
            found = await self._store.seek(name, start, clamp=clamp, dry_run=dry_run)
        else:
            async with local.moving:  # so that no confirmation undoes it
                found = await self._store.seek(name, start, clamp=clamp)
                local.moved(found.offset)
        if not dry_run:
            self._pops.moved(name, found.offset)
            for subscription in [s for s, of in self._subscriptions.items() if of == name]:
                subscription.cursor.drop()
        return found

    async def sleep(self, subscriber: Sub) -> SubscriberInfo:
        """Unload a subscriber; its position stays, and a pop wakes it."""
        return await self._store.sleep(_id(subscriber))

    async def wakeup(self, subscriber: Sub) -> SubscriberInfo:
        """Load a subscriber's block ahead of its first pop."""
        return await self._store.wakeup(_id(subscriber))

    # Elements -------------------------------------------------------------------------------------

    async def push(
        self,
        queue: str,
        values: Any,
        *,
        keys: Keys | None = None,
        headers: Headers | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        expected_offset: int | None = None,
        stage: Stage = "synced",
        delay: Seconds = None,
        ttl: Seconds = None,
        ttr: Seconds = None,
        priority: Priority = None,
        timeout: float = 0.0,  # noqa: ASYNC109 - the server waits, not we
    ) -> Receipt:
        """Append values (bytes or str), or an Arrow batch or table: all of them or nothing.

        With `producer` and `sequence` the push may be repeated and is written once; with
        `expected_offset` it is written only there. `delay`, `ttl`, `ttr` (seconds) and `priority` are options of the
        tasks, for worker groups: one for all values, or a list. If a group has as many tasks as it may, the push waits
        for room for up to `timeout` seconds.
        """
        payload = with_options(
            to_payload(values, keys, headers), {"delay": delay, "ttl": ttl, "ttr": ttr, "priority": priority}
        )
        push = make_push(queue, payload, producer, sequence, expected_offset, stage, timeout)
        if isinstance(values, list | tuple) and self._has_large_values(push):
            push = await self._with_large_values_moved(push)
        return await self._store.append(push)

    async def pop(self, subscriber: Sub, max: int = 1, wait: float = 0.0) -> list[Element]:
        """Take up to `max` elements and move on; waits up to `wait` seconds for the first."""
        batch = await self.pop_batch(subscriber, max, wait)
        return list(elements(batch, self._objects_of(subscriber)))

    async def pop_batch(self, subscriber: Sub, max: int = 1_000, wait: float = 0.0) -> pa.RecordBatch:
        """As pop, as an Arrow record batch: no work per element."""
        return (await self._pops.pop(_id(subscriber), whole("max", max), number("wait", wait))).batch

    async def peek(self, subscriber: Sub, max: int = 1, wait: float = 0.0) -> list[Element]:
        """As pop, but the subscriber stays where it is."""
        batch = await self.peek_batch(subscriber, max, wait)
        return list(elements(batch, self._objects_of(subscriber)))

    async def peek_batch(self, subscriber: Sub, max: int = 1_000, wait: float = 0.0) -> pa.RecordBatch:
        """As peek, as an Arrow record batch."""
        return (await self._store.peek(_id(subscriber), whole("max", max), number("wait", wait))).batch

    def producer(
        self,
        queue: str,
        *,
        linger: float = 0.005,
        batch_bytes: Size = 1 << 20,
        batch_elements: int = 10_000,
        in_flight: int = 32,
        memory_bytes: Size = 64 << 20,
        deadline: float = 60.0,
        stage: Stage = "synced",
    ) -> AsyncProducer:
        """Pushes single elements in batches, each written exactly once, also across restarts of the server."""
        settings = ProducerSettings(
            number("linger", linger),
            size("batch_bytes", batch_bytes),
            whole("batch_elements", batch_elements),
            whole("in_flight", in_flight),
            size("memory_bytes", memory_bytes),
            number("deadline", deadline),
            check_stage(stage),
        )
        made = AsyncProducer(
            self._store, text("queue", queue), settings, self._clock, self._chance, self._producers.discard
        )
        self._producers.add(made)
        return made

    def subscribe(
        self, subscriber: Sub, *, confirm_every: float | None = CONFIRM_EVERY_SECONDS
    ) -> AsyncSubscription:
        """Elements as they come, prefetched, confirmed as the consumer goes on.

        An element counts as handled when the next one is asked for. What is handled is confirmed at the end of a
        batch and every `confirm_every` seconds: if the program dies, elements of the last second may come again.
        With None nothing is confirmed but by the subscription's `confirm()`.
        """
        name = _id(subscriber)
        if confirm_every is not None and not number("confirm_every", confirm_every) > 0:
            raise InvalidInput(f"confirm_every is {confirm_every}: give seconds above 0, or None")
        if isinstance(self._store, _Streaming):
            deliveries: Deliveries = self._store.subscribe(name)
        else:
            deliveries = self._deliver(name)
        made = AsyncSubscription(deliveries, self._clock, self._subscription_closed, confirm_every)
        made.cursor.source = self._objects(queue_part(name))
        self._subscriptions[made] = name
        return made

    def _deliver(self, subscriber: str) -> LocalDeliveries:
        older = self._local.get(subscriber)
        if older is not None:
            older.end(Conflict(f"another subscription of {subscriber} was opened: one at a time"))
        deliveries = self._local[subscriber] = LocalDeliveries(self._store, subscriber)
        return deliveries

    def _subscription_closed(self, subscription: AsyncSubscription) -> None:
        name = self._subscriptions.pop(subscription, None)
        if name is not None and name not in self._subscriptions.values():
            self._local.pop(name, None)

    def replay(
        self, queue: str, start: Start = "beginning", end: Start | None = None, *, follow: bool = False
    ) -> AsyncReplay:
        """Record batches of a range, without a subscriber: from `start` up to `end`, by default now.

        Both are starting points, as for `create_subscriber`; `end` itself is not read.
        """
        queue, follow = text("queue", queue), flag("follow", follow)
        first = starting_point("start", start)
        last = None if end is None else starting_point("end", end)

        async def empty() -> pa.Schema:
            return schema((await self._store.get_queue(queue)).content)

        return AsyncReplay(
            self._store.read(queue, first, last, follow=follow), empty, follow, self._objects(queue)
        )

    def sql(
        self,
        query: str,
        params: Params | None = None,
        *,
        cold: str | None = None,
        s3: S3Settings | None = None,
        timeout: float | None = None,
    ) -> AsyncSqlResult:
        """Ask in SQL: every queue is a table, beside `jjq.queues`, `jjq.subscribers`, … (docs/sql.md).

        `params` are a list for `$1`, `$2`, …, or a dict for `$name`. A server answers in a process of its own. With
        `cold`, the URL of its cold store, this process reads history there and asks the server for the tails only.
        """
        from jjq.sql.query import make_query

        asked = make_query(
            text("query", query), params, None if timeout is None else number("timeout", timeout)
        )
        if self._queries is None:
            raise InvalidInput("this store does not answer SQL: open it with jjq.open or jjq.connect")
        return AsyncSqlResult(self._queries(cold, s3).run(asked))

    # The end --------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Flush producers, end subscriptions, close the store. Closing again does nothing."""
        close, self._on_close = self._on_close, None
        try:
            for subscription in list(self._subscriptions):
                await subscription.close()
            for producer in list(self._producers):
                await producer.close()
            await self._close_session()
        finally:
            if close is not None:
                await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
