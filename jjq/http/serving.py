"""Puts the application together: all routes, over the store and the parts of a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coldstore.shared.chance import Chance
from coldstore.shared.errors import InvalidInput
from coldstore.store import ColdStore
from hotstore.port import Store
from jjq.access.keyring import Keyring
from jjq.http.access import KeyCheck, key_routes
from jjq.http.application import Application
from jjq.http.backend import Backend
from jjq.http.large.reading import ROUTES as READING
from jjq.http.large.sending import object_routes
from jjq.http.listener import HttpListener
from jjq.http.priority_socket import door as priority_socket
from jjq.http.problems import HttpRefusal
from jjq.http.replies import Reply
from jjq.http.request import Request
from jjq.http.routing import HttpRoute, RouteTable
from jjq.http.settings import HttpSettings
from jjq.http.sqew.catalogue import SqewCatalogue
from jjq.http.sqew.messages import message_routes
from jjq.http.sqew.queues import queue_routes
from jjq.http.system import system_routes
from jjq.http.v1 import (
    elements,
    groups,
    operator,
    purge,
    queues,
    replay,
    sql,
    subscribers,
    task_history,
    tasks,
)
from jjq.http.v1.live import live_routes
from jjq.http.v1.verify import verify_routes
from jjq.http.websocket.calls import CallTable, call_route
from jjq.http.websocket.open_sockets import SocketLimits
from jjq.http.websocket.upgrade import WebSocketRoute
from jjq.server.cluster_port import Clustered
from jjq.server.unary import Transports

if TYPE_CHECKING:
    from jjq.client.client import AsyncClient
    from jjq.server.server import Server
    from sharding.ports import Operations


def all_routes(keys: Keyring | None = None) -> list[HttpRoute]:
    """Every route. A further interface over HTTP adds its routes here."""
    routes: list[HttpRoute] = []

    def table() -> RouteTable[HttpRoute]:
        known: RouteTable[HttpRoute] = RouteTable()
        known.add(*routes)
        return known

    routes += system_routes(table)
    verbs = (queues, elements, replay, subscribers, groups, tasks, task_history, purge, sql, operator)
    for room in (*verbs, priority_socket):
        routes += room.ROUTES
    sqew = SqewCatalogue()
    routes += queue_routes(sqew) + message_routes(sqew)
    routes += live_routes() + verify_routes()
    routes += [*object_routes(), *READING]
    if keys is not None:
        routes += key_routes(keys)
    return routes


def websocket_routes(backend: Backend, server: Server, settings: HttpSettings) -> list[WebSocketRoute]:
    """Every path of WebSockets. A further protocol over WebSocket adds its routes here."""
    instance = server.transports.instance
    routes = [
        call_route(CallTable(server.methods, backend), instance),
        priority_socket.connect_route(backend, creates=settings.connect_create_queues),
    ]
    if isinstance(backend.store, Clustered):
        table = CallTable(server.peer_methods, backend, backend.store.local_only)
        routes.append(call_route(table, instance))
    return routes


def _explain_upgrade(route: WebSocketRoute) -> HttpRoute:
    """Answer a plain request to the path of a WebSocket."""

    async def answer(request: Request) -> Reply:
        raise HttpRefusal(426, "connect with WebSocket here: send Upgrade: websocket", Upgrade="websocket")

    return HttpRoute("GET", route.path, answer, route.name, route.about, scope="", status=426)


def make_application(
    backend: Backend,
    settings: HttpSettings | None = None,
    keys: Keyring | None = None,
    sockets: Sequence[WebSocketRoute] = (),
) -> Application:
    """The application, with the checks that its place needs.

    A server that only this machine reaches checks Host, and so does one whose names are set.
    """
    access = None if keys is None else KeyCheck(keys)
    if settings is None:
        return Application(backend, all_routes(keys), access=access)
    hosts = settings.hosts if settings.is_local or settings.hosts else None
    routes = [*all_routes(keys), *map(_explain_upgrade, sockets)]
    return Application(backend, routes, sockets=sockets, access=access, origins=settings.origins, hosts=hosts)


async def serve_http(
    server: Server,
    settings: HttpSettings,
    chance: Chance,
    *,
    operator: Operations | None = None,
    state: Callable[[], str] = lambda: "",
    keys: Keyring | None = None,
    limits: SocketLimits | None = None,
    cold: ColdStore | None = None,
) -> HttpListener:
    """Listen for HTTP beside a server for gRPC, over the same store."""
    backend = Backend(**server.shared(), chance=chance, operator=operator, state=state, keys=keys, cold=cold)
    server.transports = Transports(0, chance.token())
    routes = websocket_routes(backend, server, settings)
    application = make_application(backend, settings, keys, routes)
    listener = HttpListener(application, settings, backend.log, limits)
    await listener.start()
    server.transports = server.transports._replace(websocket_port=listener.port)
    server.metrics.registry.register(listener)
    return listener


def asgi(store: Store | AsyncClient) -> Application:
    """An ASGI application over a store, or over a client of `jjq.aio`, to be mounted in your own.

    It closes nothing, and checks no keys: the application around it decides who may call it. The store must belong to
    the event loop that serves the application.
    """
    from jjq.client.client import AsyncClient  # a server does without

    if isinstance(store, AsyncClient):
        return make_application(Backend.over(store._store))
    if not callable(getattr(store, "append", None)):
        raise InvalidInput(
            f"store is {type(store).__name__}: give a client of jjq.aio, or what it is made of. A blocking client has "
            f"an event loop of its own, and cannot be served by another one"
        )
    return make_application(Backend.over(store))
