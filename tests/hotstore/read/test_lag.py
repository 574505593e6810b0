"""How far subscribers are behind: exact in memory, bounded beyond it, and nothing is read for it."""

from __future__ import annotations

import pytest

from hotstore.read.listing import Lag
from tests.hotstore.kit import World, fat, push


async def lag_of(world: World, name: str) -> Lag:
    return next(lag for lag in await world.store.lags() if lag.subscriber == name)


async def a_world() -> World:
    """Ten elements, ten seconds apart, the last one just now; the smallest blocks hold four."""
    world = await World().start()
    await world.store.create_queue("q", block_bytes=64 * 1024, block_seconds=3600.0)
    await world.store.create_subscriber("q", "first", "beginning")
    for n in range(10):
        world.clock.advance(10.0 if n else 0.0)
        await push(world.store, "q", fat(f"e{n}"))
    return world


async def test_at_the_end_there_is_no_lag() -> None:
    world = await a_world()
    await world.store.create_subscriber("q", "x", "end")
    world.clock.advance(1_000.0)
    assert await lag_of(world, "x") == Lag("q", "x", 0, 0.0)


@pytest.mark.parametrize(("offset", "seconds"), [(8, 10.0), (9, 0.0)])
async def test_in_memory_it_is_the_age_of_that_very_element(offset: int, seconds: float) -> None:
    world = await a_world()
    await world.store.create_subscriber("q", "x", f"offset:{offset}")
    world.clock.advance(5.0)
    assert await lag_of(world, "x") == Lag("q", "x", 10 - offset, seconds + 5.0)


async def test_small_pushes_that_were_gathered_keep_their_ages() -> None:
    world = await World().start()
    await world.store.create_queue("q")
    for n in range(100):
        world.clock.advance(1.0)
        await push(world.store, "q", *[b"%d" % n] * (1 + n % 3))
    end = (await world.store.get_queue("q")).next_offset
    for offset in range(end):
        await world.store.create_subscriber("q", f"s{offset}", f"offset:{offset}")
    found = await world.store.lags()
    ages = [100 - (n + 1) for n in range(100) for _ in range(1 + n % 3)]
    assert [(lag.elements, lag.seconds) for lag in found] == [
        (end - n, float(age)) for n, age in enumerate(ages)
    ]


async def test_deep_in_history_it_is_that_of_the_block_and_nothing_is_read() -> None:
    world = await a_world()
    await world.quiet()
    kinds = [block.kind for block in await world.store.list_blocks("q")]
    assert kinds == ["final", "final", "hot-hot"]
    await world.store.create_subscriber("q", "x", "offset:6")
    before = dict(world.objects.calls)
    world.objects.down = True
    assert await lag_of(world, "x") == Lag("q", "x", 4, 50.0)  # element 4 began its block; 6 is 30 s old
    assert await lag_of(world, "first") == Lag("q", "first", 10, 90.0)
    assert world.objects.calls == before


async def test_a_block_that_is_loaded_gives_the_exact_age() -> None:
    world = await a_world()
    await world.quiet()
    await world.store.create_subscriber("q", "x", "offset:5")
    await world.store.pop("q/x")
    assert await lag_of(world, "x") == Lag("q", "x", 4, 30.0)


async def test_young_blocks_count_too() -> None:
    world = await World().start()
    await world.store.create_queue("q", block_seconds=60.0)
    await world.store.create_subscriber("q", "x", "beginning")
    for _ in range(2):
        await push(world.store, "q", b"a", b"b")
        world.clock.advance(61.0)
        await world.maintain()
    assert [b.kind for b in await world.store.list_blocks("q")][:2] == ["young", "young"]
    await world.store.sleep("q/x")
    await world.store.seek("q/x", "offset:3")
    assert await lag_of(world, "x") == Lag("q", "x", 1, 61.0)


async def test_after_a_restart_it_is_known_at_once_and_nothing_is_opened_for_it() -> None:
    world = await a_world()
    await world.quiet()
    await world.store.create_subscriber("q", "x", "offset:9")
    await world.restart()
    world.objects.down = True
    world.clock.advance(7.0)
    assert await lag_of(world, "x") == Lag("q", "x", 1, 7.0)
    assert await lag_of(world, "first") == Lag("q", "first", 10, 7.0)  # at least: the newest element's age
    world.objects.down = False
    await world.store.get_queue("q")
    assert await lag_of(world, "first") == Lag("q", "first", 10, 97.0)


async def test_a_clock_that_was_set_back_gives_no_negative_age() -> None:
    world = await a_world()
    world.clock.jump(-10_000.0)
    assert (await lag_of(world, "first")).seconds == 0.0
