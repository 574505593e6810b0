"""Reading: pop, peek, and replays that follow the tail.

History and tail are one loop: the unsealed blocks first, then loaded blocks, then the cold store.
Whatever a reader awaits, it looks again afterwards, so a seek, a seal or another reader in between
changes what it finds and never what it skips.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pyarrow as pa

from coldstore.shared import lists
from coldstore.shared.batch import schema
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, NotFound, OutOfRange, check
from coldstore.shared.limits import READ_BATCH_BYTES
from hotstore.limits import TAIL_READ_BYTES
from hotstore.port import Popped
from hotstore.queue.moves import Moves
from hotstore.queue.queue import HotQueue
from hotstore.queue.subscriber import Subscriber
from hotstore.read.hot_blocks import HotBlocks

_ALL_ROWS = 1 << 62


class Reading:
    """Takes elements out of queues."""

    def __init__(self, blocks: HotBlocks, moves: Moves, clock: Clock) -> None:
        self._blocks = blocks
        self._moves = moves
        self._clock = clock

    async def pop(self, subscriber: Subscriber, rows: int, wait: float, position: int | None) -> Popped:
        popped = await self._take(subscriber, rows, wait, position)
        base = subscriber.offset
        if not popped.batch.num_rows:
            if base != subscriber.durable[1]:  # "nothing more" rests on a pop that is still on its way
                await self._moves.commit(subscriber, base)
            return popped
        subscriber.previous, subscriber.offset = popped.position, popped.next
        self._after_move(subscriber)
        await self._moves.commit(subscriber, base)
        return popped

    async def peek(self, subscriber: Subscriber, rows: int, wait: float) -> Popped:
        return await self._take(subscriber, rows, wait, None, durable=True)

    async def confirm(self, subscriber: Subscriber, offset: int) -> None:
        if offset > subscriber.queue.next or offset < 0:
            raise OutOfRange(
                f"cannot confirm up to {offset}: the queue has elements {subscriber.queue.first}.."
                f"{subscriber.queue.next - 1}",
                first=subscriber.queue.first,
                next=subscriber.queue.next,
            )
        if offset > subscriber.offset:
            self.place(subscriber, offset)
            await self._moves.commit(subscriber)
        elif offset > subscriber.durable[1]:  # a pop went there, but is still on its way to the disk
            await self._moves.commit(subscriber, subscriber.offset)

    async def seek(self, subscriber: Subscriber, offset: int) -> None:
        self.place(subscriber, offset)
        subscriber.moves += 1
        subscriber.queue.wake()
        await self._moves.commit(subscriber)

    def place(self, subscriber: Subscriber, offset: int) -> None:
        subscriber.previous = subscriber.offset = offset
        self._after_move(subscriber)

    def _after_move(self, subscriber: Subscriber) -> None:
        """Leave the block that the subscriber has passed, so that it can be dropped."""
        block = self._blocks.of(subscriber)
        if block is not None and not block.first <= subscriber.offset < block.next:
            self._blocks.leave(subscriber)

    async def _take(
        self, subscriber: Subscriber, rows: int, wait: float, position: int | None, *, durable: bool = False
    ) -> Popped:
        """Elements at the subscriber's position; returns in the very step in which it found them.

        A caller that only looks gets the `durable` position: a crash would take back that of a pop on its way.
        """
        queue = subscriber.queue
        deadline = self._clock.monotonic() + wait
        while True:
            if subscriber.deleted:
                raise NotFound(f"subscriber {subscriber.id} was deleted")
            subscriber.used, subscriber.asleep = self._clock.monotonic(), False
            start, most = (
                (subscriber.durable[1], rows) if durable else self._range(subscriber, position, rows)
            )
            if start < queue.next:
                batch = self.at_hand(queue, start, most, subscriber, READ_BATCH_BYTES)
                if batch is not None:
                    return Popped(batch, start, start + batch.num_rows)
                await self._blocks.get(queue, start, subscriber)
                continue
            left = deadline - self._clock.monotonic()
            if left <= 0 or not await _within(queue, left):
                return Popped(_empty(queue), start, start)

    def _range(self, subscriber: Subscriber, position: int | None, rows: int) -> tuple[int, int]:
        """Where to read and how much: onwards, or once more what the last pop returned."""
        if position is None or position == subscriber.offset:
            return subscriber.offset, rows
        if position == subscriber.previous:
            return position, subscriber.offset - position
        raise Conflict(
            f"subscriber {subscriber.id} is at {subscriber.offset} and its last pop began at {subscriber.previous}, "
            f"but the request says {position}: another reader or a seek moved it; get it and go on from there"
        )

    def at_hand(
        self, queue: HotQueue, start: int, rows: int, reader: object, gather_bytes: int
    ) -> pa.RecordBatch | None:
        """What is in memory; up to `gather_bytes` of separate pushes are copied together."""
        block = queue.in_memory(start)
        if block is not None:
            self._blocks.leave(reader)
            return block.slice(start, rows, gather_bytes)
        hot = self._blocks.find(queue, start)
        if hot is None:
            return None
        self._blocks.enter(hot, reader)
        self._blocks.prefetch(queue, hot, start + rows)
        return hot.slice(start, rows, READ_BATCH_BYTES)

    async def read(
        self, queue: HotQueue, start: int, end: int | None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Elements from `start` up to `end`, or for ever."""
        reader = object()
        position = start
        try:
            while end is None or position < end:
                if position >= queue.next:
                    await queue.changed()
                    continue
                rows = _ALL_ROWS if end is None else end - position
                batch = self.at_hand(
                    queue, position, min(rows, queue.next - position), reader, TAIL_READ_BYTES
                )
                if batch is None:
                    await self._blocks.get(queue, position, reader)
                    continue
                check(
                    batch.num_rows > 0,
                    f"queue {queue.name}: a block holds {position} and gives nothing for it",
                )
                yield batch
                position += batch.num_rows
                await asyncio.sleep(0)  # let others have the loop, however quick the consumer is
        finally:
            self._blocks.leave(reader)


def _empty(queue: HotQueue) -> pa.RecordBatch:
    return lists.no_rows(schema(queue.content))


async def _within(queue: HotQueue, seconds: float) -> bool:
    """Wait for the queue to change; False if it did not within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await queue.changed()
    except TimeoutError:
        return False
    return True
