"""The hot store: the `Store` of this node.

    push   admission → queue's writer → committer → journal        (acknowledged) → sealer → cold store
    pop    hot-hot block | sealing | hot block | cold store → position → committer → journal

Everything but the journal's disk and the cold store happens on one event loop, so there is no lock
in the data path. Start it with `opening.open_store`, which recovers the journal first.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import pyarrow as pa

from coldstore import start_points
from coldstore.layout.paths import check_name, check_new_queue
from coldstore.shared.batch import check_new_content
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound
from coldstore.shared.limits import OFFSET_MAX
from coldstore.shared.push import Push, PushTarget
from coldstore.shared.results import Deletion, NodeStatus, in_order
from hotstore.journal import records
from hotstore.journal.port import Record
from hotstore.large.desk import LargeVerbs, ObjectDesk
from hotstore.lifecycle.administration import Administration
from hotstore.lifecycle.loss import Losses
from hotstore.lifecycle.seal import Sealer
from hotstore.port import BlockInfo, Loss, Popped, QueueInfo, Receipt, Resolved, SubscriberInfo
from hotstore.queue.moves import chunks, commit_state
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.queue.subscriber import Subscriber
from hotstore.read.hot_blocks import HotBlocks
from hotstore.read.listing import Lag, lag, list_blocks
from hotstore.read.reading import Reading
from hotstore.read.start_points import QueuePlace
from hotstore.read.status import StatusDesk
from hotstore.runner import Runner
from hotstore.work.capacity import Capacity
from hotstore.work.desk import WorkDesk
from hotstore.work.verbs import WorkVerbs
from hotstore.write.admission import Admission
from hotstore.write.committer import Committer
from hotstore.write.producers import check_retry
from hotstore.write.push import JsonChecks, PushEntry, check_push, check_whole


class HotStore(WorkVerbs, LargeVerbs, PushTarget):
    """Verbs of `port.Store`, and nothing else: each checks its input and asks the part that knows."""

    def __init__(
        self,
        registry: Registry,
        committer: Committer,
        admission: Admission,
        reading: Reading,
        blocks: HotBlocks,
        sealer: Sealer,
        runner: Runner,
        clock: Clock,
        chance: Chance,
        administration: Administration,
        desk: StatusDesk,
        work: WorkDesk,
        large: ObjectDesk,
    ) -> None:
        self._registry = registry
        self._committer = committer
        self._admission = admission
        self._reading = reading
        self._blocks = blocks
        self._sealer = sealer
        self._runner = runner
        self._clock = clock
        self._chance = chance
        self._losses = Losses(registry, committer, clock, admission.usage)
        self._administration = administration
        self._status = desk
        self._desk = work
        self._large = large
        self._capacity = Capacity(work)
        self._json = JsonChecks()
        self._close: Callable[[], Awaitable[None]] | None = None

    def closes(self, close: Callable[[], Awaitable[None]]) -> None:
        """The engine says how to close what it put together."""
        self._close = close

    async def close(self) -> None:
        """Finish what is in flight and let go of the data directory; what is not cold stays in the journal."""
        if self._close is not None:
            await self._close()

    def gauges(self) -> dict[str, float]:
        """Figures for an operator, by name: what is held, what is exposed, how quick the disk is."""
        queues = self._registry.queues.values()
        oldest = [q.tail.opened for q in queues if len(q.tail)] + [
            b.opened for q in queues for b in q.sealing
        ]
        return {
            "journal_bytes": float(self._admission.usage.journal_bytes),
            "journal_syncs_total": float(self._committer.groups),
            "journal_sync_seconds_total": self._committer.sync_seconds,
            "exposed_bytes": float(self._admission.usage.unsealed_bytes),
            "exposed_seconds": self._clock.monotonic() - min(oldest) if oldest else 0.0,
            "pending_bytes": float(self._committer.pending_bytes),
            "hot_bytes": float(self._blocks.bytes),
            "hot_loads_total": float(self._blocks.loads),
            "blocks_sealed_total": float(self._sealer.sealed),
            "pushes_refused_total": float(self._admission.refused),
            "disk_free_bytes": float(self._admission.usage.disk_free_bytes),
            "queues": float(sum(queue.content != "ledger" for queue in queues)),
            "queues_with_loss": float(sum(q.state.loss is not None for q in queues)),
            "subscribers": float(len(self._registry.subscribers)),
        }

    async def lags(self) -> list[Lag]:
        """How far every subscriber is behind; the loop goes round in between, as there may be many."""
        found: list[Lag] = []
        for some in chunks(list(self._registry.subscribers.values())):
            now_us = self._clock.now_us()
            found += [lag(subscriber, self._blocks, now_us) for subscriber in some]
            await asyncio.sleep(0)
        return found

    # Queues ---------------------------------------------------------------------------------------

    async def create_queue(
        self,
        name: str,
        *,
        content: str = "bytes",
        block_bytes: int | None = None,
        block_seconds: float | None = None,
    ) -> QueueInfo:
        check_new_queue(name)
        check_new_content(content)
        return (await self._registry.create(name, content, block_bytes, block_seconds)).info()

    async def get_queue(self, name: str) -> QueueInfo:
        if isinstance(name, str) and "/" in name:
            return (await self._registry.subscriber(name)).queue.info()
        return (await self._registry.queue(name)).info()

    async def list_queues(
        self, *, after: str = "", limit: int | None = None, ledgers: bool = False
    ) -> list[QueueInfo]:
        return [queue.info() for queue in await self._registry.all(after, limit, ledgers=ledgers)]

    async def list_blocks(
        self, queue: str, *, from_offset: int = 0, limit: int | None = None
    ) -> list[BlockInfo]:
        found = await self._registry.queue(queue)
        positions = [subscriber.offset for subscriber in self._registry.of(found).values()]
        return list_blocks(found, self._blocks, positions, from_offset, limit)

    async def accept_loss(self, queue: str, *, next_offset: int | None = None, dry_run: bool = False) -> Loss:
        if next_offset is not None:
            check_whole("next_offset", next_offset)
        return await self._losses.accept(queue, next_offset, dry_run=dry_run)

    async def seal(self, queue: str) -> QueueInfo:
        found = await self._registry.queue(queue)
        await self._sealer.seal(found)
        return found.info()

    async def update_queue(
        self, name: str, *, block_bytes: int | None = None, block_seconds: float | None = None
    ) -> QueueInfo:
        return await self._administration.update(name, block_bytes, block_seconds)

    async def delete_queue(
        self, name: str, *, grace_seconds: float | None = None, dry_run: bool = False
    ) -> Deletion:
        return await self._administration.delete(name, grace_seconds, dry_run)

    async def undelete_queue(self, name: str) -> QueueInfo:
        return await self._administration.undelete(name)

    async def status(self) -> list[NodeStatus]:
        return [await self._status.tell(self.gauges(), await self.lags())]

    # Subscribers ----------------------------------------------------------------------------------

    async def create_subscriber(
        self,
        queue: str,
        name: str | None = None,
        start: str = "end",
        *,
        clamp: bool = False,
        dry_run: bool = False,
    ) -> SubscriberInfo:
        found = await self._registry.queue(queue)
        name = f"sub-{self._chance.token()[:12]}" if name is None else check_name(name, "subscriber")
        point = start_points.parse(start)
        existing = self._registry.of(found).get(name)
        if existing is not None and not dry_run:
            return await self._existing(existing, start, clamp)
        found.state.check_subscribers_known()  # else one whose position is lost would begin again, unnoticed
        if not dry_run and await self._desk.find(queue, name) is not None:
            raise Conflict(f"queue {queue} has a worker group {name}: choose another name for the subscriber")
        resolved = await start_points.resolve(point, self._place(found), clamp=clamp)
        existing = self._registry.of(found).get(name)  # resolving may have read a block meanwhile
        if existing is not None and not dry_run:
            return await self._existing(existing, start, clamp)
        if dry_run:
            return self._dry_run_info(found, name, start, resolved)
        subscriber = self._registry.add_subscriber(found, name, start, clamp, self._clock.now_us())
        subscriber.place(resolved.offset, resolved.offset)
        try:
            await self._store(subscriber, undo=lambda: self._registry.drop_subscriber(subscriber))
        except JjqError:
            self._registry.drop_subscriber(subscriber)
            raise
        return subscriber.info(resolved)

    async def _store(self, subscriber: Subscriber, undo: Callable[[], None] | None = None) -> None:
        def row() -> list[Record]:  # never after the record that it is gone
            return [] if subscriber.deleted else [records.rows(records.SUBSCRIBERS, [subscriber.row()])]

        def stored(_: int) -> None:
            if not subscriber.deleted:
                self._registry.changes.stored(subscriber.queue, subscribers=[subscriber])

        await commit_state(self._committer, row, undo, subscriber.queue, stored)
        if subscriber.deleted:
            raise NotFound(f"subscriber {subscriber.id} is gone: create it again")

    async def _existing(self, subscriber: Subscriber, start: str, clamp: bool) -> SubscriberInfo:
        if (subscriber.start, subscriber.clamp) == (start, clamp):
            if not subscriber.stored:  # the first request for it is still on its way to the disk
                await self._store(subscriber)
            return subscriber.info()
        raise Conflict(
            f"subscriber {subscriber.id} exists and was created with start {subscriber.start!r}: use it, seek it, or "
            f"choose another name"
        )

    def _dry_run_info(self, queue: HotQueue, name: str, start: str, resolved: Resolved) -> SubscriberInfo:
        subscriber = Subscriber(0, name, queue, start, False, self._clock.now_us())
        subscriber.place(resolved.offset, resolved.offset)
        return subscriber.info(resolved)

    async def get_subscriber(self, subscriber: str) -> SubscriberInfo:
        return self._info(await self._registry.subscriber(subscriber))

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[SubscriberInfo]:
        if queue is None:
            return [self._info(each) for each in await self._registry.all_subscribers(after, limit)]
        named = self._registry.of(await self._registry.queue(queue))
        return [self._info(named[name]) for name in in_order(named, after.partition("/")[2], limit)]

    def _info(self, subscriber: Subscriber) -> SubscriberInfo:
        return subscriber.info(lag_seconds=lag(subscriber, self._blocks, self._clock.now_us()).seconds)

    async def delete_subscriber(self, subscriber: str) -> None:
        found = await self._registry.subscriber(subscriber)
        if found.deleted:
            raise NotFound(f"subscriber {subscriber} is being deleted")

        def gone() -> list[Record]:  # from this record on, none may bring it back
            found.deleted = True
            return [records.rows(records.GONE, [[found.number]])]

        def stay() -> None:
            found.deleted = False

        def drop(_: int) -> None:
            self._registry.drop_subscriber(found)

        await commit_state(self._committer, gone, undo=stay, queue=found.queue, done=drop)
        self._blocks.leave(found)
        found.queue.wake()

    async def seek(
        self, subscriber: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> SubscriberInfo:
        found = await self._registry.subscriber(subscriber)
        resolved = await start_points.resolve(
            start_points.parse(start), self._place(found.queue), clamp=clamp
        )
        if dry_run:
            return self._dry_run_info(found.queue, found.name, found.start, resolved)
        await self._reading.seek(found, resolved.offset)
        return found.info(resolved)

    async def sleep(self, subscriber: str) -> SubscriberInfo:
        found = await self._registry.subscriber(subscriber)
        self._blocks.leave(found)
        return await self._set_asleep(found, True)

    async def wakeup(self, subscriber: str) -> SubscriberInfo:
        found = await self._registry.subscriber(subscriber)
        if found.offset < found.queue.next and found.queue.in_memory(found.offset) is None:
            await self._blocks.get(found.queue, found.offset, found)
        return await self._set_asleep(found, False)

    async def _set_asleep(self, subscriber: Subscriber, asleep: bool) -> SubscriberInfo:
        if subscriber.asleep != asleep:
            subscriber.asleep = asleep
            await self._store(subscriber)
        return subscriber.info()

    def _place(self, queue: HotQueue) -> QueuePlace:
        return QueuePlace(queue, self._registry.of(queue), self._blocks, self._runner, self._clock)

    # Elements -------------------------------------------------------------------------------------

    async def append(self, push: Push) -> Receipt:
        queue, _, producer, sequence, expected_offset, *_ = push
        found = self._registry.queues.get(queue)
        if found is None or not found.state.is_open:
            found = await self._registry.queue(queue)
        lost = found.state.damage or found.state.doubt
        if lost is not None:
            raise lost.with_traceback(None)
        if push.objects:
            await self._large.check(push)
        entry = check_push(found, push)
        entry.on_settled = self._admission.leave  # admitted until the journal has it, without its caller, too
        if found.on_grown is not None and not self._capacity.is_open(found, entry):
            await self._capacity.enter(found, entry)  # it has worker groups, of which one may be full
        try:
            if found.content == "json":
                await self._json.submit(found, entry, self._submit)
            else:
                await self._submit(entry)
        except BaseException:  # no JSON, no room for its bytes, or the caller is gone
            self._capacity.leave(entry)
            raise
        receipt = entry.receipt or await entry.reply()
        if push.objects:
            self._large.named(push)
        # A push that expects OFFSET_MAX can never be written: it only asks for a receipt, and says no elements again.
        asks = expected_offset == OFFSET_MAX
        if receipt.duplicate and producer is not None and sequence is not None and not asks:
            end = receipt.first_offset + receipt.count
            stored = self._reading.read(found, receipt.first_offset, end)
            await check_retry(stored, entry.payload, (producer, sequence), receipt)
        return receipt

    async def _submit(self, entry: PushEntry) -> None:
        if not self._admission.enters(entry.bytes):
            await self._admission.enter(entry.bytes)
        try:
            self._committer.submit(entry)
        except JjqError:
            entry.give_up()
            raise

    async def pop(
        self, subscriber: str, max: int = 1, wait: float = 0.0, *, position: int | None = None
    ) -> Popped:
        _check_read(max, wait)
        if position is not None:
            check_whole("position", position)
        return await self._reading.pop(await self._registry.subscriber(subscriber), max, wait, position)

    async def peek(self, subscriber: str, max: int = 1, wait: float = 0.0) -> Popped:
        _check_read(max, wait)
        return await self._reading.peek(await self._registry.subscriber(subscriber), max, wait)

    async def confirm(self, subscriber: str, offset: int) -> None:
        check_whole("offset", offset)
        await self._reading.confirm(await self._registry.subscriber(subscriber), offset)

    async def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        if follow and end is not None:
            raise InvalidInput("a read that follows has no end: leave out end, or follow")
        found = await self._registry.queue(queue)
        place = self._place(found)
        first = (await start_points.resolve(start_points.parse(start), place)).offset
        last = None if follow else found.next
        if end is not None:
            last = (await start_points.resolve(start_points.parse(end), place)).offset
        if last is not None and first > last:
            raise InvalidInput(
                f"the read starts at {first}, after its end {last}: swap or correct start and end"
            )
        async with aclosing(self._reading.read(found, first, last)) as batches:
            async for batch in batches:
                yield batch


def _check_read(rows: int, wait: float) -> None:
    if check_whole("max", rows) < 1:
        raise InvalidInput(f"max must be a whole number from 1 on, not {rows}")
    if not isinstance(wait, int | float) or not math.isfinite(wait) or wait < 0:
        raise InvalidInput(f"wait must be a number of seconds from 0 on, not {wait!r:.60}")
