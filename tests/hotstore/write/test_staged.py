"""A queue with several groups on their way: each is shown, refused or forgotten as the one it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from coldstore.shared.errors import Conflict, Exhausted, Unavailable
from hotstore.engine import Runners
from hotstore.journal.port import Journal, Poisoned, Record
from hotstore.port import Receipt
from tests.hotstore.kit import World, drain, push, read_all, turns, values
from tests.hotstore.threaded import threaded

SECONDS = 30.0


class FarDisk:
    """A journal that takes three groups at once, and whose batches are durable when a test says so."""

    in_flight = 3

    def __init__(self, inner: Journal) -> None:
        self._inner = inner
        self._changed = threading.Condition()
        self._held: int | None = None  # batches from this one on have not landed
        self.asked = 0  # the sync that is under way covers batches up to this one
        self.refuse = 0
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, records: Sequence[Record]) -> int:
        with self._changed:
            if self.refuse:
                self.refuse -= 1
                raise Exhausted("no room, by order of a test")
            return self._inner.append(records)

    def sync(self) -> None:
        with self._changed:
            upto = self.asked = self._inner.next_sequence
            assert self._changed.wait_for(lambda: self.broken or self._is_there(upto), SECONDS)
            if self.broken:
                raise Poisoned("by order of a test")
            self._inner.sync()

    def _is_there(self, upto: int) -> bool:
        return self._held is None or upto <= self._held

    def hold(self) -> None:
        self._held = self._inner.next_sequence

    def land(self, count: int | None = None) -> None:
        """So many more batches are durable; None: all, from now on."""
        with self._changed:
            assert self._held is not None
            self._held = None if count is None else self._held + count
            self._changed.notify_all()

    def break_down(self) -> None:
        with self._changed:
            self.broken = True
            self._changed.notify_all()


Far = tuple[World, FarDisk]


@pytest_asyncio.fixture
async def far() -> AsyncIterator[Far]:
    async with threaded(FarDisk) as made:
        yield made


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - other threads make it true
            await asyncio.sleep(0.001)


async def begin(world: World, work: Any) -> asyncio.Task[Any]:
    """Start a request, and wait until its group was appended, or refused, and the committer knows."""
    committer = world.engine.committer
    before = committer.forming
    task = asyncio.ensure_future(work)
    await until(lambda: committer.forming > before and not committer._busy)
    return task


async def test_the_first_group_shows_its_own_elements_and_not_those_of_the_second(far: Far) -> None:
    # Given two groups of one queue on their way
    world, journal = far
    journal.hold()
    first = await begin(world, push(world.store, "q", b"a", b"b"))
    await until(lambda: journal.asked == journal.next_sequence)  # a sync of the first group alone
    second = await begin(world, push(world.store, "q", b"c"))
    assert await read_all(world.store, "q") == []
    # When the first has landed
    journal.land(1)
    assert (await first).first_offset == 0
    # Then
    assert [e.value for e in await read_all(world.store, "q")] == [b"a", b"b"]
    assert (await world.store.get_queue("q")).next_offset == 2
    assert not second.done()
    journal.land()
    assert (await second).first_offset == 2
    assert [(e.offset, e.value) for e in await read_all(world.store, "q")] == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
    ]


async def test_a_retry_finds_the_push_that_is_still_on_its_way(far: Far) -> None:
    world, journal = far
    journal.hold()
    pushed = await begin(world, push(world.store, "q", b"a", producer="p", sequence=7))
    world.clock.advance(1.0)
    other = await begin(world, push(world.store, "q", b"b", producer="p", sequence=8))
    again = await begin(world, push(world.store, "q", b"a", producer="p", sequence=7))
    await turns()
    assert not again.done()  # what it rests on is not durable
    journal.land()
    receipt: Receipt = await pushed
    assert await again == replace(receipt, duplicate=True)
    assert (await other).first_offset == 1
    skipped = push(world.store, "q", b"x", producer="p", sequence=10)
    with pytest.raises(Conflict):
        await skipped
    assert len(await read_all(world.store, "q")) == 2


async def test_a_producer_may_not_skip_what_is_on_its_way(far: Far) -> None:
    world, journal = far
    journal.hold()
    pushed = await begin(world, push(world.store, "q", b"a", producer="p", sequence=7))
    skipping = await begin(world, push(world.store, "q", b"c", producer="p", sequence=9))
    await turns()
    assert not skipping.done()
    journal.land()
    assert (await pushed).first_offset == 0
    with pytest.raises(Conflict):
        await skipping


async def test_an_expected_offset_counts_what_is_on_its_way(far: Far) -> None:
    world, journal = far
    journal.hold()
    pushed = await begin(world, push(world.store, "q", b"a"))
    right = await begin(world, push(world.store, "q", b"b", expected_offset=1))
    wrong = await begin(world, push(world.store, "q", b"c", expected_offset=1))
    journal.land()
    assert [(await done).first_offset for done in (pushed, right)] == [0, 1]
    with pytest.raises(Conflict):
        await wrong


async def test_offsets_of_a_group_that_found_no_room_are_given_to_the_next(far: Far) -> None:
    world, journal = far
    journal.hold()
    pushed = await begin(world, push(world.store, "q", b"a"))
    journal.refuse = 1
    refused = await begin(world, push(world.store, "q", b"b", b"b"))
    behind = asyncio.ensure_future(push(world.store, "q", b"c"))
    await turns()
    assert not refused.done()
    journal.land()
    assert (await pushed).first_offset == 0
    with pytest.raises(Exhausted):
        await refused
    assert (await behind).first_offset == 1
    assert [e.value for e in await read_all(world.store, "q")] == [b"a", b"c"]


async def test_a_pop_that_found_no_room_does_not_undo_the_one_on_its_way(far: Far) -> None:
    # Given a pop on its way, and one on top of it that finds no room
    world, journal = far
    await push(world.store, "q", *(b"%d" % n for n in range(6)))
    journal.hold()
    first = await begin(world, world.store.pop("q/s", 2))
    journal.refuse = 1
    second = await begin(world, world.store.pop("q/s", 2))
    journal.land()
    # Then
    assert values(await first) == [b"0", b"1"]
    with pytest.raises(Exhausted):
        await second
    assert [e.value for e in await drain(world.store, "q/s")] == [b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("lands", [True, False])
async def test_nobody_is_told_of_a_position_that_a_crash_would_take_back(far: Far, lands: bool) -> None:
    # Given a pop on its way
    world, journal = far
    await push(world.store, "q", *(b"%d" % n for n in range(6)))
    journal.hold()
    popped = await begin(world, world.store.pop("q/s", 2))
    # Then it has not happened yet, for whoever looks
    assert (await world.store.get_subscriber("q/s")).offset == 0
    assert values(await world.store.peek("q/s", 3)) == [b"0", b"1", b"2"]
    # Until it has
    if lands:
        journal.land()
        await popped
    else:
        journal.break_down()
        with pytest.raises(Unavailable):
            await popped
    assert (await world.store.get_subscriber("q/s")).offset == (2 if lands else 0)
    assert (await world.store.peek("q/s")).position == (2 if lands else 0)


async def test_a_failure_leaves_nothing_of_the_groups_behind_it(far: Far) -> None:
    world, journal = far
    await push(world.store, "q", b"old")
    journal.hold()
    tasks = [await begin(world, push(world.store, "q", name)) for name in (b"a", b"b", b"c")]
    journal.break_down()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 3
    assert (await world.store.get_queue("q")).next_offset == 1
    assert [e.value for e in await read_all(world.store, "q")] == [b"old"]


async def test_a_checkpoint_behind_groups_on_their_way_forgets_none_of_them(far: Far) -> None:
    # Given a pop and a push on their way while rows of state are written again
    world, journal = far
    await push(world.store, "q", b"0", b"1", b"2")
    await world.engine.checkpointer.write()
    journal.hold()
    popped = await begin(world, world.store.pop("q/s", 2))
    pushed = await begin(world, push(world.store, "q", b"3", producer="p", sequence=1))
    written = asyncio.ensure_future(world.engine.checkpointer.write())
    journal.land()
    await asyncio.gather(popped, pushed, written)
    await world.engine.checkpointer.trim()
    # When the process is killed, and starts on the disk alone
    world.wrap, world.runners = lambda journal: journal, Runners.inline
    await world.restart()
    # Then
    assert (await world.store.get_subscriber("q/s")).offset == 2
    assert [e.value for e in await drain(world.store, "q/s")] == [b"2", b"3"]
    assert (await push(world.store, "q", b"3", producer="p", sequence=1)).duplicate
