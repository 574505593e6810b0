"""Real gRPC servers over the fake world of tests.sharding: three nodes in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from jjq.http.listener import HttpListener
from jjq.remote.operate.operator import RemoteOperator
from jjq.remote.peer_store import PeerStore
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.server.operator import OperatorVerbs
from jjq.server.server import Server, serve
from jjq.wire.services import OPERATOR, PEER, PEER_OPERATOR
from sharding.documents.load import Load
from sharding.operate.operator import ClusterOperator, NodeOperator
from sharding.routing.router import Router
from tests.jjq.serving import ANYWHERE, until, with_http
from tests.sharding.cluster import World

BETWEEN = RemoteSettings(timeout_seconds=5.0, direct=False, patient=False, service=PEER, transport="auto")
OPERATING = RemoteSettings(timeout_seconds=5.0, direct=False, service=OPERATOR)


class NoLoads:
    """Every queue costs the same."""

    def of(self, queue: str) -> Load:
        return Load()

    def history_bytes(self, queue: str, first: int, end: int) -> int:
        return 0


@dataclass
class Cluster:
    """Servers and clients by node."""

    world: World
    servers: dict[str, Server] = field(default_factory=dict)
    doors: dict[str, HttpListener] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def address(self, *names: str) -> str:
        return ",".join(self.servers[name].address for name in names)

    async def client(self, *names: str, **settings: Any) -> RemoteStore:
        """A client that knows these nodes."""
        made = RemoteStore(self.address(*names), RemoteSettings(timeout_seconds=10.0, **settings))
        return await self.stack.enter_async_context(made)

    def operator(self, name: str) -> RemoteOperator:
        made = RemoteOperator(self.address(name), OPERATING)
        self.stack.push_async_callback(made.close)
        return made

    def connect(self, address: str) -> PeerStore:
        """How nodes reach each other."""
        return PeerStore(address, BETWEEN, SystemClock(), SystemChance())

    def forwarded(self, name: str) -> int:
        """How many calls have come to a node over WebSockets: those of other nodes."""
        return self.doors[name].sockets.frames_in

    def calls(self, name: str, method: str) -> float:
        """How often a node was asked, by clients and other nodes alike."""
        count = self.servers[name].metrics.registry.get_sample_value(
            "jjq_calls_total", {"method": method, "code": "OK"}
        )
        return count or 0.0

    async def add(self, name: str, advertise: str | None = None) -> None:
        node = await self.world.add(name)
        connect: Any = self._operator_between
        loads: Any = NoLoads()
        here = NodeOperator(node.ownership, node.registry, loads)
        operator = ClusterOperator(here, node.ownership, node.registry, node.router, connect)
        quiet = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
        server = await serve(node.router, ANYWHERE, log=quiet, operator=OperatorVerbs(operator, here))
        self.servers[name] = server
        self.stack.push_async_callback(server.stop, 0)
        self.stack.push_async_callback(node.router.close)
        self.doors[name] = await self.stack.enter_async_context(with_http(server))
        node.registry.me = replace(node.registry.me, address=advertise or server.address)
        await node.registry.beat()
        for each in self.world.nodes.values():
            await each.registry.look()

    def _operator_between(self, address: str) -> RemoteOperator:
        made = RemoteOperator(address, replace(BETWEEN, service=PEER_OPERATOR))
        self.stack.push_async_callback(made.close)
        return made


async def wired(router: Router) -> None:
    """Return when a WebSocket stands to the one node that was asked."""
    (peer,) = router._peers.values()
    await until(lambda: peer._socket() is not None)  # type: ignore[attr-defined]


@asynccontextmanager
async def cluster(names: str = "abc") -> AsyncIterator[Cluster]:
    world = World()
    made = Cluster(world)
    world.connect = made.connect  # type: ignore[method-assign,assignment]
    async with made.stack:
        for name in names:
            await made.add(name)
        yield made
