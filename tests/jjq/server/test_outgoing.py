"""Clients that do not read what was made for them: one budget for all, the slowest are closed, nobody else suffers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from coldstore.shared.batch import payload
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Exhausted
from coldstore.shared.limits import KIB, MIB
from jjq.limits import STREAM_MESSAGE_BYTES_MIN
from jjq.server import outgoing as module
from jjq.server.outgoing import Outgoing
from jjq.server.settings import ServerSettings
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import decode
from tests.jjq.serving import Served, hot_store, said, served, until

BUDGET = 8 * MIB
ITEMS = [b"%04d" % n + bytes(1_000) for n in range(4_000)]


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Served]:
    """A server with a small budget, and a queue with half as much in it.

    The window of each stream stays at 64 KiB: gRPC's own estimate may let a whole queue into the client's memory,
    where no server knows that nobody reads it.
    """
    settings = ServerSettings(listen="127.0.0.1:0", grace_seconds=1.0, outgoing_bytes_max=BUDGET)
    options = [("grpc.http2.bdp_probe", 0)]
    async with hot_store(tmp_path) as store, served(store, settings, options=options) as jjq:
        await jjq.remote.create_queue("orders")
        await jjq.remote.push("orders", payload("bytes", ITEMS))
        yield jjq


def reading(jjq: Served) -> Any:
    """A stream that nobody reads until somebody does."""
    request = pb.ReadRequest(queue="orders", form="FORM_ARROW").SerializeToString()
    method: Any = jjq.channel.unary_stream("/jjq.v1.Jjq/Read")
    return method(request)


async def stalled(jjq: Served, count: int) -> list[Any]:
    """So many streams that hold a message each."""
    calls = [reading(jjq) for _ in range(count)]
    held = jjq.server._outgoing
    await until(lambda: len(held._writes) >= count or held.closed, 60)
    return calls


async def listen(call: Any, heard: list[int]) -> None:
    """Read to the end, and note where each message ends."""
    while (raw := await call.read()) is not grpc.aio.EOF:
        heard.append(decode(pb.ReadResponse, raw)[0].next)


async def test_streams_that_never_read_stay_within_the_budget(small: Served) -> None:
    calls = await stalled(small, 100)
    held = small.server._outgoing
    assert held.bytes <= BUDGET + 2 * 100 * STREAM_MESSAGE_BYTES_MIN
    assert held.room() < BUDGET / 128 / 2  # of which each next one took a part
    got = [value async for batch in small.remote.read("orders") for value in said(batch)]
    assert got == ITEMS  # whoever reads gets all, in smaller messages
    for call in calls:
        call.cancel()
    await until(lambda: held.bytes == 0)
    assert held.room() == BUDGET // 128


async def test_the_slowest_are_closed_first_and_told_why(
    small: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    calls = await stalled(small, 120)
    held = small.server._outgoing
    await until(lambda: held.closed)
    # From now on nobody else is slow: a stream that is closed over its last message would have got all.
    monkeypatch.setattr(module, "SLOW_SECONDS", float("inf"))
    heard: list[list[int]] = [[] for _ in calls]
    tasks = [asyncio.create_task(listen(call, list_)) for call, list_ in zip(calls, heard, strict=True)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    number = next(n for n, task in enumerate(tasks) if task.done() and task.exception() is not None)
    error: Any = tasks[number].exception()
    got = heard[number][-1]
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "do not read" in error.details()
    assert got < len(ITEMS)
    for call in calls:
        call.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: held.bytes == 0)
    rest = [value async for batch in small.remote.read("orders", f"offset:{got}") for value in said(batch)]
    assert rest == ITEMS[got:]


async def test_a_client_that_paused_goes_on_where_it_was(
    small: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    batches = small.remote.read("orders")
    got = said(await anext(batches))
    held = small.server._outgoing
    await until(lambda: len(held._writes) == 1)
    (write,) = held._writes
    others = await stalled(small, 120)
    await until(write.outcome.done)  # closed, as it was first
    for call in others:
        call.cancel()
    got += [value async for batch in batches for value in said(batch)]
    assert got == ITEMS


async def test_a_subscriber_and_a_pop_stream_count_too(
    small: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each message counted is noted when it is sent: how much of it stays with the server is gRPC's affair."""
    held = small.server._outgoing
    close_slow, counted = held._close_slow, list[int]()

    def note() -> None:
        counted.extend(write.cost for write in held._writes)
        assert held.bytes >= sum(write.cost for write in held._writes)
        close_slow()

    monkeypatch.setattr(held, "_close_slow", note)
    await small.remote.create_subscriber("orders", "a", "beginning")
    start = pb.SubscribeStart(subscriber="orders/a", form="FORM_ARROW", credit=pb.Credit(elements=10**9))
    call: Any = small.channel.stream_stream("/jjq.v1.Jjq/Subscribe")()
    await call.write(pb.SubscribeRequest(start=start).SerializeToString())
    await until(lambda: max(counted, default=0) > 2 * 16 * KIB)
    assert max(counted) < 1_000 * 1_000  # messages of a subscription are a small part of the budget
    await small.remote.create_subscriber("orders", "b", "beginning")
    pops = [pb.NumberedPop(id=1, pop=pb.PopRequest(subscriber="orders/b", max=1_000, form="FORM_ARROW"))]
    other: Any = small.channel.stream_stream("/jjq.v1.Jjq/PopStream")()
    await other.write(pb.PopStreamRequest(pops=pops).SerializeToString())
    await until(lambda: max(counted) > 1_000 * 1_000)
    call.cancel()
    other.cancel()
    await until(lambda: held.bytes == 0)


async def test_no_reply_is_made_where_there_is_no_room_for_it(small: Served) -> None:
    await small.remote.create_subscriber("orders", "a", "beginning")
    small.server._outgoing.hold(BUDGET)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await small.stub.Pop(pb.PopRequest(subscriber="orders/a", max=10))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    small.server._outgoing.release(BUDGET)
    reply = await small.stub.Pop(pb.PopRequest(subscriber="orders/a", max=10))
    assert reply.position == 0
    await until(lambda: small.server._outgoing.bytes == 0)


async def test_a_message_that_is_not_small_is_not_sent_beyond_the_budget() -> None:
    held = Outgoing(4 * MIB, SystemClock())
    held.hold(2 * MIB)
    sent: list[int] = []

    async def write(size: int) -> None:
        sent.append(size)

    with pytest.raises(Exhausted, match="resume where you were"):
        await held.send(write(STREAM_MESSAGE_BYTES_MIN), STREAM_MESSAGE_BYTES_MIN)
    await held.send(write(10), 10)
    assert sent == [10]
    assert held.closed == 1


async def test_a_failed_write_fails_its_stream() -> None:
    held = Outgoing(4 * MIB, SystemClock())

    async def write() -> None:
        await asyncio.sleep(0)
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        await held.send(write(), MIB)
    assert held.bytes == 0


async def test_what_nobody_waits_for_any_more_goes_on_and_counts_until_it_is_gone() -> None:
    """gRPC would not free what it had begun to send."""
    held = Outgoing(4 * MIB, SystemClock())
    read = asyncio.Event()
    steps: list[str] = []

    async def write() -> None:
        steps.append("begun")  # in the same round, without a task
        await asyncio.sleep(0)
        await read.wait()
        steps.append("done")

    sending = asyncio.create_task(held.send(write(), MIB))
    await asyncio.sleep(0)
    assert steps == ["begun"]
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert sending.cancelled()
    assert held.bytes == 2 * MIB
    read.set()
    await until(lambda: held.bytes == 0)
    assert steps == ["begun", "done"]


async def test_a_write_that_is_cancelled_cancels_its_stream() -> None:
    held = Outgoing(4 * MIB, SystemClock())

    async def write() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await held.send(write(), MIB)
    assert held.bytes == 0


async def test_metrics_show_what_is_held(small: Served) -> None:
    calls = await stalled(small, 3)
    registry = small.server.metrics.registry
    assert (registry.get_sample_value("jjq_outgoing_bytes") or 0) > 3 * 16 * KIB
    assert registry.get_sample_value("jjq_outgoing_bytes_max") == BUDGET
    assert registry.get_sample_value("jjq_closed_streams_total") == 0
    for call in calls:
        call.cancel()
