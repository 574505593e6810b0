"""Bytes past the event loop: one thread reads or writes the socket of a connection, in large pieces.

On the event loop every 64 KiB cost a turn and several copies. A body from a thread is received into the buffer that
is hashed and stored, and a reply is sent from the one that was read: 2 GiB go as fast as the disk. Only plain
connections can do so, and `HTTP_DIRECT_MAX` at a time; all others go through the event loop, as ever.

While a thread has the socket, the event loop leaves that direction alone: it is paused for a body, and has nothing to
write for a reply. A thread that waits is woken by `interrupt`: when the connection ends, or nobody wants it any more.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Literal, TypeVar, cast

from jjq.limits import HTTP_BODY_IDLE_SECONDS, HTTP_DIRECT_MAX, HTTP_SEND_SECONDS

T = TypeVar("T")
BodyEnd = Literal["whole", "gone", "refused"]


class DirectThreads:
    """The threads of a listener; each is lent for a whole body."""

    def __init__(self) -> None:
        self.lent = 0
        self._pool: ThreadPoolExecutor | None = None

    def lend(self, transport: asyncio.Transport, *, reads: bool) -> DirectSocket | None:
        """A thread for the socket of a connection; None: all are busy, or the connection is not a plain one."""
        plain = transport.get_extra_info("socket")
        secret = transport.get_extra_info("sslcontext") is not None
        if plain is None or secret or transport.is_closing() or self.lent >= HTTP_DIRECT_MAX:
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(HTTP_DIRECT_MAX, "jjq-bytes")
        self.lent += 1
        copy = socket.socket(fileno=os.dup(plain.fileno()))
        copy.settimeout(HTTP_BODY_IDLE_SECONDS if reads else HTTP_SEND_SECONDS)
        return DirectSocket(copy, self._pool, self._returned, socket.SHUT_RD if reads else socket.SHUT_WR)

    def _returned(self) -> None:
        self.lent -= 1

    def close(self) -> None:
        """Take nothing more; threads that are still busy end by themselves."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)


class DirectSocket:
    """A socket with a thread. Its file descriptor is a copy: closing it does not end the connection."""

    def __init__(
        self, plain: socket.socket, pool: ThreadPoolExecutor, returned: Callable[[], None], way: int
    ) -> None:
        self._socket = plain
        self._pool = pool
        self._returned = returned
        self._way = way
        self._running: asyncio.Future[Any] | None = None

    async def receive(self, size: int) -> bytes:
        """So many bytes; fewer if the client hangs up, or sends nothing for too long."""
        buffer = bytearray(size)
        came = await self._run(lambda: _receive(self._socket, memoryview(buffer)))
        return cast(
            "bytes", buffer if came == size else buffer[:came]
        )  # nobody changes it: a copy would cost

    async def send(self, data: bytes) -> None:
        """All of it; `OSError` if the client has gone, or reads nothing for too long."""
        await self._run(lambda: _send(self._socket, memoryview(data)))

    def interrupt(self) -> None:
        """Wake the thread: nothing comes, or goes, any more."""
        with suppress(OSError):
            self._socket.shutdown(self._way)

    async def close(self) -> None:
        """Give the thread back; one that is still busy is woken and waited for."""
        if self._running is not None:
            self.interrupt()
            await asyncio.wait([self._running])
        self._socket.close()
        self._returned()

    async def _run(self, work: Callable[[], T]) -> T:
        self._running = asyncio.get_running_loop().run_in_executor(self._pool, work)
        try:
            return await asyncio.shield(self._running)
        finally:
            if self._running.done():
                self._running = None


class TakenBody:
    """The rest of a body: `came` was received already, so many bytes are `left` in the socket.

    `ended` is told how it was: "whole", "gone" (the client hung up), or "refused" (nobody wants the rest).
    """

    def __init__(
        self, direct: DirectSocket, came: bytes, left: int, ended: Callable[[BodyEnd], None]
    ) -> None:
        self._direct = direct
        self._came = came
        self._left = left
        self._ended = ended

    async def pieces(self, step: int, at: int) -> AsyncGenerator[bytes]:
        """All of it, also what came before the client hung up; cut at multiples of `step`, as it begins at `at`."""
        end: BodyEnd = "refused"
        try:
            if self._came:
                at += len(self._came)
                yield self._came
            while self._left and end == "refused":
                size = min(self._left, step - at % step)
                piece = await self._direct.receive(size)
                if len(piece) < size:
                    end = "gone"
                self._left -= len(piece)
                at += len(piece)
                if piece:
                    yield piece
            if end == "refused":
                end = "whole"
        finally:
            await self._direct.close()
            self._ended(end)

    @property
    def is_whole(self) -> bool:
        return not self._left


class DirectReply:
    """A reply that a thread sends, after its headers. `sent` is told how many bytes went."""

    def __init__(
        self, direct: DirectSocket, transport: asyncio.Transport, sent: Callable[[int], None]
    ) -> None:
        self._direct = direct
        self._transport = transport
        self._sent = sent

    async def send(self, part: bytes) -> None:
        while self._transport.get_write_buffer_size():  # noqa: ASYNC110 - the headers, which nobody tells of
            await asyncio.sleep(0.001)
        await self._direct.send(part)
        self._sent(len(part))

    async def close(self) -> None:
        await self._direct.close()


def _receive(plain: socket.socket, room: memoryview) -> int:
    came = 0
    with suppress(OSError):
        while came < len(room):
            count = plain.recv_into(room[came:])
            if not count:
                break
            came += count
    return came


def _send(plain: socket.socket, rest: memoryview) -> None:
    while rest:
        rest = rest[plain.send(rest) :]
