"""Subscriptions: everything once and in order, confirmed as the consumer goes on, resumed without a gap."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import jjq
from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound
from jjq.client.client import AsyncClient
from jjq.client.subscription import AsyncSubscription
from tests.jjq.client.faulty import FaultyStore, lost, until
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import wait_until


async def prepared(client: AsyncClient, count: int = 10) -> None:
    await client.create_queue("orders")
    await client.create_subscriber("orders", "s", "beginning")
    if count:
        await client.push("orders", [b"%d" % n for n in range(count)])


async def take(subscription: AsyncSubscription, count: int) -> list[bytes | str]:
    async with asyncio.timeout(20):
        return [(await anext(subscription)).value for _ in range(count)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, end)]


async def offset(client: AsyncClient) -> int:
    return (await client.get_subscriber("orders/s")).offset


async def reached(client: AsyncClient, wanted: int) -> None:
    """Return when so much is confirmed."""
    async with asyncio.timeout(20):
        while await offset(client) != wanted:  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.01)


async def test_elements_come_in_order_also_those_pushed_later(client: AsyncClient) -> None:
    await prepared(client)
    async with client.subscribe("orders/s") as subscription:
        assert await take(subscription, 10) == numbers(0, 10)
        waiting = asyncio.create_task(take(subscription, 5))
        await client.push("orders", numbers(10, 15))
        assert await waiting == numbers(10, 15)


async def test_an_element_is_handled_when_the_next_one_is_asked_for(client: AsyncClient) -> None:
    await prepared(client)
    async with client.subscribe("orders/s") as subscription:
        await take(subscription, 4)
    assert await offset(client) == 3
    async with client.subscribe("orders/s") as subscription:
        assert await take(subscription, 2) == numbers(3, 5)
        await subscription.confirm()
        assert await offset(client) == 5
        assert await take(subscription, 1) == numbers(5, 6)


async def test_confirm_makes_what_was_given_durable_at_once(client: AsyncClient) -> None:
    await prepared(client)
    async with client.subscribe(await client.get_subscriber("orders/s")) as subscription:
        await take(subscription, 7)
        await subscription.confirm()
        assert await offset(client) == 7
    assert await offset(client) == 7


async def test_batches_are_arrow_and_confirmed_one_after_the_other(client: AsyncClient) -> None:
    await prepared(client)
    async with client.subscribe("orders/s") as subscription:
        assert (await anext(subscription)).value == b"0"
        async for batch in subscription.batches():
            assert batch.column("value").to_pylist() == numbers(1, 10)
            break
        await subscription.confirm()
    assert await offset(client) == 10


async def test_a_seek_moves_a_subscription_that_is_being_read(client: AsyncClient) -> None:
    await prepared(client)
    async with client.subscribe("orders/s") as subscription:
        assert await take(subscription, 6) == numbers(0, 6)
        await subscription.confirm()
        await client.seek("orders/s", "offset:2")
        seen = await take(subscription, 1)
        while seen[-1] != b"2":  # a server's stream may have been ahead of the seek
            seen += await take(subscription, 1)
        assert await take(subscription, 7) == numbers(3, 10)
        await subscription.confirm()
        assert await offset(client) == 10


async def test_a_confirmation_of_what_came_before_a_seek_does_not_undo_it(client: AsyncClient) -> None:
    await prepared(client)
    async with client.subscribe("orders/s") as subscription:
        await take(subscription, 9)
        await client.seek("orders/s", "beginning")
    assert await offset(client) == 0


async def test_reading_a_subscriber_that_is_not_there_fails(client: AsyncClient) -> None:
    await client.create_queue("orders")
    async with client.subscribe("orders/nobody") as subscription:
        with pytest.raises(NotFound):
            await take(subscription, 1)


async def test_deleting_a_subscriber_ends_its_subscription(client: AsyncClient) -> None:
    await prepared(client, 1)
    async with client.subscribe("orders/s") as subscription:
        assert await take(subscription, 1) == numbers(0, 1)
        waiting = asyncio.create_task(take(subscription, 1))
        await asyncio.sleep(0)
        await client.delete_subscriber("orders/s")
        with pytest.raises(NotFound):
            await waiting


async def test_a_newer_subscription_ends_the_older_one(client: AsyncClient) -> None:
    await prepared(client, 2)
    async with client.subscribe("orders/s") as older:
        assert await take(older, 1) == numbers(0, 1)
        async with client.subscribe("orders/s") as newer:
            assert await take(newer, 2) == numbers(0, 2)
            with pytest.raises(Conflict):
                await take(older, 3)


async def test_a_closed_subscription_gives_nothing_more(client: AsyncClient) -> None:
    await prepared(client, 3)
    subscription = client.subscribe("orders/s")
    await take(subscription, 1)
    await subscription.close()
    subscription.cursor.drop()
    with pytest.raises(JjqError):
        await take(subscription, 1)


async def test_closing_the_client_ends_its_subscriptions(client: AsyncClient) -> None:
    await prepared(client, 3)
    subscription = client.subscribe("orders/s")
    await take(subscription, 2)
    await client.close()
    subscription.cursor.drop()
    with pytest.raises(JjqError):
        await take(subscription, 1)


async def test_what_is_read_ahead_is_bounded(faulty: FaultyStore) -> None:
    client = AsyncClient(faulty)
    await client.create_subscriber("orders", "s", "beginning")
    for _ in range(30):
        await client.push("orders", [bytes(1 << 20)])
    read = 0
    queue = faulty.inner.queues["orders"]
    original = queue.slice

    def counting(start: int, count: int) -> object:
        nonlocal read
        read = max(read, start)
        return original(start, min(count, 1))

    queue.slice = counting
    async with client.subscribe("orders/s") as subscription:
        assert (await anext(subscription)).offset == 0
        for _ in range(200):
            await asyncio.sleep(0)
        assert 10 <= read < 25
        assert [(await anext(subscription)).offset for _ in range(29)] == list(range(1, 30))


async def test_an_error_of_a_confirmation_reaches_the_reader(faulty: FaultyStore) -> None:
    client = AsyncClient(faulty)
    await prepared(client, 3)
    faulty.fail("confirm", lost("before"))
    async with client.subscribe("orders/s") as subscription:
        await take(subscription, 2)
        with pytest.raises(JjqError, match="lost before"):
            await subscription.confirm()


async def test_confirmations_become_one_while_one_is_under_way(faulty: FaultyStore) -> None:
    client = AsyncClient(faulty)
    await prepared(client, 0)
    gate = faulty.gates["confirm"] = asyncio.Event()
    async with client.subscribe("orders/s") as subscription:
        for n in range(10):  # ten batches of one
            await client.push("orders", [b"%d" % n])
            assert await take(subscription, 1) == numbers(n, n + 1)
        await until(lambda: faulty.calls.get("confirm") == 1)
        gate.set()
        await subscription.confirm()
    assert faulty.calls["confirm"] <= 3
    assert await offset(client) == 10


async def test_what_is_handled_is_confirmed_by_time_though_the_consumer_asks_for_no_more(
    client: AsyncClient,
) -> None:
    await prepared(client)
    async with client.subscribe("orders/s") as subscription:
        await take(subscription, 4)  # of one batch; the fourth is being handled, for long
        await reached(client, 3)
        assert await take(subscription, 1) == numbers(4, 5)


async def test_a_consumer_that_never_waits_is_confirmed_by_time_as_well(client: AsyncClient) -> None:
    await prepared(client, 3_000)
    async with client.subscribe("orders/s", confirm_every=0.001) as subscription:
        await take(subscription, 2_000)
        await reached(client, 1_999)


async def test_without_a_time_only_confirm_confirms(client: AsyncClient) -> None:
    await prepared(client)
    async with client.subscribe("orders/s", confirm_every=None) as subscription:
        await take(subscription, 10)
        await client.push("orders", numbers(10, 12))
        await take(subscription, 1)  # of the next batch
    assert await offset(client) == 0
    async with client.subscribe("orders/s", confirm_every=None) as subscription:
        await take(subscription, 5)
        await subscription.confirm()
        await take(subscription, 2)
    assert await offset(client) == 5


@pytest.mark.parametrize("every", [0, -1.0, float("nan")])
async def test_a_time_to_confirm_is_positive(client: AsyncClient, every: float) -> None:
    with pytest.raises(InvalidInput, match="confirm_every"):
        client.subscribe("orders/s", confirm_every=every)


def test_a_program_that_is_killed_goes_on_where_it_was_a_second_before(
    server: JjqServer, tmp_path: Path
) -> None:
    """It took elements more quickly than it was to confirm them, and hangs in one of them when it is killed."""
    with jjq.connect(server.address) as client:
        client.create_queue("orders")
        client.create_subscriber("orders", "s", "beginning")
        client.push("orders", numbers(0, 3_000))
        code = (
            f"import jjq, threading; s = jjq.connect({server.address!r}).subscribe('orders/s');"
            "[next(s) for _ in range(1_500)]; threading.Event().wait()"
        )
        consumer = subprocess.Popen([sys.executable, "-c", code])
        try:
            wait_until(lambda: client.get_subscriber("orders/s").offset == 1_499, "it is confirmed", 60.0)
        finally:
            consumer.kill()
            consumer.wait()
        with client.subscribe("orders/s") as subscription:
            assert next(subscription).offset == 1_499
