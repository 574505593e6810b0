"""Greedy requests through the other doors of a server, HTTP and WebSocket, over plain sockets.

The server's answer must be one of those that the drill expects; what else it says fails the drill.
"""

from __future__ import annotations

import asyncio

from coldstore.shared.limits import MIB
from jjq.wire.call_frames import PATH, FrameKind, encode_call, split_frame
from tests.jjq.http.websocket.talking import frame

REFUSED = (400, 413, 422, 429)
_SECONDS = 120


async def post(address: str, queue: str, kind: str, body: bytes, rounds: int, *, refused: bool) -> int:
    """Push the same body so often, over one connection; how many were answered."""
    host, _, port = address.rpartition(":")
    head = (
        f"POST /v1/queues/{queue}/elements HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    async with asyncio.timeout(_SECONDS):
        for _ in range(rounds):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head)
            writer.write(body)
            answer = await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()
            status = int(answer.split()[1])
            if status not in (REFUSED if refused else (200,)):
                raise AssertionError(answer)
    return rounds


async def call(address: str, method: str, raw: bytes, rounds: int, *, refused: bool) -> int:
    """Make the same call so often, over one WebSocket; how many were answered."""
    host, _, port = address.rpartition(":")
    shake = (
        f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    sent = bytes(encode_call(1, method, raw))
    parts = [sent[at : at + MIB] for at in range(0, len(sent), MIB)]
    frames = [frame(part, 0 if at else 2, fin=at == len(parts) - 1) for at, part in enumerate(parts)]
    async with asyncio.timeout(_SECONDS):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(shake.encode())
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(rounds):
            for each in frames:
                writer.write(each)
                await writer.drain()
            kind, _ = split_frame(await _message(reader))
            if kind is not (FrameKind.ERROR if refused else FrameKind.REPLY):
                raise AssertionError(f"the server answered {kind.name}")
        writer.transport.abort()
    return rounds


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The next frame of a server; all of its messages here are short."""
    _, size = await reader.readexactly(2)
    if size == 126:
        size = int.from_bytes(await reader.readexactly(2))
    return await reader.readexactly(size)
