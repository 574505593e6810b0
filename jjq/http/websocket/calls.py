"""The transport /v1/ws: the methods of gRPC over a WebSocket (jjq/wire/call_frames.py has the frames).

/v1/peer is the same for nodes among themselves, with the methods of jjq.v1.Peer. Pushes of other nodes are held back
where those of a client would be refused: among pushes that come in order, none may fail for want of room.

A call is served by the same handler as over gRPC, which gets a `SocketCall` where gRPC would give it a context: keys,
figures, errors, budgets and the end of a server are the same for both. Calls of a connection run beside each other.
Pushes begin in the order in which they came: one that takes several steps to decode holds back those behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import grpc
from google.rpc import status_pb2  # type: ignore[import-untyped]
from picows.picows import WSCloseCode

from coldstore.shared.errors import Exhausted, InvalidInput, JjqError, Unavailable
from hotstore.port import Receipt, Store
from jjq.http.access import SCOPE_OF_NODES, SocketAccess
from jjq.http.backend import Backend
from jjq.http.request import Request
from jjq.http.websocket.socket import SocketClosed, WebSocket
from jjq.http.websocket.upgrade import WebSocketRoute
from jjq.limits import (
    CALLS_MAX,
    HTTP_INCOMING_BYTES_MAX,
    LARGE_BYTES,
    WEBSOCKET_CALL_BYTES_MAX,
    WEBSOCKET_CALLS_MAX,
    WEBSOCKET_LEAVE_SECONDS,
)
from jjq.server.shutdown import STOPPING
from jjq.server.unary import decode_push, open_push, push
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_ipc
from jjq.wire.arrow_field import RepeatedElementsSpan, Span
from jjq.wire.call_frames import (
    HEAD_BYTES,
    INSTANCE,
    PATH,
    PEER_PATH,
    FrameKind,
    decode_call,
    head,
    split_frame,
)
from jjq.wire.convert import receipt_out
from jjq.wire.status import DETAILS, UNEXPECTED, status_out

_RETRY_SECONDS: Final = 1.0
_PUSH: Final = "Push"
_STEP_BYTES: Final = 4_000  # of less than this a push is decoded in one step, whatever its form


class CallTable:
    """What all connections share: the handlers by method, and how many calls are under way."""

    def __init__(self, handlers: dict[str, Any], backend: Backend, store: Store | None = None) -> None:
        """With the `store` that other nodes may ask, it is for them."""
        self.of_nodes = store is not None
        self.store = backend.store if store is None else store
        self.meter = backend.metrics.meter(_PUSH)
        self.handlers = handlers
        self.backend = backend
        self.open = 0

    def check_room(self, size: int, calls: int) -> None:
        """Refuse a call for which there is no room, of a connection with so many of them."""
        if calls >= WEBSOCKET_CALLS_MAX and not self.of_nodes:  # a node speaks for many clients
            raise Exhausted(
                f"the connection has {calls} calls under way: wait for some, or open another",
                retry_after=_RETRY_SECONDS,
            )
        if self.open >= CALLS_MAX or self.backend.incoming_bytes + size > HTTP_INCOMING_BYTES_MAX:
            raise Exhausted("the server has too many calls under way: retry", retry_after=_RETRY_SECONDS)


class SocketCall:
    """One call, as a handler sees it: the part of grpc.aio.ServicerContext that handlers of ours use."""

    def __init__(
        self,
        socket: CallSocket,
        number: int,
        method: str,
        metadata: tuple[tuple[str, str], ...],
        request: bytes,
    ) -> None:
        self._socket = socket
        self.number = number
        self.method = method
        self.metadata = metadata
        self.task: asyncio.Task[None] | None = None
        self.status: tuple[grpc.StatusCode, str, Any] | None = None
        self._held = len(request)  # bytes that are not read yet, or are being worked on
        self._worked_on = 0
        self._messages: deque[bytes] = deque([request])
        self._ended = False  # the client sends no more
        self._more: asyncio.Future[None] | None = None
        self._callbacks: list[Callable[[Any], None]] = []

    # For handlers ----------------------------------------------------------------------------------------

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.metadata

    def peer(self) -> str:
        return self._socket.peer

    async def read(self) -> Any:
        self._release(self._worked_on)
        self._worked_on = 0
        while not self._messages:
            if self._ended:
                return grpc.aio.EOF
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        raw = self._messages.popleft()
        self._worked_on = len(raw)
        return raw

    async def write(self, raw: bytes) -> None:
        try:
            await self._socket.send_uncounted(head(FrameKind.MESSAGE, self.number) + raw)
        except SocketClosed:
            raise grpc.aio.UsageError("the connection is closed") from None  # as gRPC would say it

    async def abort(self, code: grpc.StatusCode, text: str = "", trailers: Any = ()) -> None:
        self.status = (code, text, trailers)
        raise grpc.aio.AbortError

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    # For the connection ----------------------------------------------------------------------------------

    def came(self, raw: bytes) -> None:
        """The client's next message."""
        self._held += len(raw)
        self._messages.append(raw)
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def over(self) -> None:
        self._release(self._held)
        self._messages.clear()
        for callback in self._callbacks:
            callback(self)

    def _release(self, size: int) -> None:
        if size:
            self._held -= size
            self._socket.hold_bytes(-size)

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)


class CallSocket(WebSocket):
    """One connection of /v1/ws."""

    def __init__(self, access: SocketAccess, table: CallTable, peer: str, headers: Mapping[str, str]) -> None:
        super().__init__(access)
        self.peer = peer
        self.headers = headers
        self._table = table
        self._calls: dict[int, SocketCall] = {}
        self._key = () if access.key is None else (("authorization", f"Bearer {access.key}"),)
        self._bytes = 0  # of requests and messages under way
        self._pushes = 0  # … and how many of them are pushes
        self._push_turn = asyncio.Lock()
        self._goodbye = asyncio.Event()  # the client makes no more calls

    def on_message(self, data: bytes, is_text: bool) -> None:
        if is_text:
            self.close(WSCloseCode.UNSUPPORTED_DATA, "calls are binary messages, not text")
            return
        try:
            kind, number = split_frame(data)
            if kind is FrameKind.CALL:
                self._begin(number, data)
                return
            if kind is FrameKind.GOAWAY:
                self._goodbye.set()
                return
            call = self._calls.get(number)  # None: it has just ended, and the client does not know yet
            if kind is FrameKind.CANCEL:
                if call is not None and call.task is not None:
                    call.task.cancel()
                    self._over(call)
            elif kind is FrameKind.END:
                if call is not None:
                    call.end()
            elif kind is not FrameKind.MESSAGE:
                raise InvalidInput(f"a client does not send frames of kind {kind}")
            elif call is not None:
                self.hold_bytes(len(data) - HEAD_BYTES)
                call.came(data[HEAD_BYTES:])
        except InvalidInput as error:
            self.close(WSCloseCode.PROTOCOL_ERROR, error.message)

    def on_drain(self) -> None:
        self.send_now(head(FrameKind.GOAWAY, 0))
        self.start(self._wait_goodbye())

    async def _wait_goodbye(self) -> None:
        """What the client sends until it knows is refused; were we to close at once, it could not tell."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._goodbye.wait(), WEBSOCKET_LEAVE_SECONDS)

    def hold_bytes(self, size: int) -> None:
        """So many bytes more, or fewer, are under way: while there are too many, nothing is read."""
        self._bytes += size
        self._table.backend.incoming_bytes += size
        full = self._table.of_nodes and self._pushes >= WEBSOCKET_CALLS_MAX
        self.hold_reading(full or self._bytes > WEBSOCKET_CALL_BYTES_MAX)

    def _begin(self, number: int, data: bytes) -> None:
        if number in self._calls:
            raise InvalidInput(f"call {number} is not over yet: give each call a number of its own")
        method, metadata, begin = decode_call(data)
        size = len(data) - begin
        try:
            handler = self._table.handlers.get(method)
            if self.draining:  # certain, so that any call may be made again elsewhere
                raise Exhausted(STOPPING, retry_after=_RETRY_SECONDS / 10)
            if method != _PUSH or not self._table.of_nodes:
                self._table.check_room(size, len(self._calls))
        except JjqError as error:
            self.send_now(_error(number, *status_out(error)))
            return
        if handler is None:
            text = f"this server has no method {method!r}"
            self.send_now(_error(number, grpc.StatusCode.UNIMPLEMENTED, text, ()))
            return
        if method == _PUSH and self._table.of_nodes:
            self._pushes += 1
            self.hold_bytes(size)
            aligned = begin % arrow_ipc.ALIGNMENT == 0
            span = Span(data, begin, len(data)) if aligned else Span(data[begin:], 0, size)
            self.start(self._push_of_node(number, span))
            return
        request = data[begin:]
        call = self._calls[number] = SocketCall(self, number, method, (*metadata, *self._key), request)
        self._table.open += 1
        self._pushes += method == _PUSH
        self.hold_bytes(size)
        call.task = self.start(self._serve(handler, call, request))
        call.task.add_done_callback(lambda _: self._over(call))

    def _over(self, call: SocketCall) -> None:
        if self._calls.get(call.number) is call:
            del self._calls[call.number]
            self._table.open -= 1
            self._pushes -= call.method == _PUSH
            call.over()

    async def _serve(self, handler: Any, call: SocketCall, request: bytes) -> None:
        try:
            if call.method == _PUSH:
                frame = await self._push(handler, call, request)
            else:
                frame = await self._answer(handler, call)
        except grpc.aio.AbortError:
            frame = _error(call.number, *(call.status or (grpc.StatusCode.INTERNAL, UNEXPECTED, ())))
        if self._calls.get(call.number) is call:
            self._over(call)
            await self.send(frame)

    async def _answer(self, handler: Any, call: SocketCall) -> bytes:
        if handler.stream_unary is not None:
            reply: bytes = await handler.stream_unary(None, call)
            return head(FrameKind.REPLY, call.number) + reply
        await handler.stream_stream(None, call)
        return head(FrameKind.END, call.number)

    async def _push_of_node(self, number: int, span: Span) -> None:
        """A push that another node forwards. What is for clients only, it has seen to; so this is half as long."""
        table, meter, clock = self._table, self._table.meter, self._table.backend.clock
        began, code = clock.monotonic(), grpc.StatusCode.OK
        meter.received(span.size)
        try:
            if self.access.ring is not None:
                self.access.ring.require_peer(self.access.key)
            async with self._push_turn:
                request, payload = await decode_push(span, table.backend.scheduler)
            receipt = await push(table.store, request, payload, request.queue)
            meter.moved(receipt.count)
            frame = head(FrameKind.REPLY, number) + _response(receipt)
        except Exception as error:
            if not isinstance(error, JjqError):
                table.backend.log.error("unforeseen", method=_PUSH, exc_info=error)
                error = Unavailable(UNEXPECTED)
            code, text, trailers = status_out(error)
            frame = _error(number, code, text, trailers)
        finally:
            self._pushes -= 1
            self.hold_bytes(-span.size)
        meter.took(clock.monotonic() - began)
        meter.sent(len(frame))
        meter.ended(code)
        await self.send(frame)

    async def _push(self, handler: Any, call: SocketCall, request: bytes) -> bytes:
        if _takes_steps(request):
            async with self._push_turn:
                return await self._answer(handler, call)
        if self._push_turn.locked():
            async with self._push_turn:
                pass
        return await self._answer(handler, call)


def _takes_steps(request: bytes) -> bool:
    """Whether a push may let others work while it is decoded; then a later one could come before it."""
    if not _STEP_BYTES <= len(request) < LARGE_BYTES:
        return len(request) >= LARGE_BYTES
    try:
        return isinstance(open_push(Span(request, 0, len(request)))[1], RepeatedElementsSpan)
    except InvalidInput:
        return False  # its handler will say so


def _response(receipt: Receipt) -> bytes:
    return pb.PushResponse(receipt=receipt_out(receipt)).SerializeToString()


def _error(number: int, code: grpc.StatusCode, text: str, trailers: Any) -> bytes:
    details: bytes | None = dict(trailers).get(DETAILS)
    if details is None:
        details = bytes(status_pb2.Status(code=code.value[0], message=text).SerializeToString())
    return head(FrameKind.ERROR, number) + details


def call_route(table: CallTable, instance: str) -> WebSocketRoute:
    """The route of /v1/ws or /v1/peer. `instance` tells a client that this is the server that it knows over gRPC."""

    def accept(request: Request, access: SocketAccess) -> WebSocket:
        request.query()
        host, port = request.scope.get("client") or ("", 0)
        return CallSocket(access, table, f"websocket:{host}:{port}", {INSTANCE: instance})

    if table.of_nodes:
        return WebSocketRoute(
            PEER_PATH, accept, "peer_websocket", "For nodes among themselves", SCOPE_OF_NODES
        )
    return WebSocketRoute(PATH, accept, "websocket", "The methods of gRPC over WebSocket: docs/protocol.md")
