"""Reading a queue that another node owns: its blocks in the cold store, which every node can read."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pyarrow as pa

from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import OutOfRange
from coldstore.shared.limits import READ_BATCH_BYTES
from coldstore.store import ColdStore
from hotstore.port import BlockInfo
from hotstore.queue.tail import cut
from hotstore.read.hot_blocks import one_batch
from hotstore.runner import Runner
from sharding.limits import HISTORY_QUEUES_MAX


class History:
    """Opens queues for reading. Asked for elements behind the last block it knows, it looks for new blocks."""

    def __init__(self, cold: ColdStore, runner: Runner) -> None:
        self._cold = cold
        self._runner = runner
        self._open: BoundedDict[str, ColdQueue] = BoundedDict(HISTORY_QUEUES_MAX)

    async def read(self, queue: str, start: int, end: int) -> AsyncGenerator[pa.RecordBatch, None]:
        """Elements `start`..`end`; `OutOfRange` where the cold store does not have them all."""
        cold = await self._queue(queue, end)
        if not cold.first_offset <= start <= end <= cold.next_offset:
            raise OutOfRange(
                f"queue {queue} has {cold.first_offset}..{cold.next_offset} in the cold store, not {start}..{end}: "
                f"ask its owner for the rest",
                first=cold.first_offset,
                next=cold.next_offset,
            )
        while start < end:
            block = cold.block_for(start)
            table = await self._runner.run(lambda: cold.read_block(block, start, end))  # noqa: B023 - awaited here
            batch = one_batch(table)
            start = min(block.next, end)
            while batch.num_rows:
                part = cut(batch, READ_BATCH_BYTES)
                yield part
                batch = batch.slice(part.num_rows)

    async def blocks(self, queue: str) -> list[BlockInfo]:
        """All cold blocks as they are now."""
        cold = await self._queue(queue, None)
        return [block.info(queue) for block in cold.list_blocks()]

    def _again(self, name: str, known: ColdQueue, needed: int | None) -> ColdQueue:
        """In a worker thread: a queue that was opened before, unless it was deleted meanwhile."""
        settings = self._cold.find(name)
        if settings is None or (settings.id, settings.deleted) != (known.settings.id, None):
            return self._cold.open_queue(name)
        if needed is None or needed > known.next_offset:
            known.refresh()
        return known

    async def _queue(self, name: str, needed: int | None) -> ColdQueue:
        """The queue, opened. If elements up to `needed` are behind the last known block, look for new blocks."""
        known = self._open.use(name)
        if known is None:
            found = await self._runner.run(lambda: self._cold.open_queue(name))
        else:
            found = await self._runner.run(lambda: self._again(name, known, needed))
        self._open[name] = found
        return found
