"""Times, priorities, keys and room, through the public client: tarantool's fifottl, utube, utubettl and limfifottl.

Times are short. A test waits for what must come, with a long limit; it never expects that something came soon.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import jjq
from coldstore.shared.clock import SystemClock
from jjq.client.client import AsyncClient
from tests.jjq.groups.conftest import Door, eventually

SOON = 0.05  # seconds: so short that nobody waits long for its end
LONG = 20.0


async def state_of(client: AsyncClient, group: jjq.GroupInfo, id: int) -> str:
    return (await client.peek_task(group, id)).state


# ttr and touch --------------------------------------------------------------------------------------


async def test_a_task_that_is_held_too_long_goes_to_another_worker(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1, ttr=SOON)
    (late,) = await client.take(group)
    other = await door.client()
    (task,) = await other.take(group, wait=LONG)
    assert (task.id, task.attempt) == (0, 2)
    with pytest.raises(jjq.Conflict, match="task 0"):
        await client.ack(group, late)
    (task,) = [task] if await state_of(client, group, 0) == "taken" else await other.take(group, wait=LONG)


async def test_a_take_may_choose_how_long_it_holds(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1, ttr=SOON)
    (task,) = await client.take(group, ttr=3_600.0)
    assert (task.deadline - datetime.fromtimestamp(SystemClock().now_us() / 1e6, UTC)).seconds > 3_000
    await client.ack(group, task)


async def test_a_task_that_is_touched_is_held_for_longer(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1, driver="fifottl", ttr=60.0, ttl=90.0)
    (task,) = await client.take(group)
    before = (await client.peek_task(group, 0)).until_us
    await client.touch(group, task, 100.0)
    after = (await client.peek_task(group, 0)).until_us
    assert before is not None
    assert after == before + 100_000_000
    await client.ack(group, task)


async def test_the_deadline_is_never_later_than_the_end_of_the_ttl(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1, driver="fifottl", ttr=600.0, ttl=30.0)
    (task,) = await client.take(group)
    created = (await client.peek_task(group, 0)).created_us
    assert task.deadline.timestamp() * 1e6 <= created + 30_000_001


# delay and ttl ---------------------------------------------------------------------------------------


async def test_a_delayed_task_is_taken_later_and_comes_back_after_its_ttr(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, driver="fifottl")
    await client.push(group.queue, [b"a"], delay=1_000.0)
    await client.push(group.queue, [b"b"], delay=2 * SOON, ttr=SOON)
    assert await state_of(client, group, 0) == "delayed"
    (task,) = await client.take(group, wait=LONG)
    assert (task.id, task.attempt, task.headers["jjq-ttr"]) == (1, 1, b"0.05")
    (task,) = await client.take(group, wait=LONG)
    assert (task.id, task.attempt) == (1, 2)
    found = await client.statistics(group)
    assert (found.tasks["delayed"], found.tasks["total"], found.calls["put"]) == (1, 2, 2)


@pytest.mark.parametrize("number", range(5))
async def test_an_expired_task_is_never_handed_out(door: Door, client: AsyncClient, number: int) -> None:
    group = await door.group(client, driver="fifottl")
    await client.push(group.queue, [b"a", b"b"], ttl=[0.001, None])
    assert [t.id for t in await client.take(group, 2, wait=LONG)][-1:] == [1]
    await eventually(lambda: _is(client, group, 0, "done"))
    assert await client.take(group, 2) == []


async def _is(client: AsyncClient, group: jjq.GroupInfo, id: int, *states: str) -> bool:
    return await state_of(client, group, id) in states


async def test_a_task_expires_while_it_is_taken_and_while_it_is_buried(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, driver="fifottl", ttl=SOON)
    await client.push(group.queue, [b"a", b"b"])
    tasks = await client.take(group, 2)
    await client.bury(group, [1])
    for id in (0, 1):
        await eventually(lambda id=id: _is(client, group, id, "done"))  # type: ignore[misc]
    if tasks:
        with pytest.raises(jjq.Conflict):
            await client.ack(group, tasks[0])


async def test_a_buried_task_ignores_its_ttr(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 2, ttr=SOON)
    await client.bury(group, await client.take(group))
    (other,) = await client.take(group)
    assert [t.id for t in await client.take(group, wait=LONG)] == [other.id]  # its ttr is over, …
    assert await state_of(client, group, 0) == "buried"  # … and that of the buried one as well


async def test_deleted_and_buried_tasks_are_no_longer_the_workers(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 2)
    tasks = await client.take(group, 2)
    await client.delete_tasks(group, [0])
    await client.bury(group, [1])
    with pytest.raises(jjq.RefusedTasks, match="2 of 2 tasks were refused") as refused:
        await client.ack(group, tasks)
    assert [error.state for error in refused.value.outcomes.errors] == ["done", "buried"]
    waiting = asyncio.create_task(client.take(group, wait=LONG))
    assert await client.kick(group, 1) == 1
    assert [t.id for t in await waiting] == [1]


async def test_a_task_is_released_for_later(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1, driver="fifottl")
    await client.release(group, await client.take(group), delay=1_000.0)
    found = await client.peek_task(group, 0)
    assert (found.state, found.attempt) == ("delayed", 1)
    assert await client.take(group) == []


# Priorities and keys --------------------------------------------------------------------------------


async def test_a_smaller_priority_is_taken_first(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, driver="fifottl", priority=5)
    await client.push(group.queue, [b"a", b"b", b"c"], priority=[None, 7, -1])
    tasks = await client.take(group, 3)
    assert [(t.id, t.priority) for t in tasks] == [(2, -1), (0, 5), (1, 7)]
    await client.release(group, [tasks[2]], priority=-9)
    await client.release(group, [tasks[0]])
    assert [t.id for t in await client.take(group, 2)] == [1, 2]


@pytest.mark.parametrize("driver", ["utube", "utubettl"])
async def test_one_task_of_a_key_is_taken_at_a_time_in_order(
    door: Door, client: AsyncClient, driver: str
) -> None:
    group = await door.group(client, driver=driver)
    await client.push(group.queue, [b"a", b"b", b"c", b"d"], keys=[b"1", b"1", b"2", b"1"])
    tasks = await client.take(group, 9)
    assert [t.id for t in tasks] == [0, 2]
    assert await client.take(group, 9, wait=0.01) == []
    waiting = asyncio.create_task(client.take(group, wait=LONG))
    await client.ack(group, tasks[0])
    (second,) = await waiting
    assert second.id == 1
    waiting = asyncio.create_task(client.take(group, wait=LONG))
    await client.bury(group, second)
    assert [t.id for t in await waiting] == [3]


async def test_a_task_that_is_not_acked_frees_its_key(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, driver="utubettl", ttr=SOON)
    await client.push(group.queue, [b"a", b"b"], keys=[b"1", b"1"], priority=[1, 0])
    (first,) = await client.take(group)
    assert first.id == 1
    (again,) = await client.take(group, wait=LONG)
    assert (again.id, again.attempt) == (1, 2)


async def test_a_released_head_comes_again_and_a_delayed_one_does_not_block(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, driver="utubettl")
    await client.push(group.queue, [b"a", b"b"], keys=[b"1", b"1"])
    (first,) = await client.take(group)
    await client.release(group, first)
    (first,) = await client.take(group)
    assert first.id == 0
    await client.release(group, first, delay=1_000.0)
    assert [t.id for t in await client.take(group, 2, wait=LONG)] == [1]


async def test_only_tasks_of_the_named_keys_are_taken(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, driver="utube")
    await client.push(group.queue, [b"a", b"b", b"c"], keys=[b"1", b"2", b"3"])
    assert [t.key for t in await client.take(group, 9, keys=["3", b"2"])] in ([b"2", b"3"], [b"3", b"2"])
    assert [t.key for t in await client.take(group, 9)] == [b"1"]


async def test_so_many_tasks_of_a_key_are_taken_as_the_group_allows(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, driver="utube", per_key=2)
    await client.push(group.queue, [b"a"] * 5, keys=[b"k"] * 5)
    assert [t.id for t in await client.take(group, 9)] == [0, 1]


# Sessions -------------------------------------------------------------------------------------------


async def test_what_a_client_has_taken_is_released_when_it_goes(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 3)
    other = await door.client()
    assert len(await other.take(group, 3)) == 3
    waiting = asyncio.create_task(other.take(group, wait=LONG))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await other.close()
    await eventually(lambda: _counts(client, group, ready=3, taken=0))
    await client.delete_group(group)


async def _counts(client: AsyncClient, group: jjq.GroupInfo, **wanted: int) -> bool:
    found = (await client.get_group(group)).tasks
    return all(found[state] == count for state, count in wanted.items())


async def test_a_session_is_shared_and_one_client_acks_what_the_other_took(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 2)
    other = await door.client()
    for each in (client, other):
        await each.session("both")
    tasks = await other.take(group, 2)
    await client.ack(group, tasks[0])
    await other.close()
    assert await state_of(client, group, 1) == "taken"  # a connection of the session is still there
    await client.ack(group, tasks[1])


async def test_a_client_that_comes_back_in_time_goes_on_with_its_tasks(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 1)
    first = await door.client()
    await first.session("worker-7", ttr=60.0)
    (task,) = await first.take(group)
    await first.close()
    assert await state_of(client, group, 0) == "taken"
    again = await door.client()
    await again.session("worker-7", ttr=60.0)
    await again.ack(group, task)


@pytest.mark.parametrize("ttr", [0.0, SOON])
async def test_a_session_that_stays_away_loses_its_tasks(door: Door, client: AsyncClient, ttr: float) -> None:
    group = await door.group(client, 1)
    first = await door.client()
    await first.session("away", ttr=ttr)
    (task,) = await first.take(group)
    await first.close()
    await eventually(lambda: _is(client, group, 0, "ready"))
    again = await door.client()
    await again.session("away", ttr=60.0)
    with pytest.raises(jjq.Conflict, match="not taken"):
        await again.ack(group, task)


async def test_another_session_may_not_ack_but_may_bury(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1)
    (task,) = await client.take(group)
    other = await door.client()
    for verb in (other.ack, other.nack, other.release):
        with pytest.raises(jjq.Conflict, match="another session"):
            await verb(group, task)
    with pytest.raises(jjq.Conflict, match="another session"):
        await other.touch(group, task, 1.0)
    await other.bury(group, task)
    assert await state_of(client, group, 0) == "buried"
