"""Back-pressure: refused at the front, with a delay, before anything is written; reads go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coldstore.shared.errors import Exhausted, JjqError, Unavailable
from coldstore.shared.limits import KIB, MIB
from hotstore.settings import HotSettings
from hotstore.write.admission import Admission, Usage
from tests.hotstore.kit import (
    BLOCK_BYTES,
    World,
    check_cold,
    drain,
    fat,
    fill,
    push,
    read_all,
    settings,
    values,
)


async def small(**changes: object) -> World:
    world = await World(hot=settings(**changes)).start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await world.store.create_subscriber("q", "s", "beginning")
    return world


async def until_refused(world: World, most: int = 500) -> tuple[list[bytes], Exhausted]:
    """Push until a push is refused."""
    made: list[bytes] = []
    for n in range(most):
        value = fat(f"p{n}")
        before = world.journal.next_sequence
        try:
            await push(world.store, "q", value)
        except Exhausted as refused:
            assert world.journal.next_sequence == before, "refused, and yet written"
            return made, refused
        made.append(value)
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"journal_bytes_max": 2 * MIB}, "the journal holds"),
        ({"unsealed_bytes_max": 1 * MIB}, "wait in memory for the cold store"),
    ],
)
async def test_an_absent_cold_store_fills_the_budget_and_everything_recovers_when_it_is_back(
    changes: dict[str, int], says: str
) -> None:
    # Given
    world = await small(**changes)
    world.objects.down = True
    # When
    made, refused = await until_refused(world)
    for _ in range(9):
        world.clock.advance(1)
        await world.engine.maintenance.once()
    # Then
    assert says in str(refused)
    assert len(await world.store.list_blocks("q")) <= 2 + len(made) // 4, (
        "blocks are not cut small while they wait"
    )
    assert refused.retry_after > 0
    assert len(made) * 19 * KIB > 0.8 * next(iter(changes.values()))
    assert [e.value for e in await read_all(world.store, "q")] == made, "reads go on"
    assert values(await world.store.pop("q/s", 1)) == made[:1], "and so do pops"
    # And again when the cold store is back, whether or not the machine stopped meanwhile
    await world.restart()
    world.objects.heal()
    for _ in range(3):
        world.clock.advance(60)
        await world.maintain()
    more = await fill(world.store, "q", 60, prefix="more")
    await world.quiet()
    assert [e.value for e in await read_all(world.store, "q")] == made + more
    check_cold(world, "q", await read_all(world.store, "q"))
    assert world.journal.used_bytes < 2 * MIB


async def test_the_journal_is_given_back_as_blocks_are_sealed() -> None:
    # Given a budget that the pushes would fill many times over
    world = await small(journal_bytes_max=2 * MIB)
    # When
    most = 0
    for n in range(300):
        await push(world.store, "q", fat(f"e{n}"))
        if n % 20 == 0:
            await world.maintain()
        most = max(most, world.journal.used_bytes)
    # Then
    assert most < 2 * MIB
    assert (await world.store.get_queue("q")).next_offset == 300


async def test_many_small_pops_do_not_fill_the_journal() -> None:
    # Given a budget of a few hundred journal pages; each pop takes one
    world = await small(journal_bytes_max=2 * MIB)
    await push(world.store, "q", *(b"%d" % n for n in range(3_000)))
    await world.store.seal("q")
    # When
    for n in range(3_000):
        await world.store.pop("q/s", 1)
        if n % 50 == 0:
            await world.maintain()
            await push(world.store, "q", b"x")
    # Then nothing was refused, and the position is kept
    await world.restart()
    assert (await world.store.get_subscriber("q/s")).offset == 3_000


async def test_a_slow_queue_does_not_hold_the_journal_of_the_others() -> None:
    # Given a queue whose block may wait for a week, with one element in it
    world = await small(journal_bytes_max=2 * MIB)
    await world.store.create_queue("slow", block_seconds=7 * 86_400.0)
    await push(world.store, "slow", b"kept")
    # When another one is pushed to many times the budget, before and after a restart
    for n in range(400):
        await push(world.store, "q", fat(f"e{n}"))
        if n % 10 == 0:
            await world.maintain()
        if n == 200:
            await push(world.store, "slow", b"too")
            await world.restart()
    # Then nothing was refused, and nothing lost
    assert [e.value for e in await read_all(world.store, "slow")] == [b"kept", b"too"]
    assert (await world.store.get_queue("q")).next_offset == 400


async def test_a_disk_that_is_nearly_full_refuses_pushes_before_it_is_full() -> None:
    world = await small(disk_free_bytes_min=10 * MIB)
    await push(world.store, "q", b"a")
    world.free_bytes = 10 * MIB - 1
    await world.maintain()
    with pytest.raises(Exhausted, match="free some space") as refused:
        await push(world.store, "q", b"b")
    assert refused.value.retry_after >= 1
    assert values(await world.store.pop("q/s", 9)) == [b"a"], "pops go on: they need little"
    world.free_bytes = 10 * MIB
    await world.maintain()
    assert (await push(world.store, "q", b"b")).first_offset == 1


async def test_a_full_disk_refuses_pushes_and_pops_and_loses_nothing() -> None:
    # Given a disk without room for another segment
    world = await small()
    world.objects.down = True
    world.disk.capacity_bytes = sum(map(len, world.disk.files().values()))
    made, _ = await until_refused(world)
    assert made
    # When pops come side by side, of which the first may still find room
    popped = []
    for _ in range(100):
        results = await asyncio.gather(*(world.store.pop("q/s", 1) for _ in range(3)), return_exceptions=True)
        assert all(not isinstance(r, BaseException) or isinstance(r, Exhausted) for r in results)
        popped += [v for r in results if not isinstance(r, BaseException) for v in values(r)]
        if any(isinstance(r, Exhausted) for r in results):
            break
    # Then what they got is in order, without a gap
    assert popped == made[: len(popped)]
    assert [e.value for e in await read_all(world.store, "q")] == made
    assert not world.engine.failed.done(), "a full disk is no failure"
    # And a restart works while the disk is full, and everything goes on when it is not
    await world.restart()
    world.disk.capacity_bytes = 1 << 40
    world.objects.heal()
    assert (await push(world.store, "q", b"last")).first_offset == len(made)
    assert popped + [e.value for e in await drain(world.store, "q/s")] == [*made, b"last"]


async def test_room_that_runs_out_in_the_middle_of_many_pushes_takes_all_or_nothing_of_each() -> None:
    world = await small()
    world.objects.down = True
    world.disk.capacity_bytes = sum(map(len, world.disk.files().values())) + 300 * KIB
    pushes = [push(world.store, "q", fat(f"{n}a"), fat(f"{n}b")) for n in range(40)]
    results = await asyncio.gather(*pushes, return_exceptions=True)
    taken = [n for n, r in enumerate(results) if not isinstance(r, BaseException)]
    assert 0 < len(taken) < 40
    assert all(isinstance(r, Exhausted) for r in results if isinstance(r, BaseException))
    await world.restart()
    there = [e.value for e in await read_all(world.store, "q")] if await heal(world) else []
    assert there == [fat(f"{n}{x}") for n in taken for x in "ab"]


async def heal(world: World) -> bool:
    world.objects.heal()
    world.disk.capacity_bytes = 1 << 40
    return True


# The gate by itself


def gate(**changes: object) -> tuple[Admission, Usage]:
    usage = Usage()
    made: HotSettings = settings(pending_bytes_max=100, **changes)
    return Admission(made, lambda: usage), usage


async def enters(admission: Admission, size: int) -> asyncio.Task[None]:
    task = asyncio.create_task(admission.enter(size))
    await asyncio.sleep(0)
    return task


async def test_bytes_wait_their_turn_in_order() -> None:
    # Given a gate that is full
    admission, _ = gate()
    await admission.enter(60)
    await admission.enter(40)
    # When more come, a large one first
    large, small_ = await enters(admission, 90), await enters(admission, 10)
    assert not large.done()
    assert not small_.done(), "nobody overtakes"
    # Then they are let in as room is made
    admission.leave(40)
    await asyncio.sleep(0)
    assert not large.done()
    admission.leave(60)
    await asyncio.gather(large, small_)


async def test_too_many_bytes_that_wait_are_refused() -> None:
    admission, _ = gate()
    await admission.enter(100)
    waiting = [await enters(admission, 100) for _ in range(4)]
    with pytest.raises(Exhausted, match="wait for the disk already") as refused:
        await admission.enter(1)
    assert refused.value.retry_after > 0
    assert admission.refused == 1
    for _ in range(4):
        admission.leave(100)
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)


async def test_one_that_gives_up_waiting_makes_room_for_the_others() -> None:
    admission, _ = gate()
    await admission.enter(100)
    first, second, third = [await enters(admission, 50) for _ in range(3)]
    first.cancel()
    await asyncio.wait([first])
    admission.leave(100)
    await asyncio.gather(second, third)
    fourth = await enters(admission, 1)
    assert not fourth.done()
    admission.leave(50)
    await fourth


async def test_one_that_gives_up_in_the_moment_it_is_let_in_leaves_no_trace() -> None:
    admission, _ = gate()
    await admission.enter(100)
    waiting = await enters(admission, 100)
    admission.leave(100)
    waiting.cancel()
    await asyncio.wait([waiting])
    await admission.enter(100)


@pytest.mark.parametrize(
    ("full", "says"),
    [
        (lambda usage: setattr(usage, "journal_bytes", 1 << 40), "the journal holds"),
        (lambda usage: setattr(usage, "unsealed_bytes", 1 << 40), "wait in memory"),
        (lambda usage: setattr(usage, "disk_free_bytes", 3), "has 3 bytes free"),
    ],
    ids=["journal", "memory", "disk"],
)
async def test_each_full_budget_says_what_it_is(full: Callable[[Usage], None], says: str) -> None:
    admission, usage = gate(disk_free_bytes_min=4)
    full(usage)
    with pytest.raises(Exhausted, match=says) as refused:
        await admission.enter(1)
    assert "nothing was written, retry in" in str(refused.value)


async def test_pending_bytes_are_bounded_whatever_the_load() -> None:
    # Given a small gate and many who push at once
    world = await small(pending_bytes_max=64 * KIB)
    pushes: list[Awaitable[object]] = [push(world.store, "q", fat(f"{n}")) for n in range(100)]
    # When
    results = await asyncio.gather(*pushes, return_exceptions=True)
    # Then some were refused, and the others are there
    taken = [r for r in results if not isinstance(r, JjqError)]
    assert 3 <= len(taken) < 100
    assert all(isinstance(r, Exhausted) for r in results if isinstance(r, BaseException))
    assert len(await read_all(world.store, "q")) == len(taken)
    assert world.engine.committer.pending_bytes == 0
    assert world.store.gauges()["pushes_refused_total"] == 100 - len(taken)


async def test_gauges_tell_what_is_held_and_exposed(world: World) -> None:
    await fill(world.store, "q", 2)
    world.clock.advance(7)
    gauges = world.store.gauges()
    assert gauges["exposed_bytes"] > 38 * KIB
    assert gauges["exposed_seconds"] == 7
    assert gauges["journal_bytes"] > 40 * KIB
    assert (gauges["queues"], gauges["subscribers"], gauges["pending_bytes"]) == (1, 0, 0)
    await world.store.seal("q")
    assert world.store.gauges()["exposed_bytes"] == 0
    assert world.store.gauges()["exposed_seconds"] == 0


async def test_a_seal_that_fails_is_tried_again_later_and_later(world: World) -> None:
    # Given
    await world.maintain()
    await push(world.store, "q", b"a")
    world.objects.down = True
    with pytest.raises(Unavailable):
        await world.store.seal("q")
    # When rounds of maintenance pass within the delay, nothing is tried
    before = dict(world.objects.calls)
    await world.maintain()
    assert world.objects.calls == before
    # And after it, once
    world.clock.advance(0.6)
    await world.maintain()
    assert world.objects.calls != before
    world.objects.heal()
    world.clock.advance(60)
    await world.maintain()
    assert (await world.store.get_queue("q")).cold_offset == 1
