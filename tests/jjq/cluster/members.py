"""Real nodes in one process: hot stores, journals, ownership and servers, over object storage in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import MIB
from coldstore.store import ColdStore
from hotstore.settings import HotSettings
from jjq.access.keyring import Keyring
from jjq.http.listener import HttpListener
from jjq.http.serving import serve_http
from jjq.http.settings import HttpSettings
from jjq.node.cluster import ClusterMembership
from jjq.node.settings import Settings
from jjq.remote.operate.operator import RemoteOperator
from jjq.remote.settings import ClientTls, RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.server.server import Server, serve
from jjq.wire.services import OPERATOR
from sharding.documents.tenure import JournalKind
from sharding.node import Member, MemberSettings, open_member
from sharding.routing.nodes import NodesSettings
from tests.servers.waiting import free_ports

SMALL = HotSettings(segment_bytes=32 * MIB, journal_bytes_max=256 * MIB)


@dataclass
class RealNode:
    """A node that can be stopped and started again."""

    name: str
    folder: Path
    objects: MemoryObjects
    journal: JournalKind
    flags: dict[str, str] = field(default_factory=dict)  # of `jjq serve`
    address: str = field(default_factory=lambda: f"127.0.0.1:{free_ports(1)[0]}")
    member: Member | None = None
    clustering: ClusterMembership | None = None
    server: Server | None = None
    http: HttpListener | None = None
    keys: Keyring | None = None

    async def start(self) -> None:
        clock, chance = SystemClock(), SystemChance()
        cold = await asyncio.to_thread(ColdStore, self.objects, clock, chance)
        self.folder.mkdir(exist_ok=True)
        self.member = await open_member(
            self.folder, cold, MemberSettings(self.name, self.journal, SMALL), clock, chance
        )
        wanted = Settings.load(
            {"data": self.folder, "journal": self.journal, "lease_seconds": 3.0, **self.flags}
        )
        settings = replace(wanted.cluster_settings(), nodes=NodesSettings(0.2, 3.0))
        quiet = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
        self.keys = Keyring(self.objects, clock, chance, quiet)
        await self.keys.open(cluster=True)
        self.clustering = ClusterMembership(
            self.member.engine, self.member.ownership, self.objects, settings, clock, chance, self.keys
        )
        self.server = await serve(
            self.clustering.router,
            replace(wanted.server_settings(), listen=self.address, grace_seconds=2.0, metrics="127.0.0.1:0"),
            log=quiet,
            operator=self.clustering.operator,
            keys=self.keys,
        )
        self.http = await serve_http(
            self.server, HttpSettings("127.0.0.1:0", wanted.server_settings().tls), chance, keys=self.keys
        )
        await self.clustering.start(self.server.address)

    async def stop(self) -> None:
        if self.member is None or self.clustering is None or self.server is None or self.keys is None:
            return
        await self.clustering.close()
        assert self.http is not None
        await asyncio.gather(self.server.stop(), self.http.stop(2.0))
        await self.clustering.hang_up()
        await self.keys.close()
        await self.member.close()
        self.member = self.clustering = self.server = None


@dataclass
class RealCluster:
    """Nodes by name, and clients that are closed in the end."""

    folder: Path
    journal: JournalKind
    flags: dict[str, str] = field(default_factory=dict)
    objects: MemoryObjects = field(default_factory=MemoryObjects)
    nodes: dict[str, RealNode] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def add(self, name: str) -> None:
        node = self.nodes[name] = RealNode(name, self.folder / name, self.objects, self.journal, self.flags)
        self.stack.push_async_callback(node.stop)
        await node.start()
        await self.look()

    async def look(self) -> None:
        """Let every node see every other one, without waiting for heartbeats."""
        for node in self.nodes.values():
            if node.clustering is not None:
                await node.clustering.nodes.look()

    def address(self, *names: str) -> str:
        return ",".join(self.nodes[name].address for name in names or self.nodes)

    async def client(self, *names: str, tls: ClientTls | None = None, key: str | None = None) -> RemoteStore:
        made = RemoteStore(self.address(*names), RemoteSettings(timeout_seconds=30.0, tls=tls, key=key))
        return await self.stack.enter_async_context(made)

    def operator(self, *names: str, key: str | None = None) -> RemoteOperator:
        settings = RemoteSettings(timeout_seconds=30.0, direct=False, service=OPERATOR, key=key)
        made = RemoteOperator(self.address(*names), settings)
        self.stack.push_async_callback(made.close)
        return made

    async def owners(self) -> dict[str, str]:
        shards = await self.operator().shards()
        return {queue: found[-1].node for queue, found in shards.items()}


@asynccontextmanager
async def real_cluster(
    folder: Path, journal: JournalKind, *names: str, **flags: str
) -> AsyncIterator[RealCluster]:
    made = RealCluster(folder, journal, flags)
    async with made.stack:
        for name in names:
            await made.add(name)
        yield made
