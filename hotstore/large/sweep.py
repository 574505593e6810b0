"""Uploads that nobody named, removed now and then: what is in memory is looked at first, then what is in blocks."""

from __future__ import annotations

from coldstore.large.sweep import SweptUploads, old_uploads, sweep_uploads
from coldstore.objects.port import ObjectStore
from coldstore.shared.attachments import objects_in
from coldstore.shared.clock import Clock
from coldstore.shared.limits import SWEEP_GRACE_SECONDS
from hotstore.queue.queue import HotQueue
from hotstore.runner import Runner


class UploadSweep:
    """Sweeps one queue after the other. Elements go from memory to blocks and never back: the order misses none."""

    def __init__(self, objects: ObjectStore, runner: Runner, clock: Clock) -> None:
        self._objects = objects
        self._runner = runner
        self._clock = clock

    async def run(self, queue: HotQueue) -> SweptUploads:
        """Remove what was left behind in a queue that this node owns."""
        cold, objects, clock = queue.cold, self._objects, self._clock
        before_us = clock.now_us() - int(SWEEP_GRACE_SECONDS * 1_000_000)
        if cold is None or queue.content == "ledger":
            return SweptUploads()
        if not await self._runner.run(lambda: old_uploads(objects, queue.name, before_us)):
            return SweptUploads()
        in_memory = {
            ref.sha256
            for block in (queue.tail, *queue.sealing)
            if len(block)
            for ref in objects_in(block.table())
        }

        def named(from_offset: int) -> set[str]:
            return in_memory | cold.named_objects(from_offset)

        return await self._runner.run(lambda: sweep_uploads(objects, queue.name, clock, before_us, named))
