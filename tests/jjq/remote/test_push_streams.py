"""Plain pushes over streams: quicker than calls, and never sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coldstore.shared.errors import Exhausted, InvalidInput, NotFound, Unavailable
from coldstore.shared.results import Receipt
from jjq.limits import PLAIN_SECONDS, PLAIN_STREAMS_MAX
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.remote.streams import RequestStream
from tests.jjq.client.faulty import FaultyStore
from tests.jjq.cutproxy import CutProxy, cut_off, proxied
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import PATIENT, Served, hurry, served, until, values

Far = tuple[Served, CutProxy, RemoteStore]


def streams(remote: RemoteStore) -> list[RequestStream[Any, Any]]:
    return [each for each in remote._push_streams._streams.values() if each is not None and not each.ended]


async def warm(remote: RemoteStore, queue: str = "orders") -> None:
    """Two pushes, so that the queue has a stream."""
    for _ in range(2):
        await remote.push(queue, values(b"warm"))


@pytest.fixture
async def far(fake: Served) -> AsyncIterator[Far]:
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, PATIENT) as remote:
        await remote.create_queue("orders")
        yield fake, proxy, remote


async def unheard(far: Far) -> asyncio.Future[Receipt]:
    """A push that the server has, and whose answer vanished; so do all others from now on."""
    fake, proxy, remote = far
    proxy.swallow = True
    orders = fake.store.queues["orders"]
    passed, pushed = proxy.passed, orders.next_offset
    push = asyncio.ensure_future(remote.push("orders", values(b"once")))
    await until(lambda: proxy.passed > passed and orders.next_offset > pushed)
    return push


async def test_the_second_push_opens_a_stream_and_the_others_use_it(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    assert (await jjq.remote.push("orders", values(b"0"))).first_offset == 0
    assert streams(jjq.remote) == []
    for n in range(1, 5):
        receipt = await jjq.remote.push("orders", values(b"%d" % n))
        assert (receipt.first_offset, receipt.count, receipt.stage) == (n, 1, "synced")
    assert len(streams(jjq.remote)) == 1
    at_once = await asyncio.gather(*(jjq.remote.push("orders", values(b"x")) for _ in range(50)))
    assert sorted(receipt.first_offset for receipt in at_once) == list(range(5, 55))
    assert len(streams(jjq.remote)) == 1


async def test_errors_are_those_of_calls_and_the_stream_goes_on(jjq: Served) -> None:
    await jjq.remote.create_queue("orders", content="json")
    for _ in range(2):
        await jjq.remote.push("orders", values(b"1"))
    (stream,) = streams(jjq.remote)
    with pytest.raises(InvalidInput, match="JSON"):
        await jjq.remote.push("orders", values(b"{"))
    assert (await jjq.remote.push("orders", values(b"2"))).first_offset == 2
    assert streams(jjq.remote) == [stream]
    for _ in range(3):
        with pytest.raises(NotFound):
            await jjq.remote.push("nothing", values(b"x"))


async def test_a_refusal_that_passes_is_waited_out() -> None:
    store = FaultyStore(FakeStore())
    async with served(store) as fake:
        await fake.remote.create_queue("orders")
        await warm(fake.remote)
        store.fail("append", ("before", Exhausted("full", retry_after=0.01)))
        assert (await fake.remote.push("orders", values(b"x"))).first_offset == 2
        assert store.calls["append"] == 4


async def test_what_is_on_its_way_when_the_connection_breaks_is_not_sent_again(far: Far) -> None:
    fake, proxy, remote = far
    await warm(remote)
    push = await unheard(far)
    await cut_off(proxy, remote, lambda: not streams(remote))
    with pytest.raises(Unavailable):
        await push
    assert (await fake.store.get_queue("orders")).next_offset == 3
    assert (await remote.push("orders", values(b"next"))).first_offset == 3


async def test_a_connection_that_breaks_in_between_is_not_seen(far: Far) -> None:
    _, proxy, remote = far
    await warm(remote)
    for n in range(2, 6):
        await cut_off(proxy, remote, lambda: not streams(remote))
        assert (await remote.push("orders", values(b"x"))).first_offset == n


async def test_an_answer_that_does_not_come_costs_the_timeout(fake: Served) -> None:
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, RemoteSettings()) as remote:
        await remote.create_queue("orders")
        await warm(remote)
        proxy.swallow = True
        hurry(remote)
        with pytest.raises(Unavailable, match="outcome is unknown"):
            await remote.push("orders", values(b"x"))


async def test_who_gives_up_takes_nobody_along() -> None:
    store = FaultyStore(FakeStore())
    async with served(store) as fake:
        await fake.remote.create_queue("orders")
        await warm(fake.remote)
        store.gates["append"] = asyncio.Event()
        one, other = (asyncio.ensure_future(fake.remote.push("orders", values(b"%d" % n))) for n in range(2))
        await until(lambda: store.calls["append"] == 4)
        one.cancel()
        store.gates["append"].set()
        assert (await other).first_offset == 3
        assert len(streams(fake.remote)) == 1


async def test_there_are_so_many_streams_and_those_unused_are_ended(jjq: Served) -> None:
    names = [f"q{n}" for n in range(PLAIN_STREAMS_MAX + 3)]
    for name in names:
        await jjq.remote.create_queue(name)
        await warm(jjq.remote, name)
    assert len(streams(jjq.remote)) == PLAIN_STREAMS_MAX
    assert (await jjq.remote.push(names[0], values(b"x"))).first_offset == 2


async def test_a_stream_that_is_not_used_is_ended(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await warm(jjq.remote)
    (stream,) = streams(jjq.remote)
    stream._look()
    assert not stream.ended, "it was used just now"
    stream._used -= PLAIN_SECONDS
    stream._look()
    await until(stream._task.done)
    assert streams(jjq.remote) == []
    assert (await jjq.remote.push("orders", values(b"x"))).first_offset == 2


async def test_a_push_that_waits_for_the_cold_store_keeps_nobody_waiting(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await warm(jjq.remote)
    (stream,) = streams(jjq.remote)
    cold = asyncio.ensure_future(jjq.remote.push("orders", values(b"c"), stage="cold"))
    assert (await jjq.remote.push("orders", values(b"x"))).count == 1
    assert not stream._requests.sent
    assert (await cold).stage == "cold"


async def test_closing_tells_those_who_wait(far: Far) -> None:
    _, _, remote = far
    await warm(remote)
    push = await unheard(far)
    await remote.close()
    with pytest.raises(Unavailable, match="closed"):
        await push
