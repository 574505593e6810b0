"""Any order of requests, faults and stops, on the real engine, against a list for each queue.

HYPOTHESIS_PROFILE=long looks deeper.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coldstore.shared.errors import Conflict, Exhausted, NotFound, OutOfRange, Unavailable
from coldstore.shared.limits import KIB
from hotstore.testing.simulated_disk import PowerCut
from tests.hotstore.kit import BLOCK_BYTES, VERBS, Verb, World, drain, read_all
from tests.hotstore.kit import settings as hot_settings
from tests.hotstore.oracle import Log, Oracle, Position

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SEGMENT_BYTES = 64 * KIB
NAMES = ("s1", "s2", "s3")
PRODUCERS = ("p1", "p2")

seeds = st.integers(0, 2**32)
queues = st.sampled_from(["a", "b"])
names = st.sampled_from(NAMES)
sizes = st.lists(st.sampled_from([0, 10, 300, 6_000, 18_000]), min_size=1, max_size=2)
most = st.sampled_from([1, 2, 5, 100])
places = st.sampled_from(["beginning", "end", "last:3", "offset:2", "offset:0", "last:1000"])
steps = st.sampled_from(["push", "retry", "pop", "seek", "confirm", "create", "delete", "seal", "maintain"])


class StoreMachine(RuleBasedStateMachine):
    """See the module; what is allowed is in `Oracle`."""

    @initialize(seed=seeds)
    def start(self, seed: int) -> None:
        logging.getLogger("jjq").setLevel(logging.CRITICAL + 1)  # failures are the point here
        self.loop = asyncio.new_event_loop()
        hot = hot_settings(
            segment_bytes=SEGMENT_BYTES,
            journal_bytes_max=20 * SEGMENT_BYTES,
            unsealed_bytes_max=10 * BLOCK_BYTES,
            group_bytes_max=40 * KIB,
            hot_bytes_max=4 * BLOCK_BYTES,
            producer_seconds=1e9,  # never: a clock that jumps would make them forgotten
        )
        self.world = World(seed, hot)
        self.oracle = Oracle(self.world, {"a": "bytes", "b": "json"})
        self.run(self.world.start())
        for log in self.oracle.logs.values():
            self.run(self.world.store.create_queue(log.name, content=log.content, block_bytes=BLOCK_BYTES))
            self.run(self.oracle.create(log, "s1"))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def log(self, queue: str) -> Log:
        return self.oracle.logs[queue]

    def pick(self, queue: str, name: str) -> tuple[Log, str]:
        """A subscriber that is there: the named one, or the first."""
        log = self.log(queue)
        return log, name if name in log.subscribers else next(iter(log.subscribers), "")

    # Requests -------------------------------------------------------------------------------------

    @rule(queue=queues, sizes=sizes, producer=st.sampled_from([None, None, *PRODUCERS]))
    def push(self, queue: str, sizes: list[int], producer: str | None) -> None:
        self.run(self.oracle.push(self.log(queue), sizes, producer))

    @rule(
        several=st.lists(
            st.tuples(queues, sizes, st.sampled_from([None, *PRODUCERS])), min_size=2, max_size=5
        )
    )
    def push_together(self, several: list[tuple[str, list[int], str | None]]) -> None:
        async def together() -> None:
            await asyncio.gather(*(self.oracle.push(self.log(q), s, p) for q, s, p in several))

        if not self.world.objects.troubled:  # a refusal among them would make the others skip a sequence
            self.run(together())

    @rule(queue=queues, producer=st.sampled_from(PRODUCERS), back=st.integers(1, 3))
    def push_again(self, queue: str, producer: str, back: int) -> None:
        log = self.log(queue)
        sequence = log.next_sequence.get(producer, 0) - back
        if (producer, sequence) in log.receipts:
            self.run(self.oracle.push_again(log, producer, sequence))

    @rule(queue=queues, right=st.booleans())
    def push_expecting(self, queue: str, right: bool) -> None:
        log = self.log(queue)
        if right:
            self.run(self.oracle.push(log, [5], expected=log.next))
        elif not self.world.objects.troubled:
            before = len(log.doubts)
            with pytest.raises((Conflict, Exhausted)):
                self.run(self.oracle.push(log, [5], expected=log.next + 1))
            del log.doubts[before:]

    @rule(queue=queues, name=names, most=most, position=st.sampled_from(["none", "here", "again"]))
    def pop(self, queue: str, name: str, most: int, position: str) -> None:
        log, name = self.pick(queue, name)
        if name:
            known = log.subscribers[name]
            at = {"none": None, "here": known.offset, "again": known.previous}[position]
            self.run(self.oracle.pop(log, name, most, at))

    @rule(queue=queues, name=names, most=most)
    def peek(self, queue: str, name: str, most: int) -> None:
        log, name = self.pick(queue, name)
        if name:
            self.run(self.oracle.peek(log, name, most))

    @rule(queue=queues, name=names, counts=st.lists(most, min_size=2, max_size=4))
    def pop_together(self, queue: str, name: str, counts: list[int]) -> None:
        log, name = self.pick(queue, name)
        if not name or self.world.objects.troubled:
            return
        start = log.subscribers[name].offset

        async def together() -> list[Any]:
            pops = (self.world.store.pop(f"{queue}/{name}", count) for count in counts)
            return await asyncio.gather(*pops, return_exceptions=True)

        popped = [p for p in self.run(together()) if not isinstance(p, Exhausted)]
        for each in sorted(popped, key=lambda p: (p.position, p.next)):
            assert each.position == start, "two readers got the same element, or one was skipped"
            start = each.next
            if each.batch.num_rows:
                log.subscribers[name] = Position(each.position, each.next)

    @rule(queue=queues, name=names, start=places)
    def seek(self, queue: str, name: str, start: str) -> None:
        log, name = self.pick(queue, name)
        if not name:
            return
        offset = resolved(log, start)
        if offset is None:
            with pytest.raises((OutOfRange, Unavailable)):
                self.run(self.world.store.seek(f"{queue}/{name}", start))
        else:
            self.run(self.oracle.seek(log, name, start, offset))

    @rule(queue=queues, name=names, ahead=st.integers(-3, 3))
    def confirm(self, queue: str, name: str, ahead: int) -> None:
        log, name = self.pick(queue, name)
        if name:
            offset = min(max(0, log.subscribers[name].offset + ahead), log.next)
            self.run(self.oracle.confirm(log, name, offset))

    @rule(queue=queues, name=names)
    def create(self, queue: str, name: str) -> None:
        if name not in self.log(queue).subscribers:
            self.run(self.oracle.create(self.log(queue), name))

    @rule(queue=queues, name=names)
    def delete(self, queue: str, name: str) -> None:
        log = self.log(queue)
        if name in log.subscribers:
            self.run(self.oracle.delete(log, name))
        elif not self.world.objects.troubled:
            with pytest.raises(NotFound):
                self.run(self.world.store.delete_subscriber(f"{queue}/{name}"))

    @rule(queue=queues, name=names, wake=st.booleans())
    def sleep(self, queue: str, name: str, wake: bool) -> None:
        name = self.pick(queue, name)[1]
        if name:
            verb = self.world.store.wakeup if wake else self.world.store.sleep
            with self.oracle.refusals():
                self.run(verb(f"{queue}/{name}"))

    @rule(queue=queues)
    def seal(self, queue: str) -> None:
        self.run(self.oracle.seal(self.log(queue)))

    @rule(seconds=st.sampled_from([0.0, 1.0, 20.0, 400.0, 4_000.0, 90_000.0]))
    def maintain(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        self.run(self.oracle.maintain())

    @rule(queue=queues)
    def read(self, queue: str) -> None:
        with self.oracle.refusals():
            assert self.run(read_all(self.world.store, queue)) == self.log(queue).whole()

    # Faults ---------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([-3_600.0, -1.0, 86_400.0]))
    def clock_jumps(self, seconds: float) -> None:
        self.world.clock.jump(seconds)

    @rule(down=st.booleans())
    def cold_store_goes_or_comes_back(self, down: bool) -> None:
        self.world.objects.heal()
        self.world.objects.down = down

    @rule(verb=st.sampled_from(VERBS), nth=st.integers(1, 4), mode=st.sampled_from(["before", "after"]))
    def cold_call_fails(self, verb: Verb, nth: int, mode: Literal["before", "after"]) -> None:
        self.world.objects.fail(verb, nth, mode)

    @rule(room=st.sampled_from([0, SEGMENT_BYTES, 5 * SEGMENT_BYTES, 1 << 40]))
    def disk_fills_or_is_freed(self, room: int) -> None:
        used = sum(map(len, self.world.disk.files().values()))
        self.world.disk.capacity_bytes = used + room

    # Stops ----------------------------------------------------------------------------------------

    def come_back(self, seed: int | None) -> None:
        """Stop if that has not happened yet, start, and see what became of all that was under way."""
        objects = self.world.objects
        self.run(self.world.crash() if seed is None else self.world.power_cut(seed))
        down = objects.down
        objects.heal()
        self.run(self.world.start())
        self.run(self.oracle.settle_doubts())
        objects.down = down

    @rule()
    def kill(self) -> None:
        self.come_back(None)

    @rule(seed=seeds)
    def power_cut(self, seed: int) -> None:
        self.come_back(seed)

    @rule()
    def close(self) -> None:
        self.run(self.world.close())
        self.come_back(None)

    @rule(
        todo=st.lists(st.tuples(steps, queues, names), min_size=1, max_size=3),
        where=st.sampled_from(["disk", "objects-before", "objects-after", "fsync"]),
        nth=st.integers(1, 12),
        seed=st.none() | seeds,
    )
    def stop_within(self, todo: list[tuple[str, str, str]], where: str, nth: int, seed: int | None) -> None:
        """The machine stops, or the disk fails for good, in the middle of one of these steps."""
        self.world.objects.heal()
        self.world.disk.capacity_bytes = 1 << 40
        match where:
            case "disk":
                self.world.disk.cut_at(nth)
            case "fsync":
                self.world.disk.fail("sync", nth)
            case "objects-before":
                self.world.objects.fail(None, nth, "cut-before")
            case _:
                self.world.objects.fail(None, nth, "cut-after")
        try:
            for step, queue, name in todo:
                self.run(self.world.until_cut(self.step(step, queue, name)))
        except PowerCut:
            pass
        except Unavailable:
            assert self.world.engine.failed.done()
        self.come_back(seed)

    async def step(self, step: str, queue: str, name: str) -> None:
        log, name = self.pick(queue, name)
        match step:
            case "push":
                await self.oracle.push(log, [6_000, 18_000], "p1")
            case "retry":
                await asyncio.gather(*(self.oracle.push(log, [300], producer) for producer in PRODUCERS))
            case "seal":
                await self.oracle.seal(log)
            case "maintain":
                self.world.clock.advance(90_000.0)
                await self.oracle.maintain()
            case "create" if set(NAMES) - log.subscribers.keys():
                await self.oracle.create(log, min(set(NAMES) - log.subscribers.keys()))
            case "pop" if name:
                await self.oracle.pop(log, name, 3, None)
            case "seek" if name:
                await self.oracle.seek(log, name, "beginning", 0)
            case "confirm" if name:
                await self.oracle.confirm(log, name, log.next)
            case "delete" if name:
                await self.oracle.delete(log, name)

    @rule(nth=st.integers(1, 25), seeds=st.lists(seeds, min_size=1, max_size=2))
    def stop_within_recovery(self, nth: int, seeds: list[int]) -> None:
        """Nested: the recovery from one stop is itself stopped, and its work may be lost."""
        self.world.objects.heal()
        for seed in seeds:
            self.run(self.world.power_cut(seed))
            self.world.disk.cut_at(nth)
            with contextlib.suppress(PowerCut):
                self.run(self.world.start())
        self.come_back(seeds[0] + 1)

    @rule(which=st.integers(0, 99), position=st.integers(0, SEGMENT_BYTES - 1), mask=st.integers(1, 255))
    def damage_a_copy(self, which: int, position: int, mask: int) -> None:
        """A bit flips in the journal of a copy of this machine."""
        fork = self.world.fork()
        names = [name for name in fork.disk.files() if name.endswith(".seg")]
        fork.disk.corrupt(names[which % len(names)], position, mask)

        async def judge() -> None:
            await fork.start()
            await self.oracle.judge_damaged(fork)
            await fork.crash()

        self.run(judge())

    # Always ---------------------------------------------------------------------------------------

    @invariant()
    def what_is_shown_is_what_was_acknowledged(self) -> None:
        self.oracle.look()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.run(self.heal_and_judge())
        finally:
            logging.getLogger("jjq").setLevel(logging.NOTSET)
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    async def heal_and_judge(self) -> None:
        """All faults end: everything is taken again, sealed, read by a newcomer, and verified."""
        world, oracle = self.world, self.oracle
        world.objects.heal()
        world.disk.capacity_bytes = 1 << 40
        for _ in range(3):
            world.clock.advance(4_000.0)
            await world.maintain()
        for log in oracle.logs.values():
            before = log.next
            await oracle.push(log, [10])
            assert log.next == before + 1, "pushes are still refused after everything was healed"
            await oracle.seal(log)
        await oracle.judge()
        await world.crash()
        await world.start()
        await oracle.settle_doubts()
        for log in oracle.logs.values():
            await world.store.create_subscriber(log.name, "newcomer", "beginning")
            assert await drain(world.store, f"{log.name}/newcomer") == log.whole()
            for producer, sequence in log.receipts:
                if sequence > log.next_sequence[producer] - 64:
                    await oracle.push_again(log, producer, sequence)
        await oracle.judge()
        await world.close()


def resolved(log: Log, start: str) -> int | None:
    """What a starting point means, None where it is out of range."""
    kind, _, number = start.partition(":")
    match kind:
        case "beginning":
            return 0
        case "end":
            return log.next
        case "last":
            return max(0, log.next - int(number))
    return int(number) if int(number) <= log.next else None


StoreMachine.TestCase.settings = settings(
    max_examples=2_000 if LONG else 120,
    stateful_step_count=80 if LONG else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestStoreMachine = StoreMachine.TestCase
if LONG:
    TestStoreMachine = pytest.mark.timeout(7_200)(TestStoreMachine)
