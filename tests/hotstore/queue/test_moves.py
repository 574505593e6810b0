"""Moves of subscribers when the disk is full: nothing is skipped, whatever was under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from coldstore.shared.errors import Exhausted, JjqError
from hotstore.journal.port import Journal, Record
from tests.hotstore.kit import BLOCK_BYTES, World, drain, push, turns, values


class Scarce:
    """A journal that has no room for the next few groups."""

    def __init__(self, inner: Journal) -> None:
        self._inner = inner
        self.refuse = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def append(self, records: Sequence[Record]) -> int:
        if self.refuse:
            self.refuse -= 1
            raise Exhausted("no room, by order of a test", retry_after=5.0)
        return self._inner.append(records)


async def scarce_world() -> tuple[World, Scarce]:
    world, made = World(), []

    def wrap(journal: Journal) -> Journal:
        made.append(Scarce(journal))
        return made[-1]  # type: ignore[return-value]

    world.wrap = wrap
    await world.start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await world.store.create_subscriber("q", "s", "beginning")
    await push(world.store, "q", *(b"%d" % n for n in range(9)))
    return world, made[-1]


async def test_a_pop_that_finds_no_room_leaves_the_position() -> None:
    # Given
    world, journal = await scarce_world()
    journal.refuse = 1
    # When
    with pytest.raises(Exhausted) as refused:
        await world.store.pop("q/s", 3)
    # Then
    assert refused.value.retry_after == 5.0
    assert (await world.store.get_subscriber("q/s")).offset == 0
    assert values(await world.store.pop("q/s", 3)) == [b"0", b"1", b"2"]


async def test_pops_on_top_of_one_that_failed_fail_too_and_nothing_is_skipped() -> None:
    # Given two pops in the first group and one in the next
    world, journal = await scarce_world()
    journal.refuse = 1
    first = asyncio.gather(*(world.store.pop("q/s", 2) for _ in range(2)), return_exceptions=True)
    # When
    failed = await first
    # Then
    assert [type(f) for f in failed] == [Exhausted, Exhausted]
    assert [e.value for e in await drain(world.store, "q/s")] == [b"%d" % n for n in range(9)]


async def test_a_pop_in_the_next_group_fails_with_the_one_it_stands_on() -> None:
    # Given a first group that will fail while a second pop is already on top of it
    world, journal = await scarce_world()
    store, committer = world.store, world.engine.committer
    subscriber = await world.engine.registry.subscriber("q/s")
    committer._busy = True  # hold the line: both entries wait
    tasks = [asyncio.create_task(store.pop("q/s", 2)) for _ in range(2)]
    await turns()
    committer._busy, committer._group_bytes_max = False, 1  # one entry in each group
    # When
    journal.refuse = 1
    committer._begin()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    # Then
    assert [type(r) for r in results] == [Exhausted, Exhausted]
    assert (subscriber.previous, subscriber.offset) == subscriber.durable == subscriber.noted == (0, 0)


async def test_that_nothing_is_left_is_not_said_on_the_strength_of_a_pop_that_failed() -> None:
    # Given two pops side by side, of which the first takes all that there is, and finds no room
    world, journal = await scarce_world()
    journal.refuse = 1
    # When
    results = await asyncio.gather(
        world.store.pop("q/s", 9), world.store.pop("q/s", 9), return_exceptions=True
    )
    # Then
    assert [type(r) for r in results] == [Exhausted, Exhausted]
    assert len(await drain(world.store, "q/s")) == 9


async def both(world: World, journal: Scarce, *works: object) -> list[object]:
    """Run requests one group each, of which the first finds no room."""
    committer = world.engine.committer
    committer._busy = True
    tasks = [asyncio.ensure_future(work) for work in works]  # type: ignore[call-overload]
    await turns()
    committer._busy, committer._group_bytes_max = False, 1
    journal.refuse = 1
    committer._begin()
    return list(await asyncio.gather(*tasks, return_exceptions=True))


async def same_after_restart(world: World) -> int:
    """The position, which a restart must not change."""
    before = await world.store.get_subscriber("q/s")
    world.wrap = lambda journal: journal
    await world.restart()
    after = await world.store.get_subscriber("q/s")
    assert (after.previous, after.offset) == (before.previous, before.offset)
    return after.offset


async def test_a_retry_on_top_of_a_pop_that_failed_does_not_move_the_journal_alone() -> None:
    world, journal = await scarce_world()
    results = await both(world, journal, world.store.pop("q/s", 3), world.store.pop("q/s", 3, position=0))
    assert isinstance(results[0], Exhausted)
    assert await same_after_restart(world) == (0 if isinstance(results[1], JjqError) else 3)


async def test_a_confirm_behind_a_pop_that_failed_does_not_confirm_the_pop() -> None:
    world, journal = await scarce_world()
    results = await both(world, journal, world.store.pop("q/s", 5), world.store.confirm("q/s", 3))
    assert isinstance(results[0], Exhausted)
    assert await same_after_restart(world) <= 3, "elements that nobody got are skipped"


async def test_a_seek_behind_a_pop_that_failed_counts() -> None:
    world, journal = await scarce_world()
    results = await both(world, journal, world.store.pop("q/s", 5), world.store.seek("q/s", "offset:7"))
    assert isinstance(results[0], Exhausted)
    assert await same_after_restart(world) == 7


async def test_a_queue_whose_row_found_no_room_is_not_used_before_the_journal_knows_it() -> None:
    # Given a queue that could be created, but not journalled
    world, journal = await scarce_world()
    journal.refuse = 1
    with pytest.raises(Exhausted):
        await world.store.create_queue("late", block_bytes=BLOCK_BYTES)
    # When room comes back
    receipt = await push(world.store, "late", b"kept")
    assert receipt.first_offset == 0
    world.wrap = lambda journal: journal
    await world.restart()
    # Then the push is there after a restart
    await world.store.create_subscriber("late", "s", "beginning")
    assert [e.value for e in await drain(world.store, "late/s")] == [b"kept"]


async def test_pushes_that_wait_for_a_queue_whose_row_found_no_room_are_not_lost() -> None:
    world, journal = await scarce_world()
    await world.store.create_queue("late", block_bytes=BLOCK_BYTES)
    await world.restart()  # so that it is opened anew; `wrap` gives another journal
    journal = world.journal  # type: ignore[assignment]
    del world.engine.registry.queues["late"]
    results = await both(world, journal, push(world.store, "late", b"1"), push(world.store, "late", b"2"))
    written = [r for r in results if not isinstance(r, JjqError)]
    world.wrap = lambda journal: journal
    await world.restart()
    assert (await world.store.get_queue("late")).next_offset == len(written)


async def test_a_subscriber_whose_row_found_no_room_is_not_there() -> None:
    world, journal = await scarce_world()
    results = await both(
        world,
        journal,
        world.store.create_subscriber("q", "new", "beginning"),
        world.store.create_subscriber("q", "new", "beginning"),
    )
    assert isinstance(results[0], Exhausted)
    there = {s.name for s in await world.store.list_subscribers("q")}
    assert ("new" in there) == (not isinstance(results[1], JjqError))
    world.wrap = lambda journal: journal
    await world.restart()
    assert {s.name for s in await world.store.list_subscribers("q")} == there


async def test_a_subscriber_that_could_not_be_deleted_is_still_there() -> None:
    world, journal = await scarce_world()
    journal.refuse = 1
    with pytest.raises(Exhausted):
        await world.store.delete_subscriber("q/s")
    assert values(await world.store.pop("q/s", 1)) == [b"0"]
    world.wrap = lambda journal: journal
    await world.restart()
    assert (await world.store.get_subscriber("q/s")).offset == 1


@pytest.mark.parametrize("one_group", [True, False])
async def test_a_checkpoint_beside_a_delete_does_not_bring_the_subscriber_back(one_group: bool) -> None:
    # Given a delete and a checkpoint under way at the same time
    world, _ = await scarce_world()
    committer = world.engine.committer
    committer._busy = True
    tasks = [
        asyncio.create_task(world.store.delete_subscriber("q/s")),
        asyncio.create_task(world.engine.checkpointer.write()),
    ]
    await turns()
    committer._busy, committer._group_bytes_max = False, 1 << 20 if one_group else 1
    # When
    committer._begin()
    await asyncio.gather(*tasks)
    await world.restart()
    # Then
    assert await world.store.list_subscribers("q") == []


@pytest.mark.parametrize("one_group", [True, False])
async def test_a_checkpoint_beside_an_idempotent_push_does_not_forget_its_receipt(one_group: bool) -> None:
    # Given a producer that the queue knows
    world, _ = await scarce_world()
    await push(world.store, "q", b"a", producer="p", sequence=1)
    committer = world.engine.committer
    committer._busy = True
    pushed = asyncio.create_task(push(world.store, "q", b"b", producer="p", sequence=2))
    written = asyncio.create_task(world.engine.checkpointer.write())
    await turns()
    committer._busy, committer._group_bytes_max = False, 1 << 20 if one_group else 1
    # When its next push shares a group with the checkpoint's rows
    committer._begin()
    receipt, _ = await asyncio.gather(pushed, written)
    await world.restart()
    # Then a retry is still recognised
    again = await push(world.store, "q", b"b", producer="p", sequence=2)
    assert (again.first_offset, again.duplicate) == (receipt.first_offset, True)
