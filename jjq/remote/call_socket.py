"""The WebSocket transport of a client: single calls and subscriptions at half of what gRPC costs.

ClientSocket   One connection to /v1/ws (jjq/wire/call_frames.py). A call is a frame, and so is its reply.
SocketFinder   Finds out over gRPC whether a server has such a port, and keeps a connection to it. Until there is
               one, and while there is none, calls go over gRPC: behind a proxy, with HTTP switched off, with a
               server of an earlier release. The server's answer names the process that it is, so a connection that
               somebody leads to another server is not used.

What is sent is sent once here. A call whose connection breaks is of unknown outcome, as over gRPC, and retry.py
decides. A server that stops says so first (GOAWAY); then it gets no more calls, and refuses for certain those that
were on their way.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, cast

import grpc
from picows import (
    WSError,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    ws_connect,
)

from coldstore.shared.clock import Clock
from coldstore.shared.errors import JjqError, Unavailable
from jjq.addresses import split_address
from jjq.limits import (
    BACKOFF_SECONDS,
    CONNECT_SECONDS,
    HINT_SECONDS,
    WEBSOCKET_PING_SECONDS,
    WEBSOCKET_PONG_SECONDS,
    WEBSOCKET_REPLY_BYTES_MAX,
)
from jjq.remote.settings import RemoteSettings
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.call_frames import (
    HEAD_BYTES,
    INSTANCE,
    PATH,
    FrameKind,
    encode_call,
    head,
    split_frame,
)
from jjq.wire.services import READING
from jjq.wire.status import NoSuchMethod, status_message_in

_NUMBERS: Final = 2**32
_FAILURES_COUNTED: Final = 16  # then the pause grows no more
_LOGGER: Final = logging.getLogger("jjq.picows")
_LOGGER.setLevel(logging.CRITICAL + 1)
_QUIET: Final = logging.LoggerAdapter(_LOGGER, {})  # errors reach the callers, as those of gRPC do
_GONE: Final = "the connection to the server broke"
_BINARY: Final = WSMsgType.BINARY

Ask = Callable[[str, bytes, float], Awaitable[bytes]]  # a call over gRPC: method, request, seconds


class ClientSocket(WSListener):
    """One connection. `usable` while new calls may be made on it."""

    def __init__(self, response: WSUpgradeResponse) -> None:
        self.instance: str = response.headers.get(INSTANCE, "")
        self.usable = False
        self._transport: WSTransport | None = None
        self._number = 0
        self._replies: dict[int, asyncio.Future[bytes]] = {}
        self._streams: dict[int, SocketStream] = {}
        self._doubtless: set[int] = set()  # calls that only read: nobody need be told of an unknown outcome
        self._parts: list[bytes] = []  # of a message in several frames
        self._writable = asyncio.Event()
        self._writable.set()

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        """The reply of a call that has one."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if not self._writable.is_set():
            await self._wait_writable(seconds)
        number = self._next()
        reply: asyncio.Future[bytes] = loop.create_future()
        self._replies[number] = reply
        if method in READING:
            self._doubtless.add(number)
        late = loop.call_later(seconds - (loop.time() - began), self._give_up, number, seconds)
        try:
            self._send(encode_call(number, method, request))
            return await reply
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            late.cancel()
            self._replies.pop(number, None)
            self._doubtless.discard(number)

    def stream(self, method: str) -> SocketStream:
        """A call of many messages; it begins with the first that is written."""
        return SocketStream(self, method)

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.send_close()
            # A server that does not read must not keep us from leaving.
            self._transport.disconnect(not self._transport.underlying_transport.get_write_buffer_size())

    def _next(self) -> int:
        while True:
            self._number = (self._number + 1) % _NUMBERS
            if self._number not in self._replies and self._number not in self._streams:
                return self._number

    def _send(self, frame: bytes) -> None:
        if self._transport is None or not self.usable:
            raise Unavailable(_GONE, sent=False)
        self._transport.send(_BINARY, frame)

    def _cancel(self, number: int) -> None:
        if self._transport is not None:
            self._transport.send(_BINARY, head(FrameKind.CANCEL, number))

    def _give_up(self, number: int, seconds: float) -> None:
        reply = self._replies.get(number)
        if reply is not None and not reply.done():
            self._cancel(number)
            reply.set_exception(self._unknown(number, f"no answer within {seconds:g} s"))

    def _unknown(self, number: int, text: str) -> Unavailable:
        return Unavailable(text if number in self._doubtless else f"{text}; the outcome is unknown")

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
        kind, number = split_frame(data)
        reply = self._replies.get(number)
        if reply is not None:
            if reply.done():
                return
            if kind is FrameKind.REPLY:
                reply.set_result(data[HEAD_BYTES:])
            elif kind is FrameKind.ERROR:
                writes = number not in self._doubtless
                reply.set_exception(status_message_in(data[HEAD_BYTES:], writes=writes))
        elif kind is FrameKind.GOAWAY:
            if self.usable and self._transport is not None:
                self.usable = False
                self._transport.send(_BINARY, head(FrameKind.GOAWAY, 0))
        else:
            stream = self._streams.get(number)
            if stream is not None:
                stream.came(kind, data[HEAD_BYTES:])

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.usable = False
        self._transport = None
        self._writable.set()
        for number, reply in self._replies.items():
            if not reply.done():
                reply.set_exception(self._unknown(number, _GONE))
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
                socket._send(encode_call(self._number, self._method, raw))
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


class SocketFinder:
    """The socket of one connection to a server, if there can be one."""

    def __init__(self, target: str, settings: RemoteSettings, ask: Ask, clock: Clock) -> None:
        self._host = split_address(target, "server")[0]
        self._settings = settings
        self._ask = ask
        self._clock = clock
        self._socket: ClientSocket | None = None
        self._trying: asyncio.Task[None] | None = None
        self._attempt: object | None = None  # the one under way
        self._ending: asyncio.Task[None] | None = None  # of the socket
        self._again = 0.0  # when to try again
        self._failures = 0
        self.why = "it was not tried yet"  # there is none

    def find(self) -> ClientSocket | None:
        """The socket; if there is none, one is looked for beside."""
        socket = self._socket
        if socket is not None and socket.usable:
            return socket
        if self._trying is None and self._clock.monotonic() >= self._again:
            self._trying = asyncio.create_task(self._try(), name="jjq-websocket")
        return None

    async def wait(self, seconds: float) -> ClientSocket:
        """The socket, or `Unavailable`: nothing was sent."""
        socket = self.find()
        if socket is None and self._trying is not None:
            await asyncio.wait([self._trying], timeout=seconds)
            socket = self._socket
        if socket is None or not socket.usable:
            raise Unavailable(
                f"no WebSocket to {self._host}: {self.why}; or set transport to auto", sent=False
            )
        return socket

    async def _try(self) -> None:
        pause = HINT_SECONDS
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                raw = await self._ask("GetTransports", b"", CONNECT_SECONDS)
                found = parse(pb.GetTransportsResponse, raw)
                if not found.websocket_port:
                    self.why = "the server does not listen for HTTP"
                    return
                await self._connect(found.websocket_port, found.instance)
                pause, self._failures = 0.0, 0
        except NoSuchMethod:
            self.why = "the server is of an earlier release"
        except (JjqError, WSError, OSError, TimeoutError, ssl.SSLError) as error:
            self.why = f"{type(error).__name__}: {error}"
            pause = min(HINT_SECONDS, BACKOFF_SECONDS * 2**self._failures)
            self._failures = min(self._failures + 1, _FAILURES_COUNTED)
        finally:
            self._trying = self._attempt = None
            self._again = self._clock.monotonic() + pause

    async def _connect(self, port: int, instance: str) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        tls, key = self._settings.tls, self._settings.key
        attempt = self._attempt = object()

        def accept(_request: WSUpgradeRequest, response: WSUpgradeResponse) -> ClientSocket:
            if self._attempt is not attempt:  # given up meanwhile: picows hangs up
                raise ConnectionAbortedError
            return ClientSocket(response)

        transport, made = await ws_connect(
            accept,
            f"{'ws' if tls is None else 'wss'}://{host}:{port}{PATH}",
            ssl_context=None if tls is None else tls.context(),
            websocket_handshake_timeout=CONNECT_SECONDS,
            logger_name=_QUIET,
            enable_auto_ping=True,
            auto_ping_idle_timeout=WEBSOCKET_PING_SECONDS,
            auto_ping_reply_timeout=WEBSOCKET_PONG_SECONDS,
            max_frame_size=WEBSOCKET_REPLY_BYTES_MAX,
            extra_headers=None if key is None else {"Authorization": f"Bearer {key}"},
            max_redirects=0,
        )
        self._ending = asyncio.create_task(_until_closed(transport), name="jjq-websocket-end")
        self._socket = cast("ClientSocket", made)
        if self._socket.instance != instance:
            self._socket.close()
            raise Unavailable("somebody between leads to another server", sent=False)

    async def close(self) -> None:
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
        if self._ending is not None:
            await self._ending


async def _until_closed(transport: WSTransport) -> None:
    """Return when the connection is gone. Why it broke is told to the calls on it."""
    with suppress(Exception):
        await transport.wait_disconnected()
