"""One client: what was made for it and not sent yet, its socket, and its work that is under way.

A client is its id, not its socket. A session that is durable outlives its socket: what is made for it meanwhile waits
for the next one. Memory is bounded: a client that does not read gets no more messages, and is cut off when notices
fill its buffer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from coldstore.shared.errors import Exhausted
from jjq.http.priority_socket import bincode
from jjq.http.priority_socket.frames import HelloReply, MessageReply, SocketReply, encode_json
from jjq.http.websocket.socket import SocketClosed
from jjq.limits import (
    CONNECT_BUFFER_BYTES,
    CONNECT_BUFFER_BYTES_MAX,
    CONNECT_BUFFERS_BYTES,
    CONNECT_LARGE_BYTES,
    HTTP_SEND_SECONDS,
)

_REPLY_BYTES: Final = 200  # of a reply in memory, beside its body
TOO_SLOW: Final = 1008  # close code: policy violation
REPLACED: Final = 1001  # close code: going away


ClientPlace = tuple[str, int]  # the id of the client's key, which is empty without keys, and its own id


class FrameSocket(Protocol):
    """A WebSocket as a session needs it."""

    async def send(self, data: bytes | str) -> None:
        """Send a frame: text if it is one. It waits while the client does not read; `SocketClosed` if it is gone."""
        ...

    def close(self, code: int, reason: str = "") -> None:
        """Tell the client why, and hang up."""
        ...


class AwaitsTasks(Protocol):
    """Who tells a session what happens to its posts."""

    def done(self, task: int) -> None:
        """Nothing of this task is awaited any more."""
        ...


class BufferTotal:
    """Bytes that wait in the buffers of all sessions."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class SocketSession:
    """See the module's docstring. `name` is the session that takes tasks, `key` the text of the client's key."""

    def __init__(
        self,
        place: ClientPlace,
        key: str | None,
        total: BufferTotal,
        on_end: Callable[[SocketSession], None],
    ) -> None:
        self.place = place
        owner, self.number = place
        self.name = f"connect-{self.number}-{owner}" if owner else f"connect-{self.number}"
        self.key = key
        self.durable = False
        self._on_end = on_end
        self.socket: FrameSocket | None = None
        self.ended = False
        self.attached = False  # the store knows that this session takes
        self.fetches = 0  # that wait for a message
        self.awaits: set[tuple[AwaitsTasks, int]] = set()  # posts of which a later stage is awaited
        self._total = total
        self._binary = False
        self._buffer: deque[SocketReply] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()

    # Sockets ---------------------------------------------------------------------------------------------

    def attach(self, socket: FrameSocket, *, binary: bool) -> None:
        """Send to this socket from now on: first who the client is, then what has waited for it."""
        self.detach(self.socket, "another connection goes on with this client id")
        self.socket = socket
        self._binary = binary
        self._writing = asyncio.create_task(self._write(socket), name="jjq-connect-write")

    def detach(self, socket: FrameSocket | None, reason: str = "") -> bool:
        """The socket is gone, or to be closed with a reason; False: it was not the one of this session."""
        if socket is None or socket is not self.socket:
            return False
        self.socket = None
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        if reason:
            socket.close(REPLACED, reason)
        return True

    def end(self, reason: str = "") -> None:
        """Nothing is made for this client any more."""
        if self.ended:
            return
        self.ended = True
        self.detach(self.socket, reason)
        self._total.bytes -= self._bytes
        self._bytes = 0
        self._buffer.clear()
        self._filled.set()
        self._emptied.set()
        for work in list(self._work):
            work.cancel()
        self._on_end(self)

    async def _write(self, socket: FrameSocket) -> None:
        """Send what is there, one frame after another, until the socket is gone."""
        try:
            await self._send(socket, HelloReply(self.number))
            while True:
                while self._buffer:
                    await self._send(socket, self._buffer[0])
                    self._drop_first()
                self._filled.clear()
                await self._filled.wait()
        except TimeoutError:
            self._writing = None  # this task, which must not be cancelled before it has sent the reason
            socket.close(TOO_SLOW, f"nothing was read for {HTTP_SEND_SECONDS:g} s")
        except (SocketClosed, Exhausted):
            pass  # the socket is closed, and the session notices

    async def _send(self, socket: FrameSocket, reply: SocketReply) -> None:
        if isinstance(reply, MessageReply) and len(reply.body) > CONNECT_LARGE_BYTES:
            frame = await asyncio.to_thread(self._encode, reply)
        else:
            frame = self._encode(reply)
        async with asyncio.timeout(HTTP_SEND_SECONDS):
            await socket.send(frame)

    def _encode(self, reply: SocketReply) -> bytes | str:
        return bincode.encode(reply, bincode.REPLIES) if self._binary else encode_json(reply)

    # Replies ---------------------------------------------------------------------------------------------

    def send(self, reply: SocketReply) -> None:
        """Put a reply behind the others; a client whose buffer is full is cut off."""
        if self.ended:
            return
        self._buffer.append(reply)
        self._filled.set()
        if isinstance(reply, MessageReply):
            return  # it was counted before it was made
        self._count(_REPLY_BYTES)
        if self._bytes > CONNECT_BUFFER_BYTES_MAX:
            socket = self.socket
            self.detach(socket)
            if socket is not None:
                socket.close(TOO_SLOW, f"{self._bytes} bytes were not read: read, or ask for fewer notices")
            self.end()

    def _drop_first(self) -> None:
        self._count(-_size(self._buffer.popleft()))

    def _count(self, change: int) -> None:
        if self.ended:
            return
        self._bytes += change
        self._total.bytes += change
        if self.has_room:
            self._emptied.set()

    @property
    def has_room(self) -> bool:
        """Whether one more message may be made for this client."""
        return not self._bytes or (
            self._bytes < CONNECT_BUFFER_BYTES and self._total.bytes < CONNECT_BUFFERS_BYTES
        )

    async def room(self) -> None:
        """Wait until one more message may be made for this client."""
        while not self.has_room:
            self._emptied.clear()
            await self._emptied.wait()

    async def reserve(self, size: int) -> None:
        """Wait for room for a message with a body of so many bytes, and keep it for `send`."""
        await self.room()
        self._count(_REPLY_BYTES + size)

    def give_up(self, size: int) -> None:
        """The message for which room was reserved is not sent."""
        self._count(-_REPLY_BYTES - size)

    async def flushed(self) -> None:
        """Wait until the work that is under way has ended, and all replies are sent, or cannot be."""
        while self._work:
            await asyncio.wait(self._work)
        while self._bytes and self._writing is not None and not self._writing.done():
            self._emptied.clear()
            await self._emptied.wait()

    # Work ------------------------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work for this client; it is cancelled when the session ends."""
        task = asyncio.create_task(work, name="jjq-connect-work")
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task


def _size(reply: SocketReply) -> int:
    return _REPLY_BYTES + (len(reply.body) if isinstance(reply, MessageReply) else 0)
