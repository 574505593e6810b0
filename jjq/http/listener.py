"""The HTTP listener: an ASGI application on the running event loop, from `start` to `stop`.

uvicorn's own server would take over signals and the end of the process, and both are ours here. So only its protocol
is used (connection.py), and connections are made, counted and ended by this file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jjq.addresses import split_address
from jjq.http.application import Application
from jjq.http.connection import Connections, HttpConnection, make_config
from jjq.http.settings import SETTING, HttpSettings, cannot_listen_for_http
from jjq.http.websocket.open_sockets import OpenSockets, SocketLimits
from jjq.limits import HANDSHAKE_SECONDS

_BACKLOG: Final = 2_048
_LAST_SECONDS: Final = 1.0  # for replies that were written to leave, when stopping


class HttpListener(Collector):
    """One listening socket. `address` is known once it has started."""

    def __init__(
        self,
        application: Application,
        settings: HttpSettings,
        log: structlog.typing.FilteringBoundLogger,
        limits: SocketLimits | None = None,
    ) -> None:
        self.settings = settings
        self.address = settings.listen
        self.port = 0
        self._application = application
        self._log = log
        self.sockets = OpenSockets(application.backend.outgoing, log, limits)
        self._state = Connections(self.sockets, application.upgrade)
        self._listening: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, or raise `InvalidInput`, which names the setting."""
        config = make_config(self._application)
        loop = asyncio.get_running_loop()
        host, port = split_address(self.settings.listen, SETTING)
        tls = None if self.settings.tls is None else self.settings.tls.context()
        try:
            self._listening = await loop.create_server(
                lambda: HttpConnection(config, self._state, loop),
                host,
                port,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
                backlog=_BACKLOG,
                reuse_port=False,
            )
        except OSError:
            raise cannot_listen_for_http(self.settings.listen) from None
        self.port = int(self._listening.sockets[0].getsockname()[1])
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._log.info("listening for HTTP", address=self.address, tls=tls is not None)

    async def stop(self, grace: float) -> None:
        """Take no more, finish what is under way for `grace` seconds, hang up."""
        if self._listening is None:
            return
        self._listening.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        await asyncio.gather(self.sockets.stop(grace), self._finish_requests(grace))
        for connection in list(self._state.connections):
            connection.transport.abort()
        self._state.direct.close()
        self._log.info("stopped listening for HTTP")

    async def _finish_requests(self, grace: float) -> None:
        tasks = set(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_LAST_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                while self._state.connections:  # noqa: ASYNC110 - the connections are uvicorn's, without an event
                    await asyncio.sleep(0.005)

    # Figures ---------------------------------------------------------------------------------------------

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        state = self._state
        yield GaugeMetricFamily("jjq_http_connections", "Connections open now", len(state.connections))
        yield GaugeMetricFamily("jjq_http_requests_open", "Requests under way", len(state.tasks))
        yield GaugeMetricFamily("jjq_http_direct", "Bodies that threads receive or send", state.direct.lent)
        yield CounterMetricFamily(
            "jjq_http_connections_refused",
            "Connections that found no room, or made room for another",
            state.refused,
        )
        yield from self.sockets.families()
