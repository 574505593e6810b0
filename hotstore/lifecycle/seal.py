"""Sealing: the hot-hot block becomes a cold block, off the push path.

A block is frozen in one step of the event loop, written to the cold store in a worker thread, and
taken out of memory only when it is committed there; if subscribers are in it, it stays as a hot
block. At every moment a reader finds each offset in exactly one place: hot-hot, sealing, then cold.
A cold store that fails costs nothing but memory and journal: the block is tried again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pyarrow as pa

from coldstore.shared import failpoint
from coldstore.shared.backoff import Backoff
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss, Fenced, InvalidInput, JjqError
from hotstore.journal import records
from hotstore.queue.moves import commit_state
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.queue.subscriber import Subscriber
from hotstore.queue.tail import TailBlock, fills
from hotstore.read.hot_blocks import HotBlocks, one_batch
from hotstore.runner import Runner
from hotstore.write.committer import Committer

log = logging.getLogger("jjq.hotstore")

_BACKOFF = Backoff(0.5, 10.0)


class Sealer:
    """Seals the blocks of all queues, each queue's in order."""

    def __init__(
        self,
        registry: Registry,
        blocks: HotBlocks,
        committer: Committer,
        runner: Runner,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._blocks = blocks
        self._committer = committer
        self._runner = runner
        self._clock = clock
        self._draining: dict[HotQueue, asyncio.Task[None]] = {}
        self._failures: dict[HotQueue, tuple[int, float]] = {}  # in a row, and when to try again
        self.may_store: Callable[[], None] = lambda: None  # raises if the cold store is another's by now
        self.on_sealed: Callable[[HotQueue], None] = lambda _queue: None  # the state of a group is kept then
        self.sealed = 0

    def seal_due(self, queue: HotQueue) -> None:
        """Seal when the block is full, or when a push waits for the cold store and no block is on its way there."""
        if queue.is_full or (queue.is_due and queue not in self._draining):
            queue.freeze()
            self._drain_soon(queue)

    def seal_old(self, queue: HotQueue) -> None:
        """Called now and then: seal by age, and try again what failed."""
        if len(queue.tail) and self._clock.monotonic() - queue.tail.opened >= queue.settings.block_seconds:
            queue.freeze()
        if queue.sealing:
            self._drain_soon(queue)

    def seal_soon(self, queue: HotQueue) -> None:
        """Seal what there is, whatever its age; no further block while one waits for the cold store."""
        if not queue.sealing:
            queue.freeze()
        if queue.sealing:
            self._drain_soon(queue)

    async def seal(self, queue: HotQueue) -> None:
        """Seal what there is, now; raises what the cold store raises."""
        queue.freeze()
        while queue.sealing:
            task = self._drain_soon(queue, now=True)
            if task is None:
                return
            await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for blocks that are being written; what is left stays in the journal."""
        for task in list(self._draining.values()):
            await asyncio.wait([task])

    def _drain_soon(self, queue: HotQueue, *, now: bool = False) -> asyncio.Task[None] | None:
        task = self._draining.get(queue)
        if task is not None:
            return task
        _, again = self._failures.get(queue, (0, 0.0))
        if queue.cold is None or queue.state.damage is not None:
            if now and queue.state.damage is not None:
                raise queue.state.damage.with_traceback(None)
            return None
        if not now and self._clock.monotonic() < again:
            return None
        task = asyncio.create_task(self._drain(queue), name=f"jjq-seal-{queue.name}")
        self._draining[queue] = task
        task.add_done_callback(lambda done: self._drained(queue, done))
        return task

    def _drained(self, queue: HotQueue, task: asyncio.Task[None]) -> None:
        self._draining.pop(queue, None)
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._failures.pop(queue, None)
            self.seal_due(queue)
            return
        count = self._failures.get(queue, (0, 0.0))[0]
        delay = _BACKOFF.pause_after(count + 1)
        self._failures[queue] = (count + 1, self._clock.monotonic() + delay)
        if isinstance(error, Fenced | DataLoss | InvalidInput):
            lost = error if isinstance(error, DataLoss) else DataLoss(f"queue {queue.name}: {error}")
            queue.state.report_damage(lost)
        if isinstance(error, JjqError):
            log.warning("sealing %s failed, trying again in %g s: %s", queue.name, delay, error)
        else:
            log.error("sealing %s failed", queue.name, exc_info=error)

    async def _drain(self, queue: HotQueue) -> None:
        while queue.sealing:
            await self._seal_block(queue, queue.sealing[0])

    async def _seal_block(self, queue: HotQueue, block: TailBlock) -> None:
        failpoint.reach("seal.started")
        kept = await self._runner.run(lambda: self._store(queue, block))
        failpoint.reach("seal.stored")
        await commit_state(self._committer, lambda: [records.sealed([(queue.number, block.next)])])
        self._switch(queue, block, kept)
        self.sealed += 1
        self._registry.blocks_changed(queue)
        failpoint.reach("seal.switched")
        self.on_sealed(queue)

    def _store(self, queue: HotQueue, block: TailBlock) -> pa.RecordBatch | None:
        """In a worker thread: commit the block; one contiguous batch of it if it has readers."""
        cold = queue.cold
        if cold is None:
            raise DataLoss(f"queue {queue.name} has no cold store")
        table = block.table()
        self.may_store()
        cold.write_block(table, final=fills(block, table, queue.settings.block_bytes), epoch=queue.epoch)
        return one_batch(table) if self._readers(queue, block) else None

    def _readers(self, queue: HotQueue, block: TailBlock) -> list[Subscriber]:
        return [
            s
            for s in list(self._registry.of(queue).values())
            if not s.asleep and block.first <= s.offset < block.next
        ]

    def _switch(self, queue: HotQueue, block: TailBlock, kept: pa.RecordBatch | None) -> None:
        queue.thaw(block)
        readers = self._readers(queue, block)
        if readers and kept is not None:
            hot = self._blocks.add(queue, kept, block.first)
            for reader in readers:
                self._blocks.enter(hot, reader)
