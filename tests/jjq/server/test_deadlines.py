"""Deadlines and cancellation: the outcome may be unknown, but a retry is always safe."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import pytest

from jjq.v1 import jjq_pb2 as pb
from tests.jjq.server.test_shutdown import Held, push
from tests.jjq.serving import Served, served, until


async def test_a_deadline_that_passes_mid_commit_leaves_a_retry_safe() -> None:
    store = Held()
    async with served(store) as jjq:
        await jjq.remote.create_queue("orders")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await jjq.stub.Push(push(producer="p", sequence=0), timeout=0.05)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        store.go.set()
        await jjq.stub.Push(push(producer="p", sequence=0))
        await jjq.stub.Push(push(producer="p", sequence=0))
        assert (await jjq.remote.get_queue("orders")).next_offset == 1


@pytest.mark.parametrize("patience", [0.0005, 0.001, 0.002, 0.004, 0.008])
async def test_however_short_the_deadline_a_push_happens_once(jjq: Served, patience: float) -> None:
    """On the real store some of these are cut off mid-commit, some before, some not at all."""
    await jjq.remote.create_queue("orders")
    for sequence in range(10):
        with suppress(grpc.aio.AioRpcError):
            await jjq.stub.Push(push(producer="p", sequence=sequence), timeout=patience)
        receipt = (await jjq.stub.Push(push(producer="p", sequence=sequence))).receipt
        assert receipt.first_offset == sequence
    assert (await jjq.remote.get_queue("orders")).next_offset == 10


async def test_a_cancelled_pop_that_waited_leaves_the_position(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x")
    pop = jjq.stub.Pop(pb.PopRequest(subscriber="orders/x", wait_seconds=60))
    await until(lambda: jjq.server._drain._waiting)
    pop.cancel()
    await until(lambda: not jjq.server._drain._waiting)
    await jjq.stub.Push(push())
    got = await jjq.stub.Pop(pb.PopRequest(subscriber="orders/x", wait_seconds=5))
    assert [e.offset for e in got.elements.elements] == [0]


async def test_a_pop_that_ran_out_of_time_can_be_repeated_by_its_position(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x", "beginning")
    await jjq.stub.Push(push())
    with suppress(grpc.aio.AioRpcError):  # it may have moved, or not
        await jjq.stub.Pop(pb.PopRequest(subscriber="orders/x", position=0), timeout=0.001)
    got = await jjq.stub.Pop(pb.PopRequest(subscriber="orders/x", position=0, wait_seconds=5))
    assert [e.offset for e in got.elements.elements] == [0]


async def test_cancelled_streams_leave_nothing_behind(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x")
    await jjq.stub.Push(push())
    before = len(asyncio.all_tasks())
    for _ in range(20):
        subscribe = jjq.stub.Subscribe()
        start = pb.SubscribeStart(subscriber="orders/x", credit=pb.Credit(elements=5))
        await subscribe.write(pb.SubscribeRequest(start=start))
        stream = jjq.stub.PushStream()
        await stream.write(push())
        follow = jjq.stub.Read(pb.ReadRequest(queue="orders", follow=True))
        for call in (subscribe, stream, follow):
            await call.read()
            call.cancel()
    await until(lambda: len(asyncio.all_tasks()) <= before + 6 and not len(jjq.server._streams))
