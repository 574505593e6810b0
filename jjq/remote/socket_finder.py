"""Finds out over gRPC whether a server has WebSockets, and keeps a connection to it.

Until there is one, and while there is none, calls go over gRPC: behind a proxy, with HTTP switched off, with a server
of an earlier release. The server's answer names the process that it is, so a connection that somebody leads to
another server is not used.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, cast

from picows.api import ws_connect
from picows.common import WSError, WSUpgradeRequest, WSUpgradeResponse
from picows.picows import WSListener, WSTransport

from coldstore.shared.backoff import Backoff
from coldstore.shared.clock import Clock
from coldstore.shared.errors import JjqError, Unavailable
from jjq.addresses import split_address
from jjq.limits import (
    BACKOFF_SECONDS,
    CONNECT_SECONDS,
    HINT_SECONDS,
    PEER_SOCKET_SECONDS,
    WEBSOCKET_PING_SECONDS,
    WEBSOCKET_PONG_SECONDS,
    WEBSOCKET_REPLY_BYTES_MAX,
)
from jjq.remote.call_socket import ClientSocket
from jjq.remote.settings import RemoteSettings, SocketPlace
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.call_frames import PATH, PEER_PATH
from jjq.wire.services import JJQ, PEER
from jjq.wire.status import NoSuchMethod

PATHS: Final = {JJQ: PATH, PEER: PEER_PATH}  # by service
_AGAIN_SECONDS: Final = {JJQ: HINT_SECONDS, PEER: PEER_SOCKET_SECONDS}  # at most, before it is tried again
_LOGGER: Final = logging.getLogger("jjq.picows")
_LOGGER.setLevel(logging.CRITICAL + 1)
_QUIET: Final = logging.LoggerAdapter(_LOGGER, {})  # errors reach the callers, as those of gRPC do

Ask = Callable[[str, bytes, float], Awaitable[bytes]]  # a call over gRPC: method, request, seconds


class SocketFinder:
    """The socket of one connection to a server, if there can be one."""

    def __init__(self, target: str, settings: RemoteSettings, ask: Ask, clock: Clock) -> None:
        self._host = split_address(target, "server")[0]
        self._settings = settings
        self._service = settings.service
        self._ask = ask
        self._clock = clock
        self._socket: ClientSocket | None = None
        self._place: SocketPlace | None = None  # where it leads
        self._trying: asyncio.Task[None] | None = None
        self._attempt: object | None = None  # the one under way
        self._ending: asyncio.Task[None] | None = None  # of the socket
        self._again = 0.0  # when to try again
        self._backoff = Backoff(BACKOFF_SECONDS, _AGAIN_SECONDS[settings.service])
        self.why = "it was not tried yet"  # there is none

    def find(self) -> ClientSocket | None:
        """The socket; if there is none, one is looked for beside."""
        socket = self._socket
        if socket is not None and socket.usable:
            return socket
        if self._trying is None and self._clock.monotonic() >= self._again:
            self._trying = asyncio.create_task(self._try(), name="jjq-websocket")
        return None

    def place(self, left: Callable[[], None]) -> SocketPlace | None:
        """Where the socket leads, if there is one; `left` is called when it ends. From any thread."""
        socket = self._socket
        if socket is None or not socket.usable:
            return None
        socket.left = left
        return self._place

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

    async def http_place(self, seconds: float) -> SocketPlace | None:
        """Where the server listens for HTTP, as a socket shows that stands; None: it does not, or not for us."""
        try:
            await self.wait(seconds)
        except Unavailable:
            return None
        return self._place

    async def _try(self) -> None:
        found = False
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                raw = await self._ask("GetTransports", b"", CONNECT_SECONDS)
                reply = parse(pb.GetTransportsResponse, raw)
                if reply.websocket_port:
                    await self._connect(reply.websocket_port, reply.instance)
                    found = True
                else:  # or not yet: it may be starting
                    self.why = "the server does not listen for HTTP"
        except NoSuchMethod:
            self.why = "the server is of an earlier release"
        except (JjqError, WSError, OSError, TimeoutError, ssl.SSLError) as error:
            self.why = f"{type(error).__name__}: {error}"
        finally:
            if found:
                self._backoff.reset()
            self._again = self._clock.monotonic() + (0.0 if found else self._backoff.next_pause())
            self._trying = self._attempt = None

    async def _connect(self, port: int, instance: str) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        tls, key = self._settings.tls, self._settings.key
        attempt = self._attempt = object()
        context = None if tls is None else tls.context()

        def accept(_request: WSUpgradeRequest, response: WSUpgradeResponse) -> WSListener:
            return ClientSocket(response) if self._attempt is attempt else _Unwanted()

        transport, made = await ws_connect(
            accept,
            f"{'ws' if tls is None else 'wss'}://{host}:{port}{PATHS[self._service]}",
            ssl_context=context,
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
        self._place = SocketPlace(self._host, port, instance, context, key)
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


class _Unwanted(WSListener):
    """Hangs up: the attempt was given up meanwhile. An error from picows would reach nobody but asyncio's log."""

    def on_ws_connected(self, transport: WSTransport) -> None:
        transport.disconnect()


async def _until_closed(transport: WSTransport) -> None:
    """Return when the connection is gone. The calls on it raise why it broke."""
    with suppress(Exception):
        await transport.wait_disconnected()
