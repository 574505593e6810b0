"""The routes: `/connect/`, a WebSocket for each client, and `/status/<queue>`.

    Binary: true            replies are bincode; requests may be either, by the type of their frame
    RECONNECT-AS: 123       go on as this client
    DURABLE-SESSION: true   keep what comes while the socket is away

Frames are worked on in their order. While they come faster than that, the socket is not read.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import orjson
from picows.picows import WSCloseCode

from coldstore.shared.errors import Exhausted
from jjq.http.access import SocketAccess
from jjq.http.backend import Backend
from jjq.http.priority_socket.queues import SocketQueues
from jjq.http.priority_socket.sessions import SocketClient, SocketSessions
from jjq.http.problems import HttpRefusal
from jjq.http.replies import BytesReply, Reply
from jjq.http.request import Request
from jjq.http.routing import HttpRoute
from jjq.http.websocket.socket import WebSocket
from jjq.http.websocket.upgrade import WebSocketRoute
from jjq.limits import CONNECT_FRAMES_MAX, CONNECT_POST_BYTES

_TRUE: Final = frozenset({"true", "1"})
_ID_END: Final = 2**64


class PrioritySocket(WebSocket):
    """One connection of a client."""

    def __init__(
        self,
        access: SocketAccess,
        sessions: SocketSessions,
        number: int | None,
        *,
        binary: bool,
        durable: bool,
    ) -> None:
        super().__init__(access)
        self._sessions = sessions
        self._number = number
        self._binary = binary
        self._durable = durable
        self._client: SocketClient | None = None
        self._frames: deque[tuple[bytes, bool]] = deque()
        self._bytes = 0  # of frames
        self._working = False

    def on_open(self) -> None:
        try:
            self.access.count_stream()
        except Exhausted as error:
            self.close(WSCloseCode.TRY_AGAIN_LATER, error.message)
            return
        self._client = self._sessions.connect(
            self, self._number, self.access.key, binary=self._binary, durable=self._durable
        )

    def on_message(self, data: bytes, is_text: bool) -> None:
        if self.draining:
            return
        self._frames.append((data, is_text))
        self._bytes += len(data)
        if not self._working:
            self._working = True
            self.start(self._work())
        elif len(self._frames) >= CONNECT_FRAMES_MAX or self._bytes >= CONNECT_POST_BYTES:
            self.hold_reading(True)

    async def _work(self) -> None:
        try:
            while self._frames and self._client is not None:
                data, is_text = self._frames.popleft()
                self._bytes -= len(data)
                await self._client.requests.handle(data, text=is_text)
        finally:
            self._working = False
            self.hold_reading(False)

    def on_drain(self) -> None:
        if self._client is not None:
            self.start(self._client.session.flushed())

    def on_gone(self) -> None:
        self._frames.clear()
        if self._client is not None:
            self._sessions.disconnect(self._client, self)


def connect_route(backend: Backend, *, creates: bool) -> WebSocketRoute:
    """The route of `/connect/`; `creates`: whether its clients may create queues."""
    sessions = SocketSessions(backend, creates=creates)
    backend.metrics.registry.register(sessions)

    def accept(request: Request, access: SocketAccess) -> WebSocket:
        number = _client_id(request)
        return PrioritySocket(
            access,
            sessions,
            number,
            binary=_is_set(request, "binary"),
            durable=_is_set(request, "durable-session"),
        )

    return WebSocketRoute(
        "/connect/", accept, "connect", "Post, fetch, pop and finish messages (docs/connect.md)"
    )


def _is_set(request: Request, name: str) -> bool:
    return (request.header(name) or "").lower() in _TRUE


def _client_id(request: Request) -> int | None:
    text = request.header("reconnect-as")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_ID_END)) or int(text) >= _ID_END:
        raise HttpRefusal(
            400, f"RECONNECT-AS is {text[:60]!r}: send the id of an earlier hello, or leave it out"
        )
    return int(text)


async def _status(request: Request) -> Reply:
    request.query()
    found = await SocketQueues(request.backend, creates=False).status(request.params["queue"])
    return BytesReply(orjson.dumps(found))


ROUTES: Final = (
    HttpRoute(
        "GET",
        "/status/{queue}",
        _status,
        "connect_status",
        "How a queue of /connect/ is; also 200 where there is none",
        "work|read",
        "queue",
        reply=dict,
    ),
)
