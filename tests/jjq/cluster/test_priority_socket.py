"""The priority socket in a cluster: the node of a client forwards, and notices go on through a move of the queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from jjq.http.backend import Backend
from jjq.http.priority_socket.sessions import SocketSessions
from tests.jjq.cluster.members import real_cluster
from tests.jjq.http.priority_socket.fakesocket import FakeClient


async def test_a_client_of_one_node_works_on_a_queue_of_another_and_through_its_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeClient, "queue", "orders")
    async with real_cluster(tmp_path, "s3", "a", "b") as made:
        clustering = made.nodes["a"].clustering
        assert clustering is not None
        backend = Backend.over(clustering.router)
        client = FakeClient(SocketSessions(backend))
        await client.hello()
        await client.ask("create", label=0)
        assert (await client.reply())["notice"] == "ready"
        if (await made.owners())["orders"] != "b":
            await made.operator("a").move("orders", "b")

        for label in (1, 2):
            await client.ask("post", message=str(label), label=label, notify=["sync", "assign", "finish"])
            assert (await client.reply())["notice"] == "sync"
        for label, home in ((1, "b"), (2, "a")):
            assert (await made.owners())["orders"] == home
            await client.ask("fetch", label=9, work_timeout=60, block_timeout=30)
            told = sorted([await client.reply(), await client.reply()], key=lambda reply: str(reply["type"]))
            assert told[0]["body"] == str(label)
            assert told[1] == {"type": "notice", "label": label, "notice": "assign"}
            if home == "b":
                await made.operator("a").move("orders", "a")
            await client.ask("finish", sequence=told[0]["sequence"], shard=told[0]["shard"])
            assert await client.reply() == {"type": "notice", "label": label, "notice": "finish"}
        backend.drain.begin()
