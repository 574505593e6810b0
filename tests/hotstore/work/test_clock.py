"""The wall clock is set while tasks wait: by the server's own time none comes early, and none waits too long."""

from __future__ import annotations

import pytest

from coldstore.shared.clock import ManualClock, SteadyClock
from hotstore.groups.timers import PushTimes
from hotstore.groups.values import RetryBackoff
from tests.hotstore.kit import World
from tests.hotstore.work.kit import change, create, put, states, take

HOUR, DAY = 3_600.0, 86_400.0
SECOND_US = 1_000_000
JUMPS = pytest.mark.parametrize("by", [DAY, -HOUR, 0.5, -0.5, 0.0])


def test_a_steady_clock_goes_on_and_says_how_far_the_wall_clock_is_ahead() -> None:
    clock = ManualClock()
    start_us, steady = clock.now_us(), SteadyClock(clock)
    clock.advance(1.5)
    clock.jump(DAY)
    assert steady.now_us() == start_us + 1_500_000
    assert steady.shift_us == 0
    assert steady.measure() == steady.shift_us == round(DAY) * SECOND_US
    clock.jump(0.004)  # as two looks at clocks may differ
    assert steady.measure() == round(DAY) * SECOND_US
    clock.jump(-DAY)
    assert steady.measure() == 4_000 + 0


def test_a_stamp_that_was_made_before_the_process_stood_still_is_no_other_wall_clock() -> None:
    clock = ManualClock()
    steady = SteadyClock(clock)
    stamp_us = clock.now_us()
    clock.advance(2.0)  # paused between the stamp and the look at this clock
    assert steady.shift_at(stamp_us) == 0
    assert (
        steady.shift_at(clock.now_us() + 3 * SECOND_US) == 3 * SECOND_US
    )  # times wait for a clock that was set back


def test_times_of_pushes_are_those_of_the_shift_that_they_were_made_with() -> None:
    pushes = PushTimes()
    second, hour = SECOND_US, 3_600 * SECOND_US
    pushes.note_seen(0, [1 * second, 2 * second], 0, 3 * second)
    # The clock is set ahead: of what is looked at then, the first was pushed before.
    pushes.note_seen(2, [3 * second, hour + 5 * second], hour, 6 * second)
    # It is set back: elements have the last time once more.
    pushes.note_seen(4, [hour + 5 * second] * 2, -hour, 7 * second)
    pushes.note_seen(0, [1 * second, 2 * second], -hour, 8 * second)  # the group begins anew
    stamps = [second, 2 * second, 3 * second, *[hour + 5 * second] * 3]
    found = [pushes.of(task, stamp) / second for task, stamp in enumerate(stamps)]
    assert found == [1, 2, 3, 5, 7, 7]


def test_steps_of_tasks_that_are_done_are_forgotten() -> None:
    pushes = PushTimes()
    for task in range(3_000):
        pushes.note_seen(
            task, [10**12], 0, task * SECOND_US
        )  # the clock was set back: each push has the same time
        pushes.forget(task - 10)
    assert len(pushes._firsts) < 2_000
    assert pushes.of(2_995, 10**12) == 2_995 * SECOND_US


@JUMPS
async def test_a_lease_ends_when_its_time_is_over(world: World, by: float) -> None:
    await create(world.store, ttr=60.0)
    await put(world.store, b"0")
    assert await take(world.store) == [(0, 1)]
    world.clock.jump(by)
    world.clock.advance(59.9)
    assert await take(world.store) == []
    world.clock.jump(-by)
    world.clock.advance(0.2)
    assert await take(world.store) == [(0, 2)]


@JUMPS
async def test_delays_end_when_their_time_is_over(world: World, by: float) -> None:
    """Of pushes and of nacks, begun before the clock was set, while it is wrong, and when it is set right."""
    await create(world.store, driver="fifottl", backoff=RetryBackoff(30.0, 1.0, 30.0, 0.0))
    await put(world.store, b"plain")
    await put(world.store, b"before", delay=60.0)
    await change(world.store, "nack", await take(world.store))
    world.clock.advance(20)
    world.clock.jump(by)
    await put(world.store, b"while", delay=60.0)
    assert await states(world.store) == {"delayed": 3}
    world.clock.advance(9.9)
    assert await take(world.store) == []
    world.clock.advance(0.2)
    assert await take(world.store, ttr=500.0) == [(0, 2)]
    world.clock.jump(-by)
    await put(world.store, b"after", delay=60.0)
    assert await states(world.store) == {"taken": 1, "delayed": 3}  # a look; a server does it within 50 ms
    world.clock.advance(29.8)
    assert await take(world.store) == []
    world.clock.advance(0.2)
    assert await take(world.store, ttr=500.0) == [(1, 1)]
    world.clock.advance(19.8)
    assert await take(world.store) == []
    world.clock.advance(0.2)
    assert await take(world.store) == [(2, 1)]
    world.clock.advance(9.8)
    assert await take(world.store) == []
    world.clock.advance(0.5)
    assert await take(world.store) == [(3, 1)]


@JUMPS
async def test_a_ttl_ends_when_its_time_is_over(world: World, by: float) -> None:
    await create(world.store, driver="fifottl", ttl=60.0, ttr=10.0)
    await put(world.store, b"before")
    world.clock.advance(30)
    assert await states(world.store) == {"ready": 1}
    world.clock.jump(by)
    await put(world.store, b"while")
    assert await states(world.store) == {"ready": 2}
    world.clock.advance(29.9)
    assert await take(world.store, 2) == [(0, 1), (1, 1)]
    world.clock.advance(0.2)
    assert await states(world.store) == {"taken": 1, "done": 1}
    world.clock.jump(-by)
    world.clock.advance(29.7)
    assert await states(world.store) == {"ready": 1, "done": 1}
    world.clock.advance(0.3)
    assert await states(world.store) == {"done": 2}


@JUMPS
async def test_a_session_has_its_ttr_whatever_the_wall_clock_shows(world: World, by: float) -> None:
    await create(world.store, ttr=1_000.0)
    await put(world.store, b"0")
    await world.store.attach_session("s", 30.0)
    assert await take(world.store) == [(0, 1)]
    await world.store.detach_session("s")
    world.clock.jump(by)
    world.clock.advance(29.9)
    world.engine.work.tick()
    assert await states(world.store) == {"taken": 1}
    world.clock.advance(0.2)
    world.engine.work.tick()
    assert await states(world.store) == {"ready": 1}


async def test_answers_and_the_ledger_have_the_time_of_the_wall_clock(world: World) -> None:
    await create(world.store, driver="fifottl", ttr=60.0)
    await put(world.store, b"0", b"1")
    world.clock.jump(DAY)
    await put(world.store, b"2", delay=60.0)  # a commit: the shift is known from here on
    taken_us = world.clock.now_us()
    taken = await change(world.store, "release", await take(world.store), delay=5.0)
    assert taken.changed == 1
    assert (await world.store.peek_task("q/g", 0)).until_us == taken_us + 5 * SECOND_US
    assert await take(world.store) == [(1, 1)]
    assert (await world.store.peek_task("q/g", 1)).until_us == taken_us + 60 * SECOND_US
    assert (await world.store.peek_task("q/g", 2)).until_us == taken_us + 60 * SECOND_US
    past = (await world.store.tasks_at("q/g", taken_us)).to_pylist()
    assert [row["state"] for row in past][:2] == ["delayed", "taken"]


@pytest.mark.parametrize("snapshot", [False, True])
async def test_after_a_restart_nothing_waits_longer_than_it_asked_for(world: World, snapshot: bool) -> None:
    """Everything was stored while the clock was a day ahead, and the node starts with the right time."""
    world.clock.jump(DAY)
    await create(world.store, driver="fifottl", ttr=60.0, ttl=500.0)
    await world.store.attach_session("s", 1_000.0)
    await put(world.store, b"0", b"1")
    await put(world.store, b"2", delay=100.0)
    assert await take(world.store, 2, stage="synced") == [(0, 1), (1, 1)]
    await change(world.store, "nack", [(1, 1)], delay=30.0)
    if snapshot:
        ledger = await world.engine.registry.queue("q~g")
        await world.engine.work.snapshot(ledger)
    await world.crash()
    world.clock.jump(-DAY)
    await world.start()
    assert await states(world.store) == {"taken": 1, "delayed": 2}
    world.clock.advance(29.9)
    assert await take(world.store) == []
    world.clock.advance(0.2)
    assert await take(world.store) == [(1, 2)]
    world.clock.advance(30)
    assert await take(world.store) == [(0, 2)]
    world.clock.advance(41)
    assert (await take(world.store, 3))[-1] == (2, 1)
    world.clock.advance(500)
    assert await states(world.store) == {"done": 3}


async def test_after_a_restart_rows_count_that_have_the_time_of_an_earlier_one(world: World) -> None:
    """The clock was a day ahead, is set back to what is still wrong, and rows have the last time of the ledger."""
    world.clock.jump(DAY)
    await create(world.store, ttr=60.0)
    await put(world.store, b"0", b"1")
    world.clock.jump(HOUR - DAY)
    await change(world.store, "nack", await take(world.store), delay=30.0)
    await world.store.attach_session("s", 1_000.0)
    assert await take(world.store, stage="synced") == [(1, 1)]
    await world.crash()
    world.clock.jump(-HOUR)
    await world.start()
    assert await states(world.store) == {"delayed": 1, "taken": 1}
    world.clock.advance(29.9)
    assert await take(world.store) == []
    world.clock.advance(0.2)
    assert await take(world.store) == [(0, 2)]
    world.clock.advance(30)
    assert await take(world.store) == [(1, 2)]


async def test_a_clock_that_was_corrected_counts_after_a_restart(world: World) -> None:
    """The node ran with a clock that was an hour late, it was set right, and the node is started again."""
    world.clock.jump(-HOUR)
    await world.crash()
    await world.start()
    await create(world.store, driver="fifottl", ttr=60.0)
    await put(world.store, b"0")
    world.clock.jump(HOUR)
    await put(world.store, b"1", delay=90.0)
    await change(world.store, "nack", await take(world.store), delay=30.0)
    await world.crash()
    await world.start()
    assert await states(world.store) == {"delayed": 2}
    world.clock.advance(29.9)
    assert await take(world.store) == []
    world.clock.advance(0.2)
    assert await take(world.store) == [(0, 2)]
    world.clock.advance(60)
    assert (1, 1) in await take(world.store, 2)
