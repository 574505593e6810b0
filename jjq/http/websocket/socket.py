"""One WebSocket: whole messages in and out.

    in     frames become messages. A broken rule closes: 1002 (reserved bits, fragments out of order; picows finds
           unmasked and malformed frames), 1007 (text that is not UTF-8), 1009 (too large)
    out    `send` returns when the message has left our memory, or nearly so: `WEBSOCKET_BUFFER_BYTES` may stay.
           What stays beyond that counts in the budget of all clients, and meanwhile nothing is read from this one
    work   `start` runs a coroutine for the connection; it is cancelled when the client hangs up, and finished
           when the server stops
    end    `close` sends a close frame and waits a moment for the client's

A protocol over it is a class derived from `WebSocket` with a method `on_message`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from picows.picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from coldstore.shared.errors import Exhausted
from jjq.http.access import SocketAccess
from jjq.http.websocket.open_sockets import OpenSockets
from jjq.limits import WEBSOCKET_BUFFER_BYTES, WEBSOCKET_FRAGMENTS_MAX
from jjq.server.shutdown import STOPPING

_TEXT, _BINARY, _CONTINUATION = WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION
_CLOSE, _PING, _PONG = WSMsgType.CLOSE, WSMsgType.PING, WSMsgType.PONG
_REASON_BYTES: Final = 123  # of a close frame


class SocketClosed(Exception):
    """The client has hung up, or the connection was closed: nothing can be sent any more."""


class WebSocket(WSListener):
    """See the module's docstring."""

    headers: Mapping[str, str] = {}  # of the answer to the upgrade

    def __init__(self, access: SocketAccess) -> None:
        self.access = access
        self.draining = False
        self.closed = False  # a close frame was sent, or the connection is gone
        self._transport: WSTransport | None = None
        self._sockets: OpenSockets
        self._parts: list[bytes] = []  # of a message that is not whole yet
        self._parts_bytes = 0
        self._parts_text: bool | None = None  # None: no message is under way
        self._tasks: set[asyncio.Task[None]] = set()
        self._flushed = asyncio.Event()  # the client reads, or is gone
        self._flushed.set()
        self._turn = asyncio.Lock()  # messages that wait for it are sent in their order
        self._held = False  # nothing is read from the client, for a reason of the protocol
        self._timer: asyncio.TimerHandle | None = None

    # For those who derive from it ------------------------------------------------------------------------

    def on_open(self) -> None:
        """The client may be written to from now on."""

    def on_message(self, data: bytes, is_text: bool) -> None:
        """A whole message. It must not take long; long work is given to `start`."""
        raise NotImplementedError

    def on_gone(self) -> None:
        """The connection is over; what `start` began is being cancelled."""

    def on_drain(self) -> None:
        """The server stops: take no new work. The connection is closed when no work is under way."""

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do `work` beside others. What it raises beyond `SocketClosed` is logged and closes with 1011."""
        task = asyncio.create_task(work, name="jjq-websocket")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def send(self, data: bytes | str) -> None:
        """Send a message: text if it is one. Raises `SocketClosed`, or `Exhausted` and closes with 1013."""
        outgoing = self._sockets.outgoing
        try:
            if not self._flushed.is_set() or self._turn.locked():
                await outgoing.send(self._send_later(data), len(data))
                return
            self.send_now(data)
            if not self._flushed.is_set():
                await outgoing.send(self._wait_flushed(), len(data))
        except Exhausted as error:
            self.close(WSCloseCode.TRY_AGAIN_LATER, error.message)
            raise

    async def send_uncounted(self, data: bytes | str) -> None:
        """The same for a caller that counts the message itself."""
        if not self._flushed.is_set() or self._turn.locked():
            await self._send_later(data)
            return
        self.send_now(data)
        await self._flushed.wait()

    def send_now(self, data: bytes | str) -> None:
        """The same without waiting; for what is small and seldom."""
        if self.closed or self._transport is None:
            raise SocketClosed
        self._sockets.frames_out += 1
        self._sockets.bytes_out += len(data)
        self._transport.send(_TEXT if isinstance(data, str) else _BINARY, data)

    def hold_reading(self, hold: bool) -> None:
        """Read nothing from the client while there is too much of it to do."""
        if hold is not self._held:
            self._held = hold
            self._pause_or_resume()

    def close(self, code: int | WSCloseCode, reason: str = "") -> None:
        """Say why, and hang up when the client has answered, or soon."""
        transport = self._transport
        if self.closed or transport is None:
            return
        self.closed = True
        transport.send_close(code, _cut(reason))  # type: ignore[arg-type] # any number will do
        self._flushed.set()
        self._pause_or_resume()  # the client's own close is to be seen
        self._wait_for_end()

    def abort(self) -> None:
        """Hang up at once."""
        self.closed = True
        if self._transport is not None:
            self._transport.disconnect(False)

    def drain(self) -> None:
        """Close with 1001 as soon as nothing is under way."""
        self.draining = True
        if not self.closed:
            self.on_drain()
            self._close_if_drained()

    def break_off(self) -> None:
        """Close with 1001 now."""
        for task in self._tasks:
            task.cancel()
        self.close(WSCloseCode.GOING_AWAY, STOPPING)

    # What happens ----------------------------------------------------------------------------------------

    def attach(self, sockets: OpenSockets) -> None:
        """It is one of these, once it is open."""
        self._sockets = sockets

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        transport.underlying_transport.set_write_buffer_limits(WEBSOCKET_BUFFER_BYTES, 0)
        self._sockets.enter(self)
        self.access.watch(lambda reason: self.close(WSCloseCode.POLICY_VIOLATION, reason))
        self.on_open()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.access.close()
        self._sockets.leave(self)
        ended = transport.close_handshake  # also where picows itself has closed
        if ended is not None and ended.sent is not None and not ended.recv_then_sent:
            self._sockets.closes[int(ended.sent.code)] += 1  # type: ignore[call-overload] # it is an IntEnum
        self._parts.clear()
        for task in self._tasks:
            task.cancel()
        self._flushed.set()
        self.on_gone()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        self._sockets.frames_in += 1
        self._sockets.bytes_in += frame.payload_size
        if self.closed:
            if kind == _CLOSE:  # the answer to ours
                transport.disconnect()
            return
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.close(WSCloseCode.PROTOCOL_ERROR, "reserved bits are set, and no extension is in use")
        elif kind in (_BINARY, _TEXT, _CONTINUATION):
            self._on_data(kind, frame)
        elif kind == _CLOSE:
            code = frame.get_close_code()
            self.closed = True
            transport.send_close(code if code != WSCloseCode.NO_INFO else WSCloseCode.OK)
            transport.disconnect()
        elif kind == _PING:
            transport.send_pong(frame.get_payload_as_bytes())
        # A pong that nobody asked for is allowed, and means nothing.

    def _on_data(self, kind: WSMsgType, frame: WSFrame) -> None:
        if (kind == _CONTINUATION) is (self._parts_text is None):
            self.close(WSCloseCode.PROTOCOL_ERROR, "fragments are out of order")
            return
        if self._parts_bytes + frame.payload_size > self._sockets.limits.message_bytes:
            most = self._sockets.limits.message_bytes
            self.close(WSCloseCode.MESSAGE_TOO_BIG, f"a message has more than {most} bytes")
            return
        data = frame.get_payload_as_bytes()
        is_text = kind == _TEXT if self._parts_text is None else self._parts_text
        if not frame.fin or self._parts_text is not None:
            self._parts.append(data)
            self._parts_bytes += len(data)
            self._parts_text = is_text
            if not frame.fin:
                if len(self._parts) > WEBSOCKET_FRAGMENTS_MAX:  # small ones take more than they hold
                    self._parts = [b"".join(self._parts)]
                return
            data = b"".join(self._parts)
            self._parts, self._parts_bytes, self._parts_text = [], 0, None
        if is_text and not _is_utf8(data):
            self.close(WSCloseCode.INVALID_TEXT, "the text is not UTF-8")
            return
        try:
            self.on_message(data, is_text)
        except SocketClosed:
            return
        except Exception as error:  # noqa: BLE001 - a defect of ours ends one connection, and is logged
            self._fail(error)

    def send_user_specific_ping(self, transport: WSTransport) -> None:
        """While nothing is read from the client for a reason of ours, its silence says nothing."""
        if self._held and self._flushed.is_set():
            asyncio.get_running_loop().call_soon(transport.notify_user_specific_pong_received)
        else:
            transport.send_ping()

    # Back-pressure ---------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        if not self.closed:
            self._flushed.clear()
            self._pause_or_resume()

    def resume_writing(self) -> None:
        self._flushed.set()
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        transport = None if self._transport is None else self._transport.underlying_transport
        if transport is None or transport.is_closing():
            return
        wanted = self._flushed.is_set() and (self.closed or not self._held)
        if wanted and not transport.is_reading():
            transport.resume_reading()
        elif not wanted and transport.is_reading():
            transport.pause_reading()

    async def _wait_flushed(self) -> None:
        await self._flushed.wait()

    async def _send_later(self, data: bytes | str) -> None:
        async with self._turn:
            await self._flushed.wait()
            self.send_now(data)
            await self._flushed.wait()

    # The end ---------------------------------------------------------------------------------------------

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, SocketClosed | Exhausted):
            self._fail(error)
        self._close_if_drained()

    def _close_if_drained(self) -> None:
        if self.draining and not self._tasks:
            self.close(WSCloseCode.GOING_AWAY, STOPPING)

    def _fail(self, error: BaseException) -> None:
        self._sockets.log.error("unforeseen", method="websocket", exc_info=error)
        self.close(WSCloseCode.INTERNAL_ERROR, "unforeseen failure: the server's log says more")

    def _wait_for_end(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._sockets.limits.close_seconds, self.abort)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _cut(reason: str) -> bytes:
    return reason.encode()[:_REASON_BYTES].decode(errors="ignore").encode()
