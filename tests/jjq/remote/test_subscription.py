"""Subscriptions: deliveries survive broken connections and follow seeks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import Conflict, NotFound, Unavailable
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.remote.subscription import RemoteDelivery, RemoteSubscription
from jjq.server.server import serve
from jjq.server.settings import ServerSettings
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.cutproxy import CutProxy, through_proxy
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, numbers, served, until

PATIENT = RemoteSettings(timeout_seconds=20.0)
WHO = "orders/billing"


async def filled(jjq: Served, count: int = 10) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "billing", "beginning")
    if count:
        await jjq.remote.push("orders", numbers(0, count))


async def take(subscription: RemoteSubscription, count: int) -> tuple[list[int], RemoteDelivery]:
    """At least `count` elements, and the last delivery."""
    seen: list[int] = []
    async for delivery in subscription:
        seen += delivery.batch.column("offset").to_pylist()
        if len(seen) >= count:
            return seen, delivery
    raise AssertionError("a subscription does not end")


async def test_deliveries_come_in_order_and_are_confirmed(jjq: Served) -> None:
    await filled(jjq)
    async with jjq.remote.subscribe(WHO) as subscription:
        seen, last = await take(subscription, 10)
        assert seen == list(range(10))
        await subscription.confirm(last)
        await subscription.settled()
        assert (await jjq.store.get_subscriber(WHO)).offset == 10
        await jjq.remote.push("orders", numbers(10, 5))
        assert (await take(subscription, 5))[0] == [10, 11, 12, 13, 14]
    assert (await jjq.store.get_subscriber(WHO)).offset == 10


async def test_what_was_not_confirmed_comes_again_to_the_next_one(jjq: Served) -> None:
    await filled(jjq)
    async with jjq.remote.subscribe(WHO, batch_elements=4) as subscription:
        first = await anext(subscription)
        await take(subscription, 6)
        await subscription.confirm(first, 3)
    async with jjq.remote.subscribe(WHO) as subscription:
        assert (await take(subscription, 7))[0] == [3, 4, 5, 6, 7, 8, 9]


async def test_no_more_is_buffered_than_credit_allows(jjq: Served) -> None:
    await filled(jjq, 1_000)
    async with jjq.remote.subscribe(WHO, elements=10, nbytes=0, batch_elements=3) as subscription:
        seen: list[int] = []
        while len(seen) < 1_000:
            delivery = await anext(subscription)
            seen += delivery.batch.column("offset").to_pylist()
            assert sum(d.batch.num_rows for d in subscription._buffer) <= 10
        assert seen == list(range(1_000))


async def test_credit_in_bytes_comes_back_to_the_last_one(hot: Served) -> None:
    """Arrow drops a bitmap without nulls on the way: as the client counts, a little was lost each time."""
    await filled(hot, 0)
    for _ in range(100):
        await hot.remote.push("orders", payload("bytes", [b"x", b"y"], keys=[b"k", b"l"]))
    async with hot.remote.subscribe(WHO, elements=0, nbytes=1_000, batch_elements=3) as subscription:
        await take(subscription, 200)
        credit: Any = vars(hot.server._streams._open[WHO])["_credit"]
        await until(lambda: credit._bytes + subscription._owed[1] == 1_000)


async def test_confirmations_made_in_a_moment_are_one(jjq: Served) -> None:
    await filled(jjq)
    async with jjq.remote.subscribe(WHO, batch_elements=1) as subscription:
        deliveries = [await anext(subscription) for _ in range(10)]
        sent = jjq.server.metrics.meter("Subscribe")
        before = sent.received_bytes
        for delivery in deliveries:
            await subscription.confirm(delivery)  # the loop does not turn in between: a moment, surely
        await subscription.settled()
        assert (await jjq.store.get_subscriber(WHO)).offset == 10
        one = pb.SubscribeRequest(confirm=pb.Confirmation(offset=10)).ByteSize()
        assert sent.received_bytes - before == one


@pytest.fixture(params=["grpc", "websocket"])
async def far(
    jjq: Served, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Served, CutProxy, RemoteStore]]:
    async with through_proxy(jjq.server, request.param, PATIENT) as (proxy, remote):
        yield jjq, proxy, remote


async def test_broken_connections_are_not_seen(far: tuple[Served, CutProxy, RemoteStore]) -> None:
    """Nothing is skipped and nothing comes twice, confirmed or not."""
    jjq, proxy, remote = far
    await filled(jjq, 500)
    async with remote.subscribe(WHO, elements=20, batch_elements=7) as subscription:
        seen: list[int] = []
        async for delivery in subscription:
            seen += delivery.batch.column("offset").to_pylist()
            if len(seen) % 3:
                await subscription.confirm(delivery)
            if len(seen) % 5 == 0:
                proxy.cut()
            if len(seen) == 500:
                break
        assert seen == list(range(500))
        await subscription.confirm(delivery)
    assert proxy.connections > 2
    assert (await jjq.store.get_subscriber(WHO)).offset == 500


async def test_a_confirmation_lost_with_the_connection_is_made_again(
    far: tuple[Served, CutProxy, RemoteStore],
) -> None:
    jjq, proxy, remote = far
    await filled(jjq)
    async with remote.subscribe(WHO) as subscription:
        _, last = await take(subscription, 10)
        proxy.refuse = True
        proxy.cut()
        await until(lambda: subscription._call is None)
        await subscription.confirm(last)
        proxy.refuse = False
        await subscription.settled()
        assert (await jjq.store.get_subscriber(WHO)).offset == 10


async def test_a_seek_is_followed_and_older_confirmations_do_not_undo_it(jjq: Served) -> None:
    await filled(jjq)
    async with jjq.remote.subscribe(WHO) as subscription:
        _, old = await take(subscription, 10)
        await jjq.remote.seek(WHO, "offset:4")
        seen, new = await take(subscription, 6)
        assert seen == [4, 5, 6, 7, 8, 9]
        assert new.generation > old.generation
        await subscription.confirm(old)
        await subscription.confirm(new, 5)
        await subscription.settled()
        assert (await jjq.store.get_subscriber(WHO)).offset == 5


async def test_a_seek_while_the_connection_is_broken_is_followed(
    far: tuple[Served, CutProxy, RemoteStore],
) -> None:
    jjq, proxy, remote = far
    await filled(jjq)
    async with remote.subscribe(WHO) as subscription:
        _, last = await take(subscription, 10)
        await subscription.confirm(last)
        await subscription.settled()
        proxy.refuse = True
        proxy.cut()
        await until(lambda: subscription._call is None)
        await jjq.remote.seek(WHO, "offset:2")
        proxy.refuse = False
        assert (await take(subscription, 8))[0] == [2, 3, 4, 5, 6, 7, 8, 9]


async def test_seeking_again_and_again_uses_up_no_credit(jjq: Served) -> None:
    await filled(jjq, 100)
    async with jjq.remote.subscribe(WHO, elements=30, batch_elements=9) as subscription:
        for _ in range(20):
            await anext(subscription)
            await jjq.remote.seek(WHO, "beginning")
        generation = 0
        seen: list[int] = []
        while len(seen) < 100:
            delivery = await anext(subscription)
            seen = seen if delivery.generation == generation else []
            generation = delivery.generation
            seen += delivery.batch.column("offset").to_pylist()
        assert seen == list(range(100))


async def test_a_second_subscription_ends_the_first(jjq: Served) -> None:
    await filled(jjq)
    async with jjq.remote.subscribe(WHO) as first, jjq.remote.subscribe(WHO) as second:
        await take(first, 10)
        await take(second, 10)
        with pytest.raises(Conflict, match="another stream"):
            await anext(first)


async def test_an_unknown_subscriber_is_told_at_once(jjq: Served) -> None:
    async with jjq.remote.subscribe("nowhere/nobody") as subscription:
        with pytest.raises(NotFound):
            await anext(subscription)


async def test_it_goes_on_when_the_server_is_replaced() -> None:
    store = FakeStore()
    first = await serve(store, ServerSettings(listen="127.0.0.1:0"))
    async with RemoteStore(first.address, PATIENT) as remote:
        await remote.create_queue("orders")
        await remote.create_subscriber("orders", "billing", "beginning")
        await remote.push("orders", numbers(0, 5))
        async with remote.subscribe(WHO) as subscription:
            seen, last = await take(subscription, 5)
            await subscription.confirm(last)
            await first.stop()
            second = await serve(store, ServerSettings(listen=first.address))
            await remote.push("orders", numbers(5, 5))
            assert seen + (await take(subscription, 5))[0] == list(range(10))
        await second.stop(0)


async def test_a_server_that_stays_away_is_told_in_the_end() -> None:
    store = FakeStore()
    async with served(store) as jjq:
        await filled(jjq, 0)
        hasty = RemoteSettings(timeout_seconds=0.3)
        async with (
            RemoteStore(jjq.server.address, hasty) as remote,
            remote.subscribe(WHO) as subscription,
        ):
            waiting = asyncio.ensure_future(anext(subscription))
            await until(lambda: subscription.confirmed >= 0)
            await jjq.server.stop(0)
            with pytest.raises(Unavailable):
                await waiting


async def test_more_streams_than_a_connection_takes_are_spread_over_several(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    for n in range(250):
        await jjq.remote.create_subscriber("orders", f"s{n}", "beginning")
    subscriptions = [jjq.remote.subscribe(f"orders/s{n}") for n in range(250)]
    waiting = [asyncio.ensure_future(anext(subscription)) for subscription in subscriptions]
    await until(lambda: all(s.confirmed >= 0 for s in subscriptions))
    await jjq.remote.push("orders", numbers(0, 1))
    assert [(await w).next for w in waiting] == [1] * 250
    await asyncio.gather(*(s.close() for s in subscriptions))
