"""One connection: uvicorn's protocol over httptools, with limits that it does not have.

    headers    at most `HTTP_HEADER_BYTES_MAX` bytes, whole within `HTTP_HEADER_SECONDS`
    body       something comes every `HTTP_BODY_IDLE_SECONDS`, and all of it within `HTTP_BODY_SECONDS`; the rest of one
               that was refused is passed over for `HTTP_LINGER_SECONDS`
    reply      a client that reads nothing for `HTTP_SEND_SECONDS` is cut off
    idle       closed after `HTTP_IDLE_SECONDS`; earlier if there are too many connections

What cannot be parsed is answered by a problem and closed: a body whose end two readers could see at different places
(two lengths, a length beside chunks) never reaches the application, nor does a request without Host, or with two.

A request to upgrade to WebSocket leaves this file: the application says to what, and jjq/http/websocket/upgrade.py
takes the connection over. Other upgrades are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from jjq.http.direct import BodyEnd, DirectReply, DirectSocket, DirectThreads, TakenBody
from jjq.http.problems import HttpRefusal, refuse
from jjq.http.request import ABORT, PATIENT, REPLY_DIRECTLY, TAKE_BODY, Scope
from jjq.http.websocket.open_sockets import OpenSockets
from jjq.http.websocket.socket import WebSocket
from jjq.http.websocket.upgrade import check_handshake, hand_over
from jjq.limits import (
    HTTP_BODY_IDLE_SECONDS,
    HTTP_BODY_SECONDS,
    HTTP_CONNECTIONS_MAX,
    HTTP_DIRECT_BYTES,
    HTTP_HEADER_BYTES_MAX,
    HTTP_HEADER_SECONDS,
    HTTP_HEADERS_MAX,
    HTTP_IDLE_SECONDS,
    HTTP_LINGER_SECONDS,
    HTTP_SEND_SECONDS,
    HTTP_TARGET_BYTES_MAX,
)
from jjq.open_files import open_files_max

_LINE_BREAKS: Final = (b"\r", b"\n", b"\x00")


class Connections(ServerState):
    """All connections of a listener; those without a request under way, the longest idle first.

    Those that have left HTTP for a WebSocket are in `sockets`; `upgrade` says what they become.
    """

    def __init__(self, sockets: OpenSockets, upgrade: Callable[[Scope], WebSocket]) -> None:
        super().__init__()
        self.sockets = sockets
        self.upgrade = upgrade
        self.direct = DirectThreads()
        self.idle: dict[HttpConnection, None] = {}
        self.most = min(HTTP_CONNECTIONS_MAX, open_files_max() // 2)  # the rest is for gRPC and the store
        self.refused = 0  # so far, as there was no room

    def make_room(self) -> bool:
        """Whether one more connection may stay; the one that is idle for longest goes, if need be."""
        if len(self.connections) + len(self.sockets.open) <= self.most:
            return True
        oldest = next(iter(self.idle), None)
        self.refused += 1
        if oldest is None:
            return False
        del self.idle[oldest]
        oldest.transport.abort()
        return True


class HttpConnection(HttpToolsProtocol):
    """See the module's docstring. One timer watches whatever the connection is waiting for."""

    def __init__(self, config: Config, state: Connections, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config, state, {}, loop)
        self.timeout_keep_alive = round(HTTP_IDLE_SECONDS)
        self._all = state
        self._in_headers = False
        self._header_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._body_until = 0.0
        self._lingers = False  # the request was answered before its body was whole
        self._stuck: asyncio.TimerHandle | None = None
        self._came = 0  # bytes of the body
        self._direct: DirectSocket | None = None  # a thread has the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self.app_state |= {ABORT: self.transport.abort, PATIENT: self._allow}
        self.app_state |= {TAKE_BODY: self._take_body, REPLY_DIRECTLY: self._reply_directly}
        if not self._all.make_room():
            self._refuse(HttpRefusal(503, "the server has no room for one more connection: retry"))
            return
        self._all.idle[self] = None
        self._watch(HTTP_HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        if self._direct is not None:
            self._direct.interrupt()
        super().connection_lost(exc)

    def _leave(self) -> None:
        self._all.idle.pop(self, None)
        self._watch(None)
        self._unset_keepalive_if_required()
        self._unstick()

    def data_received(self, data: bytes) -> None:
        if self.parser is None or self.transport.is_closing():
            return
        self._all.idle.pop(self, None)
        self._unset_keepalive_if_required()
        if not self._in_headers and not self._body_until:
            self._watch(HTTP_HEADER_SECONDS)
        elif self._body_until and not self._lingers:
            self._watch(min(HTTP_BODY_IDLE_SECONDS, self._body_until - self.loop.time()))
        try:
            self.parser.feed_data(data)
            if self._in_headers:
                self._count(len(data))
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self._refuse(
                cause if isinstance(cause, HttpRefusal) else HttpRefusal(400, "the request is malformed")
            )
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(HttpRefusal(400, f"this is not HTTP/1.1: {str(error)[:100] or 'malformed'}"))

    def _should_upgrade_to_ws(self) -> bool:
        """uvicorn asks; it would look for a library of its own."""
        return True

    def _upgrade(self, rest: bytes) -> None:
        """Leave HTTP, if it is to a WebSocket and nobody waits for an answer on this connection."""
        try:
            if not self._should_upgrade():
                raise HttpRefusal(501, "this server upgrades to websocket only")
            if self.cycle is not None and not self.cycle.response_complete:
                raise HttpRefusal(400, "wait for the answers to your requests before you upgrade")
            self._all.sockets.check_room()
            key = check_handshake(self.scope["method"], self.headers)
            url = httptools.parse_url(self.url)
            scope = cast("Scope", self.scope)
            scope["raw_path"], scope["query_string"] = url.path or b"/", url.query or b""
            scope["path"] = unquote(scope["raw_path"].decode("latin-1"))
            socket = self._all.upgrade(scope)
        except Exception as error:  # noqa: BLE001 - the application has logged what nobody foresaw
            self._refuse(error)
            return
        self._leave()
        self.connections.discard(self)
        hand_over(self.transport, key, rest, socket, self._all.sockets)

    def _count(self, more: int) -> None:
        """Headers that are not whole yet count by the bytes that came."""
        self._header_bytes += more
        if self._header_bytes > HTTP_HEADER_BYTES_MAX + HTTP_TARGET_BYTES_MAX:
            self._refuse(_too_many_headers())

    # Callbacks of the parser: what they raise ends the connection -----------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._header_bytes, self._came = True, 0, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > HTTP_TARGET_BYTES_MAX:
            raise HttpRefusal(
                414, f"path and query have more than {HTTP_TARGET_BYTES_MAX} bytes: shorten them"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HTTP_HEADER_BYTES_MAX or len(self.headers) >= HTTP_HEADERS_MAX:
            raise _too_many_headers()
        if any(mark in value for mark in _LINE_BREAKS):
            raise HttpRefusal(400, "a header goes over several lines: write it in one")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() != "1.0"):
            raise HttpRefusal(400, f"the request has {hosts} Host headers: send exactly one")
        lengths = sum(name in {b"content-length", b"transfer-encoding"} for name, _ in self.headers)
        if lengths > 1:
            raise HttpRefusal(
                400, "the request gives the length of its body twice: send one of the two headers"
            )
        self._body_until = self.loop.time() + HTTP_BODY_SECONDS
        self._watch(HTTP_BODY_IDLE_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._came += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_until, self._lingers = 0.0, False
        self._watch(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._body_until:  # read on for a moment: hanging up at once could lose the answer on its way
            self._lingers = True
            self._watch(HTTP_LINGER_SECONDS)
        elif self.timeout_keep_alive_task is not None and not self.transport.is_closing():
            self._all.idle[self] = None

    # Bytes past the event loop (jjq/http/direct.py) ---------------------------------------------------

    def _take_body(self, scope: Scope) -> TakenBody | None:
        """The rest of the body of a request, if it is worth a thread and one is free; it is not read here any more."""
        cycle = self.cycle
        if cycle is None or cycle.scope is not scope or not cycle.more_body:
            return None
        length = int(dict(self.headers).get(b"content-length", b"0"))
        if length - self._came < HTTP_DIRECT_BYTES:
            return None
        direct = self._direct = self._all.direct.lend(self.transport, reads=True)
        if direct is None:
            return None
        self.flow.pause_reading()
        came, cycle.body = bytes(cycle.body), bytearray()

        def ended(end: BodyEnd) -> None:
            self._direct = None
            if end == "whole":  # the parser has not seen it, and cannot go on with another request
                cycle.more_body = cycle.keep_alive = False
                self._body_until = 0.0
                self._watch(None)
            elif end == "gone":
                cycle.disconnected = True
                self.transport.abort()
            elif not self.transport.is_closing():  # the rest is passed over
                self.flow.resume_reading()

        return TakenBody(direct, came, length - self._came, ended)

    def _reply_directly(self, scope: Scope) -> DirectReply | None:
        """The way for the body of a reply whose headers were sent, if it has a length and a thread is free."""
        cycle = self.cycle
        if cycle is None or cycle.scope is not scope or cycle.chunked_encoding is not False:
            return None
        direct = self._direct = self._all.direct.lend(self.transport, reads=False)
        if direct is None:
            return None

        def sent(size: int) -> None:
            cycle.expected_content_length -= size

        return DirectReply(direct, self.transport, sent)

    # What takes too long ---------------------------------------------------------------------------------

    def _watch(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(max(0.0, seconds), self._late)

    def _allow(self, seconds: float) -> None:
        """The body that is being received may take so long."""
        if self._body_until:
            self._body_until = self.loop.time() + seconds

    def _late(self) -> None:
        self._timer = None
        if self._body_until > self.loop.time() and self.flow.read_paused:
            self._watch(HTTP_BODY_IDLE_SECONDS)  # the client waits for us, not we for it
            return
        if self._lingers:
            self.transport.close()
            return
        waits = "its body" if self._body_until else "a request"
        self._refuse(HttpRefusal(408, f"the server has waited for {waits} long enough: send it at once"))

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(HTTP_SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._unstick()
        super().resume_writing()

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _refuse(self, error: Exception) -> None:
        """Answer, if no other answer is under way, and hang up."""
        self._watch(None)
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if (
            cycle is not None
            and not cycle.response_complete
            and (cycle.response_started or not cycle.more_body)
        ):
            self.transport.abort()  # an answer would be taken for that of the request before
            return
        self._answer(error)

    def _answer(self, error: Exception) -> None:
        status, headers, body = refuse(error, "-")
        lines = [STATUS_LINE[status]]
        for name, value in (*headers, (b"content-length", b"%d" % len(body)), (b"connection", b"close")):
            lines.append(b"%b: %b\r\n" % (name, value))
        self.transport.write(b"".join((*lines, b"\r\n", body)))
        self.transport.close()


def _too_many_headers() -> HttpRefusal:
    return HttpRefusal(
        431,
        f"the headers have more than {HTTP_HEADER_BYTES_MAX} bytes or are more than {HTTP_HEADERS_MAX}: send fewer",
    )


def make_config(application: Any) -> Config:
    """What the protocol needs to know; no part of uvicorn but its protocol is used."""
    config = Config(
        application,
        http=HttpConnection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",  # what it would say, the application says with the number of the request
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    config.load()
    return config
