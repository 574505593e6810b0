"""Takes that have to load the elements of their tasks: what happens meanwhile counts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from coldstore.shared.errors import Unavailable
from hotstore.groups.keyed import TaskRun
from hotstore.work.elements import FetchedTasks
from hotstore.work.work_group import WorkGroup
from tests.hotstore.kit import World, turns
from tests.hotstore.work.kit import Receipts, change, create, put, take


class SlowTake:
    """A take whose elements are not in memory; they come when it is told to `end`."""

    def __init__(self, world: World, group: WorkGroup, patch: pytest.MonkeyPatch, most: int) -> None:
        self._patch = patch
        self._loaded = asyncio.Event()
        self._error: Exception | None = None
        fetch = group.elements.fetch

        async def slowly(runs: Sequence[TaskRun]) -> FetchedTasks:
            await self._loaded.wait()
            if self._error is not None:
                raise self._error
            return await fetch(runs)

        patch.setattr(group.elements, "fetch_at_hand", lambda runs, used=0: None)
        patch.setattr(group.elements, "fetch", slowly)
        self._take = asyncio.create_task(take(world.store, most, session="slow"))

    async def end(self, error: Exception | None = None) -> Receipts:
        self._patch.undo()
        self._error = error
        self._loaded.set()
        return await self._take


async def taking(world: World, patch: pytest.MonkeyPatch, most: int = 10) -> SlowTake:
    """One that waits for its elements."""
    slow = SlowTake(world, await world.engine.work.group("q/g"), patch, most)
    await turns()
    return slow


async def test_an_earlier_task_that_comes_back_to_its_key_goes_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(world.store, driver="utube")
    await put(world.store, b"0", b"1", key=b"a")
    await change(world.store, "bury", await take(world.store))
    slow = await taking(world, monkeypatch)
    await change(world.store, "kick", [0])
    assert await slow.end() == [(0, 2)]
    assert await take(world.store, 10) == []
    await change(world.store, "ack", [(0, 2)], session="slow")
    assert await take(world.store, 10) == [(1, 1)]


async def test_an_earlier_task_that_came_back_and_went_again_holds_nobody_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(world.store, driver="utube")
    await put(world.store, b"0", b"1", key=b"a")
    await change(world.store, "bury", await take(world.store))
    slow = await taking(world, monkeypatch)
    await change(world.store, "kick", [0])
    await change(world.store, "bury", [0])
    assert await slow.end() == [(1, 1)]


async def test_a_key_stays_busy_if_the_order_is_made_anew_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(world.store, driver="utube")
    await put(world.store, b"0", b"1", key=b"a")
    slow = await taking(world, monkeypatch)
    await world.store.update_group("q/g", {"ttr": 50.0})
    assert await slow.end() == [(0, 1)]
    assert await take(world.store, 10) == []


async def test_a_load_that_fails_after_the_order_was_made_anew_lists_no_task_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(world.store)
    await put(world.store, b"0", b"1")
    slow = await taking(world, monkeypatch)
    await world.store.update_group("q/g", {"ttr": 50.0})
    with pytest.raises(Unavailable):
        await slow.end(Unavailable("by order of a test"))
    assert await take(world.store, 10) == [(0, 1), (1, 1)]


async def test_a_group_that_was_deleted_meanwhile_hands_nothing_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(world.store)
    await put(world.store, b"0")
    slow = await taking(world, monkeypatch)
    await world.store.delete_group("q/g")
    assert await slow.end() == []
    await create(world.store)
    assert await take(world.store) == [(0, 1)]
