"""Wrong requests about tasks and groups: each is a clear error that says what to do, and changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import jjq
from jjq.client.client import AsyncClient
from tests.jjq.groups.conftest import Door

Call = Callable[[AsyncClient, jjq.GroupInfo], Awaitable[Any]]


WRONG_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"driver": "lifo"}, "driver 'lifo'"),
    ({"ttr": 0.0}, "ttr is 0.0"),
    ({"ttr": -1.0}, "ttr is -1"),
    ({"ttr": 1e18}, "ttr is 1e"),
    ({"ttl": -1.0, "driver": "fifottl"}, "ttl is -1"),
    ({"ttl": 1e18, "driver": "fifottl"}, "ttl is 1e"),
    ({"delay": -0.1, "driver": "fifottl"}, "delay is -0.1"),
    ({"delay": 1e18, "driver": "fifottl"}, "delay is 1e"),
    ({"priority": 2**40, "driver": "fifottl"}, "priority is"),
    ({"capacity": 0, "driver": "limfifottl"}, "capacity is 0"),
    ({"per_key": 0, "driver": "utube"}, "per_key is 0"),
    ({"rate": 0.0, "driver": "utube"}, "rate is 0"),
    ({"max_attempts": 0}, "max_attempts is 0"),
    ({"backoff": (-1.0,)}, "backoff.base is -1"),
    ({"backoff": (1.0, 0.5)}, "backoff.factor is 0.5"),
    ({"backoff": ()}, "give .base, factor, max, jitter."),
    ({"on_exhausted": "explode"}, "give 'bury' or 'drop'"),
    ({"ttl": 5.0}, "driver fifo does not use ttl"),
    ({"capacity": 5}, "driver fifo does not use capacity"),
    ({"per_key": 5}, "driver fifo does not use per_key"),
    ({"start": "offset:99"}, "99"),
    ({"start": "yesterday"}, "yesterday"),
]


async def test_a_group_with_wrong_settings_is_refused(client: AsyncClient) -> None:
    await client.create_queue("orders")
    for settings, why in WRONG_SETTINGS:
        with pytest.raises((jjq.InvalidInput, jjq.OutOfRange), match=why):
            await client.create_group("orders", "g", **settings)
    assert await client.list_groups("orders") == []


async def test_a_group_has_a_name_of_its_own(client: AsyncClient) -> None:
    await client.create_queue("orders")
    await client.create_subscriber("orders", "billing")
    with pytest.raises(jjq.Conflict, match="has a subscriber billing"):
        await client.create_group("orders", "billing")
    await client.create_group("orders", "shipping")
    with pytest.raises(jjq.Conflict, match="shipping"):
        await client.create_subscriber("orders", "shipping")
    with pytest.raises(jjq.InvalidInput, match="not allowed"):
        await client.create_group("orders", "../up")
    with pytest.raises(jjq.NotFound, match="nowhere"):
        await client.create_group("nowhere", "g")


WRONG_TAKES: list[tuple[Call, str]] = [
    (lambda c, g: c.take(g, 0), "max"),
    (lambda c, g: c.take(g, 1, -1.0), "wait"),
    (lambda c, g: c.take(g, ttr=0.0), "ttr is 0"),
    (lambda c, g: c.take(g, ttr=-1.0), "ttr is -1"),
    (lambda c, g: c.take(g, keys=[]), "keys is empty"),
    (lambda c, g: c.take(g, keys=[b"k"]), "does not know keys"),
    (lambda c, g: c.take(g, stage="cold"), "stage"),
    (lambda c, g: c.take(g, worker="w" * 1_000), "worker"),
    (lambda c, g: c.session("x" * 200), "1 to 128 characters"),
    (lambda c, g: c.session("x", ttr=-1.0), "ttr is -1"),
    (lambda c, g: c.kick(g, 0), "count is 0"),
    (lambda c, g: c.kick(g), "give one of count, ids and where"),
    (lambda c, g: c.kick(g, 1, [1]), "give one of count, ids and where"),
    (lambda c, g: c.tasks(g, "asleep"), "state 'asleep'"),  # type: ignore[arg-type]
    (lambda c, g: c.tasks(g, limit=0), "limit"),
    (lambda c, g: c.ack(g, 0), "an id alone does not tell the attempt|give a task"),  # type: ignore[arg-type]
    (lambda c, g: c.ack(g, [0]), "an id alone does not tell the attempt"),  # type: ignore[list-item]
    (lambda c, g: c.nack(g, jjq.TaskReceipt(0, 1), delay=-1.0), "delay is -1"),
    (lambda c, g: c.release(g, jjq.TaskReceipt(0, 1), delay=1e18), "delay is 1"),
    (lambda c, g: c.release(g, jjq.TaskReceipt(0, 1), priority=2**40), "priority is"),
    (lambda c, g: c.touch(g, jjq.TaskReceipt(0, 1), 1e18), "seconds is 1"),
    (lambda c, g: c.bury(g, -1), "cannot be the id of a task"),
    (lambda c, g: c.delete_tasks(g, "1"), "give a task, or a list"),  # type: ignore[arg-type]
    (lambda c, g: c.push(g.queue, [b"x"], delay=-1.0), "delay is -1"),
    (lambda c, g: c.push(g.queue, [b"x"], ttl=0.0), "ttl is 0"),
    (lambda c, g: c.push(g.queue, [b"x"], ttr=1e18), "ttr is 1"),
    (lambda c, g: c.push(g.queue, [b"x"], priority=2**40), "priority is"),
    (lambda c, g: c.push(g.queue, [b"x"], delay=[1.0, 2.0]), "1 values but 2 of delay"),
    (lambda c, g: c.push(g.queue, [b"x"], headers=[{"jjq-ttl": b"soon"}]), "jjq-ttl"),
    (lambda c, g: c.push(g.queue, [b"x"], headers=[{"jjq-lost": b"1"}]), "reserved"),
    (lambda c, g: c.push(g.queue, [b"x"], timeout=-1.0), "timeout"),
    (lambda c, g: c.complete(g, [], {}), "push is empty"),
]


async def test_a_wrong_request_is_refused_and_changes_nothing(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 2, driver="fifottl")
    for call, why in WRONG_TAKES:
        with pytest.raises(jjq.InvalidInput, match=why):
            await call(client, group)
        assert (await client.get_group(group)).tasks["ready"] == 2, why


async def test_options_that_no_group_of_the_queue_can_use_are_refused(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 1)  # fifo
    with pytest.raises((jjq.InvalidInput, jjq.Conflict), match=r"fifo.*delay|delay.*fifo"):
        await client.push(group.queue, [b"x"], delay=5.0)
    assert (await client.get_queue(group.queue)).next_offset == 1


async def test_each_wrong_ack_says_what_the_task_is(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 8)
    mine = list(await client.take(group, 5))
    other = await door.client()
    theirs = await other.take(group, 1)
    await client.ack(group, mine[0])
    await client.delete_tasks(group, [1])
    await client.release(group, mine[2])
    (again,) = await other.take(group, 1)
    assert (again.id, again.attempt) == (2, 2)
    never = jjq.TaskReceipt(7, 1)
    unknown = jjq.TaskReceipt(99, 1)
    with pytest.raises(jjq.RefusedTasks) as refused:
        await client.ack(group, [*mine[:4], *theirs, never, unknown])
    errors = {error.id: error for error in refused.value.outcomes.errors}
    assert refused.value.outcomes.changed == 1  # task 3
    assert {id: error.code for id, error in errors.items()} == {
        0: "Conflict", 1: "Conflict", 2: "Conflict", 5: "Conflict", 7: "Conflict", 99: "NotFound",
    }  # fmt: skip
    said = {id: error.message for id, error in errors.items()}
    assert "is done" in said[0]
    assert "is done" in said[1]
    assert "attempt 2" in said[2]
    assert "another session" in said[5]
    assert "was not taken" in said[7]
    assert "no task 99" in said[99]
    assert "6 of 7 tasks were refused" in str(refused.value)


async def test_a_single_refusal_is_the_error_itself(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1)
    (task,) = await client.take(group)
    await client.ack(group, task)
    with pytest.raises(jjq.Conflict, match="task 0 is done") as refused:
        await client.ack(group, task)
    assert type(refused.value) is jjq.Conflict
    with pytest.raises(jjq.NotFound, match="no task 9"):
        await client.bury(group, 9)
    with pytest.raises(jjq.InvalidInput, match="seconds is -1"):
        await client.touch(group, task, -1.0)


async def test_nothing_to_do_is_no_error(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1)
    for verb in (client.ack, client.nack, client.release, client.bury):
        await verb(group, [])
    await client.ack(group, await client.take(group, 0 + 1, keys=None))


async def test_tasks_are_a_list_for_those_who_want_one(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 6)
    tasks = await client.take(group, 6)
    assert [task.value for task in tasks] == [b"%d" % n for n in range(6)]
    assert len(tasks) == 6
    assert tasks[-1].id == 5
    assert [task.id for task in tasks[1:3]] == [1, 2]
    assert [task.id for task in tasks[::2]] == [0, 2, 4]
    assert tasks == list(tasks)
    assert tasks != list(tasks)[1:]
    assert tasks[0] in tasks
    assert len([*tasks, *tasks]) == len(tasks + tasks) == 12
    assert tasks.batch.num_rows == 6
    with pytest.raises(IndexError):
        tasks[6]
    await client.ack(group, tasks[::2])
    await client.ack(group, list(tasks)[1:4:2])
    await client.ack(group, tasks[5])
    assert (await client.get_group(group)).tasks["done"] == 6


@pytest.mark.parametrize("door", ["embedded"], indirect=True)
async def test_text_that_the_ledger_cannot_hold_is_refused_and_the_group_goes_on(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 2)
    with pytest.raises(jjq.InvalidInput, match="worker"):
        await client.take(group, worker="\udc80")
    (task,) = await client.take(group)
    with pytest.raises(jjq.InvalidInput, match="reason"):
        await client.nack(group, task, reason="\udc80")
    with pytest.raises(jjq.InvalidInput, match="reason"):
        await client.bury(group, task, reason="\udc80")
    await client.ack(group, task)
