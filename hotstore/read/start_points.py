"""Answers what a starting point asks of a queue: its ends, its times, its subscribers."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from coldstore.shared.clock import Clock
from coldstore.shared.errors import NotFound
from hotstore.queue.queue import HotQueue
from hotstore.queue.subscriber import Subscriber
from hotstore.queue.tail import first_at
from hotstore.read.hot_blocks import HotBlocks, read_around
from hotstore.runner import Runner


class QueuePlace:
    """A `starts.Place` over an opened queue."""

    def __init__(
        self,
        queue: HotQueue,
        subscribers: Mapping[str, Subscriber],
        blocks: HotBlocks,
        runner: Runner,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._subscribers = subscribers
        self._blocks = blocks
        self._runner = runner
        self._clock = clock

    @property
    def first_offset(self) -> int:
        return self._queue.first

    @property
    def next_offset(self) -> int:
        return self._queue.next

    def now_us(self) -> int:
        return self._clock.now_us()

    async def offset_at(self, timestamp_us: int) -> int | None:
        queue, cold = self._queue, self._queue.cold
        block = cold.block_at(timestamp_us) if cold is not None else None
        if block is not None and cold is not None:
            offset = block.first
            table = await self._runner.run(lambda: read_around(cold, offset, ["offset", "timestamp"]))
            found = first_at(table.column("timestamp"), timestamp_us)
            if found is not None:
                return int(table.column("offset")[found].as_py())
        for unsealed in (*queue.sealing, queue.tail):
            at = unsealed.at_time(timestamp_us)
            if at is not None:
                return at
        return None

    async def timestamp_of(self, offset: int) -> int | None:
        queue, cold = self._queue, self._queue.cold
        if not queue.first <= offset < queue.next:
            return None
        unsealed, hot = queue.in_memory(offset), self._blocks.find(queue, offset)
        if unsealed is not None:
            return _us(unsealed.slice(offset, 1, 1).column("timestamp"))
        if hot is not None:
            return _us(hot.slice(offset, 1, 1).column("timestamp"))
        if cold is None or offset >= cold.next_offset:
            return None  # lost (see reconcile): the position is valid, its element is not there
        table = await self._runner.run(lambda: read_around(cold, offset, ["offset", "timestamp"]))
        return _us(table.column("timestamp").slice(offset - table.column("offset")[0].as_py(), 1))

    def position_of(self, subscriber: str) -> int:
        found = self._subscribers.get(subscriber)
        if found is None:
            raise NotFound(f"queue {self._queue.name} has no subscriber {subscriber}: correct its name")
        return found.offset


def _us(times: pa.Array | pa.ChunkedArray) -> int:
    value: int = times.cast(pa.int64())[0].as_py()
    return value
