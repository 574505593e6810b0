"""A cluster with keys: nodes go on working with each other, and nobody else gets in by their doors."""

from __future__ import annotations

from pathlib import Path

import pytest
from picows import WSError, WSListener, ws_connect

from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Denied
from jjq.remote.peer_store import PeerStore
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.wire.call_frames import PEER_PATH
from jjq.wire.services import PEER
from tests.jjq.cluster.members import RealCluster, real_cluster
from tests.jjq.serving import values


async def closed(cluster: RealCluster) -> str:
    """Make the first key; every node knows of it."""
    ring = cluster.nodes["a"].keys
    assert ring is not None
    text = (await ring.create("", ["admin"])).text
    for node in cluster.nodes.values():
        assert node.keys is not None
        await node.keys.refresh()
    return text


async def test_any_node_forwards_for_those_who_have_a_key(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a", "b") as cluster:
        before = await cluster.client("a")
        for number in range(4):
            await before.create_queue(f"q{number}")
        key = await closed(cluster)
        with pytest.raises(Denied):
            await before.get_queue("q0")
        for name in ("a", "b"):
            client = await cluster.client(name, key=key)
            for number in range(4):
                for _ in range(3):  # the first goes over gRPC, later ones over WebSocket
                    await client.push(f"q{number}", values(b"x"))
            operator = cluster.operator(name, key=key)
            assert {state.node.id for state in await operator.nodes()} == {"a", "b"}
        client, operator = await cluster.client(key=key), cluster.operator(key=key)
        assert [queue.next_offset for queue in await client.list_queues()] == [6, 6, 6, 6]
        owners = {found[-1].node for found in (await operator.shards()).values()}
        assert owners == {"a", "b"}, "both nodes had to forward"


async def test_the_doors_of_nodes_want_the_key_that_nodes_share(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a") as cluster:
        node = cluster.nodes["a"]
        assert node.server is not None
        assert node.keys is not None
        client = await cluster.client("a")
        await client.create_queue("q")
        key = await closed(cluster)
        for shown in (None, key):
            settings = RemoteSettings(5.0, direct=False, patient=False, service=PEER, key=shown)
            async with RemoteStore(node.address, settings) as stranger:
                with pytest.raises(Denied, match="nodes of the cluster"):
                    await stranger.get_queue("q")
        assert node.http is not None
        host = f"ws://127.0.0.1:{node.http.port}{PEER_PATH}"
        for shown in (None, key):
            headers = None if shown is None else {"Authorization": f"Bearer {shown}"}
            with pytest.raises(WSError, match="401"):
                await ws_connect(lambda *_: WSListener(), host, extra_headers=headers, max_redirects=0)
        settings = RemoteSettings(
            5.0, direct=False, patient=False, service=PEER, key=node.keys.peer, transport="websocket"
        )
        async with PeerStore(node.address, settings, SystemClock(), SystemChance()) as other:
            assert (await other.push("q", values(b"x"))).count == 1
            await node.keys.refresh()
            assert other._socket() is not None, "a change of keys leaves other nodes alone"
        after = await cluster.client("a", key=key)
        assert (await after.get_queue("q")).next_offset == 1
