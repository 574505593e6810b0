"""The server: any `Store` behind the service jjq.v1.Jjq, with health, metrics and an orderly end.

    listening → stop(): health says NOT_SERVING · waiting calls are broken off · the rest is finished,
    for `grace_seconds` at most → closed

Stopping leaves the store open: the code that opened it closes it afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import grpc
import structlog
from grpc_health.v1 import health, health_pb2

from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import InvalidInput, Unavailable
from hotstore.port import Store
from jjq.access.audit import AuditLog
from jjq.access.keyring import Keyring
from jjq.access.service import key_verbs
from jjq.addresses import cannot_listen, split_address
from jjq.server.cluster_port import Clustered, Hint, hints_of, no_hint
from jjq.server.groups.group_verbs import GroupVerbs
from jjq.server.groups.work_stream import WorkStream
from jjq.server.handlers import Guard, Streaming
from jjq.server.incoming import Incoming
from jjq.server.loop_steps import StepScheduler
from jjq.server.memory import Memory
from jjq.server.metrics import Metrics, MetricsPage
from jjq.server.open_streams import Streams
from jjq.server.operator import OperatorVerbs
from jjq.server.outgoing import Outgoing
from jjq.server.settings import ServerSettings
from jjq.server.shutdown import Drain
from jjq.server.stalls import StallMeter
from jjq.server.streams.duplex import Duplex
from jjq.server.streams.large import download_object, upload_object
from jjq.server.streams.pop_stream import PopStream
from jjq.server.streams.push_stream import PushStream
from jjq.server.streams.query import query
from jjq.server.streams.read import read
from jjq.server.streams.subscribe import subscribe
from jjq.server.unary import Transports, Verbs
from jjq.sql.query import Queries
from jjq.wire.batches import request as parse
from jjq.wire.services import JJQ as SERVICE
from jjq.wire.services import KEYS, OPERATOR, PEER

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
        operator: OperatorVerbs | None = None,
        queries: Queries | None = None,
        keys: Keyring | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.address = settings.listen
        self.port = 0
        self.metrics_port: int | None = None
        self.transports = Transports()  # set by the code that opens HTTP
        self.methods: dict[str, Any] = {}  # handlers of clients' methods, for another door …
        self.peer_methods: dict[str, Any] = {}  # … and of those between nodes; none if it is alone
        self._store = store
        self._clock = clock
        self._log = log
        self._drain = Drain()
        self._scheduler = StepScheduler()
        self._memory = Memory()
        self._incoming = Incoming()
        self._outgoing = Outgoing(settings.outgoing_bytes_max, clock)
        self.metrics.watch_outgoing(self._outgoing)
        self._stalls = StallMeter(clock)
        self.metrics.watch_stalls(self._stalls)
        self._streams = Streams(store)
        self._hint = hints_of(store)
        self._operator = operator
        self._queries = queries
        self._keys = keys
        self._audit = None if keys is None else AuditLog(store, clock, log)
        self._health = health.aio.HealthServicer()
        self._page: MetricsPage | None = None
        self._stopped: asyncio.Task[None] | None = None
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
            raise cannot_listen(self.settings.listen) from None
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        own = self._store.local if isinstance(self._store, Clustered) else self._store
        self.metrics.watch(own, asyncio.get_running_loop())
        if self.settings.metrics is not None:
            self._page = MetricsPage(self.metrics, self.settings.metrics)
            self.metrics_port = self._page.port
        await self._grpc.start()
        self._stalls.start()
        for service in ("", SERVICE):
            await self._health.set(service, _SERVING)
        if self.settings.exposed and self.settings.plaintext == "warn":
            self._log.warning(f"{self.settings.exposure}, or set plaintext to allow if that network is yours")
        self._log.info("listening", address=self.address, tls=self.settings.tls is not None)

    def shared(self) -> dict[str, Any]:
        """The parts that another door to the same store works with, too (jjq/http/backend.py)."""
        return {
            "store": self._store,
            "streams": self._streams,
            "drain": self._drain,
            "scheduler": self._scheduler,
            "large": self._incoming.large,
            "outgoing": self._outgoing,
            "memory": self._memory,
            "metrics": self.metrics,
            "clock": self._clock,
            "queries": self._queries,
            "audit": self._audit,
            "traced": self.settings.traced,
            "log": self._log,
        }

    def _register(self) -> None:
        guard = Guard(
            self.metrics,
            self._memory,
            self._incoming,
            self._outgoing,
            self._clock,
            self._log,
            self._keys,
            self._audit,
            self.settings.traced,
        )
        # Most are generic, as a registered method costs every other call: grpc.aio waits for one event more. Streams
        # are registered: calls are taken one after the other, and so thousands of streams wait in a line of their own.
        services = [
            self._methods(SERVICE, guard, self._store, self._hint),
            grpc.method_handlers_generic_handler(
                health.SERVICE_NAME, _health(self._health, self._drain, self._incoming)
            ),
        ]
        if self._queries is not None:
            ask = guard.server_stream(SERVICE, "Query", partial(query, self._queries, self._drain))
            self._grpc.add_registered_method_handlers(SERVICE, {"Query": ask})
            self.methods["Query"] = ask
        if isinstance(self._store, Clustered):
            services.append(self._methods(PEER, guard, self._store.local_only, no_hint))
        if self._operator is not None:
            for name, table in self._operator.tables().items():
                handlers = {verb: guard.unary(name, verb, call) for verb, call in table.items()}
                services.append(grpc.method_handlers_generic_handler(name, handlers))
                if name == OPERATOR:
                    self.methods |= handlers
        if self._keys is not None:
            handlers = {verb: guard.unary(KEYS, verb, call) for verb, call in key_verbs(self._keys).items()}
            services.append(grpc.method_handlers_generic_handler(KEYS, handlers))
            self.methods |= handlers
        self._grpc.add_generic_rpc_handlers(services)
        if self.settings.reflection:
            from grpc_reflection.v1alpha import reflection

            names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
            servicer = reflection.aio.ReflectionServicer(names)
            handle = guard.reflection(servicer.ServerReflectionInfo)
            listing = {"ServerReflectionInfo": handle}
            self._grpc.add_generic_rpc_handlers(
                [grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, listing)]
            )

    def _methods(self, service: str, guard: Guard, store: Store, hint: Hint) -> grpc.GenericRpcHandler:
        """All methods of jjq.v1.Jjq over `store`."""

        def duplex(kind: type[Duplex]) -> Streaming:
            return lambda call: kind(store, self._drain, self._scheduler, hint, self._clock, call).run()

        verbs = Verbs(
            store,
            self._streams,
            self._drain,
            self._scheduler,
            self._outgoing,
            hint,
            self._counter,
            lambda: self.transports,
        )
        groups = GroupVerbs(store, self._drain, self._scheduler, self._outgoing, hint, self._counter)
        table = verbs.table() | groups.table()
        handlers = {name: guard.unary(service, name, verb) for name, verb in table.items()}
        streams: dict[str, Any] = {}
        streams["Read"] = guard.server_stream(
            service, "Read", lambda call: read(store, self._drain, self._scheduler, hint, call)
        )
        streams["PushStream"] = guard.both_streams(service, "PushStream", duplex(PushStream))
        streams["PopStream"] = guard.both_streams(service, "PopStream", duplex(PopStream))
        streams["Work"] = guard.both_streams(service, "Work", duplex(WorkStream))
        streams["UploadObject"] = guard.both_streams(
            service, "UploadObject", lambda call: upload_object(store, self._drain, call)
        )
        streams["DownloadObject"] = guard.server_stream(
            service, "DownloadObject", lambda call: download_object(store, call)
        )
        streams["TasksAt"] = guard.server_stream(service, "TasksAt", groups.tasks_at)
        streams["Subscribe"] = guard.both_streams(
            service,
            "Subscribe",
            lambda call: subscribe(store, self._streams, self._drain, self._scheduler, hint, call),
        )
        self._grpc.add_registered_method_handlers(service, streams)
        methods = self.methods if service == SERVICE else self.peer_methods
        methods |= handlers | streams
        return grpc.method_handlers_generic_handler(service, handlers)

    def _counter(self, method: str) -> Callable[[int], None]:
        return self.metrics.meter(method).moved

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
        if self._audit is not None:
            await self._audit.close()
        await self._streams.close()
        if self._page is not None:
            await self._page.close()
        await self._memory.close()
        self._stalls.close()
        self._log.info("stopped")


def _health(servicer: health.aio.HealthServicer, drain: Drain, incoming: Incoming) -> dict[str, Any]:
    """The standard service, except that its watchers do not keep a stopping server waiting, and that its requests are
    received like all others."""

    async def asked(context: Any) -> health_pb2.HealthCheckRequest:
        try:
            return parse(health_pb2.HealthCheckRequest, await incoming.receive(context))
        except InvalidInput as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
            raise

    async def check(_requests: object, context: Any) -> Any:
        return await servicer.Check(await asked(context), context)

    async def watch(_requests: object, context: Any) -> None:
        request = await asked(context)
        try:
            await drain.wait(servicer.Watch(request, context))
        except Unavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, error.message)

    write = health_pb2.HealthCheckResponse.SerializeToString
    return {
        "Check": grpc.stream_unary_rpc_method_handler(check, None, write),
        "Watch": grpc.stream_stream_rpc_method_handler(watch, None, write),
    }


async def serve(
    store: Store,
    settings: ServerSettings | None = None,
    *,
    clock: Clock | None = None,
    log: structlog.typing.FilteringBoundLogger | None = None,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    operator: OperatorVerbs | None = None,
    queries: Queries | None = None,
    keys: Keyring | None = None,
) -> Server:
    """Start a server over `store`; it serves until `stop`. Without `queries` it answers no SQL."""
    server = Server(
        store,
        settings or ServerSettings(),
        clock or SystemClock(),
        log or structlog.get_logger("jjq.server"),
        interceptors,
        operator,
        queries,
        keys,
    )
    await server.start()
    return server
