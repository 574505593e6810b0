"""The composition root of a server process: from settings to a node that listens.

`start_node` makes everything that a server consists of, in this order, and `NodeServer.close` ends it in the opposite
order:

    the traces      jjq/traces/spans.py: spans to a collector. Only if they are switched on
    the store       jjq/node/node.py: object store → cold store → journal, engine → hot store
    the keys        jjq/access/keyring.py: who may do what
    the cluster     jjq/node/cluster.py: router, list of nodes, operator. Only for a node of a cluster
    the queries     jjq/sql/process.py: starts a process for each query in SQL
    the server      jjq/server/server.py: listens, and passes requests to the router or to the store
    HTTP            jjq/http/serving.py: the same store behind another port. Only if it is not switched off

Everything below is given its clock, its chance and its settings, and asks nobody else for them. It is a file of its
own because a store in the user's own process (`jjq.open`) needs node.py, and must not import a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from coldstore.queue.spans import NO_SPANS
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.store import ColdStore
from hotstore.port import Store
from jjq.access.keyring import Keyring
from jjq.http.settings import HttpSettings
from jjq.node.node import ClusterSettings, NodeSettings, open_member, open_node
from jjq.server.server import Server, serve
from jjq.server.settings import ServerSettings
from jjq.sql.process import ProcessQueries
from jjq.traces.verbs import trace_store
from sharding.ports import Operations

if TYPE_CHECKING:
    from jjq.http.listener import HttpListener
    from jjq.node.cluster import ClusterMembership
    from jjq.traces.spans import Traces


class NodeServer:
    """A node that listens. `failed` is done when the node must stop: then it has the reason."""

    def __init__(
        self,
        server: Server,
        failed: asyncio.Future[Exception],
        close_store: Callable[[], Awaitable[None]],
        keys: Keyring,
        cluster: ClusterMembership | None = None,
        http: HttpListener | None = None,
        queries: ProcessQueries | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces
        self.server = server
        self.failed = failed
        self._close_store = close_store
        self.keys = keys
        self.http = http
        self._cluster = cluster
        self._queries = queries

    async def close(self) -> None:
        """Leave the cluster, finish the calls under way, close the store. A node that failed waits for no calls."""
        try:
            if self._cluster is not None:
                await self._cluster.close()  # first, so that nobody is sent here any more
            if self._queries is not None:
                await self._queries.close()
            grace = 0.0 if self.failed.done() else None
            stops = [self.server.stop(grace)]
            if self.http is not None:
                stops.append(self.http.stop(self.server.settings.grace_seconds if grace is None else grace))
            await asyncio.gather(*stops)
            if self._cluster is not None:
                await self._cluster.hang_up()
        finally:
            await self.keys.close()
            await self._close_store()
            if self._traces is not None:  # last: sealing makes spans, too
                await asyncio.to_thread(self._traces.close)


async def start_node(
    node: NodeSettings,
    server: ServerSettings,
    cluster: ClusterSettings,
    clock: Clock,
    chance: Chance,
    http: HttpSettings | None = None,
) -> NodeServer:
    """Open the store and listen; a node with a name joins its cluster."""
    traces = _open_traces(node)
    spans = NO_SPANS if traces is None else traces
    if node.node is None:
        engine = await open_node(node, clock, chance, spans)
        if traces is not None:
            trace_store(engine.store, traces)
        queries = _queries(node, engine.store, None)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(engine.close)
            keys = Keyring(engine.objects, clock, chance)
            await keys.open()
            undo.push_async_callback(keys.close)
            listening = await serve(engine.store, server, clock=clock, queries=queries, keys=keys)
            undo.push_async_callback(listening.stop, 0.0)
            door = await _serve_http(listening, http, chance, engine.failed, keys, engine.cold)
            undo.pop_all()
        return NodeServer(
            listening, engine.failed, engine.close, keys, http=door, queries=queries, traces=traces
        )
    from jjq.node.cluster import ClusterMembership

    member = await open_member(node, clock, chance, spans)
    if traces is not None:
        trace_store(member.engine.store, traces)
    async with AsyncExitStack() as undo:
        undo.push_async_callback(member.close)
        keys = Keyring(member.objects, clock, chance)
        await keys.open(cluster=True)
        undo.push_async_callback(keys.close)
        membership = ClusterMembership(
            member.engine, member.ownership, member.objects, cluster, clock, chance, keys
        )
        queries = _queries(node, membership.router, membership.operations)
        listening = await serve(
            membership.router, server, clock=clock, operator=membership.operator, queries=queries, keys=keys
        )
        undo.push_async_callback(listening.stop, 0.0)
        door = await _serve_http(listening, http, chance, member.failed, keys, member.engine.cold, membership)
        if door is not None:
            undo.push_async_callback(door.stop, 0.0)
        await membership.start(listening.address)
        undo.pop_all()
    return NodeServer(listening, member.failed, member.close, keys, membership, door, queries, traces)


def _open_traces(node: NodeSettings) -> Traces | None:
    """The receiver of traces, if they are switched on; only then OpenTelemetry is loaded."""
    if node.traces is None:
        return None
    from jjq.traces.spans import open_traces

    return open_traces(node.traces, node.node or "local")


def _queries(node: NodeSettings, store: Store, operator: Operations | None) -> ProcessQueries | None:
    """Who answers SQL; None if the settings want nobody to."""
    if not node.sql.queries:
        return None
    return ProcessQueries(store, operator, node.cold_url, node.s3, node.sql)


async def _serve_http(
    server: Server,
    settings: HttpSettings | None,
    chance: Chance,
    failed: asyncio.Future[Exception],
    keys: Keyring,
    cold: ColdStore,
    membership: ClusterMembership | None = None,
) -> HttpListener | None:
    """Listen for HTTP, if that is wanted; only then a web server is loaded."""
    if settings is None:
        return None
    from jjq.http.serving import serve_http

    def state() -> str:
        if failed.done():
            return f"nothing more can be acknowledged: {failed.result()}"
        return "" if membership is None or membership.joined else "the node is joining its cluster"

    operator = None if membership is None else membership.operator.cluster
    return await serve_http(server, settings, chance, operator=operator, state=state, keys=keys, cold=cold)
