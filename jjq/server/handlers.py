"""What stands around every method: errors become statuses, figures are counted, the unforeseen is logged.

Handlers are wrapped when they are registered, not intercepted: an interceptor would cost every call
a look-up and two coroutines more, and could not see the bytes of a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

import grpc
import structlog

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, JjqError
from jjq.limits import STREAM_MESSAGE_BYTES_MIN, STREAMS_OPEN_MAX
from jjq.server.call_batching import Crowd
from jjq.server.memory import Memory
from jjq.server.meter import Meter
from jjq.server.metrics import Metrics
from jjq.server.outgoing import Outgoing
from jjq.wire.status import UNEXPECTED, status_out

Context = grpc.aio.ServicerContext[bytes, bytes]
Unary = Callable[[bytes], Awaitable[bytes]]


class Gone(Exception):
    """The client is no longer there to be written to."""


class Call:
    """An open stream: bytes in, bytes out, counted."""

    def __init__(
        self,
        context: Context,
        meter: Meter,
        log: structlog.typing.FilteringBoundLogger,
        memory: Memory,
        outgoing: Outgoing,
        first: bytes | None = None,
    ) -> None:
        self._context = context
        self._log = log
        self._memory = memory
        self.outgoing = outgoing
        self.meter = meter
        self.first = first  # the one request of a server-streaming call

    async def read(self) -> bytes | None:
        """The client's next message, None when it has closed its side."""
        raw: Any = await self._context.read()
        if raw is grpc.aio.EOF:
            return None
        self.meter.received(len(raw))
        self._memory.used(len(raw))
        return raw  # type: ignore[no-any-return]

    async def write(self, raw: bytes) -> None:
        try:
            await self.outgoing.send(self._context.write(raw), len(raw))
        except grpc.aio.BaseError as error:
            raise Gone from error
        self.meter.sent(len(raw))

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
        outgoing: Outgoing,
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._metrics = metrics
        self._outgoing = outgoing
        self._open = 0  # streams
        self._memory = memory
        self._clock = clock
        self._log = log

    def unary(
        self, method: str, verb: Unary, crowd: Crowd | None = None
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """A handler of `verb`; where calls have a `crowd`, each takes its turn in it."""
        meter, clock, memory = self._metrics.meter(method), self._clock, self._memory

        async def handle(raw: bytes, context: Context) -> bytes:
            started = clock.monotonic()
            meter.received(len(raw))
            memory.used(len(raw))
            try:
                if crowd is not None:
                    await crowd.turn()
                reply = await verb(raw)
            except BaseException as error:  # noqa: BLE001 - sorted out, never swallowed
                meter.took(clock.monotonic() - started)
                raw = b""
                await self._failed(method, meter, context, error)
            finally:
                if crowd is not None:
                    crowd.went()
            meter.took(clock.monotonic() - started)
            meter.sent(len(reply))
            memory.used(len(reply))
            if len(reply) >= STREAM_MESSAGE_BYTES_MIN:
                self._hold(len(reply), context)
            meter.ended(grpc.StatusCode.OK)
            return reply

        return grpc.unary_unary_rpc_method_handler(handle)

    def server_stream(self, method: str, serve: Streaming) -> grpc.RpcMethodHandler[bytes, bytes]:
        meter = self._metrics.meter(method)

        async def handle(raw: bytes, context: Context) -> None:
            meter.received(len(raw))
            self._memory.used(len(raw))
            call = Call(context, meter, self._log, self._memory, self._outgoing, raw)
            await self._stream(method, meter, context, serve, call)

        return grpc.unary_stream_rpc_method_handler(handle)

    def both_streams(self, method: str, serve: Streaming) -> grpc.RpcMethodHandler[bytes, bytes]:
        meter = self._metrics.meter(method)

        async def handle(requests: object, context: Context) -> None:
            call = Call(context, meter, self._log, self._memory, self._outgoing)
            await self._stream(method, meter, context, serve, call)

        return grpc.stream_stream_rpc_method_handler(handle)

    def _hold(self, size: int, context: Context) -> None:
        """Count a reply until its client has read it."""
        self._outgoing.hold(size)

        release: Any = partial(self._release, size)  # the type of a callback is private to gRPC
        context.add_done_callback(release)

    def _release(self, size: int, _context: Context) -> None:
        self._outgoing.release(size)

    async def _stream(
        self, method: str, meter: Meter, context: Context, serve: Streaming, call: Call
    ) -> None:
        meter.open += 1
        self._open += 1
        try:
            if self._open > STREAMS_OPEN_MAX:
                raise Exhausted(
                    f"the server has {STREAMS_OPEN_MAX} open streams, and takes no more: close some, retry"
                )
            await serve(call)
        except BaseException as error:  # noqa: BLE001 - sorted out, never swallowed
            await self._failed(method, meter, context, error)
        finally:
            meter.open -= 1
            self._open -= 1
        meter.ended(grpc.StatusCode.OK)

    async def _failed(self, method: str, meter: Meter, context: Context, error: BaseException) -> NoReturn:
        """End the call with the status that `error` deserves.

        gRPC keeps the exception by which an abort ends the call, and with it, in a circle, the frames that it passed:
        until the next collection of garbage, which may be far. So nothing large is left in them.
        """
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            meter.ended(grpc.StatusCode.CANCELLED)
            raise error
        if isinstance(error, Gone):
            meter.ended(grpc.StatusCode.CANCELLED)
            raise asyncio.CancelledError from error
        if isinstance(error, JjqError):
            code, text, trailers = status_out(error)
            meter.ended(code)
            self._log.debug("refused", method=method, code=code.name, why=text)
            _let_go(error)
            await _abort(context, code, text, trailers)
        if not isinstance(error, Exception):
            raise error
        meter.ended(grpc.StatusCode.INTERNAL)
        self._log.error("unforeseen", method=method, exc_info=error)
        _let_go(error)
        await _abort(context, grpc.StatusCode.INTERNAL, UNEXPECTED, ())


async def _abort(context: Context, code: grpc.StatusCode, text: str, trailers: Any) -> NoReturn:
    """End the call; a client that hangs up before it has heard of it is no error of ours."""
    try:
        await context.abort(code, text, trailers)
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError as gone:
        raise asyncio.CancelledError from gone


def _let_go(error: BaseException | None) -> None:
    """Forget the frames in which an error arose: what they worked on may be large."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
