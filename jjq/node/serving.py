"""The composition root of a server process: from settings to a node that listens.

`start_node` makes everything that a server consists of, in this order, and `NodeServer.close` ends it in the opposite
order:

    the store       jjq/node/node.py: object store → cold store → journal, engine → hot store
    the cluster     jjq/node/cluster.py: router, list of nodes, operator. Only for a node of a cluster
    the server      jjq/server/server.py: listens, and passes requests to the router or to the store

Everything below is given its clock, its chance and its settings, and asks nobody else for them. It is a file of its
own because a store in the user's own process (`jjq.open`) needs node.py, and must not import a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from jjq.node.cluster import ClusterMembership, ClusterSettings
from jjq.node.node import NodeSettings, open_member, open_node
from jjq.server.server import Server, serve
from jjq.server.settings import ServerSettings


class NodeServer:
    """A node that listens. `failed` is done when the node must stop: then it has the reason."""

    def __init__(
        self,
        server: Server,
        failed: asyncio.Future[Exception],
        close_store: Callable[[], Awaitable[None]],
        cluster: ClusterMembership | None = None,
    ) -> None:
        self.server = server
        self.failed = failed
        self._close_store = close_store
        self._cluster = cluster

    async def close(self) -> None:
        """Leave the cluster, finish the calls under way, close the store. A node that failed waits for no calls."""
        try:
            if self._cluster is not None:
                await self._cluster.close()  # first, so that nobody is sent here any more
            await self.server.stop(0.0 if self.failed.done() else None)
            if self._cluster is not None:
                await self._cluster.hang_up()
        finally:
            await self._close_store()


async def start_node(
    node: NodeSettings, server: ServerSettings, cluster: ClusterSettings, clock: Clock, chance: Chance
) -> NodeServer:
    """Open the store and listen; a node with a name joins its cluster."""
    if node.node is None:
        engine = await open_node(node, clock, chance)
        try:
            listening = await serve(engine.store, server, clock=clock)
        except BaseException:
            await engine.close()
            raise
        return NodeServer(listening, engine.failed, engine.close)
    member = await open_member(node, clock, chance)
    try:
        membership = ClusterMembership(
            member.engine, member.ownership, member.objects, cluster, clock, chance
        )
        listening = await serve(membership.router, server, clock=clock, operator=membership.operator)
        await membership.start(listening.address, listening.peer_port)
    except BaseException:
        await member.close()
        raise
    return NodeServer(listening, member.failed, member.close, membership)
