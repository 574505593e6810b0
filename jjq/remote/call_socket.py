"""The WebSocket transport of a client: single calls and subscriptions at half of what gRPC costs.

ClientSocket   One connection to /v1/ws (jjq/wire/call_frames.py), or of a node to another one's /v1/peer. A call is a
               frame, and so is its reply. socket_finder.py makes the connection.
SocketStream   One stream on it.

What is sent is sent once here. A call whose connection breaks is of unknown outcome, as over gRPC, and retry.py
decides. A server that stops says so first (GOAWAY); then it gets no more calls, and refuses for certain those that
were on their way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, cast

import grpc
from picows.common import WSUpgradeResponse
from picows.picows import WSFrame, WSListener, WSMsgType, WSTransport

from coldstore.shared.deadline import settle
from coldstore.shared.errors import JjqError, Unavailable
from jjq.limits import WEBSOCKET_FRAME_BYTES_MAX, WEBSOCKET_SILENCE_SECONDS
from jjq.wire.call_frames import HEAD_BYTES, INSTANCE, FrameKind, encode_call, head, split_frame
from jjq.wire.services import READING
from jjq.wire.status import status_message_in

_NUMBERS: Final = 2**32
_GONE: Final = "the connection to the server broke"
_BINARY: Final = WSMsgType.BINARY
_FRONT_BYTES: Final = 14  # before a message, that picows has for the front of a frame

Tell = Callable[[bytes | JjqError], None]


class _PendingCall(NamedTuple):
    """A call that has no reply yet."""

    tell: Tell
    late: asyncio.TimerHandle
    writes: bool  # only then an outcome can be unknown

    def unknown(self, text: str) -> Unavailable:
        return Unavailable(f"{text}; the outcome is unknown" if self.writes else text)


class ClientSocket(WSListener):
    """One connection. `usable` while new calls may be made on it."""

    def __init__(self, response: WSUpgradeResponse) -> None:
        self.instance: str = response.headers.get(INSTANCE, "")
        self.usable = False
        self.left: Callable[[], None] | None = None  # is called when it is usable no more
        self._transport: WSTransport | None = None
        self._number = 0
        self._pending: dict[int, _PendingCall] = {}  # calls that have no reply yet
        self._last_received = 0.0  # when something came
        self._streams: dict[int, SocketStream] = {}
        self._parts: list[bytes] = []  # of a message in several frames
        self._writable = asyncio.Event()
        self._writable.set()

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        """The reply of a call that has one."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if not self._writable.is_set():
            await self._wait_writable(seconds)
        reply: asyncio.Future[bytes] = loop.create_future()
        number = self.ask(method, request, seconds - (loop.time() - began), partial(settle, reply))
        try:
            return await reply
        except asyncio.CancelledError:
            if self._forget(number):
                self._cancel(number)
            raise

    def ask(self, method: str, request: bytes, seconds: float, tell: Tell) -> int:
        """Make a call, now; `tell` is called with its reply, or with the error. The call's number."""
        number = self._next()
        loop = asyncio.get_running_loop()
        self._call(number, method, request)
        late = loop.call_later(seconds, self._give_up, number, seconds, loop.time())
        self._pending[number] = _PendingCall(tell, late, method not in READING)
        return number

    def stream(self, method: str) -> SocketStream:
        """A call of many messages; it begins with the first that is written."""
        return SocketStream(self, method)

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.send_close()
            # A server that does not read must not keep us from leaving.
            self._transport.disconnect(not self._transport.underlying_transport.get_write_buffer_size())

    @property
    def under_way(self) -> int:
        """Calls that have no reply yet."""
        return len(self._pending)

    def _next(self) -> int:
        while True:
            self._number = (self._number + 1) % _NUMBERS
            if self._number not in self._pending and self._number not in self._streams:
                return self._number

    def _call(self, number: int, method: str, request: bytes) -> None:
        transport = self._transport
        if transport is None or not self.usable:
            raise Unavailable(_GONE, sent=False)
        frame = encode_call(number, method, request, _FRONT_BYTES)
        if len(frame) <= WEBSOCKET_FRAME_BYTES_MAX:
            transport.send_reuse_external_bytearray(_BINARY, frame, _FRONT_BYTES)  # masked where it is
            return
        whole, kind = memoryview(frame)[_FRONT_BYTES:], _BINARY
        for begin in range(0, len(whole), WEBSOCKET_FRAME_BYTES_MAX):
            part = whole[begin : begin + WEBSOCKET_FRAME_BYTES_MAX]
            transport.send(kind, part, fin=begin + len(part) == len(whole))
            kind = WSMsgType.CONTINUATION

    def _cancel(self, number: int) -> None:
        if self._transport is not None:
            self._transport.send(_BINARY, head(FrameKind.CANCEL, number))

    def _forget(self, number: int) -> _PendingCall | None:
        """The call is over."""
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending.late.cancel()
        return pending

    def _give_up(self, number: int, seconds: float, sent: float) -> None:
        pending = self._forget(number)
        if pending is None:
            return
        self._cancel(number)
        pending.tell(pending.unknown(f"no answer within {seconds:g} s"))
        if (
            self._last_received < sent
            and seconds >= WEBSOCKET_SILENCE_SECONDS
            and self._transport is not None
        ):
            self.usable = False  # nothing at all has come: nobody is there
            self._transport.disconnect(False)

    async def _wait_writable(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._writable.wait()
        except TimeoutError:
            raise Unavailable(f"could not be sent within {seconds:g} s", sent=False) from None

    # What comes ------------------------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self.usable = True

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind == WSMsgType.CLOSE:
            self.usable = False
            transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif kind == _BINARY or kind == WSMsgType.CONTINUATION:  # noqa: PLR1714 - quicker
            if frame.fin and not self._parts:
                self._on_message(frame.get_payload_as_bytes())
                return
            self._parts.append(frame.get_payload_as_bytes())
            if frame.fin:
                whole, self._parts = b"".join(self._parts), []
                self._on_message(whole)

    def _on_message(self, data: bytes) -> None:
        self._last_received = asyncio.get_running_loop().time()
        kind, number = split_frame(data)
        if kind is FrameKind.REPLY:
            pending = self._forget(number)
            if pending is not None:
                pending.tell(data[HEAD_BYTES:])
        elif kind is FrameKind.ERROR and number in self._pending:
            pending = cast("_PendingCall", self._forget(number))
            pending.tell(status_message_in(data[HEAD_BYTES:], writes=pending.writes))
        elif kind is FrameKind.GOAWAY:
            if self.usable and self._transport is not None:
                self.usable = False
                self._transport.send(_BINARY, head(FrameKind.GOAWAY, 0))
                if self.left is not None:
                    self.left()
        else:
            stream = self._streams.get(number)
            if stream is not None:
                stream.came(kind, data[HEAD_BYTES:])

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.usable = False
        self._transport = None
        self._writable.set()
        if self.left is not None:
            self.left()
        for number in list(self._pending):
            pending = self._forget(number)
            if pending is not None:
                pending.tell(pending.unknown(_GONE))
        for stream in list(self._streams.values()):
            stream.broke(Unavailable(_GONE))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()


class SocketStream:
    """A call of many messages, with the verbs of grpc.aio.StreamStreamCall that subscriptions use."""

    def __init__(self, socket: ClientSocket, method: str) -> None:
        self._socket = socket
        self._method = method
        self._number: int | None = None
        self._messages: deque[bytes] = deque()
        self._end: JjqError | None = None
        self._ended = False
        self._more = asyncio.Event()

    async def write(self, raw: bytes) -> None:
        socket = self._socket
        await socket._writable.wait()
        try:
            if self._number is None:
                self._number = socket._next()
                socket._streams[self._number] = self
                socket._call(self._number, self._method, raw)
            elif not self._ended and socket._transport is not None:  # also while the server says goodbye
                socket._transport.send(_BINARY, head(FrameKind.MESSAGE, self._number) + raw)
            else:
                raise asyncio.InvalidStateError("the stream is over")
        except Unavailable as error:
            self.broke(error)
            raise asyncio.InvalidStateError(error.message) from None

    async def read(self) -> Any:
        while not self._messages:
            if self._end is not None:
                raise self._end
            if self._ended:
                return grpc.aio.EOF
            self._more.clear()
            await self._more.wait()
        return self._messages.popleft()

    def cancel(self) -> None:
        if self._number is not None and not self._ended:
            self._over()
            self._socket._cancel(self._number)

    def came(self, kind: FrameKind, raw: bytes) -> None:
        if kind is FrameKind.MESSAGE:
            self._messages.append(raw)
        elif kind is FrameKind.ERROR:
            self._end = status_message_in(raw, writes=False)
            self._over()
        else:
            self._over()
        self._more.set()

    def broke(self, error: JjqError) -> None:
        self._end = self._end or error
        self._over()
        self._more.set()

    def _over(self) -> None:
        self._ended = True
        if self._number is not None:
            self._socket._streams.pop(self._number, None)
