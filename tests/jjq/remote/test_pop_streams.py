"""Pops over streams: cheaper than calls, and nothing is skipped or given twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, Exhausted, InvalidInput, NotFound, Unavailable
from coldstore.shared.results import Popped
from jjq.client.resumable_pop import ResumablePops
from jjq.limits import LAGGING_MAX, PLAIN_SECONDS
from jjq.remote.multiplexer import PopCodec
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.remote.streams import LaggingSubscribers, RequestStream
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.client.faulty import FaultyStore
from tests.jjq.cutproxy import CutProxy, cut_off, proxied
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import PATIENT, Served, hurry, numbers, said, served, until, values

Far = tuple[Served, CutProxy, RemoteStore]


def streams(remote: RemoteStore) -> list[RequestStream[Any, Any]]:
    return [each for each in remote._pop_streams._streams.values() if each is not None and not each.ended]


def calls(jjq: Served) -> int:
    """How many pops came as calls."""
    return sum(jjq.server.metrics.meter("Pop").calls.values())


async def prepared(store: Any, *subscribers: str, elements: int = 100) -> None:
    """A queue with elements 0, 1, … and subscribers at its beginning."""
    await store.create_queue("orders")
    await store.push("orders", numbers(0, elements))
    for name in ("warm", "x", *subscribers):
        await store.create_subscriber("orders", name, "beginning")


async def warm(remote: RemoteStore) -> RequestStream[Any, Any]:
    """Two pops, so that the server has a stream."""
    for _ in range(2):
        await remote.pop("orders/warm")
    (stream,) = streams(remote)
    return stream


@pytest.fixture
async def far(fake: Served) -> AsyncIterator[Far]:
    await prepared(fake.store)
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, PATIENT) as remote:
        yield fake, proxy, remote


async def unheard(far: Far, **fields: Any) -> asyncio.Future[Popped]:
    """A pop of two that the server has made, and whose answer vanished; so do all others from now on."""
    fake, proxy, remote = far
    proxy.swallow = True
    passed, subscribers = proxy.passed, fake.store.queues["orders"].subscribers
    pop = asyncio.ensure_future(remote.pop("orders/x", 2, **fields))
    await until(lambda: proxy.passed > passed and subscribers["x"].offset == 2)
    return pop


async def test_the_second_pop_opens_a_stream_and_all_subscribers_use_it(jjq: Served) -> None:
    names = [f"s{n}" for n in range(20)]
    await prepared(jjq.store, *names)
    assert said((await jjq.remote.pop("orders/x", 2)).batch) == [b"0", b"1"]
    assert streams(jjq.remote) == []
    for n in range(2, 10, 2):
        popped = await jjq.remote.pop("orders/x", 2)
        assert (popped.position, popped.next, said(popped.batch)) == (n, n + 2, [b"%d" % n, b"%d" % (n + 1)])
    at_once = await asyncio.gather(*(jjq.remote.pop(f"orders/{name}", 5) for name in names))
    assert [popped.next for popped in at_once] == [5] * len(names)
    assert len(streams(jjq.remote)) == 1
    assert calls(jjq) == 1


async def test_pops_made_at_the_same_time_travel_in_one_message(
    fake: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{n}" for n in range(8)]
    await prepared(fake.store, *names)
    await warm(fake.remote)
    sent: list[bytes] = []
    encode = PopCodec.encode

    def seen(self: PopCodec, requests: list[tuple[int, pb.PopRequest]]) -> bytes:
        sent.append(encode(self, requests))
        return sent[-1]

    monkeypatch.setattr(PopCodec, "encode", seen)
    await asyncio.gather(*(fake.remote.pop(f"orders/{name}") for name in names))
    (only,) = sent
    assert [each.pop.subscriber for each in pb.PopStreamRequest.FromString(only).pops] == [
        f"orders/{name}" for name in names
    ]


async def test_errors_are_those_of_calls_and_the_stream_goes_on(jjq: Served) -> None:
    await prepared(jjq.store)
    stream = await warm(jjq.remote)
    with pytest.raises(NotFound):
        await jjq.remote.pop("orders/nobody")
    with pytest.raises(Conflict):
        await jjq.remote.pop("orders/x", position=7)
    with pytest.raises(InvalidInput, match="wait"):
        await jjq.remote.pop("orders/x", wait=-1)
    assert said((await jjq.remote.pop("orders/x")).batch) == [b"0"]
    assert streams(jjq.remote) == [stream]


async def test_a_refusal_that_passes_is_waited_out() -> None:
    store = FaultyStore(FakeStore())
    async with served(store) as fake:
        await prepared(fake.store)
        await warm(fake.remote)
        store.fail("pop", ("before", Exhausted("full", retry_after=0.01)))
        assert (await fake.remote.pop("orders/x")).next == 1
        assert calls(fake) == 1


async def test_who_lags_is_asked_over_the_stream_even_if_it_would_wait(jjq: Served) -> None:
    await prepared(jjq.store, elements=7)
    await warm(jjq.remote)
    found = [said((await jjq.remote.pop("orders/x", 3, wait=60.0)).batch) for _ in range(3)]
    assert found == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"]]
    assert calls(jjq) == 2, "the first of all, and the first of this subscriber, of which nothing was known"
    waiting = asyncio.ensure_future(jjq.remote.pop("orders/x", 3, wait=60.0))
    await until(lambda: len(jjq.server._drain._waiting) == 2)  # the stream's next message, and an element
    await jjq.store.push("orders", values(b"new"))
    assert said((await waiting).batch) == [b"new"]
    assert calls(jjq) == 3, "its last pop was not full"


async def test_who_lagged_and_finds_nothing_waits_in_a_call(jjq: Served) -> None:
    await prepared(jjq.store, elements=2)
    await warm(jjq.remote)
    assert (await jjq.remote.pop("orders/x", 2)).next == 2
    waiting = asyncio.ensure_future(jjq.remote.pop("orders/x", 2, wait=60.0, position=2))
    await until(lambda: len(jjq.server._drain._waiting) == 2)
    assert jjq.server.metrics.meter("PopStream").elements == 3
    await jjq.store.push("orders", values(b"new"))
    popped = await waiting
    assert (said(popped.batch), popped.position) == ([b"new"], 2)
    assert calls(jjq) == 2


async def test_a_pop_that_waits_is_broken_off_at_the_server_when_its_caller_goes(jjq: Served) -> None:
    await prepared(jjq.store, elements=2)
    await warm(jjq.remote)
    await jjq.remote.pop("orders/x", 2)
    waiting = asyncio.ensure_future(jjq.remote.pop("orders/x", 2, wait=60.0))
    await until(lambda: len(jjq.server._drain._waiting) == 2)
    waiting.cancel()
    await until(lambda: len(jjq.server._drain._waiting) == 1)
    await jjq.store.push("orders", values(b"new"))
    assert said((await jjq.remote.pop("orders/x")).batch) == [b"new"]


def test_so_many_lagging_subscribers_are_remembered() -> None:
    lagging = LaggingSubscribers()
    for n in range(LAGGING_MAX + 1):
        lagging.note(f"s{n}", True)
    assert "s0" not in lagging
    assert "s1" in lagging
    lagging.note("s1", False)
    assert "s1" not in lagging


async def test_a_pop_that_is_cut_off_is_of_unknown_outcome(far: Far) -> None:
    fake, proxy, remote = far
    await warm(remote)
    pop = await unheard(far)
    await cut_off(proxy, remote, lambda: not streams(remote))
    with pytest.raises(Unavailable) as caught:
        await pop
    assert caught.value.sent
    assert (await fake.store.get_subscriber("orders/x")).offset == 2
    assert said((await remote.pop("orders/x")).batch) == [b"2"]


async def test_a_pop_that_names_its_position_gets_the_lost_elements(far: Far) -> None:
    _, proxy, remote = far
    await warm(remote)
    pop = await unheard(far, position=0)
    proxy.cut_swallowed()
    assert said((await pop).batch) == [b"0", b"1"]
    assert said((await remote.pop("orders/x", 2, position=2)).batch) == [b"2", b"3"]


async def test_through_many_cuts_nothing_is_skipped_or_given_twice(fake: Served) -> None:
    names = [f"s{n}" for n in range(6)]
    await prepared(fake.store, *names, elements=300)
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, PATIENT) as remote:
        pops = ResumablePops(remote, SystemClock(), SystemChance(), 20.0)
        proxy.cut_after, proxy.cut_again = 8_000, 12

        async def drained(name: str) -> list[bytes]:
            found: list[bytes] = []
            while len(found) < 300:
                found += said((await pops.pop(f"orders/{name}", 7, 0.0)).batch)
            return found

        for found in await asyncio.gather(*map(drained, names)):
            assert found == [b"%d" % n for n in range(300)]
        assert proxy.connections > 3


async def test_what_was_not_sent_when_the_stream_broke_is_sent_by_another(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, proxy, remote = far
    stream = await warm(remote)
    monkeypatch.setattr(stream._requests, "_take", list)  # it does not get to sending
    pop = asyncio.ensure_future(remote.pop("orders/x"))
    await until(lambda: stream._requests.unsent)
    proxy.cut()
    assert said((await pop).batch) == [b"0"]
    assert stream.ended


async def test_a_connection_that_breaks_in_between_is_not_seen(far: Far) -> None:
    _, proxy, remote = far
    await warm(remote)
    for n in range(5):
        await cut_off(proxy, remote, lambda: not streams(remote))
        assert said((await remote.pop("orders/x")).batch) == [b"%d" % n]


async def test_an_answer_that_does_not_come_costs_the_timeout(fake: Served) -> None:
    await prepared(fake.store)
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, RemoteSettings()) as remote:
        await warm(remote)
        proxy.swallow = True
        hurry(remote)
        with pytest.raises(Unavailable, match="outcome is unknown"):
            await remote.pop("orders/x")


@pytest.mark.parametrize("patient", [True, False])
async def test_a_server_of_an_earlier_release_gets_calls(
    monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    kind = type(grpc.aio.server())
    every = kind.add_registered_method_handlers

    def without(self: grpc.aio.Server, service: str, handlers: dict[str, Any]) -> None:
        every(self, service, {name: handlers[name] for name in handlers if name != "PopStream"})

    monkeypatch.setattr(kind, "add_registered_method_handlers", without)
    async with served(FakeStore(), remote=RemoteSettings(20.0, patient=patient)) as fake:
        await prepared(fake.store, "y")
        for n in range(4):
            both = await asyncio.gather(*(fake.remote.pop(f"orders/{name}") for name in "xy"))
            assert [said(popped.batch) for popped in both] == [[b"%d" % n]] * 2
        assert calls(fake) == 8
        assert streams(fake.remote) == []


async def test_a_stream_that_is_not_used_is_ended_and_the_next_pop_begins_another(jjq: Served) -> None:
    await prepared(jjq.store)
    stream = await warm(jjq.remote)
    stream._look()
    assert not stream.ended, "it was used just now"
    stream._used -= PLAIN_SECONDS
    stream._look()
    await until(stream._task.done)
    assert streams(jjq.remote) == []
    assert said((await jjq.remote.pop("orders/x")).batch) == [b"0"]
    assert len(streams(jjq.remote)) == 1
    assert calls(jjq) == 1


async def test_a_stopping_server_is_left_and_another_one_asked() -> None:
    store = FakeStore()
    async with served(store) as one, served(store) as other:
        await prepared(store)
        both = f"{one.server.address},{other.server.address}"
        async with RemoteStore(both, PATIENT) as remote:
            await warm(remote)
            await one.server.stop()
            for n in range(4):
                assert said((await remote.pop("orders/x", position=n)).batch) == [b"%d" % n]
            assert len(streams(remote)) == 1


async def test_closing_tells_those_who_wait(far: Far) -> None:
    _, _, remote = far
    await warm(remote)
    pop = await unheard(far, position=0)
    await remote.close()
    with pytest.raises(Unavailable, match="closed"):
        await pop
    with pytest.raises(Unavailable, match="closed"):
        await remote.pop("orders/x")


async def test_a_pop_whose_caller_has_gone_before_it_was_sent_is_not_sent(fake: Served) -> None:
    await prepared(fake.store)
    stream = await warm(fake.remote)
    gone = asyncio.ensure_future(fake.remote.pop("orders/x"))
    await asyncio.sleep(0)  # it is made now, and the sender has not had its turn
    assert len(stream._requests.unsent) == 1
    gone.cancel()
    assert said((await fake.remote.pop("orders/warm")).batch) == [b"2"]
    assert (await fake.store.get_subscriber("orders/x")).offset == 0
    assert not stream._requests.sent


async def test_a_pop_whose_caller_goes_when_it_was_sent_takes_nobody_along() -> None:
    store = FaultyStore(FakeStore())
    async with served(store) as fake:
        await prepared(fake.store)
        stream = await warm(fake.remote)
        store.gates["pop"] = asyncio.Event()
        gone, other = (asyncio.ensure_future(fake.remote.pop(f"orders/{name}")) for name in ("warm", "x"))
        await until(lambda: store.calls["pop"] == 4)
        gone.cancel()
        store.gates["pop"].set()
        assert said((await other).batch) == [b"0"]
        await until(lambda: not stream._requests.sent)
        assert streams(fake.remote) == [stream]
