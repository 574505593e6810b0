"""Connections that leave HTTP: handshake, messages, broken rules, limits, the end (FAULTS.md, row 36)."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest
import structlog
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from jjq.access.keyring import Keyring
from jjq.http.listener import HttpListener
from jjq.http.settings import HttpSettings
from jjq.http.websocket.open_sockets import SocketLimits
from jjq.server.settings import Tls
from tests.jjq.fakestore import FakeStore
from tests.jjq.http.websocket.talking import HANDSHAKE, Echo, RawSocket, echoing, frame
from tests.jjq.server.test_tls import Authority
from tests.jjq.serving import until

SMALL = SocketLimits(
    most=3, frame_bytes=100_000, message_bytes=200_000, ping_seconds=0.2, pong_seconds=0.2, close_seconds=0.2
)


@pytest.fixture
async def listener() -> AsyncIterator[HttpListener]:
    Echo.gate = asyncio.Event()
    async with echoing(FakeStore(), SMALL) as made:
        yield made


def url(listener: HttpListener) -> str:
    return f"ws://127.0.0.1:{listener.port}/echo"


def is_busy(listener: HttpListener) -> bool:
    return any(cast("Echo", each)._tasks for each in listener.sockets.open)


async def test_messages_go_both_ways(listener: HttpListener) -> None:
    async with connect(url(listener)) as socket:
        for message in ("text ü", b"bytes", "", b"\x00" * 60_000):
            await socket.send(message)
            assert await socket.recv() == message
        await socket.send([b"in ", b"several ", b"frames"])
        assert await socket.recv() == b"in several frames"
        assert await (await socket.ping()) >= 0
        assert len(listener.sockets.open) == 1
    await until(lambda: not listener.sockets.open)
    figures = {
        (sample.name, *sample.labels.values()): sample.value
        for family in listener.collect()
        for sample in family.samples
    }
    assert figures["jjq_websocket_connections",] == 0
    assert figures["jjq_websocket_frames_total", "out"] == 5
    assert figures["jjq_websocket_bytes_total", "in"] > 60_000


async def test_frames_that_come_with_the_handshake_are_not_lost(listener: HttpListener) -> None:
    socket = await RawSocket.connect(listener.port, frame(b"at once") + frame(b"x" * 50_000) + frame(b"t", 1))
    assert await socket.receive() == (2, b"at once")
    assert (await socket.receive())[1] == b"x" * 50_000
    assert await socket.receive() == (1, b"t")
    socket.hang_up()


async def test_a_connection_that_was_used_for_requests_can_upgrade(listener: HttpListener) -> None:
    request = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(request)
    assert b" 404 " in await reader.readuntil(b"\r\n\r\n")
    await reader.readuntil(b"}")
    writer.write(HANDSHAKE)
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    socket = RawSocket(reader, writer)
    socket.send(frame(b"still here"))
    assert await socket.receive() == (2, b"still here")
    socket.hang_up()


async def test_an_upgrade_before_the_answer_of_a_request_is_cut_off(listener: HttpListener) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" + HANDSHAKE)
    assert b" 101 " not in await _until_closed(reader)
    assert not listener.sockets.open
    writer.transport.abort()


async def _until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


REFUSED: list[tuple[Callable[[bytes], bytes], int]] = [
    (lambda head: head.replace(b"/echo", b"/other"), 404),
    (lambda head: head.replace(b"Version: 13", b"Version: 8"), 426),
    (lambda head: head.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"c2hvcnQ="), 400),
    (lambda head: head.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"!"), 400),
    (lambda head: head.replace(b"Sec-WebSocket-Key", b"X-Key"), 400),
    (lambda head: head.replace(b"GET", b"POST"), 405),
    (lambda head: head.replace(b"Host:", b"Content-Length: 2\r\nHost:") + b"ab", 400),
    (lambda head: head.replace(b"localhost", b"evil.example"), 421),
    (lambda head: head.replace(b"Host:", b"Origin: http://evil.example\r\nHost:"), 403),
]


async def test_a_handshake_that_is_wrong_is_answered_by_a_problem(listener: HttpListener) -> None:
    for change, status in REFUSED:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        sent = change(HANDSHAKE)
        writer.write(sent)
        said = await _until_closed(reader)
        assert said.startswith(b"HTTP/1.1 %d " % status), sent
        assert b"application/problem+json" in said
        assert not listener.sockets.open
        writer.transport.abort()


BROKEN = [
    ([frame(b"plain", mask=False)], 1002),
    ([frame(b"reserved", rsv=4)], 1002),
    ([frame(b"opcode", 5)], 1002),
    ([frame(b"x", 0)], 1002),  # goes on with nothing
    ([frame(b"a", 2, fin=False), frame(b"b", 2)], 1002),  # a message within a message
    ([frame(b"ping", 9, fin=False)], 1002),
    ([frame(b"p" * 126, 9)], 1002),
    ([frame(b"\xff\xfe", 1)], 1007),
    ([frame(b"\xc3", 1, fin=False), frame(b"(", 0)], 1007),
    ([frame(b"\x00\x01", 8)], 1002),  # a close code that does not exist
    ([frame(b"", length=100_001)], 1009),
    ([frame(b"", length=2**62)], 1009),
    ([frame(b"a" * 90_000, fin=False)] + [frame(b"a" * 90_000, 0, fin=False)] * 2, 1009),
    ([frame(b"boom")], 1011),
]


async def test_a_broken_rule_closes_with_the_code_that_names_it(listener: HttpListener) -> None:
    for sent, code in BROKEN:
        socket = await RawSocket.connect(listener.port)
        socket.send(*sent)
        assert await socket.close_code() == code, sent
        await socket.ended()
        socket.hang_up()
        await until(lambda: not listener.sockets.open)
    assert listener.sockets.closes == Counter(code for _, code in BROKEN) + Counter()
    async with connect(url(listener)) as other:
        await other.send("others are served")
        assert await other.recv() == "others are served"


async def test_a_client_that_goes_on_sending_still_sees_why_it_was_closed(listener: HttpListener) -> None:
    socket = await RawSocket.connect(listener.port)
    socket.send(frame(b"", length=2**40), bytes(3_000_000))
    assert await socket.close_code() == 1009
    socket.hang_up()


async def test_a_close_is_answered(listener: HttpListener) -> None:
    socket = await RawSocket.connect(listener.port)
    socket.send(frame(b"\x03\xe8bye", 8))
    assert await socket.receive() == (8, b"\x03\xe8")
    await socket.ended()
    await until(lambda: not listener.sockets.open)
    socket.hang_up()


async def test_a_client_that_does_not_answer_pings_is_closed(listener: HttpListener) -> None:
    socket = await RawSocket.connect(listener.port)
    assert (await socket.receive())[0] == 9
    assert await socket.close_code() == 1001
    await until(lambda: not listener.sockets.open)
    socket.hang_up()


async def test_one_that_stops_within_a_frame_is_closed_too(listener: HttpListener) -> None:
    socket = await RawSocket.connect(listener.port)
    socket.send(frame(b"only the beginning", length=50_000))
    assert await socket.close_code() == 1001
    await until(lambda: not listener.sockets.open)
    socket.hang_up()


async def test_what_a_client_does_not_read_is_counted_and_holds_it_up(listener: HttpListener) -> None:
    outgoing = listener.sockets.outgoing
    socket = await RawSocket.connect(listener.port)
    socket.send(frame(b"flood"))
    await until(lambda: outgoing.bytes > 0)
    transport = cast("Echo", next(iter(listener.sockets.open)))._transport
    assert transport is not None
    await until(lambda: not transport.underlying_transport.is_reading())
    assert outgoing.bytes <= 200_000, "one message at a time"
    await until(lambda: not listener.sockets.open)  # as it answers no pings
    await until(lambda: outgoing.bytes == 0)
    socket.hang_up()


async def test_one_more_than_there_is_room_for_is_refused(listener: HttpListener) -> None:
    sockets = [await connect(url(listener)) for _ in range(3)]
    with pytest.raises(InvalidStatus) as refused:
        await connect(url(listener))
    assert refused.value.response.status_code == 429
    assert "retry-after" in refused.value.response.headers
    await sockets[0].close()
    await until(lambda: len(listener.sockets.open) == 2)
    async with connect(url(listener)):
        pass
    for each in sockets[1:]:
        await each.close()


async def test_a_stop_finishes_what_is_under_way_and_closes_with_1001(listener: HttpListener) -> None:
    busy, idle = await connect(url(listener)), await connect(url(listener))
    await busy.send("late")
    await until(lambda: is_busy(listener))
    stopping = asyncio.create_task(listener.stop(10.0))
    with pytest.raises(ConnectionClosed) as closed:
        await idle.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001
    Echo.gate.set()
    assert await busy.recv() == "late"
    with pytest.raises(ConnectionClosed) as closed:
        await busy.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001
    await stopping


async def test_a_stop_does_not_wait_for_ever(listener: HttpListener) -> None:
    socket = await RawSocket.connect(listener.port)
    socket.send(frame(b"late"))
    await until(lambda: is_busy(listener))
    stopping = asyncio.create_task(listener.stop(0.01))
    assert await socket.close_code() == 1001
    await stopping
    assert not listener.sockets.open
    socket.hang_up()


async def test_the_same_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    settings = HttpSettings("127.0.0.1:0", tls=Tls(*authority.issue("server")))
    trust = ssl.create_default_context(cafile=str(authority.path))
    async with (
        echoing(FakeStore(), SMALL, settings) as listener,
        connect(f"wss://127.0.0.1:{listener.port}/echo", ssl=trust) as socket,
    ):
        for message in (b"small", bytes(90_000), "text"):
            await socket.send(message)
            assert await socket.recv() == message
        await socket.send(bytes(100_001))
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_a_key_is_needed_where_there_are_keys_and_its_end_ends_the_connection() -> None:
    log = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
    ring = Keyring(MemoryObjects(), SystemClock(), SystemChance(), log)
    async with echoing(FakeStore(), SMALL, keys=ring) as listener:
        stranger = await connect(url(listener))
        await ring.create("first", ["admin"])
        with pytest.raises(ConnectionClosed) as closed:
            await stranger.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        for headers in ({}, {"Authorization": "Bearer jjq_1_2"}):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url(listener), additional_headers=headers)
            assert refused.value.response.status_code == 401
        made = await ring.create("one", ["pop:orders"])
        async with connect(
            url(listener), additional_headers={"Authorization": f"Bearer {made.text}"}
        ) as socket:
            await socket.send("known")
            assert await socket.recv() == "known"
            await ring.revoke(made.key.id)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008
