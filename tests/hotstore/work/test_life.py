"""The life of a task, case by case, as users of tarantool/queue know it; on a clock that is moved by hand."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.errors import InvalidInput
from hotstore.groups.changes import kick_oldest
from hotstore.groups.values import RetryBackoff
from tests.hotstore.kit import World, turns
from tests.hotstore.work.kit import change, create, put, states, take


async def test_tasks_are_taken_in_order_and_acked(world: World) -> None:
    await create(world.store)
    await put(world.store, b"0", b"1", b"2", b"3")
    for task in range(4):
        assert await take(world.store) == [(task, 1)]
    assert await take(world.store) == []
    assert (await change(world.store, "ack", [(0, 1), (1, 1), (2, 1), (3, 1)])).changed == 4
    assert await states(world.store) == {"done": 4}


async def test_statistics_are_those_of_the_seed(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, b"0", b"1", b"2", b"3", b"4")
    await change(store, "delete", [4])
    await change(store, "release", await take(store))
    assert await take(store) == [(0, 2)]
    await change(store, "ack", [(0, 2)])
    await change(store, "bury", [1])
    await change(store, "bury", [2])
    assert await store.kick("q/g", 1) == 1
    assert await take(store) == [(1, 1)]
    found = await store.group_statistics("q/g")
    assert found.tasks == {"taken": 1, "buried": 1, "ready": 1, "done": 2, "delayed": 0, "total": 3}
    wanted = {"delete": 1, "ack": 1, "take": 3, "kick": 1, "bury": 2, "put": 5, "release": 1}
    assert {verb: count for verb, count in found.calls.items() if count} == wanted


async def test_rates_are_of_the_last_minute_and_survive_a_restart(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store)
    await put(store, *[b"x"] * 90)
    await change(store, "ack", await take(store, 30))
    clock.advance(30)
    await change(store, "ack", await take(store, 60))
    rates = (await store.group_statistics("q/g")).rates
    assert rates["ack"] == rates["take"] == pytest.approx(90 / 55)  # eleven spans of five seconds are over
    await world.restart()
    for seconds, acks in ((0, 90), (40, 60), (60, 0)):
        clock.advance(seconds)
        found = (await world.store.group_statistics("q/g")).rates["ack"]
        assert found == pytest.approx(acks / 55)


async def test_a_released_task_keeps_its_place(world: World) -> None:
    await create(world.store)
    await put(world.store, b"0", b"1", b"2", b"3")
    assert await take(world.store, 2) == [(0, 1), (1, 1)]
    await change(world.store, "release", [(1, 1)])
    assert await take(world.store, 2) == [(1, 2), (2, 1)]


async def test_waiting_takes_are_served_one_task_each(world: World) -> None:
    await create(world.store)
    waiting = [asyncio.create_task(take(world.store, wait=60.0)) for _ in range(5)]
    await turns()
    for value in (b"0", b"1", b"2", b"3", b"4"):
        await put(world.store, value)
    assert sorted(await asyncio.gather(*waiting)) == [[(task, 1)] for task in range(5)]


async def test_one_push_is_shared_among_those_who_wait(world: World) -> None:
    await create(world.store)
    waiting = [asyncio.create_task(take(world.store, 100, wait=60.0)) for _ in range(4)]
    await turns()
    await put(world.store, *[b"x"] * 8)
    counts = [len(tasks) for tasks in await asyncio.gather(*waiting)]
    assert sum(counts) == 8
    assert min(counts) >= 1


async def test_a_waiter_that_is_gone_is_never_served(world: World) -> None:
    await create(world.store)
    gone = asyncio.create_task(take(world.store, wait=60.0))
    stays = asyncio.create_task(take(world.store, wait=60.0))
    await turns()
    gone.cancel()
    await put(world.store, b"0")
    assert await stays == [(0, 1)]
    assert gone.cancelled()


async def test_a_waiter_cancelled_at_its_turn_passes_it_on(world: World) -> None:
    await create(world.store)
    await put(world.store, b"0")
    await change(world.store, "bury", await take(world.store))
    first = asyncio.create_task(take(world.store, wait=60.0))
    second = asyncio.create_task(take(world.store, wait=60.0))
    await turns()
    group = await world.engine.work.group("q/g")
    kick_oldest(group.advance(), 1)
    group.wake()  # the first is woken, and has not run yet
    first.cancel()
    assert await second == [(0, 2)]
    assert first.cancelled()


async def test_kick_revives_the_oldest_for_those_who_wait(world: World) -> None:
    store = world.store
    await create(store)
    await put(store, b"0", b"1", b"2", b"3")
    await change(store, "bury", await take(store, 4), reason="broken")
    waiting = [asyncio.create_task(take(store, wait=60.0)) for _ in range(3)]
    await turns()
    assert await store.kick("q/g", 3) == 3
    assert sorted(await asyncio.gather(*waiting)) == [[(0, 2)], [(1, 2)], [(2, 2)]]
    assert (await store.peek_task("q/g", 3)).reason == "broken"
    assert await store.kick("q/g", 100_500) == 1


async def test_a_delayed_task_with_ttl_and_ttr_lives_as_in_the_seed(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, driver="fifottl")
    await put(store, b"0", delay=0.1, ttl=0.1, ttr=0.01)
    assert (await store.peek_task("q/g", 0)).state == "delayed"
    clock.advance(0.01)
    assert await take(store) == []
    clock.advance(0.1)
    assert await take(store) == [(0, 1)]
    clock.advance(0.05)
    assert await take(store) == [(0, 2)]
    clock.advance(0.2)
    assert (await store.peek_task("q/g", 0)).state == "done"
    refused = await change(store, "ack", [(0, 2)])
    assert [(error.code, error.state) for error in refused.errors] == [("Conflict", "done")]


async def test_an_expired_task_is_never_handed_out_even_if_its_timer_is_late(world: World) -> None:
    await create(world.store, driver="fifottl")
    for _ in range(6):
        await put(world.store, b"x", ttl=0.1)
        world.clock.advance(0.2)
        assert await take(world.store) == []
    assert await states(world.store) == {"done": 6}


async def test_the_ttl_of_the_group_holds_for_tasks_that_name_none(world: World) -> None:
    await create(world.store, driver="fifottl", ttl=10.0)
    await put(world.store, b"0")
    await put(world.store, b"1", ttl=100.0)
    world.clock.advance(11)
    assert await take(world.store, 5) == [(1, 1)]


async def test_touch_adds_to_ttr_and_ttl(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, driver="fifottl")
    await put(store, b"0", ttl=0.2, ttr=0.1)
    taken = await take(store)
    await change(store, "touch", taken, seconds=0.3)
    clock.advance(0.35)
    assert (await change(store, "ack", taken)).changed == 1


async def test_a_release_with_delay_does_not_shorten_the_life(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, driver="fifottl")
    await put(store, b"0", ttl=10.0, ttr=20.0)
    await change(store, "release", await take(store), delay=5.0)
    clock.advance(14)
    assert await take(store) == [(0, 2)]
    clock.advance(2)
    assert await states(store) == {"done": 1}


async def test_a_buried_task_ignores_its_ttr_but_not_its_ttl(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, driver="fifottl")
    await put(store, b"0", ttl=1.0, ttr=0.2)
    await put(store, b"1", ttl=1.0)
    await change(store, "bury", await take(store))
    await change(store, "bury", [1])  # which nobody has taken
    clock.advance(0.5)
    assert await states(store) == {"buried": 2}
    clock.advance(0.6)
    assert await states(store) == {"done": 2}


async def test_priorities_come_first_and_the_smaller_number_wins(world: World) -> None:
    store = world.store
    await create(store, driver="fifottl")
    await put(store, b"plain")
    await put(store, b"low", priority=5)
    await put(store, b"high", priority=-5)
    assert await take(store, 3) == [(2, 1), (0, 1), (1, 1)]
    await change(store, "release", [(0, 1)], priority=9)
    await change(store, "release", [(1, 1)])
    assert await take(store, 3) == [(1, 2), (0, 2)]


async def test_of_a_sub_queue_one_task_at_a_time(world: World) -> None:
    store = world.store
    await create(store, driver="utube")
    await put(store, b"0", b"1", key=b"a")
    await put(store, b"2", key=b"b")
    assert await take(store, 5) == [(0, 1), (2, 1)]
    waiting = asyncio.create_task(take(store, wait=60.0))
    await turns()
    assert not waiting.done()
    await change(store, "ack", [(0, 1)])
    assert await waiting == [(1, 1)]


async def test_bury_frees_its_sub_queue(world: World) -> None:
    store = world.store
    await create(store, driver="utube")
    await put(store, b"0", b"1", key=b"a")
    await change(store, "bury", await take(store))
    assert await take(store) == [(1, 1)]
    assert await store.kick("q/g", 1) == 1
    assert await take(store) == []
    await change(store, "ack", [(1, 1)])
    assert await take(store) == [(0, 2)]


async def test_a_delayed_head_does_not_block_its_sub_queue(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, driver="utubettl")
    await put(store, b"0", b"1", key=b"a")
    await change(store, "release", await take(store), delay=10.0)
    assert await take(store) == [(1, 1)]
    clock.advance(11)
    assert await take(store) == []
    await change(store, "ack", [(1, 1)])
    assert await take(store) == [(0, 2)]


async def test_the_ttr_of_a_sub_queues_task_frees_it(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, driver="utubettl", ttr=1.0)
    await put(store, b"0", b"1", key=b"a")
    assert await take(store, 2) == [(0, 1)]
    clock.advance(1.1)
    assert (await store.peek_task("q/g", 0)).state == "ready"
    assert await take(store, 2) == [(0, 2)]


async def test_several_of_a_key_and_a_rate_for_each_key(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, driver="utube", per_key=2)
    await create(store, "q/slow", driver="utube", per_key=10, rate=1.0)
    await put(store, b"0", b"1", b"2", key=b"a")
    await put(store, b"3", key=b"b")
    assert await take(store, 9) == [(0, 1), (1, 1), (3, 1)]
    assert await take(store, 9, group="q/slow") == [(0, 1), (3, 1)]
    clock.advance(1.0)
    assert await take(store, 9, group="q/slow") == [(1, 1)]


async def test_a_take_of_named_keys(world: World) -> None:
    store = world.store
    await create(store, driver="utube")
    await put(store, b"0", key=b"a")
    await put(store, b"1", key=b"b")
    assert await take(store, 5, keys=[b"b"]) == [(1, 1)]
    await create(store, "q/plain")
    with pytest.raises(InvalidInput, match="does not know keys"):
        await take(store, group="q/plain", keys=[b"b"])


async def test_a_nack_counts_and_is_delayed_longer_each_time(world: World) -> None:
    store, clock = world.store, world.clock
    backoff = RetryBackoff(base=1.0, factor=10.0, max=50.0, jitter=0.0)
    await create(store, backoff=backoff, max_attempts=3)
    await put(store, b"0")
    for attempt, seconds in ((1, 1.0), (2, 10.0)):
        assert (await change(store, "nack", await take(store))).states == {"delayed": 1}
        clock.advance(seconds - 0.001)
        assert await take(store) == []
        clock.advance(0.001)
        assert (await store.peek_task("q/g", 0)).attempt == attempt
    outcome = await change(store, "nack", await take(store), reason="third time")
    assert outcome.states == {"buried": 1}
    assert await store.kick("q/g", 1) == 1  # and begins anew
    assert (await change(store, "nack", await take(store), delay=0.0)).states == {"ready": 1}


async def test_what_failed_too_often_is_dropped_if_told_so(world: World) -> None:
    store = world.store
    await create(store, max_attempts=2, on_exhausted="drop")
    await put(store, b"0")
    assert (await change(store, "nack", await take(store), delay=0.0)).states == {"ready": 1}
    assert (await change(store, "nack", await take(store), delay=0.0)).states == {"done": 1}


async def test_a_worker_that_dies_counts_as_a_failure(world: World) -> None:
    store, clock = world.store, world.clock
    await create(store, max_attempts=1, ttr=5.0)
    await put(store, b"0")
    await take(store)
    clock.advance(6)
    found = await store.peek_task("q/g", 0)
    assert (found.state, found.reason) == ("buried", "the worker's time was over")


async def test_the_last_attempt_is_handed_out_alone(world: World) -> None:
    store = world.store
    await create(store, max_attempts=2)
    await put(store, b"0", b"1", b"2")
    await change(store, "nack", (await take(store, 2))[1:], delay=0.0)
    await change(store, "release", [(0, 1)])
    assert await take(store, 5) == [(0, 2)]
    assert await take(store, 5) == [(1, 2)]
    assert await take(store, 5) == [(2, 1)]
