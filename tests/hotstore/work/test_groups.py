"""Groups as a whole: capacity, pause, purge, seek, delete, update, sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coldstore.shared.errors import Conflict, Exhausted, InvalidInput, NotFound
from coldstore.shared.limits import BLOCK_BYTES_DEFAULT
from hotstore.groups.values import Take
from hotstore.limits import LEDGER_BLOCK_BYTES
from tests.hotstore.kit import World, turns
from tests.hotstore.work.kit import change, create, put, states, take


async def test_a_push_beyond_the_capacity_waits_for_a_task_that_is_done(world: World) -> None:
    store = world.store
    await create(store, driver="limfifottl", capacity=3)
    await put(store, b"0", b"1", b"2")
    with pytest.raises(Exhausted, match="at most 3"):
        await put(store, b"3", timeout=0.01)
    taken = await take(store)  # taken tasks count
    waiting = asyncio.create_task(put(store, b"3", timeout=60.0))
    await turns()
    assert not waiting.done()
    await change(store, "ack", taken)
    assert (await waiting).first_offset == 3
    assert (await store.group_statistics("q/g")).tasks["total"] == 3
    with pytest.raises(InvalidInput, match="room for 3 in all"):
        await put(store, *[b"x"] * 4)


async def test_pause_purge_and_release_all(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, b"0", b"1", b"2")
    await take(store, 2)
    await store.pause_group("q/g")
    assert await take(store) == []
    assert await store.release_all("q/g") == 2
    assert (await store.pause_group("q/g", paused=False)).paused is False
    assert await take(store) == [(0, 2)]
    assert await store.purge_group("q/g") == 3
    assert await states(store) == {"done": 3}
    await put(store, b"3")
    assert await take(store, 5) == [(3, 1)]


async def test_seek_begins_anew_and_is_refused_while_tasks_are_taken(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, b"0", b"1", b"2")
    taken = await take(store, 3)
    with pytest.raises(Conflict, match="are taken"):
        await store.seek_group("q/g", "offset:1")
    await change(store, "ack", taken)
    assert (await store.seek_group("q/g", "offset:1", dry_run=True)).tasks["done"] == 3
    assert (await store.seek_group("q/g", "offset:1")).first == 1
    assert await take(store, 5) == [(1, 1), (2, 1)]


async def test_a_group_is_deleted_and_made_again(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, b"0")
    await take(store)
    with pytest.raises(Conflict, match="by force"):
        await store.delete_group("q/g")
    waiting = asyncio.create_task(take(store, wait=60.0))
    await turns()
    await store.delete_group("q/g", force=True)
    with pytest.raises(NotFound):
        await waiting
    with pytest.raises(NotFound, match="no group g"):
        await take(store)
    assert await store.list_groups("q") == []
    await create(store, driver="fifottl")
    assert await take(store) == [(0, 1)]


async def test_settings_are_updated_from_now_on(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, driver="utube")
    await put(store, b"0", b"1", b"2", key=b"a")
    assert await take(store, 5) == [(0, 1)]
    assert (await store.update_group("q/g", {"per_key": 2, "ttr": 1.0})).settings.per_key == 2
    assert await take(store, 5) == [(1, 1)]
    clock.advance(2)
    assert await states(store) == {"ready": 2, "taken": 1}
    with pytest.raises(InvalidInput, match="the driver of a group stays"):
        await store.update_group("q/g", {"driver": "fifo"})
    with pytest.raises(InvalidInput, match="no setting speed"):
        await store.update_group("q/g", {"speed": 1})


@pytest.mark.parametrize("how", ["update", "restart"])
async def test_a_key_stays_busy_when_the_order_is_made_anew(world: World, how: str) -> None:
    """Also if an earlier task of it is ready again: it had been delayed, and did not block its key."""
    await create(world.store, driver="utubettl")
    await world.store.attach_session("s", 60.0)
    await put(world.store, b"0", b"1", key=b"a")
    await change(world.store, "release", await take(world.store), delay=1.0)
    assert await take(world.store, 5, stage="synced") == [(1, 1)]
    world.clock.advance(2)
    if how == "update":
        await world.store.update_group("q/g", {"ttr": 50.0})
    else:
        await world.restart()
    assert await states(world.store) == {"ready": 1, "taken": 1}
    assert await take(world.store, 5) == []
    await change(world.store, "ack", [(1, 1)])
    assert await take(world.store, 5) == [(0, 2)]


async def test_a_task_that_was_buried_at_once_expires_also_after_an_update(world: World) -> None:
    await create(world.store, driver="fifottl", ttl=10.0)
    await put(world.store, b"0", b"1")
    await put(world.store, b"2", ttl=30.0)
    await change(world.store, "bury", [0, 2])
    await world.store.update_group("q/g", {"ttl": 20.0})
    for seconds, left in ((15.0, 3), (6.0, 1), (10.0, 0)):
        world.clock.advance(seconds)
        assert (await world.store.group_statistics("q/g")).tasks["total"] == left


async def test_sessions_share_tasks_and_survive_a_reconnect(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store)
    await put(store, b"0", b"1")
    await store.attach_session("s", 60.0)
    await store.attach_session("s", 60.0)
    await store.detach_session("s")
    taken = await take(store)
    await store.detach_session("s")
    clock.advance(30)
    world.engine.work.tick()
    await store.attach_session("s", 1.0)
    assert (await change(store, "ack", taken)).changed == 1
    await take(store)
    await store.detach_session("s")
    clock.advance(0.1)
    assert await states(store) == {"taken": 1, "done": 1}
    clock.advance(2)
    world.engine.work.tick()
    assert await states(store) == {"ready": 1, "done": 1}
    with pytest.raises(NotFound, match="not attached"):
        await store.detach_session("s")


async def test_only_the_session_that_took_may_ack(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, b"0")
    taken = await take(store)
    other = await change(store, "ack", taken, session="thief")
    assert [error.message for error in other.errors] == [
        "task 0 was taken by another session: only that one may ack it"
    ]
    assert (await change(store, "bury", [0], session="thief")).changed == 1


async def test_take_waits_as_told(world: World) -> None:
    await create(world.store)
    assert (await world.store.take(Take("q/g", wait=0.01))).ids == []
    waiting = asyncio.create_task(take(world.store, wait=60.0))
    await turns()
    await put(world.store, b"0")
    assert await waiting == [(0, 1)]


async def test_options_are_for_drivers_that_use_them(world: World) -> None:
    store = world.store
    await create(store, "q/times", driver="fifottl")
    await create(store, "q/keys", driver="utube")
    await put(store, b"0", key=b"a", delay=60.0, priority=5)
    await put(store, b"1", key=b"b")
    assert await take(store, 5, "q/keys") == [(0, 1), (1, 1)]
    assert await take(store, 5, "q/times") == [(1, 1)]
    later = await store.peek_task("q/times", 0)
    assert (later.state, later.priority) == ("delayed", 5)
    assert later.until_us == later.created_us + 60_000_000
    assert (await store.peek_task("q/keys", 0)).priority == 0


async def test_many_delayed_tasks_are_a_few_runs(world: World) -> None:
    store = world.store
    await create(store, driver="fifottl")
    await put(store, *[b"x"] * 5_000, delay=60.0)
    group = await world.engine.work.group("q/g")
    assert group.advance().counts["delayed"] == 5_000
    assert group.live.facts == {}
    world.clock.advance(61)
    assert len(await take(store, 5_000)) == 5_000


async def test_a_ledger_has_small_blocks_unless_it_exists_with_others(world: World) -> None:
    store: Any = world.store
    await create(store, "q/small")
    assert (await store.get_queue("q~small")).block_bytes == LEDGER_BLOCK_BYTES
    await store._registry.create("q~old", "ledger", None, None)  # as an earlier version made it
    await create(store, "q/old")
    assert (await create(store, "q/old")).id == "q/old"
    assert (await store.get_queue("q~old")).block_bytes == BLOCK_BYTES_DEFAULT


async def test_the_oldest_ready_task_is_one_that_is_ready(world: World) -> None:
    store = world.store
    await create(store, driver="fifottl")
    await put(store, b"later", delay=500.0)
    world.clock.advance(10)
    await put(store, b"0", b"1")
    world.clock.advance(100)
    assert (await store.group_statistics("q/g")).oldest_ready_seconds == 100
    await take(store, 2)
    assert (await store.group_statistics("q/g")).oldest_ready_seconds == 0


async def test_the_age_of_the_oldest_ready_task_is_known_when_its_element_is_cold(world: World) -> None:
    await create(world.store)
    await put(world.store, b"0")
    world.clock.advance(10)
    await put(world.store, b"1")
    await change(world.store, "ack", await take(world.store))
    world.clock.advance(100)
    assert (await world.store.group_statistics("q/g")).oldest_ready_seconds == 100
    await world.store.seal("q")
    await world.restart()  # nothing is in memory: the time of the first in its block is known
    assert (await world.store.group_statistics("q/g")).oldest_ready_seconds == 110
