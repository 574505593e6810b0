"""What a node does on its own, now and then: seal by age, checkpoint, trim, merge, sweep, forget.

`once` is one round; a simulation calls it itself. A running node tends to what is hot every
`maintain_seconds`, and beside that tidies the cold store, which may take long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from coldstore.shared.clock import Clock
from coldstore.shared.errors import JjqError
from hotstore.checkpoint.checkpointer import Checkpointer
from hotstore.large.sweep import UploadSweep
from hotstore.lifecycle.seal import Sealer
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.queue.subscriber import Subscriber
from hotstore.read.hot_blocks import HotBlocks
from hotstore.runner import Runner
from hotstore.settings import HotSettings
from hotstore.write.admission import Usage

log = logging.getLogger("jjq.hotstore")

T = TypeVar("T")


class LookAtJournal(Protocol):
    """Checks that the journal is still where it should be. With `durable`, writes down how far it goes."""

    def __call__(self, *, durable: bool) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What maintenance looks after."""

    registry: Registry
    blocks: HotBlocks
    sealer: Sealer
    checkpointer: Checkpointer
    runner: Runner
    usage: Usage
    free_bytes: Callable[[], int]
    look_at_journal: LookAtJournal
    sweep_deleted: Callable[[], list[str]]
    uploads: UploadSweep


class Maintenance:
    """Runs beside the verbs, never in their way."""

    def __init__(self, parts: Parts, settings: HotSettings, clock: Clock) -> None:
        self._parts = parts
        self._settings = settings
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._due: dict[str, float] = {}

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._run(self._tend), name="jjq-maintenance"),
            asyncio.create_task(self._run(self._tidy), name="jjq-tidying"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._settings.maintain_seconds)
            try:
                await work()
            except JjqError as error:
                log.warning("maintenance: %s", error)
            except Exception:
                log.exception("maintenance failed")

    async def once(self) -> None:
        """One round."""
        await self._tend()
        await self._tidy()

    async def _tend(self) -> None:
        parts = self._parts
        await parts.look_at_journal(durable=self._every("bounds", self._settings.checkpoint_seconds))
        parts.usage.disk_free_bytes = parts.free_bytes()
        for queue in list(parts.registry.queues.values()):
            self._seal_old(queue)
        if 2 * parts.checkpointer.journal_bytes > self._settings.journal_bytes_max:
            self._relieve_journal()
        self._put_to_sleep()
        if self._every("forget", self._settings.producer_seconds / 100):
            self._forget_producers()
        if parts.checkpointer.due():
            await parts.checkpointer.write()
        await parts.checkpointer.trim()

    async def _tidy(self) -> None:
        if self._every("sweep", self._settings.sweep_seconds):
            await self._sweep()
        if self._every("merge", self._settings.merge_seconds):
            await self._merge()

    def _every(self, what: str, seconds: float) -> bool:
        now = self._clock.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + seconds
        return True

    def _seal_old(self, queue: HotQueue) -> None:
        if queue.cold is not None:
            self._parts.sealer.seal_old(queue)
        elif queue.state.damage is None and (
            queue.sealing
            or (
                len(queue.tail)
                and self._clock.monotonic() - queue.tail.opened >= queue.settings.block_seconds
            )
        ):
            self._parts.registry.open_soon(queue.name)  # recovered and not asked for yet: its turn comes next

    def _relieve_journal(self) -> None:
        """Seal the queues that hold on to the older half of the journal, however young their blocks are.

        Else one slow queue would keep the journal from being trimmed until its block is old enough.
        """
        queues = self._parts.registry.queues.values()
        floors = {queue: floor for queue in queues if (floor := queue.floor()) is not None}
        for queue, floor in floors.items():
            if 2 * floor > min(floors.values()) + max(floors.values()):
                continue
            if queue.cold is None:
                self._parts.registry.open_soon(queue.name)
            else:
                self._parts.sealer.seal_soon(queue)

    def _put_to_sleep(self) -> None:
        idle = self._clock.monotonic() - self._settings.idle_seconds
        for reader in self._parts.blocks.readers():
            if isinstance(reader, Subscriber) and reader.used < idle:
                reader.asleep = True
                self._parts.registry.changes.subscribers.add(reader)
                self._parts.blocks.leave(reader)
        self._parts.blocks.drop_unread(idle)

    def _forget_producers(self) -> None:
        before_us = self._clock.now_us() - int(self._settings.producer_seconds * 1_000_000)
        for queue in self._parts.registry.queues.values():
            if queue.producers.forget_before(before_us):
                self._parts.registry.changes.queues.add(queue)

    async def _merge(self) -> None:
        for queue in list(self._parts.registry.queues.values()):
            cold = queue.cold
            if cold is not None and queue.state.damage is None and cold.list_blocks().young:
                merged = await self._run_for_queue(queue, partial(cold.merge, epoch=queue.epoch))
                if merged:
                    self._parts.registry.blocks_changed(queue)

    async def _sweep(self) -> None:
        for queue in list(self._parts.registry.queues.values()):
            cold = queue.cold
            if cold is not None and queue.state.damage is None:
                await self._run_for_queue(queue, cold.sweep)
                await self._sweep_uploads(queue)
        try:
            gone = await self._parts.runner.run(self._parts.sweep_deleted)
        except JjqError as error:
            log.warning("files of deleted queues: %s", error)
            return
        for name in gone:
            log.info("queue %s was deleted, and its files are removed", name)

    async def _sweep_uploads(self, queue: HotQueue) -> None:
        try:
            swept = await self._parts.uploads.run(queue)
        except JjqError as error:
            log.warning("uploads of queue %s: %s", queue.name, error)
            return
        if swept.removed or swept.doubtful:
            log.info(
                "queue %s: %d uploads that no element names were removed, %d cannot be judged",
                queue.name, swept.removed, swept.doubtful,
            )  # fmt: skip

    async def _run_for_queue(self, queue: HotQueue, work: Callable[[], T]) -> T | None:
        """Log a failure of one queue, and go on with the others."""
        try:
            return await self._parts.runner.run(work)
        except JjqError as error:
            log.warning("maintenance of queue %s: %s", queue.name, error)
            return None
