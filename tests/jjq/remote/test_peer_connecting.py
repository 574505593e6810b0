"""How the connection to another node is made, made again and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coldstore.shared.errors import Unavailable
from jjq.limits import CONNECT_SECONDS, WIRE_AGAIN_SECONDS
from jjq.remote.settings import ClientTls
from jjq.server.settings import Tls
from jjq.wire.peer_protocol import greeting_of
from tests.jjq.remote.wiring import ANSWER, SILENT, calling, started, together, unknown
from tests.jjq.server.listening import Listening, LoopTime, Store, message
from tests.jjq.server.test_tls import Authority
from tests.jjq.serving import until

# Connecting ---------------------------------------------------------------------------------------


async def test_a_connection_is_begun_when_it_is_first_wanted_and_given_once_it_stands() -> None:
    async with started() as node, calling(node.address) as caller:
        await asyncio.sleep(0)
        assert (caller.asked, node.connections) == (0, 0)
        assert caller.wire.at_hand() is None
        for _ in range(3):
            assert caller.wire.at_hand() is None  # one is enough
        asking = await caller.connected()
        assert caller.wire.at_hand() is asking
        assert (caller.asked, node.connections) == (1, 1)


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", ANSWER[:-1] + b"x", greeting_of("there")]
)
async def test_a_node_that_greets_otherwise_is_left_alone_for_a_while(greeting: bytes) -> None:
    async with started(greeting) as node, calling(node.address) as caller:
        await caller.in_vain()
        assert node.connections == 1
        await until(lambda: node.alone)
        caller.clock.advance(WIRE_AGAIN_SECONDS / 2)
        assert caller.wire.at_hand() is None
        assert not caller.trying
        caller.clock.advance(WIRE_AGAIN_SECONDS / 2)
        await caller.in_vain()
        assert node.connections == 2
        node.greeting = ANSWER  # it was replaced by a newer one
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        await caller.connected()
        assert node.connections == 3


@pytest.mark.parametrize("greeting", [SILENT, ANSWER[:-1]], ids=["silent", "half"])
async def test_a_node_that_does_not_greet_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch, greeting: bytes
) -> None:
    time = LoopTime(monkeypatch)
    async with started(greeting) as node, calling(node.address) as caller:
        for attempt in (1, 2):
            assert caller.wire.at_hand() is None
            await until(lambda made=attempt: node.connections == made)  # type: ignore[misc]
            caller.clock.advance(WIRE_AGAIN_SECONDS)
            assert caller.wire.at_hand() is None  # one attempt at a time
            time.advance(CONNECT_SECONDS)
            await until(lambda: not caller.trying)
            await until(lambda: node.alone)
            assert node.connections == attempt


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1"])
async def test_an_address_where_nobody_listens_is_tried_again_after_a_while(address: str) -> None:
    async with started() as node, calling(address) as caller:
        await caller.in_vain()
        assert caller.asked == 1
        caller.address = node.address
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        await caller.connected()
        assert caller.asked == 2


async def test_a_node_without_an_address_is_never_connected_to() -> None:
    async with started() as node, calling("") as caller:
        for attempt in range(1, 4):
            await caller.in_vain()
            assert caller.asked == attempt  # it may have joined again, with one
            caller.clock.advance(WIRE_AGAIN_SECONDS)
        caller.address = node.address
        await caller.connected()


async def test_a_broken_connection_is_made_again() -> None:
    async with together() as (node, caller, asking):
        node.cut()
        await until(lambda: asking.closed)
        assert caller.wire.at_hand() is None
        assert not caller.trying  # it was made just now
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        again = await caller.connected()
        assert again is not asking
        assert node.connections == 2


# Closing ------------------------------------------------------------------------------------------


async def test_closing_tells_those_who_wait_and_nothing_is_begun_any_more() -> None:
    async with together() as (node, caller, asking):
        pushes = [asking.push(b"%d" % n) for n in range(3)]
        await caller.wire.close()
        for push in pushes:
            with pytest.raises(Unavailable, match=unknown("the client was closed")):
                await push
        assert asking.closed
        await until(lambda: node.alone)
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        assert caller.wire.at_hand() is None
        assert not caller.trying
        await caller.wire.close()


async def test_closing_breaks_off_a_connection_that_is_being_made() -> None:
    async with started(SILENT) as node, calling(node.address) as caller:
        assert caller.wire.at_hand() is None
        await until(lambda: node.connections == 1)
        async with asyncio.timeout(10):
            await caller.wire.close()
        assert caller.wire.at_hand() is None
        await until(lambda: node.alone)


async def test_closing_before_the_attempt_has_begun_or_without_one_is_quick() -> None:
    async with started() as node, calling(node.address) as caller, calling(node.address) as other:
        assert caller.wire.at_hand() is None
        for each in (caller, other):
            await each.wire.close()
            assert each.wire.at_hand() is None
        assert node.connections == 0


@pytest.mark.parametrize("turns", range(12))
async def test_closing_leaves_nothing_open_however_far_the_connection_has_come(turns: int) -> None:
    async with started() as node, calling(node.address) as caller:
        caller.wire.at_hand()
        for _ in range(turns):
            await asyncio.sleep(0)
        await caller.wire.close()
        assert caller.wire.at_hand() is None
        await node.settled()
        await until(lambda: node.alone)


# TLS ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening_by_tls(tls: Tls) -> AsyncIterator[Listening]:
    node = Listening(Store())
    await node.store.create_queue("orders")
    node.port = await node.listener.start("127.0.0.1", 0, tls.context())
    try:
        yield node
    finally:
        await node.close()


async def test_nodes_that_know_each_other_by_tls_are_connected_and_others_are_not(tmp_path: Path) -> None:
    ours, stranger = Authority(tmp_path, "ours"), Authority(tmp_path, "stranger")
    own = ours.issue("node")
    async with listening_by_tls(Tls(*own, client_ca=ours.path)) as node:
        address = f"127.0.0.1:{node.port}"
        async with calling(address, tls=ClientTls(ours.path, *own)) as caller:
            asking = await caller.connected()
            large = bytes(1_000_000)
            receipts = await asyncio.gather(*(asking.push(message(large)) for _ in range(5)))
            assert [receipt.first_offset for receipt in receipts] == list(range(5))
            for tls in (
                None,
                ClientTls(ours.path),
                ClientTls(ours.path, *stranger.issue("intruder")),
                ClientTls(stranger.path, *own),
            ):
                async with calling(address, tls=tls) as other:
                    await other.in_vain()
            assert (await asking.push(message(b"a"))).first_offset == 5
            await asyncio.gather(caller.wire.close(), node.listener.close())
        await until(lambda: not node.listener.wires)


async def test_a_node_is_held_back_by_tls_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jjq.server.peer_listener.STREAM_PUSHES_MAX", 3)
    ours = Authority(tmp_path, "ours")
    items = [b"%d" % n for n in range(20)]
    async with listening_by_tls(Tls(*ours.issue("node"))) as node:
        async with calling(f"127.0.0.1:{node.port}", tls=ClientTls(ours.path)) as caller:
            asking = await caller.connected()
            node.store.hold(*items)
            pushes = [asking.push(message(item)) for item in items]
            await until(lambda: not node.only().transport.is_reading())
            node.store.release(*items)
            receipts = await asyncio.gather(*pushes)
            assert [receipt.first_offset for receipt in receipts] == list(range(20))
            assert node.store.begun == items
        await until(lambda: not node.listener.wires)
