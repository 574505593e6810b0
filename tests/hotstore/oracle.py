"""What a store must be like, as lists: one log per queue, one position per subscriber, and doubts.

A doubt is a request that was under way when the machine stopped. After the next start it has
happened whole or not at all, and is a doubt no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from coldstore.shared.batch import Content, payload
from coldstore.shared.errors import DataLoss, Exhausted, Unavailable
from hotstore.port import Popped, Receipt
from tests.hotstore.kit import Seen, World, check_cold, read_all, read_around, seen

Value = bytes | str


@dataclass
class Position:
    """A subscriber: where its last pop began, and where it is."""

    previous: int
    offset: int

    @property
    def pair(self) -> tuple[int, int]:
        return self.previous, self.offset


@dataclass
class Doubt:
    """A push of unknown outcome."""

    values: list[Value]
    producer: str | None
    sequence: int | None


@dataclass
class Log:
    """One queue."""

    name: str
    content: Content
    elements: dict[int, Seen] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)
    receipts: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)
    next_sequence: dict[str, int] = field(default_factory=dict)
    subscribers: dict[str, Position] = field(default_factory=dict)
    # What a subscriber may be after a stop, besides what it was; None: not there
    maybe: dict[str, list[tuple[int, int] | None]] = field(default_factory=dict)

    @property
    def next(self) -> int:
        return len(self.elements)

    def whole(self) -> list[Seen]:
        assert sorted(self.elements) == [*range(self.next)], "offsets are not dense"
        return [self.elements[offset] for offset in range(self.next)]

    def take(self, receipt: Receipt, doubt: Doubt) -> None:
        """An acknowledged push."""
        for n, value in enumerate(doubt.values):
            offset = receipt.first_offset + n
            assert offset not in self.elements, f"offset {offset} was given out twice"
            self.elements[offset] = Seen(offset, receipt.timestamp_us, value)
        assert receipt.count == len(doubt.values)
        self.remember(doubt, receipt.first_offset, receipt.timestamp_us)

    def remember(self, doubt: Doubt, first: int, timestamp_us: int) -> None:
        if doubt.producer is not None and doubt.sequence is not None:
            self.receipts[doubt.producer, doubt.sequence] = (first, len(doubt.values), timestamp_us)
            self.next_sequence[doubt.producer] = doubt.sequence + 1


class Refusals:
    """Lets pass what was certainly refused, and for a reason."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __enter__(self) -> None:
        self._troubled = self._world.objects.troubled

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Unavailable):
            return self._troubled and not self._world.engine.failed.done()
        return isinstance(error, Exhausted)


class Oracle:
    """Drives a world, and knows what it must show."""

    def __init__(self, world: World, logs: dict[str, Content]) -> None:
        self.world = world
        self.logs = {name: Log(name, content) for name, content in logs.items()}
        self._made = 0

    def value(self, log: Log, size: int) -> Value:
        """A value that was never pushed before."""
        self._made += 1
        if log.content == "bytes":
            return (b"<%d>" % self._made).ljust(size, b"%d" % (self._made % 10))
        return f'{{"n":{self._made},"x":"{"y" * size}"}}'

    def refusals(self) -> Refusals:
        """Refusals that a full budget or an absent cold store explains."""
        return Refusals(self.world)

    async def push(
        self, log: Log, sizes: list[int], producer: str | None = None, expected: int | None = None
    ) -> None:
        """Push new values; acknowledged, they are in the log, and otherwise not or perhaps."""
        sequence = None if producer is None else log.next_sequence.get(producer, 7)
        doubt = Doubt([self.value(log, size) for size in sizes], producer, sequence)
        if producer is not None and sequence is not None:
            log.next_sequence[producer] = sequence + 1  # concurrent pushes of one producer are in order
        log.doubts.append(doubt)
        receipt: Receipt | None = None
        with self.refusals():
            batch = payload(log.content, doubt.values)
            receipt = await self.world.store.push(
                log.name, batch, producer=producer, sequence=sequence, expected_offset=expected
            )
        if receipt is not None:
            log.take(receipt, doubt)
            assert not receipt.duplicate
        elif producer is not None and sequence is not None:
            log.next_sequence[producer] = min(log.next_sequence[producer], sequence)
        log.doubts.remove(doubt)

    async def push_again(self, log: Log, producer: str, sequence: int) -> None:
        """A retry gives the receipt that was given before, and writes nothing."""
        before = self.world.journal.next_sequence
        first, count, _ = log.receipts[producer, sequence]
        said = [log.elements[offset].value for offset in range(first, first + count)]
        with self.refusals():
            again = await self.world.store.push(
                log.name, payload(log.content, said), producer=producer, sequence=sequence
            )
            assert (again.first_offset, again.count, again.timestamp_us) == log.receipts[producer, sequence]
            assert again.duplicate
            assert self.world.journal.next_sequence == before

    async def pop(self, log: Log, name: str, most: int, position: int | None) -> None:
        known = log.subscribers[name]
        again = position is not None and position != known.offset
        span = known.offset - known.previous if again else most
        start = known.previous if again else known.offset
        log.maybe[name] = [(start, start + n) for n in range(1, span + 1)]
        with self.refusals():
            popped = await self.world.store.pop(f"{log.name}/{name}", most, position=position)
            self._check_popped(log, popped, start, span)
            if popped.batch.num_rows:
                log.subscribers[name] = Position(popped.position, popped.next)
        log.maybe.pop(name)

    async def peek(self, log: Log, name: str, most: int) -> None:
        with self.refusals():
            popped = await self.world.store.peek(f"{log.name}/{name}", most)
            self._check_popped(log, popped, log.subscribers[name].offset, most)

    def _check_popped(self, log: Log, popped: Popped, start: int, most: int) -> None:
        found = seen(popped.batch)
        assert popped.position == start
        assert popped.next == start + len(found)
        assert len(found) <= most
        assert bool(found) == (start < log.next), "nothing came although there is something, or the reverse"
        assert found == log.whole()[start : start + len(found)]

    async def confirm(self, log: Log, name: str, offset: int) -> None:
        known = log.subscribers[name]
        to = Position(offset, offset) if offset > known.offset else known
        log.maybe[name] = [to.pair]
        with self.refusals():
            await self.world.store.confirm(f"{log.name}/{name}", offset)
            log.subscribers[name] = to
        log.maybe.pop(name)

    async def seek(self, log: Log, name: str, start: str, offset: int) -> None:
        log.maybe[name] = [(offset, offset)]
        with self.refusals():
            found = await self.world.store.seek(f"{log.name}/{name}", start)
            assert found.offset == offset
            log.subscribers[name] = Position(offset, offset)
        log.maybe.pop(name)

    async def create(self, log: Log, name: str) -> None:
        log.maybe[name] = [(log.next, log.next)]
        with self.refusals():
            made = await self.world.store.create_subscriber(log.name, name, "end")
            assert made.offset == log.next
            log.subscribers[name] = Position(log.next, log.next)
        log.maybe.pop(name)

    async def delete(self, log: Log, name: str) -> None:
        log.maybe[name] = [None]
        with self.refusals():
            await self.world.store.delete_subscriber(f"{log.name}/{name}")
            del log.subscribers[name]
        log.maybe.pop(name)

    async def seal(self, log: Log) -> None:
        with self.refusals():
            await self.world.store.seal(log.name)

    async def maintain(self) -> None:
        with self.refusals():
            await self.world.maintain()

    # Judging --------------------------------------------------------------------------------------

    async def settle_doubts(self) -> None:
        """After a start: everything that was known is there, and each doubt has happened or not."""
        for log in self.logs.values():
            there = await read_all(self.world.store, log.name)
            assert there[: log.next] == log.whole(), f"{log.name}: acknowledged elements are lost or changed"
            self._explain(log, there)
            await self._settle_subscribers(log)

    def _explain(self, log: Log, there: list[Seen]) -> None:
        """What nobody acknowledged must be a push of unknown outcome, whole."""
        for producer in {d.producer for d in log.doubts if d.producer is not None}:
            log.next_sequence[producer] = min(d.sequence or 0 for d in log.doubts if d.producer == producer)
        while log.next < len(there):
            first = there[log.next]
            found = [d for d in log.doubts if d.values[0] == first.value]
            assert found, f"{log.name}: element {first.offset} comes from nowhere"
            batch = there[log.next : log.next + len(found[0].values)]
            assert [e.value for e in batch] == found[0].values, "half a push"
            assert {e.timestamp_us for e in batch} == {first.timestamp_us}
            log.remember(found[0], first.offset, first.timestamp_us)
            log.elements.update({e.offset: e for e in batch})
            log.doubts.remove(found[0])
        log.doubts.clear()

    async def _settle_subscribers(self, log: Log) -> None:
        infos = await self.world.store.list_subscribers(log.name)
        there: dict[str, tuple[int, int] | None] = {i.name: (i.previous, i.offset) for i in infos}
        for name in {*there, *log.subscribers, *log.maybe}:
            known = log.subscribers.get(name)
            allowed = [known.pair if known else None, *log.maybe.get(name, [])]
            found = there.get(name)
            assert found in allowed, f"{log.name}/{name} is at {found}, allowed {allowed}"
            if found is None:
                log.subscribers.pop(name, None)
            else:
                log.subscribers[name] = Position(*found)
        log.maybe.clear()

    def look(self) -> None:
        """What can be seen without asking the store to do anything."""
        for log in self.logs.values():
            registry = self.world.engine.registry
            queue = registry.queues[log.name]
            assert queue.state.damage is None
            assert {n: (s.previous, s.offset) for n, s in registry.of(queue).items()} == {
                n: p.pair for n, p in log.subscribers.items()
            }
            if queue.cold is not None:
                assert queue.next == log.next
            times = [e.timestamp_us for e in log.whole()]
            assert times == sorted(times), "timestamps went back"

    async def judge(self) -> None:
        """Everything, read from the beginning, and every file in the cold store."""
        for log in self.logs.values():
            assert await read_all(self.world.store, log.name) == log.whole()
            check_cold(self.world, log.name, log.whole())

    async def judge_damaged(self, fork: World) -> None:
        """A copy of the machine whose journal was damaged: never other bytes, and no loss is kept silent."""
        for log in self.logs.values():
            there = await read_around(fork.store, log.name)
            assert all(log.elements.get(e.offset) == e for e in there), "other bytes than were acknowledged"
            if len(there) == log.next:
                continue
            assert fork.journal.damage, f"{log.name}: a silent loss"
            if any(damage.kind == "corrupt" for damage in fork.journal.damage):
                with pytest.raises(DataLoss):  # else offsets would be given out a second time
                    await fork.store.push(log.name, payload(log.content, [self.value(log, 3)]))
