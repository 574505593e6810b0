"""Corners of delivery that users of tarantool/queue rely on, through the public client: how long a task lives, who gets
one that comes back, and who never gets one.
"""

from __future__ import annotations

import asyncio

import pytest

import jjq
from jjq.client.client import AsyncClient
from tests.jjq.groups.conftest import Door, eventually

LONG = 20.0
MILLISECOND_US = 1_000


async def _is(client: AsyncClient, group: jjq.GroupInfo, id: int, state: str) -> bool:
    return (await client.peek_task(group, id)).state == state


async def _waits(client: AsyncClient, group: jjq.GroupInfo, count: int) -> bool:
    return (await client.get_group(group)).waiting == count


async def _lives_us(client: AsyncClient, group: jjq.GroupInfo, task: jjq.Task) -> int:
    """From the push to the deadline."""
    return round(task.deadline.timestamp() * 1e6) - (await client.peek_task(group, task.id)).created_us


async def test_the_delay_of_a_push_and_of_a_release_is_added_to_the_ttl(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, driver="fifottl", ttr=6_000.0)
    await client.push(group.queue, [b"a"], delay=0.01, ttl=1_000.0)
    (task,) = await client.take(group, wait=LONG)
    assert abs(await _lives_us(client, group, task) - 1_000_010_000) <= MILLISECOND_US
    await client.release(group, task, delay=0.02)
    (task,) = await client.take(group, wait=LONG)
    assert abs(await _lives_us(client, group, task) - 1_000_030_000) <= MILLISECOND_US
    await client.touch(group, task, 5.0)
    until = (await client.peek_task(group, 0)).until_us or 0
    assert abs(until - (await client.peek_task(group, 0)).created_us - 1_005_030_000) <= MILLISECOND_US


@pytest.mark.parametrize("driver", ["fifottl", "limfifottl", "utubettl"])
async def test_statistics_count_what_is_delayed(door: Door, client: AsyncClient, driver: str) -> None:
    group = await door.group(client, 5, driver=driver)
    await client.push(group.queue, [b"later"], delay=1_000.0)
    await client.delete_tasks(group, [4])
    (first,) = await client.take(group)
    await client.release(group, first)
    await client.ack(group, await client.take(group))
    await client.bury(group, [1, 2])
    assert await client.kick(group, 1) == 1
    assert [task.id for task in await client.take(group)] == [1]
    found = await client.statistics(group)
    assert dict(found.tasks) == {
        "ready": 1, "taken": 1, "delayed": 1, "buried": 1, "done": 2, "total": 4,
    }  # fmt: skip
    wanted = {"delete": 1, "ack": 1, "take": 3, "kick": 1, "bury": 2, "put": 6, "release": 1}
    assert {verb: found.calls[verb] for verb in wanted} == wanted


@pytest.mark.parametrize("driver", ["utube", "utubettl"])
async def test_tasks_of_many_keys_are_counted_and_listed_by_state(
    door: Door, client: AsyncClient, driver: str
) -> None:
    group = await door.group(client, driver=driver)
    await client.push(group.queue, [b"x"] * 10, keys=[b"%d" % n for n in range(10)])
    taken = await client.take(group, 4)
    found = (await client.get_group(group)).tasks
    assert (found["ready"], found["taken"]) == (6, 4)
    assert [task.id for task in await client.tasks(group, "taken")] == list(taken.ids) == [0, 1, 2, 3]
    assert [task.id for task in await client.tasks(group, "ready")] == [4, 5, 6, 7, 8, 9]


async def test_a_group_without_a_capacity_is_never_full(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, driver="limfifottl")
    for _ in range(20):
        await client.push(group.queue, [b"x"] * 50, timeout=0.0)
    assert (await client.get_group(group)).tasks["ready"] == 1_000


async def test_inside_a_key_priorities_rule_and_a_released_task_is_first_again(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, driver="utubettl")
    await client.push(group.queue, [b"a", b"b"], keys=[b"k", b"k"], priority=[1, 0])
    (task,) = await client.take(group, 9)
    assert task.id == 1
    await client.release(group, task)
    (task,) = await client.take(group, 9)
    assert (task.id, task.attempt) == (1, 2)
    await client.ack(group, task)
    assert [t.id for t in await client.take(group, 9)] == [0]


async def test_who_waits_for_a_key_gets_its_head_again_or_the_next_one(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, driver="utubettl")
    await client.push(group.queue, [b"a", b"b"], keys=[b"k", b"k"])
    (first,) = await client.take(group)
    for delay, wanted in ((None, 0), (1_000.0, 1)):
        waiting = asyncio.create_task(client.take(group, wait=LONG))
        await eventually(lambda: _waits(client, group, 1))
        await client.release(group, first, delay=delay)
        (first,) = await waiting
        assert first.id == wanted


async def test_a_released_task_never_goes_to_a_waiting_take_of_who_is_gone(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 1)
    other = await door.client()
    assert len(await other.take(group)) == 1
    waiting = asyncio.create_task(other.take(group, wait=LONG))
    await eventually(lambda: _waits(client, group, 1))
    await other.close()
    await eventually(lambda: _is(client, group, 0, "ready"))
    waiting.cancel()
    await asyncio.wait([waiting])
    assert [(t.id, t.attempt) for t in await client.take(group, wait=LONG)] == [(0, 2)]


async def test_a_waiting_take_is_not_served_as_a_session_that_its_client_has_left(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 1)
    held = await client.take(group)
    waiting = asyncio.create_task(client.take(group, wait=LONG))
    await eventually(lambda: _waits(client, group, 1))
    await client.session("new")
    with pytest.raises(jjq.Conflict, match="has ended"):
        await waiting
    with pytest.raises(jjq.Conflict, match="not taken"):
        await client.ack(group, held)
    assert [(t.id, t.attempt) for t in await client.take(group, wait=LONG)] == [(0, 2)]


async def test_a_push_is_shared_among_those_who_wait(door: Door, client: AsyncClient) -> None:
    group = await door.group(client)
    others = [await door.client() for _ in range(3)]
    waiting = [asyncio.create_task(other.take(group, 100, wait=LONG)) for other in others]
    await eventually(lambda: _waits(client, group, 3))
    await client.push(group.queue, [b"x"] * 9)
    assert [len(tasks) for tasks in await asyncio.gather(*waiting)] == [3, 3, 3]


async def test_the_last_attempt_of_a_task_is_handed_out_alone(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 4, max_attempts=2)
    tasks = await client.take(group, 4)
    await client.nack(group, tasks[1], delay=0.0)
    await client.release(group, [tasks[0], tasks[2], tasks[3]])
    got = [[task.id for task in await client.take(group, 9)] for _ in range(3)]
    assert got == [[0], [1], [2, 3]]


async def test_a_rate_holds_back_the_tasks_of_its_key_alone(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, driver="utube", per_key=9, rate=0.001)
    await client.push(group.queue, [b"a", b"b", b"c"], keys=[b"1", b"1", b"2"])
    tasks = await client.take(group, 9)
    assert [task.id for task in tasks] == [0, 2]
    await client.ack(group, tasks)
    assert await client.take(group, 9) == []
    await client.update_group(group, rate=None)
    assert [task.id for task in await client.take(group, 9)] == [1]


@pytest.mark.parametrize("how", ["update", "purge", "delete"])
async def test_a_push_that_waits_for_room_goes_on_when_there_is_some(
    door: Door, client: AsyncClient, how: str
) -> None:
    group = await door.group(client, 1, driver="limfifottl", capacity=1)
    other = await door.client()
    waiting = asyncio.create_task(other.push(group.queue, [b"b"], timeout=LONG))
    await eventually(lambda: _waits_for_room(door, group))
    if how == "update":
        await client.update_group(group, capacity=2)
    elif how == "purge":
        assert await client.purge(group) == 1
    else:
        await client.delete_group(group)
    async with asyncio.timeout(LONG / 2):
        assert (await waiting).first_offset == 1


async def _waits_for_room(door: Door, group: jjq.GroupInfo) -> bool:
    return len((await door.store._desk.group(group.id)).pushes) == 1
