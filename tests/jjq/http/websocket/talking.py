"""A listener with one WebSocket that echoes, and raw frames to trouble it with."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog

from jjq.http.access import SocketAccess
from jjq.http.application import Application
from jjq.http.backend import Backend
from jjq.http.listener import HttpListener
from jjq.http.request import Request
from jjq.http.settings import HttpSettings
from jjq.http.websocket.open_sockets import SocketLimits
from jjq.http.websocket.socket import WebSocket
from jjq.http.websocket.upgrade import WebSocketRoute

HANDSHAKE = (
    b"GET /echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Echo(WebSocket):
    """Says what it hears; `flood` sends without end, `late` waits for `gate` before it answers, `boom` fails."""

    gate: asyncio.Event

    def on_message(self, data: bytes, is_text: bool) -> None:
        if data == b"boom":
            raise ZeroDivisionError
        if data == b"flood":
            self.start(self._flood())
        elif data == b"late":
            self.start(self._late())
        else:
            self.start(self.send(data.decode() if is_text else data))

    async def _flood(self) -> None:
        while True:
            await self.send(bytes(100_000))

    async def _late(self) -> None:
        await self.gate.wait()
        await self.send("late")


@asynccontextmanager
async def echoing(
    store: Any,
    limits: SocketLimits | None = None,
    settings: HttpSettings | None = None,
    **more: Any,
) -> AsyncIterator[HttpListener]:
    """A listener whose /echo is an `Echo`; `more` goes to the backend."""
    quiet = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
    backend = Backend.over(store, log=quiet)
    for name, value in more.items():
        setattr(backend, name, value)

    def accept(request: Request, access: SocketAccess) -> WebSocket:
        return Echo(access)

    routes = [WebSocketRoute("/echo", accept, "echo", "Says what it hears")]
    settings = settings or HttpSettings("127.0.0.1:0")
    listener = HttpListener(
        Application(backend, [], sockets=routes, hosts=frozenset()), settings, quiet, limits
    )
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop(1.0)


def frame(
    payload: bytes,
    opcode: int = 2,
    *,
    fin: bool = True,
    mask: bool = True,
    rsv: int = 0,
    length: int | None = None,
) -> bytes:
    """A frame as a client sends it; or not, as it should."""
    size = len(payload) if length is None else length
    head = bytes([fin << 7 | rsv << 4 | opcode])
    flag = mask << 7
    if size < 126:
        head += bytes([flag | size])
    elif size < 65_536:
        head += bytes([flag | 126]) + struct.pack(">H", size)
    else:
        head += bytes([flag | 127]) + struct.pack(">Q", size)
    if not mask:
        return head + payload
    key = b"\x37\xfa\x21\x3d"
    masked = (
        int.from_bytes(payload) ^ int.from_bytes((key * (len(payload) // 4 + 1))[: len(payload)])
    ).to_bytes(len(payload))
    return head + key + masked


class RawSocket:
    """A connection after its handshake: frames as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, rest: bytes = b"", handshake: bytes = HANDSHAKE) -> RawSocket:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(handshake + rest)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
        return cls(reader, writer)

    def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    async def receive(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame."""
        async with asyncio.timeout(20):
            head = await self.reader.readexactly(2)
            size = head[1]
            if size == 126:
                size = struct.unpack(">H", await self.reader.readexactly(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", await self.reader.readexactly(8))[0]
            return head[0] & 15, await self.reader.readexactly(size)

    async def close_code(self) -> int:
        """The code of the server's close frame; what comes before it is passed over."""
        while True:
            opcode, payload = await self.receive()
            if opcode == 8:
                code: int = struct.unpack(">H", payload[:2])[0]
                return code

    async def ended(self) -> None:
        """Return when the server has hung up."""
        async with asyncio.timeout(20):
            await self.reader.read()

    def hang_up(self) -> None:
        self.writer.transport.abort()
