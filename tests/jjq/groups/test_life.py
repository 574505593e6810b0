"""The life of a task, through the public client: order, takes, acks, releases, buried tasks, statistics.

The cases are those of tarantool/queue's own tests for fifo, and what users of other work queues expect.
"""

from __future__ import annotations

import asyncio

import pytest

import jjq
from jjq.client.client import AsyncClient
from tests.jjq.groups.conftest import Door, eventually


async def test_a_group_is_created_used_and_deleted(client: AsyncClient) -> None:
    await client.create_queue("orders")
    assert await client.list_groups() == []
    with pytest.raises(jjq.NotFound, match="billing"):
        await client.take("orders/billing")
    group = await client.create_group("orders", "billing")
    await client.push("orders", [b"123"], keys=[b"k"], headers=[{"h": b"1"}])
    (task,) = await client.take(group, wait=10.0)
    assert (task.id, task.attempt, task.value, task.key, task.headers) == (0, 1, b"123", b"k", {"h": b"1"})
    assert (task.priority, task.state) == (0, "taken")
    await client.ack(group, task)
    assert [found.id for found in await client.list_groups("orders")] == ["orders/billing"]
    await client.delete_group(group)
    assert await client.list_groups() == []
    with pytest.raises(jjq.NotFound):
        await client.get_group(group)


async def test_tasks_come_in_order_and_an_empty_group_gives_none(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 4)
    assert [t.id for t in await client.take(group, 2)] == [0, 1]
    assert [t.id for t in await client.take(group, 9)] == [2, 3]
    assert await client.take(group, 9) == []
    assert await client.take(group, wait=0.01) == []


async def test_statistics_count_tasks_by_state_and_calls_by_verb(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 5)
    await client.delete_tasks(group, [4])
    (first,) = await client.take(group)
    await client.release(group, first)
    (first,) = await client.take(group)
    await client.ack(group, first)
    await client.bury(group, [1])
    await client.bury(group, [2])
    assert await client.kick(group, 1) == 1
    await client.take(group)
    found = await client.statistics(group)
    assert dict(found.tasks) == {
        "ready": 1, "taken": 1, "delayed": 0, "buried": 1, "done": 2, "total": 3,
    }  # fmt: skip
    wanted = {"delete": 1, "ack": 1, "take": 3, "kick": 1, "bury": 2, "put": 5, "release": 1}
    assert {verb: found.calls[verb] for verb in wanted} == wanted
    assert (await client.get_group(group)).tasks == found.tasks


async def test_a_waiting_take_is_served_by_a_later_push(door: Door, client: AsyncClient) -> None:
    group = await door.group(client)
    waiting = asyncio.create_task(client.take(group, wait=20.0))
    await eventually(lambda: _waits(client, group, 1))
    await client.push(group.queue, [b"a"])
    assert [t.value for t in await waiting] == [b"a"]


async def _waits(client: AsyncClient, group: jjq.GroupInfo, count: int) -> bool:
    return (await client.get_group(group)).waiting == count


async def test_a_released_task_keeps_its_place_and_goes_to_who_waits(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 4)
    first, second = await client.take(group, 2)
    await client.release(group, first)
    assert [t.id for t in await client.take(group)] == [0]
    assert [t.id for t in await client.take(group, 2)] == [2, 3]
    waiting = asyncio.create_task(client.take(group, wait=20.0))
    await eventually(lambda: _waits(client, group, 1))
    await client.release(group, second)
    assert [(t.id, t.attempt) for t in await waiting] == [(1, 2)]


async def test_buried_tasks_are_kicked_oldest_first_to_who_waits(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 4)
    tasks = await client.take(group, 4)
    await client.bury(group, tasks, reason="not today")
    waiting = [asyncio.create_task(client.take(group, wait=20.0)) for _ in range(3)]
    await eventually(lambda: _waits(client, group, 3))
    assert await client.kick(group, 3) == 3
    got = [task.id for found in await asyncio.gather(*waiting) for task in found]
    assert sorted(got) == [0, 1, 2]
    last = await client.peek_task(group, 3)
    assert (last.state, last.reason, last.value) == ("buried", "not today", b"3")
    assert await client.kick(group, 100_500) == 1
    assert [t.id for t in await client.take(group)] == [3]
    await client.delete_tasks(group, 3)
    assert (await client.peek_task(group, 3)).state == "done"


async def test_a_task_is_buried_once_and_kicked_by_its_id(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 3)
    await client.bury(group, [1])
    await client.bury(group, [1])
    assert await client.kick(group, ids=[1]) == 1
    with pytest.raises(jjq.Conflict, match="not buried"):
        await client.kick(group, ids=1)
    with pytest.raises(jjq.NotFound, match="no task 7"):
        await client.kick(group, ids=[7])


async def test_the_same_request_returns_the_group_and_another_one_is_refused(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, ttr=5.0)
    again = await client.create_group(group.queue, "g", ttr=5.0)
    assert (again.id, again.created) == (group.id, group.created)
    with pytest.raises(jjq.Conflict, match="exists"):
        await client.create_group(group.queue, "g", ttr=6.0)


async def test_a_purge_empties_the_group_and_leaves_the_queue(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 5)
    held = await client.take(group, 2)
    assert await client.purge(group) == 5
    assert await client.take(group, 5) == []
    with pytest.raises(jjq.Conflict):
        await client.ack(group, held[0])
    assert (await client.get_queue(group.queue)).next_offset == 5
    await client.push(group.queue, [b"new"])
    assert [t.id for t in await client.take(group)] == [5]


async def test_tasks_are_listed_by_state(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 10)
    await client.take(group, 4)
    assert [t.id for t in await client.tasks(group, "taken")] == [0, 1, 2, 3]
    assert [t.id for t in await client.tasks(group, "ready", 3)] == [4, 5, 6]
    assert [t.id for t in await client.tasks(group, after=7)] == [8, 9]
    assert await client.tasks(group, "buried") == []


async def test_each_of_five_waiting_takers_gets_exactly_one_of_five_pushes(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client)
    others = [await door.client() for _ in range(5)]
    waiting = [asyncio.create_task(other.take(group, wait=20.0)) for other in others]
    await eventually(lambda: _waits(client, group, 5))
    for number in range(5):
        await client.push(group.queue, [b"%d" % number])
    got = [task.id for tasks in await asyncio.gather(*waiting) for task in tasks]
    assert sorted(got) == [0, 1, 2, 3, 4]


async def test_takes_at_the_same_time_never_give_a_task_twice(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 60)
    others = [await door.client() for _ in range(4)]
    found = await asyncio.gather(*(other.take(group, 5) for other in others for _ in range(3)))
    ids = [task.id for tasks in found for task in tasks]
    assert len(ids) == len(set(ids)) == 60


async def test_several_groups_and_subscribers_work_on_one_queue(door: Door, client: AsyncClient) -> None:
    one = await door.group(client, 3)
    two = await client.create_group(one.queue, "other")
    subscriber = await client.create_subscriber(one.queue, "s", "beginning")
    await client.ack(one, await client.take(one, 2))
    assert [t.id for t in await client.take(two, 9)] == [0, 1, 2]
    assert [e.offset for e in await client.pop(subscriber, 9)] == [0, 1, 2]
    assert [t.id for t in await client.take(one, 9)] == [2]


async def test_a_group_begins_where_it_is_told_and_is_moved_back(door: Door, client: AsyncClient) -> None:
    one = await door.group(client, 10)
    late = await client.create_group(one.queue, "late", start="last:2")
    assert [t.id for t in await client.take(late, 9)] == [8, 9]
    with pytest.raises(jjq.Conflict, match="taken"):
        await client.seek_group(late, "beginning")
    await client.release_all(late)
    assert (await client.seek_group(late, 5, dry_run=True)).resolved is not None
    assert (await client.seek_group(late, 5)).first == 5
    assert [t.id for t in await client.take(late, 9)] == [5, 6, 7, 8, 9]


async def test_a_paused_group_hands_out_nothing_until_it_goes_on(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 2)
    (held,) = await client.take(group)
    assert (await client.pause(group)).paused
    waiting = asyncio.create_task(client.take(group, wait=20.0))
    await eventually(lambda: _waits(client, group, 1))
    await client.ack(group, held)
    assert not waiting.done()
    await client.resume(group)
    assert [t.id for t in await waiting] == [1]


async def test_a_group_with_taken_tasks_is_deleted_by_force_only(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 2)
    await client.take(group)
    with pytest.raises(jjq.Conflict, match="taken"):
        await client.delete_group(group)
    await client.delete_group(group, force=True)
    with pytest.raises(jjq.NotFound):
        await client.take(group)


async def test_a_group_with_a_buried_task_is_deleted(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1)
    await client.bury(group, 0)
    await client.delete_group(group)
    assert await client.list_groups(group.queue) == []


async def test_failed_tasks_come_back_and_are_buried_or_dropped_at_the_last_attempt(
    door: Door, client: AsyncClient
) -> None:
    for on_exhausted, end in (("bury", "buried"), ("drop", "done")):
        group = await door.group(client, 1, max_attempts=2, on_exhausted=on_exhausted, backoff=(0.01, 1.0))
        (task,) = await client.take(group)
        await client.nack(group, task, reason="first")
        (task,) = await client.take(group, wait=20.0)
        assert task.attempt == 2
        await client.nack(group, task, reason="second")
        found = await client.peek_task(group, 0)
        assert (found.state, found.attempt, found.reason) == (end, 2, "second")


async def test_settings_are_changed_from_now_on(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 2, driver="fifottl", max_attempts=1)
    changed = await client.update_group(group, ttr=1.5, ttl=60.0, max_attempts=None)
    assert (changed.settings.ttr, changed.settings.ttl, changed.settings.max_attempts) == (1.5, 60.0, None)
    assert (await client.update_group(group, ttl=None)).settings.ttl is None
    with pytest.raises(jjq.InvalidInput, match="nothing to change"):
        await client.update_group(group)


async def test_tasks_of_any_size_fit_into_what_one_take_gives(door: Door, client: AsyncClient) -> None:
    group = await door.group(client)
    large = 8_000_000
    for sizes in ([3_000_000], [900_000], [large], [3_900_000], [large], [100] * 500, [large], [10] * 10):
        await client.push(group.queue, [b"x" * size for size in sizes])
    seen: list[int] = []
    while tasks := await client.take(group, 2_000):
        assert tasks.batch.nbytes < large + 100_000
        seen += tasks.ids
        await client.ack(group, tasks)
    assert seen == list(range(516))


async def test_buried_tasks_are_kicked_by_a_condition_in_sql(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 6)
    await client.bury(group, [0, 1], reason="TimeoutError: slow")
    await client.bury(group, [2, 3], reason="ValueError: wrong")
    assert await client.kick(group, where="reason LIKE 'Timeout%' -- and so on") == 2
    assert [task.id for task in await client.tasks(group, "buried")] == [2, 3]
    assert await client.kick(group, where="task > 2 AND since < '2100-01-01' AND attempt = 0") == 1
    assert await client.kick(group, where="worker = 'nobody'") == 0
    for wrong, why in (
        ("", "where is empty"),
        ("reason =", "cannot be judged"),
        ("price > 3", "price"),
        ("true; DROP TABLE tasks", "semicolon"),
        ("task IN (SELECT 1 FROM read_csv('/etc/hostname'))", "cannot be judged"),
    ):
        with pytest.raises(jjq.InvalidInput, match=why):
            await client.kick(group, where=wrong)
    assert [task.id for task in await client.tasks(group, "buried")] == [2]
