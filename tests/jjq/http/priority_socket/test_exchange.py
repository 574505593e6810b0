"""The behaviours that the protocol's own tests show, with a real WebSocket client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from coldstore.objects.memory import MemoryObjects
from jjq.http.settings import HttpSettings
from tests.jjq.groups.conftest import eventually
from tests.jjq.http.asking import HERE, Web, web_in, web_over
from tests.jjq.http.priority_socket import wireclient
from tests.jjq.http.priority_socket.wireclient import client_of, fetch_messages, send_messages
from tests.jjq.serving import hot_store, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Web]:
    async with web_in(tmp_path_factory.mktemp("store")) as web:
        yield web


@pytest_asyncio.fixture(loop_scope="module")
async def web(shared: Web, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Web:
    """A server for all tests, with a queue for each."""
    name = f"queue-{abs(hash(request.node.name)) % 10**12}"
    monkeypatch.setattr(wireclient, "QUEUE", name)
    await create(shared)
    return shared


async def create(web: Web, retries: int = 1000, **more: Any) -> dict[str, Any]:
    async with client_of(web.port) as client:
        await client.ask("create", retries=retries, label=0, shard_max_entries=80, **more)
        return await client.reply()


async def status(web: Web) -> dict[str, Any]:
    found: dict[str, Any] = (await web.ask("GET", f"/status/{wireclient.QUEUE}")).json
    return found


@pytest.mark.parametrize("binary", [False, True])
async def test_simple_exchange(web: Web, binary: bool) -> None:
    produced = asyncio.ensure_future(send_messages(web.port, binary=binary))
    assert await fetch_messages(web.port, binary=binary) == (100, 100, 0)
    assert await produced == 100


async def test_faulty(web: Web) -> None:
    produced = asyncio.ensure_future(send_messages(web.port))
    fetched, finished, forgotten = await fetch_messages(
        web.port, concurrent=40, forget=True, work_timeout=0.25
    )
    assert await produced == 100
    assert finished == 100
    assert forgotten > 0
    assert fetched == finished + forgotten


async def test_shard_rotation(web: Web) -> None:
    produced = asyncio.ensure_future(send_messages(web.port, 250, 10))
    assert (await fetch_messages(web.port, 250, 10))[1:] == (250, 0)
    assert await produced == 250
    await web.store.seal(wireclient.QUEUE)

    async def left() -> bool:
        return not (await status(web))["readers_waiting"]

    await eventually(left)  # the server notices that the consumer has gone
    found = await status(web)
    assert found.pop("shards_finished") > 0
    assert found == {
        "type": "Status", "length": 0, "readers_waiting": 0, "shards_read_write": 1, "shards_read_only": 0,
    }  # fmt: skip


async def test_cached_exchange(web: Web) -> None:
    assert await send_messages(web.port) == 100

    async def all_there() -> bool:
        return bool((await status(web))["length"] == 100)

    await eventually(all_there)  # they are written, and handed out when they are synced
    assert await fetch_messages(web.port) == (100, 100, 0)


async def test_stop_start(tmp_path: Path) -> None:
    cold = MemoryObjects()
    async with hot_store(tmp_path, cold) as store, web_over(store) as web:
        assert (await create(web))["notice"] == "ready"
        assert await send_messages(web.port, concurrent=10) == 100
        async with client_of(web.port, DURABLE_SESSION="1") as client:
            await client.ask("fetch", work_timeout=60, label=1, sync="sync")
            held = await client.reply()
    async with hot_store(tmp_path, cold) as store, web_over(store) as web:
        assert (await create(web))["code"] == "ObjectAlreadyExists"
        async with client_of(web.port, RECONNECT_AS=str(client.number)) as again:
            await again.ask("finish", sequence=held["sequence"], shard=held["shard"], label=2)
            assert (await again.reply())["notice"] == "finish"  # what it held stayed its own
        assert await fetch_messages(web.port, 99, 10) == (99, 99, 0)


async def test_retries(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wireclient, "QUEUE", "three-attempts")
    await create(web, retries=3)
    async with client_of(web.port) as client:
        await client.ask("post", message="TEST MESSAGE", priority=1, label=5, notify=["retry", "drop"])
        for _ in range(3):
            await client.ask("fetch", label=9, sync="write", work_timeout=0.1, block_timeout=5.0)
        found: Counter[str] = Counter()
        while not found["drop"]:
            reply = await client.reply()
            assert reply["label"] == (5 if reply["type"] == "notice" else 9)
            found[reply.get("notice", reply["type"])] += 1
        assert found == {"retry": 2, "drop": 1, "message": 3}
        assert (await status(web))["length"] == 0


async def test_no_create(tmp_path: Path) -> None:
    settings = HttpSettings(HERE.listen, connect_create_queues=False)
    async with web_in(tmp_path, settings) as web, client_of(web.port) as client:
        await client.ask("create", queue="test_queue_other", label=99, retries=5)
        assert await client.reply() == {
            "type": "error", "label": 99, "code": "PermissionDenied", "key": "test_queue_other",
        }  # fmt: skip


async def test_a_thousand_pops_of_two_clients_get_each_message_once(web: Web) -> None:
    """As its profile does: posts with ready and finish, 50 pops at a time."""

    async def produce() -> int:
        async with client_of(web.port, binary=True) as client:
            for label in range(400):
                await client.ask("post", message=b"%d" % label, label=label, notify=("ready", "finish"))
            found = Counter(reply["notice"] for reply in await client.replies(800))
            assert found == {"ready": 400, "finish": 400}
            return len(found)

    async def consume() -> list[bytes]:
        async with client_of(web.port, binary=True) as client:
            for label in range(200):
                await client.ask("pop", label=label, sync="write", timeout=30.0)
            return [reply["body"] for reply in await client.replies(200)]

    _, first, second = await asyncio.gather(produce(), consume(), consume())
    assert sorted(map(int, [*first, *second])) == list(range(400))


async def test_status_of_a_queue_that_does_not_exist(web: Web) -> None:
    reply = await web.ask("GET", "/status/absent")
    assert (reply.status, reply.json) == (
        200,
        {"type": "Error", "name": "absent", "code": "QueueNotFound", "message": "Named queue not found"},
    )


async def test_text_and_binary_may_be_mixed_and_replies_keep_their_form(web: Web) -> None:
    async with client_of(web.port, binary=True) as client:
        await client.connection.send('{"type":"pop","queue":"absent","label":3}')
        assert await client.reply() == {"type": "error", "label": 3, "code": "NoObject", "key": "absent"}
        await client.connection.send(b"\xff" * 40)
        assert (await client.reply())["label"] == 0


async def test_a_body_that_is_no_text_comes_back_as_bytes(web: Web) -> None:
    async with client_of(web.port) as client:
        for message in ([0, 255], [104, 105], "größer"):
            await client.ask("post", message=message)
            await client.ask("pop", timeout=10)
        assert [reply["body"] for reply in await client.replies(3)] == [[0, 255], "hi", "größer"]


async def test_a_durable_session_goes_on_after_its_socket(web: Web) -> None:
    async with client_of(web.port, DURABLE_SESSION="true") as client:
        await client.ask("pop", label=1, timeout=60)

        async def waits() -> bool:
            return bool((await status(web))["readers_waiting"])

        await eventually(waits)
        client.connection.transport.abort()
        await until(lambda: not web.listener.sockets.open)
    async with client_of(web.port) as other:
        await other.ask("post", message="meanwhile", label=1, notify=["finish"])
        assert (await other.reply())["notice"] == "finish"
    async with client_of(web.port, RECONNECT_AS=str(client.number)) as again:
        assert again.number == client.number
        assert (await again.reply())["body"] == "meanwhile"


# Faults --------------------------------------------------------------------------------------------------


async def test_bad_headers_are_refused_before_the_upgrade(web: Web) -> None:
    for number in ("x", "-1", str(2**64), "1" * 400):
        with pytest.raises(InvalidStatus) as refused:
            async with client_of(web.port, RECONNECT_AS=number):
                pass
        assert refused.value.response.status_code == 400
    plain = await web.ask("GET", "/connect/")
    assert plain.status == 426


async def test_a_frame_that_is_too_large_closes_with_1009(web: Web) -> None:
    async with client_of(web.port) as client:
        with suppress(ConnectionClosed):  # it may be closed while it is being sent
            await client.ask("post", message="x" * 2_000_000)
        with pytest.raises(ConnectionClosed) as closed:
            await client.reply()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_bincode_that_lies_is_answered_and_the_connection_goes_on(web: Web) -> None:
    async with client_of(web.port, binary=True) as client:
        head = bytes(8)
        for lie in (2**64 - 1, 2**63, 2**32, 1_000):
            await client.connection.send(head + lie.to_bytes(8, "little") + b"q")
            reply = await client.reply()
            assert (reply["type"], reply["label"]) == ("error", 0)
        await client.ask("pop", label=4)
        assert (await client.reply())["type"] == "nomessage"


async def test_sockets_that_never_read_hold_little_and_others_are_served(web: Web) -> None:
    held = 20
    async with client_of(web.port) as other:
        for _ in range(held):
            await other.ask("post", message="x" * 1_000_000)
        uri = f"ws://127.0.0.1:{web.port}/connect/"
        deaf = [await connect(uri, max_queue=1, max_size=None) for _ in range(2)]  # nobody reads from these
        for each in deaf:
            for label in range(held):
                await each.send(
                    f'{{"type":"fetch","queue":"{wireclient.QUEUE}","work_timeout":60,"block_timeout":60,"label":{label}}}'
                )
        await other.ask("pop", queue="absent", label=1)
        assert (await other.reply())["code"] == "NoObject"
        metrics = (await web.ask("GET", "/metrics")).body.decode().splitlines()
        buffered = next(line for line in metrics if line.startswith("jjq_connect_buffer_bytes "))
        assert float(buffered.split()[1]) < 8_000_000
        for each in deaf:
            each.transport.abort()
