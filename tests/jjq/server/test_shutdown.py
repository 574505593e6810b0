"""Stopping: what works is finished, what waits is told to go elsewhere, and the end comes soon."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hotstore.port import Push, Receipt
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, numbers, rest, served, until

ELEMENTS = pb.Elements(elements=[pb.Element(value=b"a")])


class Held(FakeStore):
    """Pushes are held mid-commit until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.holding = asyncio.Event()
        self.go = asyncio.Event()

    async def append(self, push: Push) -> Receipt:
        self.holding.set()
        await self.go.wait()
        return await super().append(push)


def push(**fields: Any) -> pb.PushRequest:
    return pb.PushRequest(queue="orders", elements=ELEMENTS, **fields)


async def stopping(jjq: Served) -> asyncio.Task[None]:
    """Begin to stop, and wait until the server has noticed."""
    task = asyncio.create_task(jjq.server.stop())
    await until(lambda: jjq.server._drain.stopping)
    return task


async def test_a_push_in_flight_is_answered_before_the_end() -> None:
    store = Held()
    async with served(store) as jjq:
        await jjq.remote.create_queue("orders")
        one = asyncio.ensure_future(jjq.stub.Push(push()))
        await store.holding.wait()
        end = await stopping(jjq)
        store.go.set()
        assert (await one).receipt.count == 1
        await end


async def test_streamed_pushes_in_flight_are_answered_and_then_the_stream_ends() -> None:
    store = Held()
    async with served(store) as jjq:
        await jjq.remote.create_queue("orders")
        call = jjq.stub.PushStream()
        await call.write(push())
        await store.holding.wait()
        end = await stopping(jjq)
        store.go.set()
        assert (await call.read()).results[0].receipt.count == 1
        with pytest.raises(grpc.aio.AioRpcError, match="stopping") as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await end


async def test_a_pop_that_waits_is_broken_off_and_has_not_moved(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x")
    pop = asyncio.ensure_future(jjq.stub.Pop(pb.PopRequest(subscriber="orders/x", wait_seconds=60)))
    await until(lambda: jjq.server._drain._waiting)
    await jjq.server.stop()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await pop
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert (await jjq.store.get_subscriber("orders/x")).offset == 0


async def test_streams_that_wait_are_ended_so_that_clients_resume(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x")
    subscribe, idle = jjq.stub.Subscribe(), jjq.stub.PushStream()
    await subscribe.write(
        pb.SubscribeRequest(start=pb.SubscribeStart(subscriber="orders/x", credit=pb.Credit(elements=5)))
    )
    follow = jjq.stub.Read(pb.ReadRequest(queue="orders", follow=True))
    health: Any = health_pb2_grpc.HealthStub(jjq.channel)
    watch = health.Watch(health_pb2.HealthCheckRequest(service="jjq.v1.Jjq"))
    for call in (subscribe, follow, watch):
        await call.read()
    await idle.write(push())
    await idle.read()
    await asyncio.wait_for(jjq.server.stop(30.0), 10.0)
    for call in (subscribe, follow, watch, idle):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rest(call)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_read_of_a_range_is_finished(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    for n in range(20):
        await jjq.remote.push("orders", numbers(n * 2_000, 2_000))
    call = jjq.stub.Read(pb.ReadRequest(queue="orders"))
    await call.read()
    end = await stopping(jjq)
    assert sum(len(reply.elements.elements) for reply in await rest(call)) == 40_000
    await end


async def test_a_push_that_takes_longer_than_the_grace_is_of_unknown_outcome() -> None:
    store = Held()
    async with served(store) as jjq:
        await jjq.remote.create_queue("orders")
        one = asyncio.ensure_future(jjq.stub.Push(push()))
        await store.holding.wait()
        await jjq.server.stop(0.05)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await one
        assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


async def until_refused(channel: grpc.aio.Channel) -> None:
    call: Any = channel.unary_unary("/jjq.v1.Jjq/ListQueues")
    for _ in range(1_000):  # the listener closes a moment after health has changed
        await call(b"")


async def test_health_says_so_and_new_calls_are_refused() -> None:
    store = Held()
    async with served(store) as jjq:
        await jjq.remote.create_queue("orders")
        health: Any = health_pb2_grpc.HealthStub(jjq.channel)
        for service in ("", "jjq.v1.Jjq"):
            reply = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        one = asyncio.ensure_future(jjq.stub.Push(push()))
        await store.holding.wait()
        end = await stopping(jjq)
        servicer: Any = jjq.server._health
        status = servicer._server_status["jjq.v1.Jjq"]
        assert status == health_pb2.HealthCheckResponse.NOT_SERVING
        async with grpc.aio.insecure_channel(jjq.server.address) as late:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await until_refused(late)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        store.go.set()
        await one
        await end


async def test_stopping_twice_waits_for_the_same_end() -> None:
    store = Held()
    async with served(store) as jjq:
        await jjq.remote.create_queue("orders")
        one = asyncio.ensure_future(jjq.stub.Push(push()))
        await store.holding.wait()
        ends = [await stopping(jjq), await stopping(jjq)]
        await asyncio.sleep(0)
        assert not any(end.done() for end in ends), "a push is under way: neither is the end"
        store.go.set()
        assert (await one).receipt.count == 1
        await asyncio.gather(*ends)
        await jjq.server.stop()  # after the end: at once
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await jjq.stub.Push(push())
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
