"""A `Store` of lists, honest about order, identity and positions; nothing is durable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from coldstore import start_points
from coldstore.layout.paths import check_name
from coldstore.shared.batch import Content, check_content, check_payload, schema, stamp
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, InvalidInput, NotFound, OutOfRange
from coldstore.shared.push import Push, PushTarget
from hotstore.port import (
    BlockInfo,
    Deletion,
    Loss,
    NodeStatus,
    Popped,
    QueueInfo,
    Receipt,
    Resolved,
    SubscriberInfo,
)
from hotstore.write.producers import KnownPush, Producers, check_identity, check_retry


@dataclass
class Queue:
    """One queue: all its elements as one table, and who waits for more."""

    name: str
    content: Content
    block_bytes: int
    block_seconds: float
    clock: ManualClock
    batches: list[pa.RecordBatch] = field(default_factory=list)
    next_offset: int = 0
    first_offset: int = 0
    cold_offset: int = 0
    producers: Producers = field(default_factory=Producers)
    subscribers: dict[str, SubscriberInfo] = field(default_factory=dict)
    grown: asyncio.Condition = field(default_factory=asyncio.Condition)

    def info(self) -> QueueInfo:
        return QueueInfo(
            f"id-{self.name}", self.name, self.content, self.block_bytes, self.block_seconds, 0,
            0, self.next_offset, self.cold_offset, len(self.subscribers),
        )  # fmt: skip

    def slice(self, start: int, count: int) -> pa.RecordBatch:
        table = pa.Table.from_batches(self.batches, schema(self.content)).slice(start, count)
        return table.combine_chunks().to_batches()[0] if table.num_rows else self.empty()

    def empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=schema(self.content))

    # What resolving a starting point asks.

    def now_us(self) -> int:
        return self.clock.now_us()

    async def offset_at(self, timestamp_us: int) -> int | None:
        times = self.slice(0, self.next_offset).column("timestamp").cast(pa.int64()).to_pylist()
        return next((i for i, time in enumerate(times) if time >= timestamp_us), None)

    async def timestamp_of(self, offset: int) -> int | None:
        times = self.slice(offset, 1).column("timestamp").cast(pa.int64()).to_pylist()
        return times[0] if times else None

    def position_of(self, subscriber: str) -> int:
        if subscriber not in self.subscribers:
            raise NotFound(f"no subscriber {subscriber}")
        return self.subscribers[subscriber].offset


class FakeStore(PushTarget):
    """See the module's docstring."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queues: dict[str, Queue] = {}
        self.deleted: dict[str, tuple[Queue, Deletion]] = {}
        self.created = 0

    async def close(self) -> None:
        return None

    # Queues

    async def create_queue(
        self,
        name: str,
        *,
        content: str = "bytes",
        block_bytes: int | None = None,
        block_seconds: float | None = None,
    ) -> QueueInfo:
        wanted = Queue(
            check_name(name), check_content(content), block_bytes or 1, block_seconds or 1.0, self.clock
        )
        found = self.queues.setdefault(name, wanted)
        asked = found.block_bytes if block_bytes is None else block_bytes
        if (found.content, found.block_bytes) != (wanted.content, asked):
            raise Conflict(f"queue {name} exists with other settings")
        return found.info()

    def _queue(self, name: str) -> Queue:
        if check_name(name) not in self.queues:
            raise NotFound(f"no queue {name}")
        return self.queues[name]

    async def get_queue(self, name: str) -> QueueInfo:
        return (self._find(name)[0] if "/" in name else self._queue(name)).info()

    async def list_queues(
        self, *, after: str = "", limit: int | None = None, ledgers: bool = False
    ) -> list[QueueInfo]:
        return [self.queues[name].info() for name in sorted(self.queues) if name > after][:limit]

    async def list_blocks(
        self, queue: str, *, from_offset: int = 0, limit: int | None = None
    ) -> list[BlockInfo]:
        cold, end = self._queue(queue).cold_offset, self._queue(queue).next_offset
        sealed = BlockInfo(0, 0, cold - 1, cold, "young", False, 0, 0, 0, 1, "", "sealed", 0)
        tail = BlockInfo(cold, cold, end - 1, end - cold, "hot-hot", True, 0, 0, 0, None, None, None, 0)
        return [sealed, tail] if cold else [tail]

    async def update_queue(
        self, name: str, *, block_bytes: int | None = None, block_seconds: float | None = None
    ) -> QueueInfo:
        found = self._queue(name)
        found.block_bytes = found.block_bytes if block_bytes is None else block_bytes
        found.block_seconds = found.block_seconds if block_seconds is None else block_seconds
        return found.info()

    async def delete_queue(
        self, name: str, *, grace_seconds: float | None = None, dry_run: bool = False
    ) -> Deletion:
        if check_name(name) in self.deleted:
            return self.deleted[name][1]
        now = self.clock.now_us()
        until = now + round((60.0 if grace_seconds is None else grace_seconds) * 1_000_000)
        deletion = Deletion(name, self._queue(name).info().id, now, until)
        if not dry_run:
            self.deleted[name] = (self.queues.pop(name), deletion)
        return deletion

    async def undelete_queue(self, name: str) -> QueueInfo:
        if name in self.deleted:
            self.queues[name] = self.deleted.pop(name)[0]
        return self._queue(name).info()

    async def seal(self, queue: str) -> QueueInfo:
        found = self._queue(queue)
        found.cold_offset = found.next_offset
        return found.info()

    async def status(self) -> list[NodeStatus]:
        return [NodeStatus("", "1.2.3", 7.5, {"queues": float(len(self.queues))}, 3, 1.5, 0.25)]

    async def accept_loss(self, queue: str, *, next_offset: int | None = None, dry_run: bool = False) -> Loss:
        end = self._queue(queue).next_offset
        return Loss(
            queue, (), in_doubt=False, cause="", next_offset=end if next_offset is None else next_offset
        )

    # Subscribers

    def _find(self, subscriber: str) -> tuple[Queue, SubscriberInfo]:
        queue, _, name = subscriber.partition("/")
        found = self._queue(queue)
        if name not in found.subscribers:
            raise NotFound(f"no subscriber {subscriber}")
        known = found.subscribers[name]
        return found, replace(known, lag=found.next_offset - known.offset)

    def _place(self, queue: Queue, known: SubscriberInfo, previous: int, offset: int) -> SubscriberInfo:
        moved = replace(
            known, previous=previous, offset=offset, lag=queue.next_offset - offset, resolved=None
        )
        queue.subscribers[known.name] = moved
        return moved

    async def create_subscriber(
        self,
        queue: str,
        name: str | None = None,
        start: str = "end",
        *,
        clamp: bool = False,
        dry_run: bool = False,
    ) -> SubscriberInfo:
        found = self._queue(queue)
        self.created += name is None
        name = f"sub-{self.created}" if name is None else check_name(name, "subscriber")
        if name in found.subscribers and not dry_run:
            if found.subscribers[name].start != start:
                raise Conflict(f"subscriber {name} exists with another start")
            return self._find(f"{queue}/{name}")[1]
        resolved = await start_points.resolve(start_points.parse(start), found, clamp=clamp)
        known = SubscriberInfo(f"{queue}/{name}", name, queue, 0, 0, 0, start, 0, False, 0)
        if dry_run:
            return replace(known, offset=resolved.offset, resolved=resolved)
        return replace(self._place(found, known, resolved.offset, resolved.offset), resolved=resolved)

    async def get_subscriber(self, subscriber: str) -> SubscriberInfo:
        return self._find(subscriber)[1]

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[SubscriberInfo]:
        names = sorted(self.queues) if queue is None else [self._queue(queue).name]
        every = [(name, each) for name in names for each in sorted(self.queues[name].subscribers)]
        last = tuple(after.split("/"))
        return [self._find("/".join(pair))[1] for pair in every if pair > last][:limit]

    async def delete_subscriber(self, subscriber: str) -> None:
        queue, known = self._find(subscriber)
        del queue.subscribers[known.name]

    async def seek(
        self, subscriber: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> SubscriberInfo:
        queue, known = self._find(subscriber)
        resolved: Resolved = await start_points.resolve(start_points.parse(start), queue, clamp=clamp)
        if dry_run:
            return replace(known, offset=resolved.offset, resolved=resolved)
        moved = self._place(queue, known, resolved.offset, resolved.offset)
        return replace(moved, resolved=resolved)

    async def sleep(self, subscriber: str) -> SubscriberInfo:
        return self._set_asleep(subscriber, True)

    async def wakeup(self, subscriber: str) -> SubscriberInfo:
        return self._set_asleep(subscriber, False)

    def _set_asleep(self, subscriber: str, asleep: bool) -> SubscriberInfo:
        queue, known = self._find(subscriber)
        queue.subscribers[known.name] = replace(known, asleep=asleep)
        return queue.subscribers[known.name]

    # Elements

    async def append(self, push: Push) -> Receipt:
        queue, payload, producer, sequence, expected_offset, stage, *_ = push
        found = self._queue(queue)
        check_identity(producer, sequence)
        payload = check_payload(payload, found.content)
        if producer is not None and sequence is not None:
            twin = found.producers.find(producer, sequence)
            if twin is not None:
                receipt = Receipt(twin.first, twin.count, twin.timestamp_us, stage, duplicate=True)
                stored = found.slice(twin.first, twin.count)

                async def elements() -> AsyncGenerator[pa.RecordBatch, None]:
                    yield stored

                await check_retry(elements(), payload, (producer, sequence), receipt)
                return receipt
        first, count, now = found.next_offset, payload.num_rows, self.clock.now_us()
        if expected_offset not in (None, first):
            raise Conflict(f"expected {expected_offset}, next is {first}")
        if producer is not None and sequence is not None:
            found.producers.remember(producer, KnownPush(sequence, first, count, now))
        found.batches.append(stamp(payload, first, now))
        found.next_offset += count
        async with found.grown:
            found.grown.notify_all()
        return Receipt(first, count, now, stage)

    async def pop(
        self, subscriber: str, max: int = 1, wait: float = 0.0, *, position: int | None = None
    ) -> Popped:
        popped = await self._take(subscriber, max, wait, position)
        queue, known = self._find(subscriber)
        if popped.batch.num_rows:
            self._place(queue, known, popped.position, popped.next)
        return popped

    async def peek(self, subscriber: str, max: int = 1, wait: float = 0.0) -> Popped:
        return await self._take(subscriber, max, wait, None)

    async def _take(self, subscriber: str, most: int, wait: float, position: int | None) -> Popped:
        if most < 1 or wait < 0:
            raise InvalidInput("max must be positive, and wait not negative")
        queue, known = self._find(subscriber)
        if position not in (None, known.offset, known.previous):
            raise Conflict(f"subscriber {subscriber} is at {known.offset}, not {position}")
        if position is not None and position != known.offset:
            most = known.offset - position
        start = known.offset if position is None else position
        if start == queue.next_offset and wait:
            try:
                async with asyncio.timeout(wait), queue.grown:
                    await queue.grown.wait_for(lambda: queue.next_offset > start)
            except TimeoutError:
                pass
        batch = queue.slice(start, most)
        return Popped(batch, start, start + batch.num_rows)

    async def confirm(self, subscriber: str, offset: int) -> None:
        queue, known = self._find(subscriber)
        if not 0 <= offset <= queue.next_offset:
            raise OutOfRange(f"cannot confirm {offset}", first=0, next=queue.next_offset)
        if offset > known.offset:
            self._place(queue, known, offset, offset)

    async def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncIterator[pa.RecordBatch]:
        if follow and end is not None:
            raise InvalidInput("a read that follows has no end")
        found = self._queue(queue)
        position = (await start_points.resolve(start_points.parse(start), found)).offset
        last = found.next_offset
        if end is not None:
            last = (await start_points.resolve(start_points.parse(end), found)).offset
        if position > last and not follow:
            raise InvalidInput(f"the read starts at {position}, after its end {last}")
        while follow or position < last:
            batch = found.slice(position, 1_000 if follow else min(1_000, last - position))
            if batch.num_rows:
                yield batch
                position += batch.num_rows
                continue
            async with found.grown:
                await found.grown.wait_for(lambda at=position: found.next_offset > at)  # type: ignore[misc]
