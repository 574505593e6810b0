"""The parts of a node's store, put together; started, and closed in the right order.

Nothing is served before the journal was replayed and its tail made durable. What a start reads is
the journal, bounded by its budget; the cold side of a queue is read when the queue is first used,
and subscribers' blocks in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import JjqError, Unavailable
from coldstore.store import ColdStore
from hotstore.checkpoint.checkpointer import Checkpointer
from hotstore.checkpoint.registry_part import RegistryPart
from hotstore.checkpoint.restore import CheckpointPlace, CheckpointRestore
from hotstore.journal.port import Extent, Journal, Poisoned
from hotstore.journal.witness import Exposed, Testimony, Witness
from hotstore.large.desk import ObjectDesk
from hotstore.large.sweep import UploadSweep
from hotstore.lifecycle.administration import Administration
from hotstore.lifecycle.departure import Departures
from hotstore.lifecycle.maintenance import Maintenance, Parts
from hotstore.lifecycle.replay import JournalReplay
from hotstore.lifecycle.seal import Sealer
from hotstore.limits import MOVE_BYTES, WITNESS_SECONDS
from hotstore.queue.moves import Moves
from hotstore.queue.owners import Owners
from hotstore.queue.registry import Registry
from hotstore.queue.subscriber import Subscriber
from hotstore.read.hot_blocks import HotBlocks
from hotstore.read.reading import Reading
from hotstore.read.status import StatusDesk
from hotstore.runner import InlineRunner, Runner, ThreadRunner
from hotstore.settings import HotSettings
from hotstore.store import HotStore
from hotstore.work.desk import WorkDesk
from hotstore.write.admission import Admission, Usage
from hotstore.write.committer import Committer

log = logging.getLogger("jjq.hotstore")

_WARM_SHARE = 2  # start-up fills at most one in so many parts of the budget with subscribers' blocks


@dataclass(frozen=True, slots=True)
class Runners:
    """Threads for sealing and for reading the cold store, so that neither waits for the other."""

    seal: Runner
    load: Runner
    large: Runner  # a client waits while an object is uploaded or read
    threaded: bool = True

    @classmethod
    def threads(cls) -> Runners:
        return cls(
            ThreadRunner("jjq-seal", 2),
            ThreadRunner("jjq-load", 4),
            ThreadRunner("jjq-object", 4, urgent=True),
        )

    @classmethod
    def inline(cls) -> Runners:
        """Everything on one thread, for simulation."""
        return cls(InlineRunner(), InlineRunner(), InlineRunner(), threaded=False)

    def close(self) -> None:
        self.load.close()
        self.seal.close()
        self.large.close()


async def _nothing(_sealed: bool) -> None:
    return


class Engine:
    """One node's store and what keeps it going."""

    def __init__(
        self,
        journal: Journal,
        cold: ColdStore,
        checkpoints: CheckpointPlace,
        settings: HotSettings,
        clock: Clock,
        chance: Chance,
        runners: Runners,
        free_bytes: Callable[[], int],
        on_closed: Callable[[], None] = lambda: None,
        owners: Owners | None = None,
        witness: Witness | None = None,
        is_in_place: Callable[[], bool] = lambda: True,
        node: str = "",
    ) -> None:
        self._is_in_place = is_in_place  # the lock that keeps others out
        self._cold = cold
        self._witness = witness  # only where the journal is on a disk, which may be lost
        self.usage = Usage()
        self.journal = journal
        self.settings = settings
        self._clock = clock
        self._runners = runners
        self.committer = Committer(journal, clock, settings.group_bytes_max, threaded=runners.threaded)
        self._alone = owners is None
        self.registry = Registry(cold, self.committer, runners.load, clock, self.usage, owners)
        self.blocks = HotBlocks(settings.hot_bytes_max, runners.load, clock, lambda: self.committer.groups)
        self.sealer = Sealer(self.registry, self.blocks, self.committer, runners.seal, clock)
        self.registry.sealer = self.sealer
        self._checkpoints = checkpoints
        self._parts = (RegistryPart(self.registry, runners.seal),)  # whose state outlives the process
        self.checkpointer = Checkpointer(
            self._parts, checkpoints, self.registry, self.committer, journal, runners.seal, clock,
            settings.segment_bytes,
        )  # fmt: skip
        self.departures = Departures(self.registry, self.committer, self.sealer, self.blocks, MOVE_BYTES)
        reading = Reading(self.blocks, Moves(self.committer, self._moved), clock)
        admission = Admission(settings, self._usage)
        self.work = WorkDesk(self.registry, self.committer, reading, self.blocks, cold, runners.load, clock)
        self.departures.end_groups = self.work.leave
        if not self._alone:  # one that is alone knows all queues, and so all groups
            self.registry.on_arrived = self.work.arrived
        self.sealer.on_sealed = self.work.sealed
        self.status = StatusDesk(cold, runners.load, clock, node)
        administration = Administration(
            self.registry, self.committer, self.sealer, self.departures, cold, self.registry.owners,
            runners.seal, clock,
        )  # fmt: skip
        self.large = ObjectDesk(cold.objects, settings, runners.large, clock, chance)
        self.store = HotStore(
            self.registry, self.committer, admission, reading, self.blocks, self.sealer, runners.load, clock, chance,
            administration, self.status, self.work, self.large,
        )  # fmt: skip
        uploads = UploadSweep(cold.objects, runners.seal, clock)
        self.maintenance = Maintenance(
            Parts(
                self.registry, self.blocks, self.sealer, self.checkpointer, runners.seal,
                self.usage, free_bytes, self.look_at_journal, cold.sweep_deleted, uploads,
            ),
            settings,
            clock,
        )  # fmt: skip
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._warming: asyncio.Task[None] | None = None
        self._reported, self._report_at = Extent(0, None, 0), 0.0  # what the cold store knows of the journal
        self._closed = False
        self.on_leaving: Callable[[bool], Awaitable[None]] = _nothing  # gets whether all is cold
        self._on_closed = on_closed
        self.store.closes(self.close)

    @property
    def cold(self) -> ColdStore:
        """Where history is kept."""
        return self._cold

    def _moved(self, subscriber: Subscriber) -> None:
        self.registry.changes.subscribers.add(subscriber)

    def _usage(self) -> Usage:
        self.usage.journal_bytes = self.journal.used_bytes
        return self.usage

    async def start(self, *, background: bool = True) -> None:
        """Recover, then serve. Without `background` nothing happens on its own: a simulation steps."""
        restore = CheckpointRestore(self._checkpoints, self._parts)
        replay = JournalReplay(self.registry, self._clock, restore)
        await self._runners.load.run(lambda: replay.run(self.journal))
        for damage in self.journal.damage:
            log.error("journal: %s", damage)
        lost = any(damage.kind == "corrupt" for damage in self.journal.damage)
        if lost:
            await self.registry.suspect_unknown()
        if replay.lost:
            lost = True
            log.error("DATA_LOSS: %s", replay.describe_loss())
            self.registry.numbers.skip()
            for queue in self.registry.queues.values():
                if queue.number not in replay.accepted and not queue.state.has_lost_subscribers:
                    queue.suspect(replay.loss_of(queue.name))
            await self.registry.suspect_unknown(replay.loss_of)
        said = await self._runners.load.run(self._witness.read_last) if self._witness is not None else None
        if said is not None:
            self._use_testimony(said, empty=not replay.batches)
        self.usage.unsealed_bytes = sum(queue.unsealed_bytes for queue in self.registry.queues.values())
        first = self.journal.next_sequence if replay.first_sequence is None else replay.first_sequence
        self.checkpointer.begin(restore.restored, first)
        self.committer.start(self._poisoned)
        if self._alone and (not self.registry.queues or self.registry.suspects):
            await self.registry.discover()
        for name in list(self.registry.queues):
            self.work.expect(name)
        if lost:
            await self.registry.store_doubts()
        await self.look_at_journal(durable=True, due=lost or (said is not None and said.closed))
        if background:
            exposed = {each.name for each in said.exposed} if said is not None else set()
            for queue in list(self.registry.queues.values()):
                if queue.state.doubt is not None or queue.name in exposed:
                    self.registry.open_soon(queue.name)  # which says what is missing, before anybody asks
            self.maintenance.start()
            self._warming = asyncio.create_task(self._warm(), name="jjq-warm")

    def _use_testimony(self, said: Testimony, *, empty: bool) -> None:
        """Use what the cold store says about this journal, or about one that was here before."""
        self.registry.expose(said.exposed)
        if empty and said.synced:
            log.error(
                "%sthis node had a journal of %d batches, and this data directory has none of them: its subscribers "
                "are gone, and %d queues had elements that were not cold yet",
                "" if said.closed and not said.exposed else "DATA_LOSS: ", said.synced, len(said.exposed),
            )  # fmt: skip

    async def look_at_journal(self, *, durable: bool, due: bool = False) -> None:
        """Check that the journal is still where it should be. Now and then, write down how far it goes."""
        extent = await self.committer.call(lambda: self._note(durable=durable))
        witness, now = self._witness, self._clock.monotonic()
        if witness is None or extent is None or not durable or not extent.synced or self._cold.id is None:
            return
        if extent == self._reported or not (
            due or extent.segments != self._reported.segments or now >= self._report_at
        ):
            return
        await self._testify(witness, extent, closed=False)
        self._reported, self._report_at = extent, now + WITNESS_SECONDS

    def _note(self, *, durable: bool) -> Extent | None:
        if not self._is_in_place():
            raise Poisoned(
                "the lock file is not in the data directory any more, so another process might write there: was the "
                "data directory deleted or replaced?"
            )
        return self.journal.note(durable=durable)

    async def _testify(self, witness: Witness, extent: Extent, *, closed: bool) -> None:
        exposed = [
            Exposed(queue.name, queue.settings.id, queue.next)
            for queue in self.registry.queues.values()
            if len(queue.tail) or queue.sealing
        ]
        try:
            await self._runners.seal.run(lambda: witness.testify(extent, exposed, closed=closed))
        except JjqError as error:
            log.warning("could not record in the cold store how far the journal goes: %s", error)

    @property
    def objects(self) -> ObjectStore:
        """The object store below the cold store: documents that belong to no queue are there, too."""
        return self._cold.objects

    def fail(self, error: Exception) -> None:
        """Nothing is served any more. The task that waits for `failed` closes everything."""
        if not self.failed.done():
            self.failed.set_result(error)

    def _poisoned(self, error: Exception) -> None:
        log.critical("the journal failed, nothing more is acknowledged: %s", error)
        self.fail(error)
        self._end_waits(f"the journal failed ({error}); start the server again")

    def _end_waits(self, why: str) -> None:
        self.work.end_waits(Unavailable(why))
        for queue in self.registry.queues.values():
            queue.end_waits(Unavailable(why))

    async def _warm(self) -> None:
        """Load all worker groups, and the blocks that awake subscribers are in, as far as the budget goes."""
        await self.work.load_all()
        for subscriber in list(self.registry.subscribers.values()):
            if self.blocks.bytes > self.blocks.budget_bytes // _WARM_SHARE:
                return
            if subscriber.asleep or subscriber.deleted:
                continue
            try:
                queue = await self.registry.queue(subscriber.queue.name)
                if subscriber.offset < queue.next and queue.in_memory(subscriber.offset) is None:
                    await self.blocks.get(queue, subscriber.offset, subscriber)
            except JjqError as error:
                log.warning("could not load the block of subscriber %s: %s", subscriber.id, error)

    async def close(self) -> None:
        """Finish what is in flight, write a checkpoint, leave the tail in the journal (or seal it)."""
        if self._closed:
            return
        self._closed = True
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait([self._warming])
        await self.maintenance.stop()
        await self.work.close()
        await self.large.close()
        clean = self.committer.poisoned is None
        if clean:
            await self._settle()
        await self.sealer.close()
        extent = await self._last_extent() if clean else None
        self._end_waits("the store is closing; retry when it is back")
        await self.committer.close()
        try:
            await self._runners.load.run(lambda: self.journal.close(clean=self.committer.poisoned is None))
            if extent is not None and self._witness is not None and self._cold.id is not None:
                last = replace(extent, synced=self.journal.next_sequence)
                await self._testify(self._witness, last, closed=self.committer.poisoned is None)
        except JjqError as error:
            log.warning("closing: %s; what was acknowledged is durable, the next start recovers it", error)
        finally:
            self._runners.close()
            await self.on_leaving(clean and self.committer.poisoned is None and self._is_sealed())
            self._on_closed()

    def _is_sealed(self) -> bool:
        """Whether everything that was acknowledged is in the cold store; False if that is in doubt."""
        return not any(
            len(queue.tail) or queue.sealing or queue.state.loss for queue in self.registry.queues.values()
        )

    async def _last_extent(self) -> Extent | None:
        try:
            return await self.committer.call(lambda: self.journal.note(durable=True))
        except JjqError as error:
            log.warning("closing: %s", error)
            return None

    async def _settle(self) -> None:
        try:
            if self.settings.seal_on_close:
                for queue in [q for q in self.registry.queues.values() if len(q.tail) or q.sealing]:
                    await self.sealer.seal(await self.registry.queue(queue.name))
            await self.checkpointer.close()
            await self.checkpointer.trim()
        except JjqError as error:
            log.warning("closing: %s; the journal keeps everything", error)
