"""What a crash, a power cut, a full disk and a damaged snapshot do to a group: nothing that was acked comes again."""

from __future__ import annotations

from contextlib import suppress

import pytest

from coldstore.layout import paths
from coldstore.shared.errors import Exhausted, JjqError
from hotstore.groups.group import GroupState
from hotstore.groups.ledger import decode_rows
from hotstore.groups.snapshot import decode_snapshot, encode_snapshot
from hotstore.testing.simulated_disk import PowerCut
from tests.hotstore.kit import BLOCK_BYTES, World
from tests.hotstore.work.kit import Receipts, change, create, put, states, take


async def test_a_take_that_was_not_durable_is_handed_out_again_and_an_ack_never(world: World) -> None:
    await create(world.store)
    await put(world.store, *[b"x"] * 4)
    await change(world.store, "ack", await take(world.store, 2))
    world.engine.work.lazy_seconds = 1e6
    await take(world.store)
    await world.restart()
    assert await take(world.store, 9) == [(2, 1), (3, 1)]


async def test_a_start_gives_back_what_was_taken(world: World) -> None:
    await create(world.store)
    await put(world.store, *[b"x"] * 3)
    await take(world.store, 3, stage="synced")
    await world.restart()
    assert await states(world.store) == {"ready": 3}
    assert await take(world.store) == [(0, 2)]


async def test_a_session_has_its_ttr_to_attach_again_after_a_start(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, b"0", b"1")
    await store.attach_session("here", 30.0)
    await store.attach_session("gone", 30.0)
    mine = await take(store, session="here", stage="synced")
    await take(store, session="gone", stage="synced")
    await world.restart()
    store = world.store
    assert await states(store) == {"taken": 2}
    await store.attach_session("here", 30.0)
    world.clock.advance(31)
    world.engine.work.tick()
    assert await states(store) == {"taken": 1, "ready": 1}
    assert (await change(store, "ack", mine, session="here")).changed == 1


async def test_a_full_disk_takes_nothing_back_that_was_acked(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, *[b"x"] * 6)
    taken = await take(store, 6, stage="synced")
    await change(store, "ack", taken[:2])
    world.disk.capacity_bytes = 0
    with pytest.raises(Exhausted):
        await _touch_until_the_segment_is_full(world, taken[2:3])
    world.disk.capacity_bytes = 1 << 40
    assert await states(store) == {"done": 2, "taken": 4}
    assert (await change(store, "ack", taken[2:])).changed == 4
    await world.restart()
    assert await states(world.store) == {"done": 6}


@pytest.mark.parametrize("seed", range(12))
async def test_a_power_cut_at_any_change_loses_no_ack(seed: int) -> None:
    world = await World(seed).start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await create(world.store)
    await put(world.store, *[b"x"] * 40)
    acked: set[int] = set()
    world.disk.cut_at(world.disk.changes + 1 + seed)
    with suppress(PowerCut):
        await world.until_cut(_work(world, acked))
    await world.power_cut(seed)
    await world.start()
    left = [task for task, _ in await take(world.store, 100)]
    assert not acked & set(left)
    assert len(acked) + len(left) <= 40
    assert (await states(world.store)).get("taken", 0) == len(left)
    await world.crash()


async def _touch_until_the_segment_is_full(world: World, tasks: Receipts) -> None:
    for _ in range(1_000):
        await change(world.store, "touch", tasks, seconds=1.0)


async def _work(world: World, acked: set[int]) -> None:
    while tasks := await take(world.store, 3):
        try:
            await change(world.store, "ack", tasks)
        except JjqError:
            return
        acked.update(task for task, _ in tasks)
        if len(acked) % 9 == 0:
            await world.store.seal("q~g")
            await world.quiet()


async def folded(world: World) -> GroupState:
    """The state by the whole ledger, without any snapshot."""
    state = GroupState()
    async for batch in world.store.read("q~g"):
        for time_us, row in decode_rows(batch):
            state.fold(time_us, row)
    return state


def shape(state: GroupState) -> tuple[object, ...]:
    tasks = state.open
    rows = sorted(
        (task, tasks.state[slot], tasks.attempt[slot], tasks.failures[slot], tasks.until[slot], tasks.expires[slot],
         tasks.priority[slot], tasks.holders.pairs[tasks.holder[slot]], tasks.reasons.get(slot))
        for task, slot in tasks.index.items()
    )  # fmt: skip
    return (
        state.definition,
        state.first,
        state.floor,
        list(state.ahead.runs()),
        rows,
        state.calls,
        state.paused,
    )


async def test_a_snapshot_and_the_rows_after_it_are_the_whole_ledger(world: World) -> None:
    store = world.store
    await create(store, driver="fifottl")
    await put(store, *[b"x"] * 20)
    await put(store, b"first", priority=-1, ttl=1_000.0)
    for turn in range(4):
        tasks = await take(store, 4, stage="synced")
        await change(store, "ack", tasks[:2])
        await change(store, "nack", tasks[2:3], reason=f"turn {turn}")
        await store.seal("q~g")
        await world.quiet()
    await change(store, "bury", [19], reason="later than the snapshot")
    keys = [info.key for info in world.objects.inner.list(paths.snapshots("q~g"))]
    assert len(keys) == 2, "the newest snapshots are kept, and no more"
    await world.restart()
    loaded = await world.engine.work._loader.load(world.engine.registry.queues["q~g"])
    assert shape(loaded) == shape(await folded(world))
    assert shape(decode_snapshot(encode_snapshot(loaded), "key")) == shape(loaded)


async def test_a_damaged_snapshot_costs_a_longer_fold_and_nothing_else(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, *[b"x"] * 4)
    await change(store, "ack", await take(store, 2))
    await store.seal("q~g")
    await world.quiet()
    (key,) = [info.key for info in world.objects.inner.list(paths.snapshots("q~g"))]
    data = bytearray(world.objects.inner.get(key).data)
    data[len(data) // 2] ^= 1
    world.objects.inner.put(key, bytes(data))
    await world.restart()
    assert await states(world.store) == {"done": 2, "ready": 2}


async def test_the_ledger_is_verified_replayed_and_hidden_like_a_queue(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, *[b"x"] * 4)
    await change(store, "ack", await take(store, 4))
    await store.seal("q~g")
    await world.quiet()
    assert world.cold.verify("q~g").ok
    assert [queue.name for queue in await store.list_queues()] == ["q"]
    with pytest.raises(JjqError, match="only the group writes it"):
        await put(store, b"x", queue="q~g")
    with pytest.raises(JjqError, match="names with '~'"):
        await store.create_queue("mine~too")
    with pytest.raises(JjqError, match="content 'ledger'"):
        await store.create_queue("mine", content="ledger")
    subscriber = await store.create_subscriber("q~g", "audit", "beginning")
    popped = await store.pop(subscriber.id, 10)
    assert [row["event"] for row in popped.batch.column("value").to_pylist()] == ["create", "take", "ack"]


async def test_backlogs_that_are_cold_are_worked_on(world: World) -> None:
    store = world.store
    await create(store, driver="utubettl")
    for key in (b"a", b"b"):
        await put(store, b"0", b"1", key=key, priority=1)
        await store.seal("q")
        await world.quiet()
    await world.restart()
    store = world.store
    assert await take(store, 1) == [(0, 1)]
    assert await take(store, 1) == [(2, 1)]
    assert await take(store, 1) == []
    await change(store, "ack", [(0, 1)])
    assert await take(store, 1) == [(1, 1)]


@pytest.mark.parametrize("snapshot", [False, True])
async def test_a_rate_goes_on_after_a_restart(world: World, snapshot: bool) -> None:
    store = world.store
    await create(store, driver="utube", per_key=10, rate=0.1)
    for key in (b"a", b"b"):
        await put(store, b"0", b"1", b"2", key=key)
    await change(store, "ack", await take(store))  # of a
    world.clock.advance(4)
    assert await take(store, stage="synced") == [(3, 1)]  # of b
    await change(store, "ack", [(3, 1)])
    if snapshot:
        await world.engine.work.snapshot(await world.engine.registry.queue("q~g"))
    world.clock.advance(1)
    await world.restart()
    assert await take(world.store, 9) == []
    world.clock.advance(4.9)
    assert await take(world.store, 9) == []
    world.clock.advance(0.2)
    assert await take(world.store, 9) == [(1, 1)]
    world.clock.advance(4)
    assert await take(world.store, 9) == [(4, 1)]


async def test_a_rate_goes_on_after_an_update(world: World) -> None:
    store = world.store
    await create(store, driver="utube", per_key=10, rate=0.1)
    await put(store, b"0", b"1", b"2", key=b"a")
    assert await take(store) == [(0, 1)]
    await store.update_group("q/g", {"rate": 0.5})
    world.clock.advance(1.9)
    assert await take(store) == []
    world.clock.advance(0.2)
    assert await take(store) == [(1, 1)]
    state = (await world.engine.work.group("q/g")).live.state
    assert len(state.takes) == 1, "older ones do not count any more"


async def test_tasks_at_a_time_knows_the_delays_of_pushes(world: World) -> None:
    store = world.store
    await create(store, driver="fifottl", delay=20.0)
    began_us = world.clock.now_us()
    await put(store, b"0")
    await put(store, b"1", delay=60.0)
    await put(store, b"2", delay=0.0)
    await store.seal("q")
    world.clock.advance(30)
    await put(store, b"3")
    assert await take(store) == [(0, 1)]
    await change(store, "nack", [(0, 1)], delay=1_000.0)

    async def at(seconds: float) -> list[str]:
        found = await store.tasks_at("q/g", began_us + round(seconds * 1_000_000))
        return [str(row) for row in found.column("state").to_pylist()]

    assert await at(10) == ["delayed", "delayed", "ready"]
    assert await at(25) == ["ready", "delayed", "ready"]
    now = ["delayed", "delayed", "ready", "delayed"]
    assert await at(30) == now
    assert await at(1e9) == now  # the future is not known
    world.clock.advance(31)
    assert await at(61) == ["delayed", "ready", "ready", "ready"]
    assert await at(25) == ["ready", "delayed", "ready"]


async def test_a_task_that_the_ledger_names_was_there_whatever_the_time_of_its_element(world: World) -> None:
    store = world.store
    await create(store)
    world.clock.jump(3_600.0)
    await put(store, b"0")  # of this queue; no row of the ledger has such a time yet
    world.clock.jump(-3_600.0)
    await put(store, b"1")  # times of elements do not go back
    world.clock.advance(1)
    assert await take(store, 2, stage="synced") == [(0, 1), (1, 1)]
    at_us = (await world.engine.work.group("q/g")).ledger.last_us
    assert (await store.tasks_at("q/g", at_us)).column("state").to_pylist() == ["taken", "taken"]
