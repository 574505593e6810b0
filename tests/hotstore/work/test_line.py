"""Takes that wait in line, and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from hotstore.groups.values import GroupSettings, Take
from tests.hotstore.kit import World, turns
from tests.hotstore.work.kit import change, create, put, take
from tests.jjq.serving import hot_store, numbers, until


async def test_a_take_that_is_cancelled_just_when_a_task_comes_ends_as_cancelled(tmp_path: Path) -> None:
    async with hot_store(tmp_path) as opened:
        store: Any = opened
        await store.create_queue("orders")
        await store.create_group("orders", "g", GroupSettings())
        await store.pause_group("orders/g")
        await store.push("orders", numbers(0, 1))
        group = await store._desk.group("orders/g")
        waiting = asyncio.create_task(store.take(Take("orders/g", wait=60.0)))
        await until(lambda: group.line)
        waiting.cancel()  # its turn is cancelled, and it has not noticed yet
        group.live.state.paused = False
        group.wake()  # passes over the turn
        assert not group.line
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_takes_that_wait_for_a_busy_key_look_once_for_each_thing_that_happens(world: World) -> None:
    store = world.store
    await create(store, driver="utube")
    await put(store, *[b"x"] * 5, key=b"busy")
    assert await take(store) == [(0, 1)]
    wants: list[dict[str, Any]] = [{"keys": [b"a"]}, {"keys": [b"b"]}, {}, {}]
    waiting = [asyncio.create_task(take(store, wait=1e6, **want)) for want in wants]
    group = await world.engine.work.group("q/g")
    looks, choose = 0, group.live.choose

    def counted(most: int, keys: Collection[bytes] | None) -> list[tuple[int, int]]:
        nonlocal looks
        looks += 1
        return choose(most, keys)

    group.live.choose = counted  # type: ignore[method-assign]
    await turns(100)
    assert len(group.line) == 4
    assert looks == 4
    await put(store, b"y", key=b"free")  # for neither of the first two: they pass their turn on
    await turns(100)
    assert waiting[2].result() == [(5, 1)]
    await change(store, "ack", [(0, 1)])
    await turns(100)
    assert waiting[3].result() == [(1, 1)]
    assert looks <= 4 + 4 * 4  # a push, an ack and two takes, and four who wait
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)


async def test_a_rate_that_holds_nothing_back_any_more_sets_no_timer(world: World) -> None:
    desk = world.engine.work
    await create(world.store, driver="utube", rate=1.0)
    await put(world.store, b"x", key=b"k")
    await change(world.store, "ack", await take(world.store))
    world.clock.advance(2)
    desk.tick()
    group = await desk.group("q/g")
    assert group.due_us is None or group.due_us > desk.clock.now_us()


async def test_a_push_whose_time_is_over_just_when_there_may_be_room_is_refused(world: World) -> None:
    await create(world.store, driver="limfifottl", capacity=1)
    await put(world.store, b"x")
    waiting = asyncio.create_task(put(world.store, b"y", timeout=1e6))
    group = await world.engine.work.group("q/g")
    await turns()
    group.pushes[0].cancel()  # as the end of its time does, and it has not noticed yet
    group.wake_pushes()  # passes over the turn
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not group.pushes


async def test_a_durable_take_that_is_cancelled_before_it_is_written_gives_its_tasks_back(
    tmp_path: Path,
) -> None:
    async with hot_store(tmp_path) as opened:
        store: Any = opened
        await store.create_queue("orders")
        await store.create_group("orders", "g", GroupSettings())
        await store.push("orders", numbers(0, 3))
        disk = threading.Event()
        slow = asyncio.create_task(store._committer.call(disk.wait))  # nothing is written meanwhile
        taking = asyncio.create_task(store.take(Take("orders/g", 2, session="s", stage="synced")))
        await until(lambda: store._desk.at_hand("orders/g").live.counts["taken"] == 2)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        disk.set()
        await slow
        counts = (await store.get_group("orders/g")).tasks
        assert (counts["ready"], counts["taken"]) == (3, 0)
        assert (await store.take(Take("orders/g", 2, session="t"))).ids == [0, 1]
