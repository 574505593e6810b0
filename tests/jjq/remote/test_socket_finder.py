"""The socket of a client, while nobody may want it any more."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import Any

import pytest
from picows import ws_connect

from coldstore.shared.clock import SystemClock
from jjq.remote.settings import RemoteSettings
from jjq.remote.socket_finder import SocketFinder
from jjq.v1 import jjq_pb2 as pb

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455


async def test_a_server_that_answers_after_the_client_was_closed_is_hung_up_on_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error would be that of a future which nobody awaits: asyncio prints it when a program ends."""
    asked, closed, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        key = request.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
        asked.set()
        await closed.wait()
        accepted = base64.b64encode(hashlib.sha1(key + _MAGIC).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accepted + b"\r\n\r\n"
        )
        assert await reader.read() == b""
        writer.close()
        gone.set()

    failed: list[Exception] = []

    def connect_and_listen(accept: Any, *given: Any, **more: Any) -> Any:
        def accept_and_listen(*arguments: Any) -> Any:
            try:
                return accept(*arguments)
            except Exception as error:
                failed.append(error)
                raise

        return ws_connect(accept_and_listen, *given, **more)

    monkeypatch.setattr("jjq.remote.socket_finder.ws_connect", connect_and_listen)
    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server, asyncio.timeout(20):
        port = server.sockets[0].getsockname()[1]
        reply = pb.GetTransportsResponse(websocket_port=port, instance="x").SerializeToString()

        async def ask(_method: str, _request: bytes, _seconds: float) -> bytes:
            return reply

        finder = SocketFinder("127.0.0.1:1", RemoteSettings(), ask, SystemClock())
        assert finder.find() is None
        await asked.wait()
        await finder.close()
        closed.set()
        await gone.wait()
    assert not failed
