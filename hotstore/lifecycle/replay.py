"""Start: build queues, subscribers and producers from a checkpoint and the journal's records, in their order.

The checkpoint of sequence S has all state that was journalled before S, and perhaps more. So before S only elements are
taken from the journal, and from S on everything. Without a checkpoint everything is taken: the journal of a new node
begins with nothing, and that of an earlier release has the rows of its checkpoints in it.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import Final

from coldstore.layout.queue_settings import QueueSettings
from coldstore.shared.batch import check_content, payload_schema
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss
from hotstore.checkpoint.restore import CheckpointRestore
from hotstore.checkpoint.salvage import Affected
from hotstore.journal import records
from hotstore.journal.port import Damage, Journal, JournalBatch, StoredRecord
from hotstore.limits import AFFECTED_SHOWN
from hotstore.queue.holes import RECORDS_LOST
from hotstore.queue.placeholders import Fill
from hotstore.queue.registry import Registry
from hotstore.queue.state import AFFECTED, SUBSCRIBERS_LOST, Phase
from hotstore.write.producers import KnownPush

log = logging.getLogger("jjq.hotstore")

_SHOWN: Final = 20  # names in one line


class JournalReplay:
    """Replays a journal into a registry. Every record is idempotent: the last one about a thing wins."""

    def __init__(
        self, registry: Registry, clock: Clock, checkpoints: CheckpointRestore | None = None
    ) -> None:
        self._registry = registry
        self._checkpoints = checkpoints
        self._restored = False  # whether there is a checkpoint
        self._from = 0  # state from this sequence on is replayed
        self._begin: int | None = None  # as the journal says: see records.CHECKPOINT
        self._unknown: set[int] = set()  # subscribers that moved, and of which nothing else is known
        self._causes: dict[int, str] = {}  # of doubts, as the journal says them
        self.accepted: set[int] = set()  # queues whose loss of subscribers an operator has accepted
        self.lost = ""  # why subscribers and producers are lost, if they are
        self._affected: Affected = {}  # which they are, as far as damaged checkpoints tell
        self._now = clock.monotonic()
        self._early: dict[int, list[tuple[records.PushRecord, int]]] = {}
        self._last_batch: dict[int, int] = {}  # the last batch that tells how far a queue went, by its number
        self.batches = 0
        self.first_sequence: int | None = None

    def run(self, journal: Journal) -> None:
        batches = journal.recover()
        first = next(batches, None)  # now the journal knows which one it is
        restored = self._checkpoints.restore(journal.identity) if self._checkpoints is not None else None
        self._from, self._restored = restored or 0, restored is not None
        for batch in chain(() if first is None else (first,), batches):
            self._apply(batch)
        self._judge_state(journal, restored)
        self._settle_twins()
        for queue in list(self._registry.by_number.values()):
            if queue.state.phase is Phase.ARRIVING:
                self._registry.forget(queue.number)  # it is claimed again when it is asked for
        for damage in journal.damage:
            if damage.kind == "corrupt":
                self._doubt(damage)
        for number, pushes in self._early.items():  # of a queue that left, or whose row is lost
            self._registry.nameless[number] = min(sequence for _, sequence in pushes)

    def _judge_state(self, journal: Journal, restored: int | None) -> None:
        """Whether what came before the journal's first batch is known."""
        first = self.first_sequence
        if restored is not None and restored > journal.next_sequence:
            raise DataLoss(
                f"the checkpoint goes on at {restored} of the journal, which ends before {journal.next_sequence}: it "
                f"is an older copy, or its end was deleted; put back the journal that belongs to the checkpoint"
            )
        unusable = self._checkpoints.unusable if self._checkpoints is not None else []
        corrupt = any(damage.kind == "corrupt" for damage in journal.damage)
        if restored is not None:  # a damaged journal puts queues in doubt by itself
            known = first is None or first <= restored or corrupt
        elif self._begin is not None:
            known = (first or 0) <= self._begin
        else:
            known = not (unusable and corrupt)
        if not known:
            reasons = "; ".join(unusable) or (
                "there is none" if restored is None else "the one that is left is too old"
            )
            self.lost = f"{SUBSCRIBERS_LOST} ({reasons}), and the journal does not go back far enough"
            if self._checkpoints is not None:
                self._affected = self._checkpoints.salvage()

    def _settle_twins(self) -> None:
        """A queue of which a start without a checkpoint knew nothing got a new number. If the checkpoint is put back,
        the queue is there twice: the earlier one counts, unless the loss was accepted meanwhile."""
        registry = self._registry
        for queue in list(registry.by_number.values()):
            twin = registry.queues.get(queue.name)
            if twin is None or twin is queue or Phase.ARRIVING in (twin.state.phase, queue.state.phase):
                continue
            if twin.unsealed_bytes or registry.of(twin):
                log.error(
                    "DATA_LOSS: queue %s had lost its subscribers, and that was accepted: the old ones stay lost",
                    queue.name,
                )
                registry.forget(queue.number)
            else:
                registry.forget(twin.number)
                registry.queues[queue.name] = queue

    def describe_loss(self) -> str:
        """Which subscribers are affected, as far as that can be known."""
        known = {subscriber.id for subscriber in self._registry.subscribers.values()}
        affected = [
            (f"{queue}/{name}", offset)
            for queue, subscribers in self._affected.items()
            for name, offset in subscribers.items()
            if f"{queue}/{name}" not in known
        ]
        named = _some([_placed(each) for each in sorted(affected)])
        return (
            f"{self.lost}: the positions of subscribers and the receipts of producers from before are lost. Known are "
            f"only {len(known)} subscribers ({_some(sorted(known))}); {len(self._unknown)} others moved since. By what "
            f"is left of the checkpoints, {len(affected)} are affected ({named}). The elements are there"
        )

    def loss_of(self, queue: str) -> str:
        """Why the subscribers of a queue are lost, and which they are: the cause of its doubt."""
        known = self._registry.queues.get(queue)
        there = {each.name for each in self._registry.of(known).values()} if known is not None else set()
        affected = sorted(each for each in self._affected.get(queue, {}).items() if each[0] not in there)
        if not affected:
            return self.lost
        return f"{self.lost}{AFFECTED}{_some([_placed(each) for each in affected], AFFECTED_SHOWN)}"

    def _doubt(self, damage: Damage) -> None:
        """Batches are lost. Whose elements were in them shows only by what the journal says of a queue later.

        Of the other queues it cannot be known. Their next offset may already belong to a lost element, so they take no
        pushes until an operator accepts the loss. If one did, the journal says so later.
        """
        for queue in self._registry.by_number.values():
            if queue.state.doubt is None and (
                damage.last is None or self._last_batch.get(queue.number, self._from) <= damage.last
            ):
                queue.suspect(RECORDS_LOST)

    def _apply(self, batch: JournalBatch) -> None:
        self.batches += 1
        if self.first_sequence is None:
            self.first_sequence = batch.sequence
        for record in batch.records:
            if batch.sequence >= self._from or record.kind in records.ELEMENTS:
                self._apply_record(record, batch.sequence)
            elif record.kind not in records.KINDS:
                raise _unknown_kind(record.kind)

    def _apply_record(self, record: StoredRecord, sequence: int) -> None:
        payload = record.payload
        match record.kind:
            case records.PUSH:
                self._push(records.read_push(payload), sequence)
            case records.VALUE:
                self._push(records.read_push(payload, single=True), sequence)
            case records.POSITIONS:
                self._positions(payload)
            case records.SEALED:
                for number, offset in records.read_sealed(payload):
                    self._sealed(number, offset)
            case records.QUEUES:
                self._queues(payload, sequence)
            case records.SUBSCRIBERS:
                self._subscribers(payload)
            case records.GONE:
                self._gone(payload)
            case records.PRODUCERS:
                self._producers(payload)
            case records.DOUBTS:
                self._doubts(payload, sequence)
            case records.FILLED:
                self._filled(payload, sequence)
            case records.LEFT:
                for (number,) in records.read_rows(payload):
                    self._registry.forget(number)
            case records.CHECKPOINT:
                ((self._begin,),) = records.read_rows(payload)
            case unknown:
                raise _unknown_kind(unknown)

    def _push(self, push: records.PushRecord, sequence: int) -> None:
        if sequence >= self._from:
            self._last_batch[push.queue] = sequence
        queue = self._registry.by_number.get(push.queue)
        if queue is None and sequence < self._from:
            return  # the checkpoint does not name it: it left, and all of it was sealed before
        if queue is None:
            # In a journal of an earlier release: trimmed up to this push, and the rows that name its queue follow.
            self._early.setdefault(push.queue, []).append((push, sequence))
            self._registry.numbers.reserve(push.queue)
            return
        if sequence >= self._from:
            self._registry.changes.queues.add(queue)
            for part in push.parts:
                pushed = KnownPush(part.sequence, push.first + part.at, part.count, push.timestamp_us)
                queue.producers.remember(part.producer, pushed)
        queue.last_us = max(queue.last_us, push.timestamp_us)
        if push.first + push.count <= queue.tail.next:
            return  # sealed since, or replayed already
        payload = records.read_columns(push, payload_schema(queue.content))
        if push.first < queue.tail.next:
            payload = payload.slice(queue.tail.next - push.first)
        elif push.first > queue.tail.next:  # a damaged record lies between; reconcile() judges the hole
            queue.freeze()
            queue.start_tail(push.first)
        if queue.tail.bytes >= queue.settings.block_bytes:
            queue.freeze()
        queue.tail.append(payload, push.bytes, push.timestamp_us, sequence, self._now)
        queue.next = queue.tail.next

    def _sealed(self, number: int, offset: int) -> None:
        queue = self._registry.by_number.get(number)
        if queue is None:
            return
        for block in (*queue.sealing, queue.tail):
            block.drop_before(offset)
        queue.sealing = [block for block in queue.sealing if len(block)]
        if not queue.sealing and not len(queue.tail):
            queue.start_tail(max(offset, queue.tail.next))
        queue.next = max(queue.next, queue.tail.next)

    def _positions(self, payload: memoryview) -> None:
        for number, previous, offset in records.read_positions(payload):
            subscriber = self._registry.subscribers.get(number)
            if subscriber is not None:
                subscriber.place(previous, offset)
                self._registry.changes.subscribers.add(subscriber)
            else:
                self._unknown.add(number)
                self._registry.numbers.reserve(0, number)

    def _queues(self, payload: memoryview, sequence: int) -> None:
        for row in records.read_rows(payload):
            (
                number,
                name,
                id_,
                content,
                block_bytes,
                block_seconds,
                created_us,
                next_,
                cold_offset,
                last_us,
                *where,
            ) = row
            queue = self._registry.by_number.get(number)
            if queue is None:
                settings = QueueSettings(
                    name, id_, check_content(content), block_bytes, block_seconds, created_us
                )
                queue = self._registry.add_queue(settings, number)
            self._sealed(number, cold_offset)
            self._registry.changes.stored(queue)
            self._registry.suspects.pop(name, None)
            queue.promised = max(queue.promised, next_)
            queue.last_us = max(queue.last_us, last_us)
            queue.epoch, standing = where or (0, records.SETTLED)
            queue.state.recover(standing)
            for push, pushed_in in self._early.pop(number, ()):
                self._push(push, pushed_in)
            self._last_batch[number] = sequence

    def _doubts(self, payload: memoryview, sequence: int) -> None:
        for number, name, cause in records.read_rows(payload):
            queue = self._registry.by_number.get(number)
            if not cause and self._causes.get(number, "").startswith(SUBSCRIBERS_LOST):
                self.accepted.add(number)
            self._causes[number] = cause
            if cause.startswith(SUBSCRIBERS_LOST) and self._restored:
                continue  # a checkpoint was put back
            if number == 0 and cause:
                self._registry.suspects[name] = cause
            elif number == 0:
                self._registry.suspects.pop(name, None)
            elif queue is not None and cause:
                queue.suspect(cause)
                queue.state.doubt_stored = True
            elif queue is not None:
                queue.state.trust()
                self._last_batch[number] = sequence

    def _filled(self, payload: memoryview, sequence: int) -> None:
        for number, first, next_, accepted_us in records.read_rows(payload):
            queue = self._registry.by_number.get(number)
            if queue is not None:
                queue.fills.append(Fill(first, next_, accepted_us, sequence))

    def _subscribers(self, payload: memoryview) -> None:
        for row in records.read_rows(payload):
            number, queue_number, name, start, clamp, created_us, previous, offset, asleep = row
            queue = self._registry.by_number.get(queue_number)
            if queue is None:
                continue  # left over in a segment that was not trimmed whole; the checkpoint follows
            subscriber = self._registry.subscribers.get(number)
            if subscriber is None:
                subscriber = self._registry.add_subscriber(queue, name, start, clamp, created_us, number)
            subscriber.place(previous, offset)
            subscriber.asleep = asleep
            self._registry.changes.stored(queue, subscribers=[subscriber])

    def _gone(self, payload: memoryview) -> None:
        for (number,) in records.read_rows(payload):
            subscriber = self._registry.subscribers.get(number)
            if subscriber is not None:
                self._registry.drop_subscriber(subscriber)

    def _producers(self, payload: memoryview) -> None:
        for number, producer, receipts in records.read_rows(payload):
            queue = self._registry.by_number.get(number)
            if queue is not None:
                queue.producers.restore(producer, receipts)
                self._registry.changes.queues.add(queue)


def _placed(affected: tuple[str, int | None]) -> str:
    name, offset = affected
    return name if offset is None else f"{name} at offset {offset}"


def _some(names: list[str], most: int = _SHOWN) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def _unknown_kind(kind: int) -> DataLoss:
    return DataLoss(f"the journal has a record of unknown kind {kind}: start the version that wrote it")
