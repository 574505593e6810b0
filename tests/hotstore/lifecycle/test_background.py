"""What a node does on its own: it warms up after a start, and looks after itself from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coldstore.shared.errors import Unavailable
from tests.hotstore.kit import BLOCK_BYTES, World, fill, push, read_all, settings, turns


async def until(condition: Callable[[], bool], what: str) -> None:
    """Let the loop run until `condition` holds."""
    async with asyncio.timeout(10):
        while not condition():
            await turns(1)
    assert condition(), what


async def history(world: World) -> None:
    """Three cold blocks, with subscribers in the first and the last, and one at the end."""
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await fill(world.store, "q", 12)
    await world.quiet()
    for name, start in (("first", "beginning"), ("last", "offset:9"), ("end", "end")):
        await world.store.create_subscriber("q", name, start)


def loaded(world: World) -> set[int]:
    return {block.first for _, blocks in world.engine.blocks._loaded.values() for block in blocks}


def idle(world: World) -> bool:
    return not any(task.get_name() == "jjq-warm" for task in asyncio.all_tasks())


async def test_after_a_start_the_blocks_of_subscribers_are_loaded_behind_the_scenes() -> None:
    # Given
    world = await World().start()
    await history(world)
    await world.crash()
    # When
    await world.start(background=True)
    assert loaded(world) == set(), "a start does not wait for them"
    await until(lambda: idle(world), "it is warm")
    # Then
    assert loaded(world) == {0, 8}
    await world.close()


async def test_sleepers_are_not_loaded_and_the_budget_is_not_filled() -> None:
    world = await World().start()
    await history(world)
    await world.store.sleep("q/first")
    await world.crash()
    await world.start(background=True)
    await until(lambda: idle(world), "it is warm")
    assert loaded(world) == {8}
    await world.crash()
    world.settings = settings(hot_bytes_max=1)
    await world.start(background=True)
    await until(lambda: idle(world), "it is warm")
    assert len(loaded(world)) <= 1
    await world.close()


async def test_a_cold_store_that_is_away_does_not_keep_a_node_from_starting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await World().start()
    await history(world)
    await push(world.store, "q", b"tail")
    await world.crash()
    world.objects.down = True
    await world.start(background=True)
    await until(lambda: idle(world), "it has tried")
    assert "could not load the block of subscriber q/first" in caplog.text
    with pytest.raises(Unavailable):
        await world.store.pop("q/first", 1)
    world.objects.heal()
    assert (await world.store.pop("q/first", 1)).batch.num_rows == 1
    assert (await push(world.store, "q", b"more")).first_offset == 13
    await world.close()


async def test_maintenance_runs_on_its_own_and_goes_on_after_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Given a node whose maintenance comes round quickly, and a cold store that is away
    world = World(maintain_seconds=0.001)
    await world.start(background=True)
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await push(world.store, "q", b"a")
    world.objects.down = True
    # When the block is old
    world.clock.advance(301)
    await until(lambda: "sealing q failed" in caplog.text, "it tried to seal")
    world.objects.heal()
    world.clock.advance(60)
    # Then it is sealed once the store is back
    await until(lambda: world.engine.registry.queues["q"].cold_offset == 1, "it is sealed")
    assert [e.value for e in await read_all(world.store, "q")] == [b"a"]
    await world.close()


async def test_a_defect_in_one_round_of_maintenance_does_not_end_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(maintain_seconds=0.001)
    await world.start(background=True)
    rounds = 0

    def broken(queue: object) -> None:
        nonlocal rounds
        rounds += 1
        raise ZeroDivisionError("by order of a test")

    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    monkeypatch.setattr(world.engine.sealer, "seal_old", broken)
    await until(lambda: rounds >= 3, "it came round again and again")
    assert "maintenance failed" in caplog.text
    await world.close()
