"""Start: build queues, subscribers and producers from the journal's records, in their order."""

from __future__ import annotations

from coldstore.layout.queue_settings import QueueSettings
from coldstore.shared.batch import check_content, payload_schema
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss
from hotstore.journal import records
from hotstore.journal.port import Damage, Journal, JournalBatch, StoredRecord
from hotstore.queue.holes import RECORDS_LOST
from hotstore.queue.placeholders import Fill
from hotstore.queue.registry import Registry
from hotstore.queue.state import Phase
from hotstore.write.producers import EarlierPush


class JournalReplay:
    """Replays a journal into a registry. Every record is idempotent: the last one about a thing wins."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._now = clock.monotonic()
        self._early: dict[int, list[tuple[records.PushRecord, int]]] = {}
        self._last_batch: dict[int, int] = {}  # the last batch that tells how far a queue went, by its number
        self.batches = 0
        self.first_sequence: int | None = None

    def run(self, journal: Journal) -> None:
        for batch in journal.recover():
            self._apply(batch)
        for queue in list(self._registry.by_number.values()):
            if queue.state.phase is Phase.ARRIVING:
                self._registry.forget(queue.number)  # it is claimed again when it is asked for
        for damage in journal.damage:
            if damage.kind == "corrupt":
                self._doubt(damage)
        for number, pushes in self._early.items():  # of a queue that left, or whose row is lost
            self._registry.nameless[number] = min(sequence for _, sequence in pushes)

    def _doubt(self, damage: Damage) -> None:
        """Batches are lost. Whose elements were in them shows only by what the journal says of a queue later.

        Of the other queues it cannot be known. Their next offset may already belong to a lost element, so they take no
        pushes until an operator accepts the loss. If one did, the journal says so later.
        """
        for queue in self._registry.by_number.values():
            if queue.state.doubt is None and (
                damage.last is None or self._last_batch[queue.number] <= damage.last
            ):
                queue.suspect(RECORDS_LOST)

    def _apply(self, batch: JournalBatch) -> None:
        self.batches += 1
        if self.first_sequence is None:
            self.first_sequence = batch.sequence
        for record in batch.records:
            self._apply_record(record, batch.sequence)

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
            case unknown:
                raise DataLoss(
                    f"the journal has a record of unknown kind {unknown}: start the version that wrote it"
                )

    def _push(self, push: records.PushRecord, sequence: int) -> None:
        self._last_batch[push.queue] = sequence
        queue = self._registry.by_number.get(push.queue)
        if queue is None:
            # The journal was trimmed up to this push, and the checkpoint that names its queue follows.
            self._early.setdefault(push.queue, []).append((push, sequence))
            self._registry.reserve(push.queue)
            return
        for part in push.parts:
            pushed = EarlierPush(part.sequence, push.first + part.at, part.count, push.timestamp_us)
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
            subscriber.asleep, subscriber.stored = asleep, True

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
