"""The ASGI application: finds the route of a request, checks who asks, and sends what the route answers.

    Host and Origin    web pages of strangers cannot use a server on somebody's machine
    route              404, 405
    key                401, 403: one check for all routes, in `AccessCheck`
    handler            jjq/http/v1 and others
    upgrade            the same checks for a WebSocket (jjq/http/websocket), which then leaves HTTP
    errors             every one becomes a problem (problems.py); a stream that has begun is cut, or tells of it

It is made over any `Store` (backend.py). A server of ours listens for it (listener.py); `jjq.asgi` mounts it in
somebody else's application.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, aclosing, nullcontext
from functools import lru_cache
from ipaddress import ip_address
from itertools import count
from typing import Any, Final, Protocol

import grpc
import orjson

from coldstore.shared.errors import JjqError, Unavailable
from coldstore.shared.limits import OBJECT_CHUNK_BYTES
from jjq.access.keys import NoKey
from jjq.http.access import SocketAccess
from jjq.http.backend import Backend
from jjq.http.direct import DirectReply
from jjq.http.problems import HttpRefusal, describe, refuse
from jjq.http.replies import BytesReply, Headers, StreamReply
from jjq.http.request import ABORT, ClientGone, Receive, Request, Scope, Send
from jjq.http.routing import HttpRoute, RouteTable
from jjq.http.websocket.socket import WebSocket
from jjq.http.websocket.upgrade import WebSocketRoute
from jjq.limits import HTTP_DIRECT_BYTES
from jjq.server.meter import Meter
from jjq.server.shutdown import STOPPING
from jjq.traces.context import note_trace
from jjq.wire.status import kind_of

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
_SENT: Final = (
    b"authorization, content-type, idempotency-key, last-event-id, traceparent, x-request-id, jjq-expected-offset, "
    b"jjq-key, jjq-producer, jjq-sequence, jjq-signature, jjq-stage, range, upload-offset"
)
_SHARED: Final = (  # what pages of listed origins may send, and read of an answer
    (b"access-control-allow-headers", _SENT),
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-expose-headers",
        b"x-request-id, retry-after, location, jjq-position, jjq-next, upload-offset",
    ),
)
_BROKEN_OFF: Final = "the server ended while it was at this; the outcome is unknown"
_NO_STORE: Final = (b"cache-control", b"no-store")


class AccessCheck(Protocol):
    """Who may do what. One call for every request, before its route runs."""

    def admit(self, request: Request, route: HttpRoute) -> AbstractContextManager[object]:
        """Raise `NoKey` or `Denied`, or give what the work is done in; that may raise the same later."""
        ...


class Application:
    """See the module's docstring."""

    def __init__(
        self,
        backend: Backend,
        routes: Iterable[HttpRoute],
        *,
        sockets: Iterable[WebSocketRoute] = (),
        access: AccessCheck | None = None,
        origins: frozenset[str] = frozenset(),
        hosts: frozenset[str] | None = None,
    ) -> None:
        self.backend = backend
        self.routes: RouteTable[HttpRoute] = RouteTable()
        self.routes.add(*routes)
        self.sockets: RouteTable[WebSocketRoute] = RouteTable()
        self.sockets.add(*sockets)
        self._access = access
        self._origins = origins
        self._hosts = hosts  # None: any name is right
        self._meters: dict[str, Meter] = {}
        self._series = backend.chance.token()[:16]  # of the numbers of requests
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        clock = self.backend.clock
        started = clock.monotonic()
        request = Request(scope, receive, self.backend, "")
        meter = self._meter("unknown")
        headers: Headers = []
        try:
            request.id = self._number(request)
            headers = [(b"x-request-id", request.id.encode()), _NOSNIFF, *self._cross_origin(request)]
            if request.method == "OPTIONS" and request.header("access-control-request-method") is not None:
                reply: BytesReply = BytesReply(b"", status=204)
            else:
                route, request.params = self.routes.find(request.method, _raw_path(scope))
                if self.backend.traced:
                    note_trace(request.header("traceparent"))
                meter, request.plain_errors = self._meter(route.name), route.plain_errors
                with nullcontext() if self._access is None else self._access.admit(request, route):
                    answer = await route.handler(request)
                    if isinstance(answer, StreamReply):
                        await self._stream(answer, request, meter, send, headers)
                        return
                    reply = answer
        except ClientGone:
            meter.ended(grpc.StatusCode.CANCELLED)
            return
        except asyncio.CancelledError:
            # The server ends: the web server would answer in words of its own, which are no problem document.
            await self._refuse(Unavailable(_BROKEN_OFF), request, meter, send, headers)
            raise
        except Exception as error:  # noqa: BLE001 - the client gets it; it is logged if it was not foreseen
            meter.took(clock.monotonic() - started)
            meter.received(request.received_bytes)
            await self._refuse(error, request, meter, send, headers)
            return
        finally:
            request.leave_place()
        meter.took(clock.monotonic() - started)
        meter.received(request.received_bytes)
        meter.sent(len(reply.body))
        meter.ended(grpc.StatusCode.OK)
        await _send_bytes(reply, headers, send, request.method == "HEAD")

    def _number(self, request: Request) -> str:
        """The number of a request: the client's own, if it has one."""
        given = request.header("x-request-id")
        return (
            given
            if given is not None and _ID.fullmatch(given)
            else f"{self._series}{next(self._numbers):08x}"
        )

    def _meter(self, name: str) -> Meter:
        found = self._meters.get(name)
        if found is None:
            found = self._meters[name] = self.backend.metrics.meter(f"http_{name}")
        return found

    def upgrade(self, scope: Scope) -> WebSocket:
        """What a request to upgrade leads to; raises what refuses it."""
        request = Request(scope, _receive_nothing, self.backend, "")
        meter = self._meter("websocket")
        try:
            request.id = self._number(request)
            self._cross_origin(request)
            route, request.params = self.sockets.find(request.method, _raw_path(scope))
            meter = self._meter(route.name)
            if self.backend.drain.stopping:
                raise Unavailable(STOPPING)
            access = SocketAccess(self.backend.keys, request.key)
            access.require(route.scope, request.params.get(route.queue) if route.queue else None)
            accepted = route.accept(request, access)
        except Exception as error:
            self._note(error, request, meter)
            raise
        meter.ended(grpc.StatusCode.OK)
        return accepted

    # Who asks --------------------------------------------------------------------------------------------

    def _cross_origin(self, request: Request) -> Headers:
        """Headers for a web page that may ask; one that may not is refused, before anything is done for it."""
        host = request.header("host") or ""
        if self._hosts is not None and not _is_ours(host, self._hosts):
            raise HttpRefusal(
                421, f"this server is not {host[:100]!r}: ask for localhost, or list the name in http_hosts"
            )
        origin = request.header("origin")
        if origin is None or origin.partition("://")[2] == host:
            return []
        if origin not in self._origins:
            raise HttpRefusal(
                403,
                f"web pages of {origin[:100]!r} may not call this server: list that origin in http_origins",
            )
        return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin"), *_SHARED]

    # Answers ---------------------------------------------------------------------------------------------

    async def _refuse(
        self, error: BaseException, request: Request, meter: Meter, send: Send, headers: Headers
    ) -> None:
        self._note(error, request, meter)
        if request.answered:
            return  # the reply had begun, and was cut
        status, own, body = refuse(error, request.id, plain=request.plain_errors)
        reply = BytesReply(body, own[0][1], status, [*own[1:], _NO_STORE])
        await _send_bytes(reply, headers, send, request.method == "HEAD")

    def _note(self, error: BaseException, request: Request, meter: Meter) -> None:
        log = self.backend.log
        if isinstance(error, JjqError):
            code = grpc.StatusCode.UNAUTHENTICATED if isinstance(error, NoKey) else kind_of(error).code
            meter.ended(code)
            log.debug("refused", method=meter.method, request=request.id, code=code.name, why=error.message)
        else:
            meter.ended(grpc.StatusCode.INTERNAL)
            log.error("unforeseen", method=meter.method, request=request.id, exc_info=error)

    async def _stream(
        self, reply: StreamReply, request: Request, meter: Meter, send: Send, headers: Headers
    ) -> None:
        """Send a body in parts. After the first part the status is sent, so an error can only cut the connection."""
        outgoing = self.backend.outgoing
        meter.open += 1
        parts: Any = reply.parts
        direct: DirectReply | None = None
        try:
            async with aclosing(parts):
                async for part in parts:
                    if not request.answered:
                        request.answered = True
                        await send(_start(reply.status, reply.media_type, [*headers, *reply.headers]))
                        if request.method == "HEAD":
                            break
                    meter.sent(len(part))
                    if direct is None and len(part) >= HTTP_DIRECT_BYTES:
                        direct = request.reply_directly()
                    if direct is not None:
                        await _write_directly(direct, part)
                        continue
                    for at in range(0, len(part), OBJECT_CHUNK_BYTES):  # most are smaller than one
                        piece = part[at : at + OBJECT_CHUNK_BYTES]
                        await outgoing.send(_write(send, piece), len(piece))
            if not request.answered:
                request.answered = True
                await send(_start(reply.status, reply.media_type, [*headers, *reply.headers]))
            await send({"type": "http.response.body", "body": b""})
            meter.ended(grpc.StatusCode.OK)
        except (ClientGone, asyncio.CancelledError):
            if request.answered:
                _cut(request)
            raise
        except Exception as error:
            if not request.answered:
                raise
            if reply.tells_errors:
                await send({"type": "http.response.body", "body": _event(error, request)})
            else:
                _cut(request)
            raise
        finally:
            meter.open -= 1
            if direct is not None:
                await direct.close()


def _event(error: BaseException, request: Request) -> bytes:
    """An error as an event; the client connects again by itself, and goes on after the last element."""
    return b"event: error\ndata: " + orjson.dumps(describe(error, request.id)) + b"\n\n"


async def _send_bytes(reply: BytesReply, headers: Headers, send: Send, without_body: bool) -> None:
    length = (b"content-length", b"%d" % len(reply.body))
    own = [] if reply.status in {204, 304} else [length]
    await send(_start(reply.status, reply.media_type, [*own, *headers, *reply.headers]))
    await send({"type": "http.response.body", "body": b"" if without_body else reply.body})


def _start(status: int, media_type: bytes, headers: Headers) -> dict[str, Any]:
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", media_type), *headers],
    }


async def _write(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


async def _write_directly(direct: DirectReply, part: bytes) -> None:
    try:
        await direct.send(part)
    except OSError:
        raise ClientGone from None


def _cut(request: Request) -> None:
    """End the connection at once, so that nobody takes what was sent for the whole."""
    abort = (request.scope.get("state") or {}).get(ABORT)
    if abort is None:
        raise ConnectionAbortedError("the reply is not whole")  # another server's way to cut a connection
    abort()


def _raw_path(scope: Scope) -> bytes:
    """The path as it came, below the place where the application is mounted."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    root = scope.get("root_path", "").encode()
    return raw[len(root) :] if root and raw.startswith(root) else raw.partition(b"?")[0]


@lru_cache(maxsize=256)  # a client sends the same name with each request, and it takes long to parse
def _is_ours(host: str, names: frozenset[str]) -> bool:
    """Whether a Host can be meant for a server that only this machine reaches."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.strip("[]").lower()
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


async def _receive_nothing() -> Scope:
    """A request to upgrade has no body."""
    return {"type": "http.disconnect"}


async def _live(receive: Receive, send: Send) -> None:
    """Some ASGI servers announce their start and end. Nothing is closed here: the code that opened the store closes
    it."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
