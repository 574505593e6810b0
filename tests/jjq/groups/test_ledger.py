"""What is kept of tasks: the ledger as it grows, tasks at an earlier time, and hand-overs between queues."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

import jjq
from coldstore.shared.clock import SystemClock
from jjq.client.client import AsyncClient
from jjq.v1 import jjq_pb2 as pb
from jjq.v1 import jjq_pb2_grpc
from tests.jjq.groups.conftest import Door


def now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now_us() / 1e6, UTC)


async def rows(changes: Any, count: int) -> list[dict[str, Any]]:
    """The first rows about tasks that a subscription to a ledger gives."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        async for batch in changes:
            found += [row for row in batch.column("value").to_pylist() if row["state"] is not None]
            if len(found) >= count:
                return found
    raise AssertionError("the ledger ended")


async def test_changes_tell_what_happens_to_tasks_as_it_happens(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 3)
    changes = client.changes(group, "beginning")
    tasks = await client.take(group, 2, stage="synced", worker="w1")
    await client.ack(group, tasks[0])
    await client.nack(group, tasks[1], delay=1_000.0, reason="no ink")
    found = await rows(changes, 3)
    await changes.close()
    assert [(row["task"], row["count"], row["event"], row["state"]) for row in found] == [
        (0, 2, "take", "taken"),
        (0, 1, "ack", "done"),
        (1, 1, "nack", "delayed"),
    ]
    assert (found[0]["worker"], found[2]["reason"], found[2]["attempt"]) == ("w1", "no ink", 1)


async def test_changes_of_a_group_that_is_not_there_are_refused_by_its_name(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 1)
    with pytest.raises(jjq.NotFound, match=f"queue {group.queue} has no group nobody: create it"):
        await anext(client.changes(f"{group.queue}/nobody"))


async def test_a_ledger_is_read_by_a_subscriber_and_written_by_nobody_else(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 1)
    await client.ack(group, await client.take(group))
    subscriber = await client.create_subscriber(group.ledger, "audit", "beginning")
    values: list[Any] = [element.value for element in await client.pop(subscriber, 99)]
    assert [value["event"] for value in values][-1] == "ack"
    assert (await client.get_queue(group.ledger)).content == "ledger"
    assert [queue.name for queue in await client.list_queues()] == [group.queue]
    assert [queue.name for queue in await client.list_queues(ledgers=True)] == [group.queue, group.ledger]
    for wrong in ([b"x"], [json.dumps({"task": 1})]):
        with pytest.raises(jjq.InvalidInput):
            await client.push(group.ledger, wrong)
    with pytest.raises(jjq.InvalidInput, match="ledger"):
        await client.create_queue("mine~too")


@pytest.mark.parametrize("door", ["grpc"], indirect=True)
async def test_a_ledger_is_json_for_those_without_arrow(door: Door, client: AsyncClient) -> None:
    assert door.address is not None
    group = await door.group(client, 1)
    await client.ack(group, await client.take(group))
    async with grpc.aio.insecure_channel(door.address) as channel:
        call = jjq_pb2_grpc.JjqStub(channel).Read(pb.ReadRequest(queue=group.ledger))
        values = [json.loads(element.value) async for part in call for element in part.elements.elements]
    assert [value["event"] for value in values][-1] == "ack"


async def test_the_tasks_as_they_were_at_a_time(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 3)
    (first,) = await client.take(group, stage="synced")
    await client.touch(group, first, 1.0)  # durable: what follows is later
    then = now()
    await client.ack(group, first)
    await client.bury(group, [2], reason="odd")
    before = (await client.tasks_at(group, then)).to_pylist()
    assert [(row["task"], row["state"]) for row in before] == [(0, "taken"), (1, "ready"), (2, "ready")]
    after = (await client.tasks_at(group, now() + timedelta(seconds=1))).to_pylist()
    assert [(row["task"], row["state"]) for row in after] == [(0, "done"), (1, "ready"), (2, "buried")]
    assert (after[2]["reason"], after[0]["attempt"]) == ("odd", 1)
    assert (await client.tasks_at(group, group.created - timedelta(days=1))).num_rows == 0


async def test_tasks_are_completed_with_pushes_all_or_nothing(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 3)
    await client.create_queue("invoices")
    tasks = await client.take(group, 2)
    receipts = await client.complete(group, tasks[0], push={"invoices": [b"a", b"b"]})
    assert (receipts["invoices"].first_offset, receipts["invoices"].count) == (0, 2)
    with pytest.raises(jjq.RefusedTasks, match="nothing was done") as refused:
        await client.complete(group, tasks, push={"invoices": [b"c"]})
    assert [error.id for error in refused.value.outcomes.errors] == [0]
    with pytest.raises(jjq.NotFound, match="nowhere"):
        await client.complete(group, tasks[1], push={"invoices": [b"c"], "nowhere": [b"d"]})
    assert (await client.get_queue("invoices")).next_offset == 2
    assert (await client.peek_task(group, 1)).state == "taken"


async def test_a_full_group_lets_pushes_wait_and_refuses_them(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, driver="limfifottl", capacity=3)
    await client.push(group.queue, [b"a", b"b", b"c"])
    other = await door.client()
    with pytest.raises(jjq.Exhausted):
        await _impatient(client, group.queue)
    waiting = asyncio.create_task(other.push(group.queue, [b"d"], timeout=20.0))
    (task,) = await client.take(group)  # taken tasks count
    assert not waiting.done()
    await client.ack(group, task)
    assert (await waiting).first_offset == 3
    assert (await client.get_group(group)).tasks["total"] == 3


async def _impatient(client: AsyncClient, queue: str) -> None:
    """A push that is refused; a client of a server would try again for as long as a call may take."""
    from coldstore.shared.batch import payload
    from coldstore.shared.push import Push
    from jjq.remote.groups.group_store import RemoteWorkStore
    from jjq.remote.settings import RemoteSettings

    store: Any = client._store
    push = Push(queue, payload("bytes", [b"x"]), timeout=0.01)
    if isinstance(store, RemoteWorkStore):
        async with RemoteWorkStore(store._link.targets[0], RemoteSettings(timeout_seconds=1.0)) as hasty:
            await hasty.append(push)
    else:
        await store.append(push)
