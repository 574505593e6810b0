"""All clients of this node: found by their id, kept while they are away, ended at last.

A client that names an id (`RECONNECT-AS`) goes on with that session, if it shows the same key; a socket that the
session still had is closed. A session that is not durable ends with its socket, and what it waited for is given up. A
durable one goes on: fetches and pops wait on, and replies are kept for the next socket, for a time and up to a size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coldstore.shared.errors import JjqError
from jjq.http.backend import Backend
from jjq.http.priority_socket.notices import NoticeBoard
from jjq.http.priority_socket.queues import SocketQueues
from jjq.http.priority_socket.requests import SocketRequests
from jjq.http.priority_socket.session import BufferTotal, ClientPlace, FrameSocket, SocketSession
from jjq.limits import CONNECT_AWAY_MAX, CONNECT_AWAY_SECONDS


class SocketClient:
    """A client, and what it asks for."""

    def __init__(self, session: SocketSession, requests: SocketRequests) -> None:
        self.session = session
        self.requests = requests
        self.leaving: asyncio.TimerHandle | None = None  # while it is away


class SocketSessions(Collector):
    """See the module's docstring."""

    def __init__(self, backend: Backend, *, creates: bool = True) -> None:
        self.queues = SocketQueues(backend, creates=creates)
        self._backend = backend
        self._board = NoticeBoard(backend)
        self._total = BufferTotal()
        self._clients: dict[ClientPlace, SocketClient] = {}
        self._away: dict[ClientPlace, SocketClient] = {}  # who left first is first

    def connect(
        self, socket: FrameSocket, number: int | None, key: str | None, *, binary: bool, durable: bool
    ) -> SocketClient:
        """A socket was opened: the client that it belongs to. `NoKey` if a key is needed."""
        keys = self._backend.keys
        owner = None if keys is None else keys.identify(key)
        owner_id = "" if owner is None else owner.id
        place = (owner_id, self._new_number(owner_id) if number is None else number)
        client = self._clients.get(place)
        if client is None:
            session = SocketSession(place, key, self._total, self._ended)
            usage = None if keys is None else keys.usage(owner)
            requests = SocketRequests(self._backend, self.queues, self._board, session, usage)
            client = self._clients[place] = SocketClient(session, requests)
        self._come_back(client)
        client.session.durable = client.session.durable or durable
        client.session.attach(socket, binary=binary)
        if number is not None:
            client.session.start(client.requests.resume())
        return client

    def disconnect(self, client: SocketClient, socket: FrameSocket) -> None:
        """A socket is gone."""
        if not client.session.detach(socket):
            return  # another one took its place, or the session has ended
        if not client.session.durable or self._backend.drain.stopping:
            client.session.end()
            return
        self._away[client.session.place] = client
        loop = asyncio.get_running_loop()
        client.leaving = loop.call_later(CONNECT_AWAY_SECONDS, client.session.end)
        while len(self._away) > CONNECT_AWAY_MAX:
            next(iter(self._away.values())).session.end()

    def _come_back(self, client: SocketClient) -> None:
        self._away.pop(client.session.place, None)
        if client.leaving is not None:
            client.leaving.cancel()
            client.leaving = None

    def _new_number(self, owner: str) -> int:
        number = self._backend.clock.now_us() * 1_000
        while (owner, number) in self._clients:
            number += 1
        return number

    def _ended(self, session: SocketSession) -> None:
        self._come_back(self._clients.pop(session.place))
        self._backend.drain.keep(asyncio.ensure_future(self._clean(session)))

    async def _clean(self, session: SocketSession) -> None:
        await self._board.session_ended(session)
        if session.attached:
            with suppress(JjqError):  # the store gives its tasks back by itself, a little later
                await self.queues.work.detach_session(session.name)

    # Figures ---------------------------------------------------------------------------------------------

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        away = len(self._away)
        sessions = GaugeMetricFamily("jjq_connect_sessions", "Clients of /connect/", labels=("state",))
        sessions.add_metric(("connected",), len(self._clients) - away)
        sessions.add_metric(("away",), away)
        yield sessions
        yield GaugeMetricFamily(
            "jjq_connect_buffer_bytes", "Replies that clients of /connect/ have not read", self._total.bytes
        )
        yield GaugeMetricFamily(
            "jjq_connect_awaited_posts",
            "Posts whose assign, finish, retry or drop is awaited",
            self._board.total,
        )
