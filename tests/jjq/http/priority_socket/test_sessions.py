"""Clients without a network: what each request does, and what survives a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from hotstore.groups.values import GroupSettings, Take, TaskChange
from jjq.http.backend import Backend
from jjq.http.priority_socket import notices, requests, session
from jjq.http.priority_socket.queues import GROUP, group_of
from jjq.http.priority_socket.sessions import SocketSessions
from tests.jjq.groups.conftest import eventually
from tests.jjq.http.priority_socket.fakesocket import FakeClient
from tests.jjq.serving import hot_store, until

_NUMBERS = count()
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Backend]:
    """One store for all tests: each has a queue of its own."""
    async with hot_store(tmp_path_factory.mktemp("store")) as store:
        yield Backend.over(store)


@pytest_asyncio.fixture(loop_scope="module")
async def sessions(backend: Backend) -> SocketSessions:
    """With a queue, whose messages are dropped after three attempts; clients mean it if they name no other."""
    made = SocketSessions(backend)
    FakeClient.queue = f"q{next(_NUMBERS)}"
    client = await connect(made)
    await client.ask("create", label=1, retries=3)
    assert await client.reply() == notice(1, "ready")
    client.leave()
    return made


async def connect(
    sessions: SocketSessions, number: int | None = None, *, durable: bool = False
) -> FakeClient:
    client = FakeClient(sessions, number, durable=durable)
    await client.hello()
    return client


def notice(label: int, name: str) -> dict[str, Any]:
    return {"type": "notice", "label": label, "notice": name}


def error(label: int, code: str, key: str) -> dict[str, Any]:
    return {"type": "error", "label": label, "code": code, "key": key}


async def test_every_stage_of_a_message_is_told(sessions: SocketSessions) -> None:
    producer, consumer = await connect(sessions), await connect(sessions)
    await producer.ask("post", message="hi", label=5, notify=["ready", "write", "sync", "assign", "finish"])
    assert [await producer.reply() for _ in range(3)] == [
        notice(5, "ready"), notice(5, "write"), notice(5, "sync"),
    ]  # fmt: skip
    await consumer.ask("fetch", label=6, work_timeout=30, sync="sync")
    message = await consumer.reply()
    assert message == {
        "type": "message", "label": 6, "shard": 1, "sequence": 0, "body": "hi", "finished": False,
    }  # fmt: skip
    assert await producer.reply() == notice(5, "assign")
    await consumer.ask("finish", sequence=0, shard=1, label=7, response="sync")
    assert await producer.reply() == notice(5, "finish")
    assert await consumer.reply() == notice(7, "finish")


async def test_a_larger_priority_is_handed_out_first_then_the_older_message(sessions: SocketSessions) -> None:
    client = await connect(sessions)
    for message, priority in (("low", -5), ("a", 0), ("b", 0), ("high", 32767)):
        await client.ask("post", message=message, priority=priority)
    found = []
    for _ in range(4):
        await client.ask("pop", timeout=5)
        found.append((await client.reply())["body"])
    assert found == ["high", "a", "b", "low"]


async def test_a_pop_is_finished_and_tells_no_assign(sessions: SocketSessions) -> None:
    client = await connect(sessions)
    await client.ask("pop", timeout=20, label=1)
    await client.ask("post", message=[255, 0], label=2, notify=["assign", "finish"])
    found = sorted([await client.reply(), await client.reply()], key=lambda reply: str(reply["type"]))
    assert found == [
        {"type": "message", "label": 1, "shard": 1, "sequence": 0, "body": [255, 0], "finished": True},
        notice(2, "finish"),
    ]
    await client.ask("pop", label=3)
    assert await client.reply() == {"type": "nomessage", "label": 3}


async def test_a_fetch_that_waits_in_vain_is_told_so(sessions: SocketSessions) -> None:
    client = await connect(sessions)
    await client.ask("fetch", label=1, work_timeout=1, block_timeout=0.01)
    assert await client.reply() == {"type": "nomessage", "label": 1}
    await client.ask("fetch", label=2, work_timeout=1, block_timeout=-1e30)
    assert await client.reply() == {"type": "nomessage", "label": 2}


async def test_only_the_holder_may_finish(sessions: SocketSessions) -> None:
    holder, other = await connect(sessions), await connect(sessions)
    await holder.ask("post", message="x")
    await holder.ask("fetch", work_timeout=30, label=1)
    found = await holder.reply()
    receipt = {"sequence": found["sequence"], "shard": found["shard"]}
    await other.ask("finish", **receipt, label=2)
    refused = await other.reply()
    assert (refused["type"], refused["code"]) == ("error", "PermissionDenied")
    assert "another session" in refused["key"]
    await other.ask("finish", **receipt)  # without a label nothing is answered
    await holder.ask("finish", **receipt, label=3)
    assert await holder.reply() == notice(3, "finish")
    assert other.socket.replies.empty()


async def test_names_that_are_unknown_taken_or_wrong_are_told(sessions: SocketSessions) -> None:
    client = await connect(sessions)
    for kind, fields in (
        ("post", {"message": ""}),
        ("fetch", {"work_timeout": 1}),
        ("pop", {}),
        ("finish", {"sequence": 0, "shard": 0}),
    ):
        for name in ("absent", "../q", "q~workers"):
            await client.ask(kind, queue=name, label=4, **fields)
            assert await client.reply() == error(4, "NoObject", name)
    await client.ask("create", label=5)
    assert await client.reply() == error(5, "ObjectAlreadyExists", FakeClient.queue)
    await client.ask("create", queue="../q", label=6)
    refused = await client.reply()
    assert (refused["code"], "not allowed" in refused["key"]) == ("PermissionDenied", True)


async def test_a_frame_that_is_no_request_is_answered_with_label_0(sessions: SocketSessions) -> None:
    client = await connect(sessions)
    for frame, text in ((b"{", True), (b"\0" * 7, False), (b'{"type":"post","label":7}', True)):
        await client.client.requests.handle(frame, text=text)
        reply = await client.reply()
        assert (reply["type"], reply["label"], bool(reply["key"])) == ("error", 0, True)
    await client.ask("fetch", work_timeout=1, label=1)
    assert (await client.reply())["type"] == "nomessage"


async def test_one_wrong_post_does_not_stop_those_beside_it(
    sessions: SocketSessions, backend: Backend
) -> None:
    await backend.store.create_queue("texts", content="text")
    await sessions.queues.work.create_group("texts", GROUP, GroupSettings(driver="fifottl"))
    client = await connect(sessions)
    for label, message in ((1, "a"), (2, [255]), (3, "c")):
        await client.ask("post", queue="texts", message=message, label=label, notify=["sync"])
    found = [await client.reply() for _ in range(3)]
    assert [(each["label"], each["type"]) for each in found] == [(1, "notice"), (2, "error"), (3, "notice")]


async def test_workers_of_other_doors_are_told_of_too(sessions: SocketSessions) -> None:
    work = sessions.queues.work
    client = await connect(sessions)
    every = ["assign", "finish", "retry", "drop"]
    for label in (1, 2):
        await client.ask("post", message="x", label=label, notify=[*every, "sync"])
        assert await client.reply() == notice(label, "sync")
    taken = await work.take(Take(group_of(FakeClient.queue), 1, session="me"))
    assert await client.reply() == notice(1, "assign")
    await work.change_tasks(
        TaskChange(group_of(FakeClient.queue), "nack", taken.ids, taken.attempts, "me", delay=0.0)
    )
    assert await client.reply() == notice(1, "retry")
    await work.change_tasks(TaskChange(group_of(FakeClient.queue), "delete", [0]))
    assert await client.reply() == notice(1, "drop")
    assert await work.purge_group(group_of(FakeClient.queue)) == 1
    assert await client.reply() == notice(2, "drop")
    await until(lambda: not client.client.session.awaits)


# Sessions ------------------------------------------------------------------------------------------------


async def test_a_client_that_leaves_waits_for_nothing_any_more(sessions: SocketSessions) -> None:
    gone, other = await connect(sessions), await connect(sessions)
    await gone.ask("fetch", work_timeout=30, block_timeout=60)
    await gone.ask("post", message="first", notify=["finish"])
    await gone.reply()
    await gone.ask("fetch", work_timeout=30, block_timeout=60)

    async def waits(count: int) -> bool:
        return bool((await sessions.queues.status(FakeClient.queue))["readers_waiting"] == count)

    await eventually(lambda: waits(1))
    gone.leave()
    await eventually(lambda: waits(0))
    await other.ask("post", message="second")
    await other.ask("pop", timeout=20)
    assert (await other.reply())["body"] == "second"
    await until(lambda: not gone.client.session.awaits)


async def test_a_durable_session_keeps_what_came_while_it_was_away(sessions: SocketSessions) -> None:
    client, other = await connect(sessions, durable=True), await connect(sessions)
    number = client.client.session.number
    await client.ask("post", message="x", label=1, notify=["finish", "sync"])
    assert await client.reply() == notice(1, "sync")
    await client.ask("fetch", work_timeout=30, label=2)
    held = await client.reply()
    await client.ask("pop", label=3, timeout=60)
    client.leave()
    await other.ask("post", message="y", label=1, notify=["finish"])
    assert await other.reply() == notice(1, "finish")

    again = await connect(sessions, number, durable=True)
    popped = await again.reply()
    assert (popped["label"], popped["body"], popped["finished"]) == (3, "y", True)
    await again.ask("finish", sequence=held["sequence"], shard=held["shard"])
    assert await again.reply() == notice(1, "finish")


async def test_a_second_socket_takes_the_place_of_the_first(sessions: SocketSessions) -> None:
    first = await connect(sessions)
    second = await connect(sessions, first.client.session.number)
    assert second.client is first.client
    assert first.socket.closed is not None
    first.leave()  # its end does not end the session
    await second.ask("pop", label=9)
    assert await second.reply() == {"type": "nomessage", "label": 9}


async def test_an_id_that_nobody_knows_is_taken_as_it_is(sessions: SocketSessions) -> None:
    client = FakeClient(sessions, 2**64 - 1)
    assert await client.hello() == 2**64 - 1


# Limits --------------------------------------------------------------------------------------------------


async def test_a_client_that_does_not_read_gets_no_more_messages(sessions: SocketSessions) -> None:
    client, other = await connect(sessions), await connect(sessions)
    client.socket.reads.clear()
    size = 100_000
    for _ in range(10):
        await client.ask("post", message="x" * size)
    for label in range(10):
        await client.ask("fetch", work_timeout=30, label=label)
    await until(lambda: not client.client.session.has_room)
    blocked = asyncio.ensure_future(client.ask("pop"))
    await other.ask("post", message="y")
    await other.ask("pop", timeout=20)
    assert (await other.reply())["body"] == "y"  # others are served meanwhile
    assert not blocked.done()
    assert sessions._total.bytes < 5 * size
    client.socket.reads.set()
    assert [(await client.reply()).get("body") for _ in range(10)] == ["x" * size] * 10
    await blocked
    assert (await client.reply())["type"] == "nomessage"


async def test_a_client_that_never_reads_its_notices_is_cut_off(
    sessions: SocketSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CONNECT_BUFFER_BYTES_MAX", 10_000)
    client = await connect(sessions)
    client.socket.reads.clear()
    for label in range(100):
        await client.ask("post", message="", label=label, notify=["sync"])
    await until(lambda: client.client.session.ended)
    assert client.socket.closed is not None
    assert client.socket.closed[0] == 1008
    assert sessions._total.bytes == 0


async def test_a_socket_that_takes_nothing_is_closed_after_a_time(
    sessions: SocketSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(sessions)
    monkeypatch.setattr(session, "HTTP_SEND_SECONDS", 0.01)
    client.socket.reads.clear()
    await client.ask("pop")
    await until(lambda: client.socket.closed is not None)


async def test_fetches_and_notices_beyond_the_limit_are_refused(
    sessions: SocketSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "CONNECT_FETCHES_MAX", 2)
    monkeypatch.setattr(notices, "CONNECT_WANTED_MAX", 1)
    client, other = await connect(sessions), await connect(sessions)
    for label in (1, 2, 3):
        await client.ask("fetch", work_timeout=30, block_timeout=60, label=label)
    refused = await client.reply()
    assert (refused["label"], refused["code"]) == (3, "PermissionDenied")
    assert "wait" in refused["key"]
    client.leave()
    await other.ask("post", message="", label=1, notify=["drop", "sync"])
    assert await other.reply() == notice(1, "sync")
    await other.ask("post", message="", label=2, notify=["drop", "sync"])
    refused = await other.reply()
    assert (refused["label"], "notice" in refused["key"]) == (2, True)


async def test_pops_that_find_a_message_do_not_count_as_waiting(
    sessions: SocketSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "CONNECT_FETCHES_MAX", 0)
    client = await connect(sessions)
    for number in range(300):
        await client.ask("post", message=str(number))
    for _ in range(300):
        await client.ask("pop", timeout=30)
    found = [(await client.reply())["body"] for _ in range(300)]
    assert sorted(found, key=int) == [str(number) for number in range(300)]


async def test_of_many_durable_sessions_that_left_the_first_one_ends(
    sessions: SocketSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jjq.http.priority_socket.sessions.CONNECT_AWAY_MAX", 2)
    clients = [await connect(sessions, durable=True) for _ in range(3)]
    for client in clients:
        client.leave()
    assert [client.client.session.ended for client in clients] == [True, False, False]


async def test_what_nobody_awaits_is_not_read(
    sessions: SocketSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "CONNECT_IDLE_SECONDS", 0.01)
    client = await connect(sessions)
    await client.ask("post", message="x", notify=["finish"])
    await client.ask("pop")
    assert {(await client.reply())["type"], (await client.reply())["type"]} == {"message", "notice"}
    await until(lambda: not sessions._board._followers)
