"""Hot blocks: loaded once, shared, dropped with their last reader, within one budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from coldstore.shared.errors import Unavailable
from tests.hotstore.kit import BLOCK_BYTES, World, drain, fat, fill, push, read_all, turns, values

T = TypeVar("T")


class GatedRunner:
    """Runs work when a test lets it, so that what happens meanwhile can be arranged."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.waiting = 0

    async def run(self, call: Callable[[], T]) -> T:
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return call()

    def close(self) -> None:
        return None


async def history(world: World, blocks: int = 3) -> list[bytes]:
    """A queue of full final blocks of four elements each, none of them loaded."""
    made = await fill(world.store, "q", 4 * blocks)
    await world.quiet()
    assert [b.kind for b in await world.store.list_blocks("q")] == ["final"] * blocks + ["hot-hot"]
    return made


def gate(world: World) -> GatedRunner:
    runner = GatedRunner()
    world.engine.blocks._runner = runner
    return runner


async def loaded(world: World) -> list[int]:
    return [b.id for b in await world.store.list_blocks("q") if b.loaded and b.kind in ("young", "final")]


async def test_many_readers_of_a_block_share_one_load(world: World) -> None:
    # Given
    made = await history(world)
    subscribers = [await world.store.create_subscriber("q", f"s{n}", "beginning") for n in range(50)]
    runner = gate(world)
    # When all of them ask while the block is on its way
    pops = [asyncio.create_task(world.store.pop(s.id, 1)) for s in subscribers]
    await turns()
    assert runner.waiting == 1
    runner.gate.set()
    # Then
    assert [values(popped) for popped in await asyncio.gather(*pops)] == [made[:1]] * 50
    assert world.engine.blocks.loads == 1


async def test_a_load_that_fails_fails_for_all_who_wait_and_the_next_one_tries_anew(world: World) -> None:
    await history(world)
    await world.store.create_subscriber("q", "s", "beginning")
    world.objects.fail("get", 1)
    with pytest.raises(Unavailable):
        await world.store.pop("q/s", 1)
    assert (await world.store.get_subscriber("q/s")).offset == 0
    assert values(await world.store.pop("q/s", 1)) == [fat("e0")]


async def test_a_reader_that_gives_up_does_not_cancel_the_load_of_the_others(world: World) -> None:
    made = await history(world)
    one, two = [await world.store.create_subscriber("q", n, "beginning") for n in ("one", "two")]
    runner = gate(world)
    impatient = asyncio.create_task(world.store.pop(one.id, 1))
    patient = asyncio.create_task(world.store.pop(two.id, 1))
    await turns()
    impatient.cancel()
    await turns()
    runner.gate.set()
    assert values(await patient) == made[:1]
    assert (await world.store.get_subscriber(one.id)).offset == 0


async def test_a_block_is_dropped_when_its_last_subscriber_leaves_it(world: World) -> None:
    # Given two subscribers in the first block
    await history(world)
    for name in ("one", "two"):
        await world.store.create_subscriber("q", name, "beginning")
        await world.store.pop(f"q/{name}", 1)
    assert await loaded(world) == [0]
    # When they leave one after the other
    await world.store.seek("q/one", "end")
    assert await loaded(world) == [0]
    await world.store.pop("q/two", 3)
    # Then
    assert 0 not in await loaded(world)


async def test_a_block_is_dropped_when_its_subscriber_is_deleted_or_sleeps(world: World) -> None:
    await history(world)
    for name in ("one", "two"):
        await world.store.create_subscriber("q", name, "beginning")
        await world.store.pop(f"q/{name}", 1)
    await world.store.delete_subscriber("q/one")
    assert await loaded(world) == [0]
    asleep = await world.store.sleep("q/two")
    assert (asleep.asleep, asleep.offset) == (True, 1)
    assert await loaded(world) == []
    assert world.engine.blocks.bytes == 0


async def test_wakeup_loads_the_block_ahead_of_the_pop(world: World) -> None:
    await history(world)
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.sleep("q/s")
    awake = await world.store.wakeup("q/s")
    assert (awake.asleep, awake.offset) == (False, 0)
    assert await loaded(world) == [0]
    before = world.engine.blocks.loads
    assert values(await world.store.pop("q/s", 1)) == [fat("e0")]
    assert world.engine.blocks.loads == before


async def test_a_pop_wakes_a_subscriber_that_sleeps(world: World) -> None:
    await history(world)
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.sleep("q/s")
    await world.store.pop("q/s", 1)
    assert not (await world.store.get_subscriber("q/s")).asleep


async def test_idle_subscribers_fall_asleep_and_give_their_block_back(world: World) -> None:
    # Given one that is asked for and one that is not
    await history(world)
    for name in ("idle", "busy"):
        await world.store.create_subscriber("q", name, "beginning")
        await world.store.pop(f"q/{name}", 1)
    # When
    world.clock.advance(world.settings.idle_seconds / 2)
    await world.store.peek("q/busy")
    world.clock.advance(world.settings.idle_seconds / 2 + 1)
    await world.maintain()
    # Then
    assert (await world.store.get_subscriber("q/idle")).asleep
    assert not (await world.store.get_subscriber("q/busy")).asleep
    assert 0 in await loaded(world)
    world.clock.advance(world.settings.idle_seconds + 1)
    await world.maintain()
    assert await loaded(world) == []


async def test_sleep_survives_a_restart(world: World) -> None:
    await history(world)
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.sleep("q/s")
    await world.restart()
    assert (await world.store.get_subscriber("q/s")).asleep


async def test_the_next_block_is_fetched_before_it_is_needed(world: World) -> None:
    # Given a reader in the first half of a block
    await history(world)
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.pop("q/s", 1)
    await turns()
    assert await loaded(world) == [0]
    # When it passes the middle
    await world.store.pop("q/s", 2)
    await turns()
    # Then
    assert await loaded(world) == [0, 4]
    before = world.engine.blocks.loads
    await world.store.pop("q/s", 1)
    await world.store.pop("q/s", 1)
    assert world.engine.blocks.loads == before


async def test_a_block_fetched_for_a_reader_that_never_came_is_dropped_in_time(world: World) -> None:
    await history(world)
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.pop("q/s", 3)
    await turns()
    await world.store.seek("q/s", "end")
    assert await loaded(world) == [4]
    world.clock.advance(world.settings.idle_seconds + 1)
    await world.maintain()
    assert await loaded(world) == []


async def test_a_failed_prefetch_is_nobodys_error(world: World) -> None:
    made = await history(world)
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.pop("q/s", 1)
    world.objects.fail("get", 1)
    assert values(await world.store.pop("q/s", 2)) == made[1:3]
    await turns()
    assert [e.value for e in await drain(world.store, "q/s")] == made[3:]


async def test_the_budget_holds_however_many_read(world: World) -> None:
    # Given room for two blocks, and a reader in each of six
    world.engine.blocks.budget_bytes = int(2.5 * BLOCK_BYTES)
    made = await history(world, blocks=6)
    for n in range(6):
        await world.store.create_subscriber("q", f"s{n}", f"offset:{4 * n}")
    # When they read in turn
    most = 0
    for _ in range(3):
        for n in range(6):
            await world.store.pop(f"q/s{n}", 1)
            await turns()
            most = max(most, world.engine.blocks.bytes)
    # Then each got its own, and never more than the budget was loaded
    assert 0 < most <= world.engine.blocks.budget_bytes
    for n in range(6):
        assert values(await world.store.pop(f"q/s{n}", 1)) == [made[4 * n + 3]]


async def test_a_replay_drops_the_blocks_that_it_has_passed(world: World) -> None:
    made = await history(world, blocks=4)
    most = 0
    found: list[object] = []
    async for batch in world.store.read("q"):
        found += batch.column("value").to_pylist()
        most = max(most, len(await loaded(world)))
    assert found == made
    assert most <= 2, "only the block being read and the one fetched ahead"
    await turns()
    assert world.engine.blocks.readers() == []


async def test_a_replay_that_stops_early_gives_its_block_back(world: World) -> None:
    await history(world)
    replay = world.store.read("q")
    await anext(replay)
    assert await loaded(world) == [0]
    await replay.aclose()
    assert world.engine.blocks.readers() == []


async def test_a_sealed_block_stays_hot_while_it_has_readers(world: World) -> None:
    # Given a subscriber in the hot-hot block, and another at its end
    await world.store.create_subscriber("q", "in", "beginning")
    made = await fill(world.store, "q", 3)
    await world.store.create_subscriber("q", "out", "end")
    # When
    await world.store.seal("q")
    # Then it is there without a load
    assert await loaded(world) == [0]
    assert [e.value for e in await drain(world.store, "q/in")] == made
    assert world.engine.blocks.loads == 0
    assert await loaded(world) == []


async def test_a_sealed_block_without_readers_is_let_go(world: World) -> None:
    await fill(world.store, "q", 3)
    await world.store.create_subscriber("q", "s", "end")
    await world.store.seal("q")
    assert world.engine.blocks.bytes == 0


async def test_a_block_that_was_merged_while_it_was_loaded_does_not_hide_the_merged_one(world: World) -> None:
    # Given a reader in the first of three young blocks
    made = []
    for n in range(3):
        made += await fill(world.store, "q", 2, prefix=f"y{n}-", size=12_000)
        await world.store.seal("q")
    await world.store.create_subscriber("q", "first", "beginning")
    await world.store.pop("q/first", 1)
    assert 0 in await loaded(world)
    # When they are merged into one that starts at the same offset
    world.clock.advance(world.settings.merge_seconds + 1)
    await world.maintain()
    assert [b.kind for b in await world.store.list_blocks("q")] == ["final", "hot-hot"]
    await world.store.create_subscriber("q", "later", "offset:4")
    # Then a reader further on gets on
    async with asyncio.timeout(5):
        assert values(await world.store.pop("q/later", 9)) == made[4:]
        assert [e.value for e in await drain(world.store, "q/first")] == made[1:]
        assert [e.value for e in await read_all(world.store, "q")] == made
    await turns()
    world.clock.advance(world.settings.idle_seconds + 1)
    await world.maintain()
    assert world.engine.blocks.bytes == 0


async def test_subscribers_are_counted_in_the_block_they_are_in(world: World) -> None:
    # Given two final blocks, a young one and the hot-hot one
    await history(world, blocks=2)
    await fill(world.store, "q", 2, prefix="y")
    await world.store.seal("q")
    await push(world.store, "q", b"hot")
    # When
    for offset in (0, 3, 4, 8, 9, 10, 11):
        await world.store.create_subscriber("q", f"at-{offset}", f"offset:{offset}")
    # Then
    assert [(b.id, b.kind, b.count, b.subscribers) for b in await world.store.list_blocks("q")] == [
        (0, "final", 4, 2),
        (4, "final", 4, 1),
        (8, "young", 2, 2),
        (10, "hot-hot", 1, 2),
    ]
    # And it follows them
    await world.store.pop("q/at-3", 1)
    await world.store.seek("q/at-0", "end")
    await world.store.delete_subscriber("q/at-9")
    assert [b.subscribers for b in await world.store.list_blocks("q")] == [0, 2, 1, 3]
    assert (await world.store.get_subscriber("q/at-3")).block == 4
    assert (await world.store.get_subscriber("q/at-11")).block == 10
