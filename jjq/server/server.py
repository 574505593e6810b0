"""The server: any `Store` behind the service jjq.v1.Jjq, with health, metrics and an orderly end.

    listening → stop(): health says NOT_SERVING · waiting calls are broken off · the rest is finished,
    for `grace_seconds` at most → closed

Stopping leaves the store alone: who opened it closes it afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc
import structlog
from grpc_health.v1 import health, health_pb2

from coldstore.clock import Clock, SystemClock
from coldstore.errors import InvalidInput, Unavailable
from hotstore.port import Store
from jjq.server.drain import Drain
from jjq.server.guard import Call, Guard
from jjq.server.metrics import Metrics, MetricsPage
from jjq.server.pushing import PushStream
from jjq.server.reading import read
from jjq.server.settings import ServerSettings, split_address
from jjq.server.streams import Streams
from jjq.server.subscribe import subscribe
from jjq.server.verbs import Verbs
from jjq.v1 import jjq_pb2 as pb

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Jjq"].full_name
_HEALTH_SECONDS: Final = 1.0
_SERVING = health_pb2.HealthCheckResponse.SERVING


class Server:
    """One listening server. `address` and `metrics_port` are known once it has started."""

    def __init__(
        self,
        store: Store,
        settings: ServerSettings,
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.address = settings.listen
        self.port = 0
        self.metrics_port: int | None = None
        self._store = store
        self._clock = clock
        self._log = log
        self._drain = Drain()
        self._streams = Streams(store)
        self._health = health.aio.HealthServicer()
        self._page: MetricsPage | None = None
        self._stopped: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._grpc = grpc.aio.server(
            interceptors=list(interceptors),
            options=settings.options(),
            maximum_concurrent_rpcs=settings.calls_max,
        )

    async def start(self) -> None:
        """Listen. Raises `InvalidInput` where an address or a certificate cannot be used."""
        self._register()
        host, _ = split_address(self.settings.listen, "listen")
        try:
            if self.settings.tls is None:
                self.port = self._grpc.add_insecure_port(self.settings.listen)
            else:
                self.port = self._grpc.add_secure_port(self.settings.listen, self.settings.tls.credentials())
        except RuntimeError:
            raise InvalidInput(
                f"cannot listen on {self.settings.listen}: the address is in use or not of this machine, or the "
                f"certificate and key do not fit"
            ) from None
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        if self.settings.metrics is not None:
            self.metrics.watch(self._store, asyncio.get_running_loop())
            self._page = MetricsPage(self.metrics, self.settings.metrics)
            self.metrics_port = self._page.port
        await self._grpc.start()
        for service in ("", SERVICE):
            await self._health.set(service, _SERVING)
        self._log.info("listening", address=self.address, tls=self.settings.tls is not None)

    def _register(self) -> None:
        guard = Guard(self.metrics, self._clock, self._log)
        verbs = Verbs(self._store, self._streams, self._drain, self._counter)
        handlers = {name: guard.unary(name, verb) for name, verb in verbs.table().items()}
        handlers["Read"] = guard.server_stream("Read", lambda call: read(self._store, self._drain, call))
        handlers["PushStream"] = guard.both_streams("PushStream", self._push_stream)
        handlers["Subscribe"] = guard.both_streams("Subscribe", self._subscribe)
        # Generic, as a registered method costs every other call: grpc.aio waits for one event more.
        services = {SERVICE: handlers, health.SERVICE_NAME: _health(self._health, self._drain)}
        for name, methods in services.items():
            self._grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
        if self.settings.reflection:
            from grpc_reflection.v1alpha import reflection

            names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._grpc)

    def _counter(self, method: str) -> Callable[[int], None]:
        return self.metrics.meter(method).elements.inc

    async def _push_stream(self, call: Call) -> None:
        await PushStream(self._store, self._drain, self._clock, call).run()

    async def _subscribe(self, call: Call) -> None:
        await subscribe(self._store, self._streams, self._drain, call)

    async def stop(self, grace: float | None = None) -> None:
        """Stop in order. Calling it again waits for the same end."""
        if self._stopped is None:
            seconds = self.settings.grace_seconds if grace is None else grace
            self._stopped = asyncio.create_task(self._stop(seconds), name="jjq-stop")
        await asyncio.shield(self._stopped)

    async def _stop(self, grace: float) -> None:
        self._log.info("stopping", grace_seconds=grace, streams=len(self._streams))
        deadline = self._clock.monotonic() + grace
        try:
            # A watcher that does not read holds the health service's lock while it is written to.
            await asyncio.wait_for(self._health.enter_graceful_shutdown(), _HEALTH_SECONDS)
        except TimeoutError:
            self._log.warning("a health watcher does not read; it is cut off")
        self._drain.begin()
        await self._grpc.stop(grace)
        await self._drain.finish(max(0.0, deadline - self._clock.monotonic()))
        await self._streams.close()
        if self._page is not None:
            await self._page.close()
        self._log.info("stopped")
        self._closed.set()

    async def wait_closed(self) -> None:
        """Return when the server has stopped, by whoever's wish."""
        await self._closed.wait()


def _health(servicer: health.aio.HealthServicer, drain: Drain) -> dict[str, Any]:
    """The standard service, except that its watchers do not keep a stopping server waiting."""

    async def check(request: Any, context: Any) -> Any:
        return await servicer.Check(request, context)

    async def watch(request: Any, context: Any) -> None:
        try:
            await drain.wait(servicer.Watch(request, context))
        except Unavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, error.message)

    read, write = health_pb2.HealthCheckRequest.FromString, health_pb2.HealthCheckResponse.SerializeToString
    return {
        "Check": grpc.unary_unary_rpc_method_handler(check, read, write),
        "Watch": grpc.unary_stream_rpc_method_handler(watch, read, write),
    }


async def serve(
    store: Store,
    settings: ServerSettings | None = None,
    *,
    clock: Clock | None = None,
    log: structlog.typing.FilteringBoundLogger | None = None,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
) -> Server:
    """Start a server over `store`; it serves until `stop`."""
    server = Server(
        store,
        settings or ServerSettings(),
        clock or SystemClock(),
        log or structlog.get_logger("jjq.server"),
        interceptors,
    )
    await server.start()
    return server
