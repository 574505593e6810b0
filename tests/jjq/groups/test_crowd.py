"""Ten thousand workers that wait on an empty group, and vanish: none of the dead is served (FAULTS.md, row 34)."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect

from coldstore.shared.batch import payload
from coldstore.shared.push import Push
from hotstore.groups.values import GroupSettings, Take
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.call_frames import PATH, encode_call
from tests.jjq.serving import hot_store, served, until, with_http

SOCKETS, CALLS = 10, 1_000


async def crowd(port: int) -> ClientConnection:
    """One connection, on which so many takes wait."""
    socket = await connect(f"ws://127.0.0.1:{port}{PATH}", ping_interval=None)
    request = pb.TakeRequest(group="q/g", max=1, wait_seconds=60.0).SerializeToString()
    for number in range(CALLS):
        await socket.send(encode_call(number, "Take", request))
    return socket


async def test_ten_thousand_workers_that_wait_and_vanish_get_nothing(tmp_path: Path) -> None:
    async with hot_store(tmp_path) as store, served(store) as server, with_http(server.server) as http:
        await server.store.create_queue("q")
        await server.store.create_group("q", "g", GroupSettings())
        group = await server.store._capacity._desk.group("q/g")
        gc.collect()
        tasks = len(asyncio.all_tasks())
        sockets = [await crowd(http.port) for _ in range(SOCKETS)]
        await until(lambda: len(group.line) == SOCKETS * CALLS)
        for socket in sockets:
            socket.transport.abort()
        await until(lambda: not group.line)
        await until(lambda: len(asyncio.all_tasks()) <= tasks + 10)  # nothing is left of their calls
        await server.store.append(Push("q", payload("bytes", [b"x"])))
        taken = await server.store.take(Take("q/g", 1, wait=5.0, session="alive"))
        assert (list(taken.ids), list(taken.attempts)) == ([0], [1]), "nobody had it before"
