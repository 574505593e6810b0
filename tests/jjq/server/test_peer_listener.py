"""What a node does with pushes that other nodes forward to it, seen from the other end of the connection."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coldstore.shared.errors import InvalidInput, JjqError, Unavailable
from jjq.limits import HANDSHAKE_SECONDS
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_field
from jjq.wire.batches import encode
from jjq.wire.peer_protocol import GREETING
from tests.jjq.server.listening import LoopTime, listening, message
from tests.jjq.serving import said, until, values
from tests.jjq.wire.test_status import EXAMPLES


async def test_a_push_is_written_and_answered_with_its_receipt() -> None:
    async with listening() as node:
        peer = await node.peer()
        peer.push(7, b"a", b"b")
        assert await peer.answer() == (7, 0)
        peer.push(8, b"c")
        assert await peer.answer() == (8, 2)
        assert [value async for batch in node.store.read("orders") for value in said(batch)] == [
            b"a", b"b", b"c",
        ]  # fmt: skip


async def test_all_fields_of_a_push_reach_the_store() -> None:
    async with listening() as node:
        peer = await node.peer()
        request = pb.PushRequest(
            queue="orders", producer="p", sequence=3, expected_offset=0, stage=pb.STAGE_READY
        )
        raw = encode(request, values(b"a"), "arrow")
        peer.say(1, raw)
        peer.say(2, raw)
        request.producer, request.expected_offset = "q", 5
        request.elements.elements.add(value=b"b")
        peer.say(3, request.SerializeToString())
        found = await peer.answers(3)
        assert (found[1], found[2]) == (0, 0)  # the same push twice
        assert str(found[3]) == "expected 5, next is 1"
        assert (await node.store.get_queue("orders")).next_offset == 1


async def test_pushes_begin_in_order_and_are_answered_as_each_is_done() -> None:
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(b"a")
        for number, item in enumerate([b"a", b"b", b"c"]):
            peer.push(number, item)
        assert [await peer.answer(), await peer.answer()] == [(1, 0), (2, 1)]
        assert node.store.begun == [b"a", b"b", b"c"]
        node.store.release(b"a")
        assert await peer.answer() == (0, 2)


async def test_many_pushes_at_once_keep_their_order() -> None:
    async with listening() as node:
        peer = await node.peer()
        for number in range(500):
            peer.push(number, b"%d" % number)
        assert await peer.answers(500) == {number: number for number in range(500)}


async def test_connections_do_not_wait_for_each_other() -> None:
    async with listening() as node:
        one, other = await node.peer(), await node.peer()
        node.store.hold(b"a")
        one.push(1, b"a")
        await until(lambda: node.store.begun)
        other.push(1, b"b")
        assert await other.answer() == (1, 0)
        node.store.release(b"a")
        assert await one.answer() == (1, 1)


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
async def test_an_error_comes_back_unchanged_and_the_connection_goes_on(error: JjqError) -> None:
    async with listening() as node:
        peer = await node.peer()
        node.store.failing[b"bad"] = error
        peer.push(1, b"bad")
        number, found = await peer.answer()
        assert (number, type(found), vars(found)) == (1, type(error), vars(error))
        peer.push(2, b"good")
        assert await peer.answer() == (2, 0)
        assert not node.log.calls


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xff",
        pb.PushRequest(queue="orders").SerializeToString(),
        arrow_field.join(pb.PushRequest(queue="orders").SerializeToString(), [b"no Arrow at all, just text"]),
        message(b"a")[:-20],
        pb.PushRequest(queue="orders", pushes=[pb.PushRequest.FromString(message(b"a"))]).SerializeToString(),
        encode(pb.PushRequest(queue="orders", stage=cast("Any", 99)), values(b"a"), "arrow"),
    ],
    ids=["nothing", "garbage", "no batch", "no Arrow", "half", "several", "stage"],
)
async def test_what_is_no_push_is_refused_and_the_connection_goes_on(raw: bytes) -> None:
    async with listening() as node:
        peer = await node.peer()
        peer.say(1, raw)
        peer.push(2, b"good")
        found = await peer.answers(2)
        assert isinstance(found[1], InvalidInput)
        assert found[2] == 0
        assert (node.store.begun, node.log.calls) == ([b"good"], [])


async def test_a_mistake_of_ours_is_logged_and_told_as_of_unknown_outcome() -> None:
    async with listening() as node:
        peer = await node.peer()
        mistake = node.store.failing[b"bad"] = ZeroDivisionError()
        peer.push(1, b"bad")
        number, found = await peer.answer()
        assert (number, type(found)) == (1, Unavailable)
        assert "outcome is unknown" in str(found)
        assert [(call.method_name, call.args, call.kwargs) for call in node.log.calls] == [
            ("error", ("unforeseen",), {"method": "PeerPush", "exc_info": mistake})
        ]
        peer.push(2, b"good")
        assert await peer.answer() == (2, 0)


async def test_what_goes_by_is_counted() -> None:
    async with listening() as node:
        peer = await node.peer()
        assert node.meter.open == 1
        peer.push(1, b"a", b"b")
        peer.push(2, b"c")
        peer.say(3, b"\xff")
        await peer.answers(3)
        assert node.meter.elements == 3
        assert node.meter.received_bytes == len(message(b"a", b"b")) + len(message(b"c")) + 1
        assert node.meter.sent_bytes > 0
        assert node.meter.histogram()[-1] == ("+Inf", 3)
        await peer.leave()
        await until(lambda: node.meter.open == 0)


# Who may speak ------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [b"", GREETING[:-1]], ids=["silent", "half"])
async def test_who_does_not_greet_in_time_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    async with listening() as node:
        good = await node.peer()
        monkeypatch.setattr("jjq.server.peer_listener.HANDSHAKE_SECONDS", 0.01)
        silent = await node.connect()
        silent.writer.write(begin)
        assert await silent.ended() == b""
        await until(lambda: len(node.listener.wires) == 1)
        good.push(1, b"a")
        assert await good.answer() == (1, 0)


async def test_who_has_greeted_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    async with listening() as node:
        good, silent = await node.peer(), await node.connect()
        await until(lambda: len(node.listener.wires) == 2)
        time.advance(HANDSHAKE_SECONDS + 1)
        assert await silent.ended() == b""
        good.push(1, b"a")
        assert await good.answer() == (1, 0)


@pytest.mark.parametrize(
    "words", [b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", bytes(100_000), b"\x16\x03\x01" + bytes(200)]
)
async def test_a_stranger_is_hung_up_on_and_others_do_not_notice(words: bytes) -> None:
    async with listening() as node:
        good = await node.peer()
        node.store.hold(b"a")
        good.push(1, b"a")
        await until(lambda: node.store.begun)
        stranger = await node.connect()
        stranger.writer.write(words)
        assert await stranger.ended() == b""
        node.store.release(b"a")
        assert await good.answer() == (1, 0)
        assert node.logged("warning") == ["a connection for other nodes was ended"]
        assert len(node.listener.wires) == 1


async def test_too_long_a_frame_ends_its_connection_alone() -> None:
    async with listening() as node:
        good, bad = await node.peer(), await node.peer()
        bad.writer.write(b"\xff" * 8)
        assert await bad.ended() == b""
        good.push(1, b"a")
        assert await good.answer() == (1, 0)
        assert "4294967295 bytes" in node.log.calls[0].kwargs["why"]


async def test_too_many_connections_are_refused_while_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jjq.server.peer_listener.WIRES_MAX", 1)
    async with listening() as node:
        first = await node.peer()
        second = await node.connect()
        second.writer.write(GREETING)
        assert await second.ended() == b""
        assert node.logged("warning") == ["too many connections of other nodes"]
        assert node.meter.open == 1
        first.push(1, b"a")
        assert await first.answer() == (1, 0)
        await first.leave()
        await until(lambda: not node.listener.wires)
        third = await node.peer()
        third.push(1, b"b")
        assert await third.answer() == (1, 1)
