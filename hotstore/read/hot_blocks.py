"""Hot blocks: sealed blocks loaded in memory, shared by their readers under one byte budget.

A reader (a subscriber, or a replay) counts as a reader of the block that it is in. A block is
dropped when its last reader leaves it; where the budget is short, the block unused for longest goes
first and its readers load it again when they need it. Loads of one block are one load. Elements
never change, so a loaded block stays right when its file is merged into another one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence

import pyarrow as pa

from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss
from coldstore.shared.single_flight import SingleFlight
from hotstore.queue.queue import HotQueue
from hotstore.queue.tail import cut
from hotstore.runner import Runner

_PAUSE_SECONDS = 0.5
_PREFETCH_AT = 0.5  # share of a block after which its reader wants the next one


class HotBlock:
    """A loaded block; `batch` holds the elements `first` up to, not including, `next`."""

    __slots__ = ("batch", "bytes", "first", "next", "queue", "readers", "used")

    def __init__(self, queue: HotQueue, batch: pa.RecordBatch, first: int) -> None:
        self.queue = queue
        self.batch = batch
        self.first = first
        self.next = first + batch.num_rows
        self.bytes: int = batch.nbytes
        self.readers: set[Hashable] = set()
        self.used = 0.0

    def slice(self, position: int, rows: int, max_bytes: int) -> pa.RecordBatch:
        return cut(self.batch.slice(position - self.first, rows), max_bytes)

    def time_of(self, position: int) -> int:
        """Timestamp of one element."""
        time: int = self.batch.column("timestamp")[position - self.first].value
        return time


class HotBlocks:
    """All loaded blocks of a node."""

    def __init__(
        self, budget_bytes: int, runner: Runner, clock: Clock, commits: Callable[[], int] = lambda: 0
    ) -> None:
        """`commits` counts the writer's groups: while it works, loading takes no more than half of the time."""
        self.budget_bytes = budget_bytes
        self.bytes = 0
        self.loads = 0
        self._runner = runner
        self._clock = clock
        self._commits = commits
        self._loaded: dict[int, tuple[list[int], list[HotBlock]]] = {}  # by queue: first offsets, blocks
        self._reading: dict[Hashable, HotBlock] = {}  # the block that each reader is in
        self._loading: SingleFlight[tuple[int, int], HotBlock] = SingleFlight()
        self._loading_bytes = 0
        self._room = asyncio.Condition()

    def find(self, queue: HotQueue, offset: int) -> HotBlock | None:
        """The loaded block that holds `offset`."""
        entry = self._loaded.get(queue.number)
        if entry is None:
            return None
        index = bisect_right(entry[0], offset) - 1
        if index < 0 or entry[1][index].next <= offset:
            return None
        return entry[1][index]

    async def get(self, queue: HotQueue, offset: int, reader: Hashable) -> HotBlock:
        """The block that holds `offset`, loaded if need be, with `reader` in it."""
        block = self.find(queue, offset)
        if block is None:
            block = await self._load(queue, offset)
        self.enter(block, reader)
        return block

    def enter(self, block: HotBlock, reader: Hashable) -> None:
        """`reader` is in `block` now, and in no other."""
        block.used = self._clock.monotonic()
        if self._reading.get(reader) is block:
            return
        self.leave(reader)
        block.readers.add(reader)
        self._reading[reader] = block

    def of(self, reader: Hashable) -> HotBlock | None:
        """The loaded block that `reader` is in."""
        return self._reading.get(reader)

    def leave(self, reader: Hashable) -> None:
        """`reader` is in no loaded block any more; the last one to leave drops the block."""
        block = self._reading.pop(reader, None)
        if block is not None:
            block.readers.discard(reader)
            if not block.readers:
                self._drop(block)

    def add(self, queue: HotQueue, batch: pa.RecordBatch, first: int) -> HotBlock:
        """Take a block that is in memory; one that holds all of it already is returned instead.

        Loaded blocks never overlap, or one would hide another from `find`: young blocks that were
        merged into this one hand their readers over to it and go.
        """
        block = HotBlock(queue, batch, first)
        block.used = self._clock.monotonic()
        whole = self.find(queue, first)
        if whole is not None and whole.next >= block.next:
            return whole
        for part in [b for b in self._loaded.get(queue.number, ([], []))[1] if first <= b.first < block.next]:
            block.readers |= part.readers
            self._reading.update(dict.fromkeys(part.readers, block))
            self._drop(part)
        firsts, blocks = self._loaded.setdefault(queue.number, ([], []))
        index = bisect_right(firsts, first)
        firsts.insert(index, first)
        blocks.insert(index, block)
        self.bytes += block.bytes
        self._make_room(keep=block)
        return block

    def prefetch(self, queue: HotQueue, block: HotBlock, position: int) -> None:
        """Begin to load the next block if a reader at `position` will soon need it and there is room."""
        if position - block.first < (block.next - block.first) * _PREFETCH_AT:
            return
        following = block.next
        if (
            queue.cold is None
            or following >= queue.cold.next_offset
            or self.find(queue, following) is not None
        ):
            return
        wanted = queue.cold.block_for(following)
        if (queue.number, wanted.first) in self._loading:
            return
        if self.bytes + self._loading_bytes + wanted.raw_bytes <= self.budget_bytes:
            self._start(
                queue, wanted.first, wanted.raw_bytes
            )  # the reader that needs it meets an error itself

    async def _load(self, queue: HotQueue, offset: int) -> HotBlock:
        if queue.cold is None:
            raise DataLoss(f"queue {queue.name}: offset {offset} is neither in memory nor in the cold store")
        if offset >= queue.cold.next_offset:
            damage = queue.state.damage or DataLoss(f"queue {queue.name}: no block holds offset {offset}")
            raise damage.with_traceback(None)
        wanted = queue.cold.block_for(offset)
        if (queue.number, wanted.first) not in self._loading:
            await self._wait_for_room(wanted.raw_bytes)
        return await asyncio.shield(self._start(queue, wanted.first, wanted.raw_bytes))

    async def _wait_for_room(self, size: int) -> None:
        """Loads in flight share the budget too; one is always let through."""
        async with self._room:
            await self._room.wait_for(lambda: self._loading_bytes + size <= max(self.budget_bytes // 2, size))

    def _start(self, queue: HotQueue, first: int, size: int) -> asyncio.Task[HotBlock]:
        key = (queue.number, first)
        if key not in self._loading:
            self._loading_bytes += size
        return self._loading.start(
            key, lambda: self._read(queue, first, size), f"jjq-load-{queue.name}-{first}"
        )

    async def _read(self, queue: HotQueue, first: int, size: int) -> HotBlock:
        try:
            cold = queue.cold
            if cold is None:
                raise DataLoss(f"queue {queue.name} has no cold store")
            self.loads += 1
            started, commits = self._clock.monotonic(), self._commits()
            batch = await self._runner.run(lambda: one_batch(read_around(cold, first)))
            if self._commits() > commits:  # the tail goes first: a replay waits as long as it worked
                await asyncio.sleep(min(self._clock.monotonic() - started, _PAUSE_SECONDS))
            start = batch.column("offset")[0].as_py()
            return self.add(queue, batch, start)
        finally:
            self._loading_bytes -= size
            async with self._room:
                self._room.notify_all()

    def _make_room(self, keep: HotBlock) -> None:
        if self.bytes <= self.budget_bytes:
            return
        others = [block for _, blocks in self._loaded.values() for block in blocks if block is not keep]
        for block in sorted(others, key=lambda block: block.used):
            if self.bytes <= self.budget_bytes:
                return
            for reader in block.readers:
                self._reading.pop(reader, None)
            block.readers.clear()
            self._drop(block)

    def bytes_of(self, queue: HotQueue) -> int:
        """Memory held by the loaded blocks of a queue."""
        return sum(block.bytes for block in self._loaded.get(queue.number, ([], []))[1])

    def readers(self) -> list[Hashable]:
        """All readers that are in a loaded block."""
        return list(self._reading)

    def drop_unread(self, used_before: float) -> None:
        """Drop blocks that were loaded ahead for a reader that never came."""
        for _, blocks in list(self._loaded.values()):
            for block in [b for b in blocks if not b.readers and b.used < used_before]:
                self._drop(block)

    def _drop(self, block: HotBlock) -> None:
        entry = self._loaded.get(block.queue.number)
        if entry is None:
            return
        index = bisect_right(entry[0], block.first) - 1
        if index >= 0 and entry[1][index] is block:
            del entry[0][index], entry[1][index]
            self.bytes -= block.bytes
            if not entry[0]:
                del self._loaded[block.queue.number]


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one contiguous batch, so that every slice of it is free of copies.

    Column by column, each let go of as soon as it is copied: a block is large.
    """
    schema, columns = table.schema, table.columns
    del table
    return pa.RecordBatch.from_arrays([_contiguous(columns.pop(0)) for _ in schema], schema=schema)


def _contiguous(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def read_around(cold: ColdQueue, offset: int, columns: Sequence[str] | None = None) -> pa.Table:
    """The block that holds `offset`."""
    return cold.read_block(cold.block_for(offset), columns=columns)
