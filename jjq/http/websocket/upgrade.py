"""How a connection leaves HTTP: the routes of WebSockets, and the handing over to picows.

uvicorn's protocol has parsed the request; the application has found its route, checked Host, Origin and key, and made
a `WebSocket`. Here the rest of the handshake is checked, and picows gets the connection: a head that has just what
it looks at, and the bytes that came after the request. It gets the transport in a wrapper, which hangs up in two
steps (`LingeringTransport`): a client that is still sending when it is closed would otherwise never see why.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from picows.common import WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener
from picows.picows import WSAutoPingStrategy, WSProtocol  # type: ignore[attr-defined] # what ws_create_server makes connections of

from jjq.http.access import SocketAccess
from jjq.http.problems import HttpRefusal
from jjq.http.request import Request
from jjq.http.websocket.open_sockets import OpenSockets
from jjq.http.websocket.socket import WebSocket

_VERSION: Final = b"13"
_KEY_BYTES: Final = 16
_READ_BYTES: Final = 4 * 1024  # of its buffer at first; it grows with what comes
# picows would say what its clients do wrong; figures and close codes say it here.
_LOGGER: Final = logging.getLogger("jjq.picows")
_LOGGER.setLevel(logging.CRITICAL + 1)
_QUIET: Final = logging.LoggerAdapter(
    _LOGGER, {}
)  # of a plain logger picows would make one for each connection

Accept = Callable[[Request, SocketAccess], WebSocket]


@dataclass(frozen=True, slots=True)
class WebSocketRoute:
    """One path. `accept` looks at the request, and gives the connection's `WebSocket` or raises what refuses it.

    `scope` is the right that a key needs to connect; with `any` whatever key will do, and messages are checked
    one by one. `queue` is the part of the path that names a queue.
    """

    path: str
    accept: Accept
    name: str
    about: str
    scope: str = "any"
    queue: str = ""

    @property
    def method(self) -> str:
        return "GET"

    @property
    def parts(self) -> list[str]:
        return self.path.removeprefix("/").split("/")


def check_handshake(method: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The key of a handshake, if all that RFC 6455 wants is there; raises `HttpRefusal` if not."""
    found: Mapping[bytes, bytes] = dict(headers)
    if method != "GET":
        raise HttpRefusal(405, f"a WebSocket is asked for by GET, not {method}", Allow="GET")
    if b"content-length" in found or b"transfer-encoding" in found:
        raise HttpRefusal(400, "a request to upgrade has no body: send it without Content-Length")
    if found.get(b"sec-websocket-version") != _VERSION:
        raise HttpRefusal(
            426, "Sec-WebSocket-Version must be 13", Sec_WebSocket_Version="13", Upgrade="websocket"
        )
    key = found.get(b"sec-websocket-key", b"").strip()
    try:
        size = len(base64.b64decode(key, validate=True))
    except binascii.Error:
        size = 0
    if size != _KEY_BYTES or sum(name == b"sec-websocket-key" for name, _ in headers) != 1:
        raise HttpRefusal(400, "Sec-WebSocket-Key must be 16 bytes in base64, once")
    return key


def hand_over(
    transport: asyncio.Transport, key: bytes, rest: bytes, socket: WebSocket, sockets: OpenSockets
) -> None:
    """Give the connection to `socket`; `rest` came after the request."""
    socket.attach(sockets)

    def answer(_request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(socket.headers), socket)

    limits = sockets.limits
    protocol = WSProtocol(
        host_port=None,
        ws_path=None,
        is_client_side=False,
        ws_listener_factory=answer,
        logger=_QUIET,
        disconnect_on_exception=True,
        websocket_handshake_timeout=None,
        enable_auto_ping=True,
        auto_ping_idle_timeout=limits.ping_seconds,
        auto_ping_reply_timeout=limits.pong_seconds,
        auto_ping_strategy=WSAutoPingStrategy.PING_WHEN_IDLE,
        enable_auto_pong=False,
        max_frame_size=limits.frame_bytes,
        extra_headers=None,
        read_buffer_init_size=_READ_BYTES,
    )
    transport.pause_reading()  # uvloop looks at what a protocol is when reading begins
    protocol.connection_made(LingeringTransport(transport, protocol, limits.close_seconds))
    transport.set_protocol(protocol)
    head = (
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: %b\r\n\r\n" % key
    )
    _feed(protocol, head)
    if rest:
        _feed(protocol, rest)
    if transport.get_protocol() is protocol and not transport.is_closing():
        transport.resume_reading()


def _feed(protocol: Any, data: bytes) -> None:
    while data:
        room = protocol.get_buffer(-1)
        size = min(len(room), len(data))
        room[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]


class LingeringTransport:
    """A transport that is closed in two steps: nothing more is sent; what comes is dropped until the client hangs up.

    A socket that is closed while bytes of its client are unread is reset, and the client then loses what it has
    not read yet: the close frame.
    """

    def __init__(self, transport: asyncio.Transport, protocol: Any, seconds: float) -> None:
        self._transport = transport
        self._protocol = protocol
        self._seconds = seconds
        self._lingers = False
        # As they are, for speed.
        self.write, self.writelines = transport.write, transport.writelines
        self.get_write_buffer_size = transport.get_write_buffer_size
        self.set_write_buffer_limits = transport.set_write_buffer_limits
        self.get_extra_info = transport.get_extra_info
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.is_reading = transport.is_reading
        self.abort = transport.abort

    def is_closing(self) -> bool:
        return self._lingers or self._transport.is_closing()

    def close(self) -> None:
        transport = self._transport
        if self.is_closing():
            return
        self._lingers = True
        if transport.is_reading():
            transport.pause_reading()
        transport.set_protocol(_LastBytes(self._protocol, transport, self._seconds))
        transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()


class _LastBytes(asyncio.Protocol):
    """Drops what comes, until the client hangs up or time is up."""

    def __init__(self, protocol: Any, transport: asyncio.Transport, seconds: float) -> None:
        self._protocol = protocol
        self._timer = asyncio.get_running_loop().call_later(seconds, transport.abort)

    def eof_received(self) -> bool:
        return False  # the transport closes itself

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        self._protocol.connection_lost(error)
