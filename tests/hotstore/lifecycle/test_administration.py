"""Changing, deleting and bringing back queues, whatever breaks meanwhile and wherever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Literal

import pytest

from coldstore.layout import paths
from coldstore.shared.errors import Conflict, InvalidInput, NotFound, Unavailable
from coldstore.shared.limits import DELETE_GRACE_SECONDS, NAME_REST_SECONDS
from hotstore.testing.simulated_disk import PowerCut
from tests.hotstore.kit import BLOCK_BYTES, WRITES, World, fat, push, read_all, values

VALUES = [b"a", b"b", b"c"]


async def given(world: World) -> str:
    """A queue with cold and hot elements, a subscriber in the middle, and a producer; its id."""
    await world.store.create_subscriber("q", "s", "beginning")
    await push(world.store, "q", b"a")
    await world.store.seal("q")
    await push(world.store, "q", b"b", b"c", producer="p", sequence=1)
    assert values(await world.store.pop("q/s")) == [b"a"]
    return (await world.store.get_queue("q")).id


async def check_whole(world: World, identity: str) -> None:
    """The queue is there with all that it had."""
    assert (await world.store.get_queue("q")).id == identity
    assert [seen.value for seen in await read_all(world.store, "q")] == VALUES
    assert values(await world.store.peek("q/s", 10)) == [b"b", b"c"]
    again = await push(world.store, "q", b"b", b"c", producer="p", sequence=1)
    assert (again.duplicate, again.first_offset) == (True, 1)


async def exists(world: World) -> bool:
    try:
        await world.store.get_queue("q")
    except NotFound:
        return False
    return True


def folder(world: World, name: str = "q") -> list[str]:
    return [info.key for info in world.objects.inner.list(paths.queue_folder(name))]


async def expire(world: World) -> None:
    """The grace period ends, and the sweep comes round."""
    world.clock.advance(DELETE_GRACE_SECONDS + 1)
    await world.maintain()


async def test_a_new_size_counts_at_once_and_after_a_restart(world: World) -> None:
    await world.store.update_queue("q", block_bytes=8 * BLOCK_BYTES)
    for _ in range(3):
        await push(world.store, "q", fat("x", BLOCK_BYTES))
    await world.quiet()
    assert [block.kind for block in await world.store.list_blocks("q")] == ["hot-hot"]
    await world.restart()
    assert (await world.store.get_queue("q")).block_bytes == 8 * BLOCK_BYTES
    await world.store.update_queue("q", block_bytes=BLOCK_BYTES)
    await world.maintain()
    assert (await world.store.get_queue("q")).cold_offset == 3


async def test_wrong_settings_are_refused_and_change_nothing(world: World) -> None:
    before = await world.store.get_queue("q")
    wrong: list[dict[str, Any]] = [{}, {"block_bytes": 1}, {"block_seconds": 0.0}, {"block_bytes": 2**60}]
    for settings in wrong:
        with pytest.raises(InvalidInput):
            await world.store.update_queue("q", **settings)
    for grace in (-1.0, float("nan"), "7d"):
        with pytest.raises(InvalidInput):
            await world.store.delete_queue("q", grace_seconds=grace)  # type: ignore[arg-type]
    assert await world.store.get_queue("q") == before


async def test_a_deleted_queue_survives_restarts_and_so_does_one_that_came_back(world: World) -> None:
    identity = await given(world)
    deleted = await world.store.delete_queue("q")
    await world.restart()
    assert not await exists(world)
    with pytest.raises(NotFound, match="jjq queue undelete q"):
        await world.store.get_queue("q")
    with pytest.raises(Conflict, match="was deleted at"):
        await world.store.create_queue("q")
    assert await world.store.delete_queue("q") == deleted
    await world.store.undelete_queue("q")
    await check_whole(world, identity)
    await world.restart()
    await check_whole(world, identity)


async def test_whoever_waits_for_elements_hears_that_the_queue_is_gone(world: World) -> None:
    await world.store.create_subscriber("q", "s", "end")
    waiting = asyncio.create_task(world.store.pop("q/s", 1, 60.0))
    await asyncio.sleep(0)
    await world.store.delete_queue("q")
    with pytest.raises(NotFound, match="was deleted"):
        await waiting


async def cut_short(world: World, work: Awaitable[object]) -> bool:
    """Whether the step was reached at which the machine shall stop; if it did, it is started again."""
    stop_disk_too(world)
    waiting = world.objects.troubled
    try:
        await world.until_cut(work)
    except PowerCut:
        world.objects.heal()
        await world.power_cut(1)
        await world.start()
        return True
    reached = waiting and not world.objects.troubled  # by a call that failed anyhow
    world.objects.heal()
    return reached


def stop_disk_too(world: World) -> None:
    """A machine that stops in the middle of a put writes nothing to its disk either."""
    stopped = world.objects.on_cut

    def stop() -> None:
        world.disk.cut_at(1)
        stopped()

    world.objects.on_cut = stop


@pytest.mark.parametrize("mode", ["cut-before", "cut-after", "disk"])
async def test_a_power_cut_at_any_step_of_a_deletion_leaves_the_queue_or_its_deletion(
    mode: Literal["cut-before", "cut-after", "disk"],
) -> None:
    outcomes = []
    stopped, nth = True, 0
    while stopped:
        nth += 1
        world = await World().start()
        await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
        identity = await given(world)
        if mode == "disk":
            world.disk.cut_at(nth)
        else:
            world.objects.fail(None, nth, mode)
        stopped = await cut_short(world, world.store.delete_queue("q"))
        world.disk.cut_at(None)
        outcomes.append(await exists(world))
        if not outcomes[-1]:
            await world.store.undelete_queue("q")
        await check_whole(world, identity)
        await world.restart()
        await check_whole(world, identity)
        await world.crash()
    assert len(outcomes) > 5
    assert (outcomes[0], outcomes[-1]) == (True, False)


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("verb", WRITES)
async def test_a_deletion_that_fails_is_done_or_not_and_can_be_given_again(
    verb: Any, mode: Literal["before", "after"]
) -> None:
    for nth in range(1, 10):
        world = await World().start()
        await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
        identity = await given(world)
        world.objects.fail(verb, nth, mode)
        failed = False
        try:
            await world.store.delete_queue("q")
        except Unavailable:
            failed = True
        reached = not world.objects.troubled
        world.objects.heal()
        if failed and await exists(world):
            await check_whole(world, identity)
        await world.store.delete_queue("q")
        assert not await exists(world)
        await world.store.undelete_queue("q")
        await check_whole(world, identity)
        await world.crash()
        if not reached:
            return
    raise AssertionError("a deletion has fewer puts than that")


async def test_after_the_grace_period_the_files_go_and_later_the_name_is_free(world: World) -> None:
    identity = await given(world)
    await world.store.delete_queue("q")
    await world.maintain()
    assert len(folder(world)) > 2  # not yet
    await expire(world)
    assert folder(world) == [paths.queue("q")]
    assert list(world.objects.inner.list(paths.DELETIONS)) == []
    with pytest.raises(NotFound, match="cannot be brought back"):
        await world.store.undelete_queue("q")
    with pytest.raises(Conflict, match="its name is free at"):
        await world.store.create_queue("q")
    world.clock.advance(NAME_REST_SECONDS + 1)
    fresh = await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    assert (fresh.id != identity, fresh.next_offset, fresh.subscribers) == (True, 0, 0)
    assert (await push(world.store, "q", b"new")).first_offset == 0
    await world.store.seal("q")
    await world.restart()
    await expire(world)
    assert [seen.value for seen in await read_all(world.store, "q")] == [b"new"]


@pytest.mark.parametrize("mode", ["cut-before", "cut-after"])
async def test_removing_files_goes_on_after_a_power_cut_at_any_step(
    mode: Literal["cut-before", "cut-after"],
) -> None:
    for nth in range(1, 100):
        world = await World().start()
        await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
        await given(world)
        await world.store.delete_queue("q")
        world.objects.fail("delete", nth, mode)
        world.objects.fail("put_if_match", nth, mode)
        stopped = await cut_short(world, expire(world))
        if stopped:
            await world.maintain()
        assert folder(world) == [paths.queue("q")]
        await world.crash()
        if not stopped:
            assert nth > 3
            return
    raise AssertionError("there are fewer files than that")


async def test_a_queue_that_came_back_loses_nothing_to_the_sweep(world: World) -> None:
    identity = await given(world)
    await world.store.delete_queue("q")
    await world.store.undelete_queue("q")
    await expire(world)
    assert (await world.store.get_queue("q")).id == identity
    assert [seen.value for seen in await read_all(world.store, "q")] == VALUES
    assert values(await world.store.peek("q/s", 10)) == [b"b", b"c"]
    assert list(world.objects.inner.list(paths.DELETIONS)) == []


async def test_a_journal_that_names_the_deleted_queue_is_not_in_the_way_of_a_new_one(world: World) -> None:
    await given(world)
    # The machine stops when the queue is deleted and the journal does not know it yet; others do the rest.
    stop_disk_too(world)
    world.objects.fail("put_if_match", 1, "cut-after")
    with pytest.raises(PowerCut):
        await world.until_cut(world.store.delete_queue("q"))
    world.objects.heal()
    await world.power_cut(1)
    world.clock.advance(DELETE_GRACE_SECONDS + 1)
    assert world.cold.sweep_deleted() == ["q"]
    world.clock.advance(NAME_REST_SECONDS + 1)
    fresh = world.cold.create_queue("q").settings
    await world.start()
    assert (await world.store.get_queue("q")).id == fresh.id
    assert (await push(world.store, "q", b"new")).first_offset == 0
