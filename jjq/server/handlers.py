"""What stands around every method: errors become statuses, figures are counted, the unforeseen is logged.

Handlers are wrapped when they are registered, not intercepted: an interceptor would cost every call
a look-up and two coroutines more, and could not see the bytes of a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

import grpc
import structlog

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, JjqError
from jjq.access.audit import AuditLog
from jjq.access.calls import WAITING, CallAccess, is_audited, key_in, metadata_of
from jjq.access.keyring import Keyring, Watched
from jjq.limits import LARGE_BYTES, STREAM_MESSAGE_BYTES_MIN, STREAMS_OPEN_MAX
from jjq.server.incoming import Context, Incoming, LargePlace
from jjq.server.memory import Memory
from jjq.server.meter import Meter
from jjq.server.metrics import Metrics
from jjq.server.outgoing import Outgoing
from jjq.traces.context import note_trace
from jjq.wire.status import UNEXPECTED, status_out

Unary = Callable[[bytes], Awaitable[bytes]]
T = TypeVar("T")


class ClientHungUp(Exception):
    """The client is no longer there to be written to."""


class Call:
    """An open stream: bytes in, bytes out, counted."""

    def __init__(
        self,
        context: Context,
        meter: Meter,
        log: structlog.typing.FilteringBoundLogger,
        memory: Memory,
        incoming: Incoming,
        outgoing: Outgoing,
        access: CallAccess | None = None,
    ) -> None:
        self._context = context
        self._incoming = incoming
        self._sender = incoming.sender(context)
        self._log = log
        self._memory = memory
        self._access = access
        self.watched: Watched | None = None
        self.outgoing = outgoing
        self.meter = meter
        self._sent = 0  # bytes
        self._worked_on = 0  # bytes of the last message that came …
        self._place: LargePlace | None = None  # … and its place, if it is large
        self.first = b""  # the one request of a server-streaming call

    async def receive(self) -> bytes:
        """The only message of a client that sends no other."""
        raw = await self._incoming.receive(self._context)
        self._came(raw)
        return raw

    async def read(self) -> bytes | None:
        """The client's next message, None when it has closed its side."""
        if self._access is not None and (seconds := self._access.seconds()):
            await asyncio.sleep(seconds)  # before the message is taken: waiting may be broken off
        self._memory.used(self._worked_on)
        self._worked_on = 0
        if self._place is not None:
            self._place.leave()
            self._place = None
        raw: Any = await self._incoming.reading(self._sender, self._context)
        if raw is grpc.aio.EOF:
            return None
        self._sender.came(len(raw))
        self._came(raw)
        return raw  # type: ignore[no-any-return]

    def _came(self, raw: bytes) -> None:
        size = self._worked_on = len(raw)
        if size >= LARGE_BYTES:
            self._place = self._incoming.large.hold(size)
        self.meter.received(size)
        if self._access is not None:
            self._access.check(raw)

    async def write(self, raw: bytes) -> None:
        # gRPC forgets that it has begun to answer if its first write is broken off, and then cannot end the call.
        watched = self.watched
        if watched is not None:
            watched.busy = True
        try:
            await self.outgoing.send(self._context.write(raw), len(raw))
        except grpc.aio.BaseError as error:
            raise ClientHungUp from error
        finally:
            if watched is not None:
                watched.busy = False
        if watched is not None and watched.error is not None:
            raise watched.error
        self.meter.sent(len(raw))
        self._sent += len(raw)

    def require(self, queue: str) -> None:
        """Return if the caller may do this on the queue; for streams that answer each request by itself."""
        if self._access is not None:
            self._access.require(queue)

    def over(self) -> None:
        """What was held for the stream is free now."""
        self._memory.used(self._worked_on + self._sent)
        if self._place is not None:
            self._place.leave()

    def failed(self, error: BaseException) -> None:
        """A request on the stream failed; if in a way that nobody foresaw, the log says how."""
        if not isinstance(error, JjqError):
            self._log.error("unforeseen", method=self.meter.method, exc_info=error)


Streaming = Callable[[Call], Awaitable[None]]


class Guard:
    """Makes method handlers of coroutines that know nothing of gRPC."""

    def __init__(
        self,
        metrics: Metrics,
        memory: Memory,
        incoming: Incoming,
        outgoing: Outgoing,
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
        keys: Keyring | None = None,
        audit: AuditLog | None = None,
        traced: bool = False,
    ) -> None:
        """`traced`: calls are parts of traces."""
        self._traced = traced
        self._keys = keys
        self._audit = audit
        self._metrics = metrics
        self._incoming = incoming
        self._outgoing = outgoing
        self._open = 0  # streams
        self._memory = memory
        self._clock = clock
        self._log = log

    def unary(self, service: str, method: str, verb: Unary) -> grpc.RpcMethodHandler[bytes, bytes]:
        """A handler of `verb`.

        To gRPC it is one of a stream of requests: then a request is received when we ask for it, and not before.
        """
        meter, clock = self._metrics.meter(method), self._clock
        memory, incoming = self._memory, self._incoming
        keys, waits, traced = self._keys, method in WAITING, self._traced
        audit = self._audit if is_audited(service, method) else None

        async def handle(_requests: object, context: Context) -> bytes:
            raw, size, started = b"", 0, clock.monotonic()
            access: CallAccess | None = None
            place: LargePlace | None = None
            try:
                raw = await incoming.receive(context)
                size, started = len(raw), clock.monotonic()
                if size >= LARGE_BYTES:
                    place = incoming.large.hold(size)
                meter.received(size)
                if traced:
                    note_trace(metadata_of(context, "traceparent"))
                if keys is None or not (waits or keys.closed):
                    reply = await verb(raw)
                else:
                    access = CallAccess(keys, service, method, context)
                    access.check(raw)
                    reply = await (self._watch(keys, access, verb(raw)) if waits else verb(raw))
            except BaseException as error:  # noqa: BLE001 - sorted out, never swallowed
                meter.took(clock.monotonic() - started)
                raw = b""
                await self._failed(method, meter, context, error)
            finally:
                memory.used(size)
                if place is not None:
                    place.leave()
            if audit is not None and keys is not None and keys.closed:
                shown, queue = (None, None) if access is None else (access.key, access.queue)
                audit.record(shown, "grpc", method, queue, _number(context))
            meter.took(clock.monotonic() - started)
            meter.sent(len(reply))
            memory.used(len(reply))
            if len(reply) >= STREAM_MESSAGE_BYTES_MIN:
                self._hold(len(reply), context)
            meter.ended(grpc.StatusCode.OK)
            return reply

        return grpc.stream_unary_rpc_method_handler(handle)

    def reflection(self, serve: Callable[[Any, Any], Any]) -> grpc.RpcMethodHandler[Any, Any]:
        """The service that lists methods, for those who have a key."""
        from grpc_reflection.v1alpha import reflection_pb2 as messages

        async def handle(requests: Any, context: Any) -> AsyncIterator[Any]:
            try:
                if self._keys is not None:
                    self._keys.identify(key_in(context))
            except JjqError as error:
                await _abort(context, *status_out(error))
            async for reply in serve(requests, context):
                yield reply

        return grpc.stream_stream_rpc_method_handler(
            handle,
            messages.ServerReflectionRequest.FromString,
            messages.ServerReflectionResponse.SerializeToString,
        )

    @staticmethod
    async def _watch(keys: Keyring, access: CallAccess, work: Awaitable[T]) -> T:
        """The result of `work`, unless its caller loses the right to it meanwhile."""
        with keys.watch(access.recheck):
            return await work

    def server_stream(
        self, service: str, method: str, serve: Streaming
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        meter = self._metrics.meter(method)

        async def first(call: Call) -> None:
            call.first = await call.receive()
            await serve(call)

        async def handle(_requests: object, context: Context) -> None:
            access = self._access(service, method, context)
            await self._stream(method, meter, context, first, self._call(context, meter, access), access)

        return grpc.stream_stream_rpc_method_handler(handle)

    def both_streams(
        self, service: str, method: str, serve: Streaming
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        meter = self._metrics.meter(method)

        async def handle(_requests: object, context: Context) -> None:
            access = self._access(service, method, context)
            await self._stream(method, meter, context, serve, self._call(context, meter, access), access)

        return grpc.stream_stream_rpc_method_handler(handle)

    def _access(self, service: str, method: str, context: Context) -> CallAccess | None:
        return None if self._keys is None else CallAccess(self._keys, service, method, context)

    def _call(self, context: Context, meter: Meter, access: CallAccess | None) -> Call:
        return Call(context, meter, self._log, self._memory, self._incoming, self._outgoing, access)

    def _hold(self, size: int, context: Context) -> None:
        """Count a reply until its client has read it."""
        self._outgoing.hold(size)

        release: Any = partial(self._release, size)  # the type of a callback is private to gRPC
        context.add_done_callback(release)

    def _release(self, size: int, _context: Context) -> None:
        self._outgoing.release(size)

    async def _stream(
        self,
        method: str,
        meter: Meter,
        context: Context,
        serve: Streaming,
        call: Call,
        access: CallAccess | None,
    ) -> None:
        meter.open += 1
        self._open += 1
        try:
            if self._open > STREAMS_OPEN_MAX:
                raise Exhausted(
                    f"the server has {STREAMS_OPEN_MAX} open streams, and takes no more: close some, retry"
                )
            if self._traced:
                note_trace(metadata_of(context, "traceparent"))
            if access is None or self._keys is None:
                await serve(call)
            else:
                with access.stream(), self._keys.watch(access.recheck) as call.watched:
                    await serve(call)
        except BaseException as error:  # noqa: BLE001 - sorted out, never swallowed
            await self._failed(method, meter, context, error)
        finally:
            meter.open -= 1
            self._open -= 1
            call.over()
        meter.ended(grpc.StatusCode.OK)

    async def _failed(self, method: str, meter: Meter, context: Context, error: BaseException) -> NoReturn:
        """End the call with the status that `error` deserves.

        gRPC keeps the exception by which an abort ends the call, and with it, in a circle, the frames that it passed:
        until the next collection of garbage, which may be far. So nothing large is left in them.
        """
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            meter.ended(grpc.StatusCode.CANCELLED)
            raise error
        if isinstance(error, ClientHungUp):
            meter.ended(grpc.StatusCode.CANCELLED)
            raise asyncio.CancelledError from error
        if isinstance(error, JjqError):
            code, text, trailers = status_out(error)
            meter.ended(code)
            self._log.debug("refused", method=method, request=_number(context), code=code.name, why=text)
            _let_go(error)
            await _abort(context, code, text, trailers)
        if not isinstance(error, Exception):
            raise error
        meter.ended(grpc.StatusCode.INTERNAL)
        self._log.error("unforeseen", method=method, request=_number(context), exc_info=error)
        _let_go(error)
        await _abort(context, grpc.StatusCode.INTERNAL, UNEXPECTED, ())


def _number(context: Context) -> str:
    """The number that a client gave its call, for the log; as over HTTP."""
    return (metadata_of(context, "x-request-id") or "")[:128]


async def _abort(context: Context, code: grpc.StatusCode, text: str, trailers: Any) -> NoReturn:
    """End the call. A client that hangs up before it gets the error causes no error here."""
    try:
        await context.abort(code, text, trailers)
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError as gone:
        raise asyncio.CancelledError from gone


def _let_go(error: BaseException | None) -> None:
    """Forget the frames in which an error arose: what they worked on may be large. One error may go to many callers,
    each of which raises it again while it handles another: such a chain can be a circle.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
