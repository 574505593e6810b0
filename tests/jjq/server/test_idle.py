"""Many subscribers that wait cost little memory and no turns of the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import psutil
import pytest

from jjq.v1 import jjq_pb2 as pb
from jjq.v1 import jjq_pb2_grpc
from tests.jjq.serving import Served, until

MANY = 1_000
ASKED = 100


class Turns:
    """Counts what the event loop runs: client and server together, as both are in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._count = 0
        run = asyncio.Handle._run

        def counted(handle: asyncio.Handle) -> None:
            self._count += 1
            run(handle)

        monkeypatch.setattr(asyncio.Handle, "_run", counted)

    async def of(self, hot: Served) -> int:
        """Turns while a quick question is asked so many times."""
        before = self._count
        for _ in range(ASKED):
            await hot.stub.GetQueue(pb.GetQueueRequest(name="orders"))
        return self._count - before


def timers() -> int:
    """What is due at some time: whoever polls has one."""
    loop: Any = asyncio.get_running_loop()
    return sum(not handle.cancelled() for handle in loop._scheduled)


async def test_a_thousand_idle_subscribers_are_cheap(hot: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    await hot.remote.create_queue("orders")
    await turns.of(hot)  # the first ones make connections
    alone, before_timers = await turns.of(hot), timers()
    for n in range(0, MANY, 100):
        await asyncio.gather(
            *(hot.remote.create_subscriber("orders", f"s{i}", "beginning") for i in range(n, n + 100))
        )
    before = psutil.Process().memory_info().rss
    channels = [
        grpc.aio.insecure_channel(hot.server.address, [("grpc.use_local_subchannel_pool", 1)])
        for _ in range(MANY // 50)
    ]
    calls: list[Any] = []
    for n in range(MANY):
        stub: Any = jjq_pb2_grpc.JjqStub(channels[n % len(channels)])
        call = stub.Subscribe()
        start = pb.SubscribeStart(subscriber=f"orders/s{n}", credit=pb.Credit(elements=10))
        await call.write(pb.SubscribeRequest(start=start))
        await call.read()
        calls.append(call)
    grown = psutil.Process().memory_info().rss - before
    assert grown < 200 * 1024 * 1024

    assert await turns.of(hot) < 1.5 * alone + ASKED
    assert timers() - before_timers < MANY // 50, "who waits has no timer of its own"

    await hot.stub.Push(
        pb.PushRequest(queue="orders", elements=pb.Elements(elements=[pb.Element(value=b"a")]))
    )
    replies = await asyncio.gather(*(call.read() for call in calls))
    assert {r.elements.elements[0].value for r in replies} == {b"a"}
    for channel in channels:
        await channel.close()
    await until(lambda: len(hot.server._streams) == 0, 20.0)
