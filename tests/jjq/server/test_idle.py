"""Many subscribers that wait cost little memory and no time."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import grpc
import psutil

from jjq.v1 import jjq_pb2 as pb
from jjq.v1 import jjq_pb2_grpc
from tests.jjq.serving import Served, until

MANY = 1_000


async def test_a_thousand_idle_subscribers_are_cheap(hot: Served) -> None:
    """Client and server together, as both are in this process."""
    await hot.remote.create_queue("orders")
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

    used = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.sleep(1.0)  # the time over which idling is measured
    now = resource.getrusage(resource.RUSAGE_SELF)
    assert now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime < 0.3

    await hot.stub.Push(
        pb.PushRequest(queue="orders", elements=pb.Elements(elements=[pb.Element(value=b"a")]))
    )
    replies = await asyncio.gather(*(call.read() for call in calls))
    assert {r.elements.elements[0].value for r in replies} == {b"a"}
    for channel in channels:
        await channel.close()
    await until(lambda: len(hot.server._streams) == 0, 20.0)
