"""`RemoteStore` does what a `Store` does."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import Conflict, InvalidInput, NotFound, OutOfRange, Unavailable
from hotstore.port import Store
from jjq.remote.settings import RemoteSettings, split_targets
from jjq.remote.store import RemoteStore
from tests.jjq.serving import Served, numbers, said, values


def is_a_store(remote: RemoteStore) -> Store:
    """Checked by the type checker."""
    return remote


async def test_queues(jjq: Served) -> None:
    made = await jjq.remote.create_queue("orders", content="text", block_bytes=100_000, block_seconds=2.5)
    assert made == await jjq.store.get_queue("orders")
    assert (made.content, made.block_bytes, made.block_seconds) == ("text", 100_000, 2.5)
    assert await jjq.remote.list_queues() == [made]
    with pytest.raises(Conflict):
        await jjq.remote.create_queue("orders", content="json")
    with pytest.raises(InvalidInput, match="content"):
        await jjq.remote.create_queue("other", content="xml")


async def test_subscribers(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.push("orders", numbers(0, 10))
    made = await jjq.remote.create_subscriber("orders", "billing", "last:3")
    assert made.resolved is not None
    assert (made.offset, made.resolved.next_offset, made.resolved.timestamp_us) == (
        7,
        10,
        made.resolved.timestamp_us,
    )
    assert (await jjq.remote.create_subscriber("orders", "billing", "last:3")).id == made.id
    assert await jjq.remote.get_subscriber("orders/billing") == await jjq.store.get_subscriber(
        "orders/billing"
    )
    assert (await jjq.remote.get_queue("orders/billing")).name == "orders"
    assert [s.name for s in await jjq.remote.list_subscribers("orders")] == ["billing"]
    assert (await jjq.remote.seek("orders/billing", "offset:99", clamp=True)).offset == 10
    with pytest.raises(OutOfRange) as caught:
        await jjq.remote.seek("orders/billing", "offset:99")
    assert (caught.value.first, caught.value.next) == (0, 10)
    assert (await jjq.remote.seek("orders/billing", "beginning", dry_run=True)).offset == 0
    assert (await jjq.remote.get_subscriber("orders/billing")).offset == 10
    await jjq.remote.delete_subscriber("orders/billing")
    with pytest.raises(NotFound):
        await jjq.remote.delete_subscriber("orders/billing")


async def test_a_subscriber_without_a_name_is_named(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    one, other = [await jjq.remote.create_subscriber("orders") for _ in range(2)]
    assert one.name != other.name


async def test_pushing_popping_peeking_confirming(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    subscriber = (await jjq.remote.create_subscriber("orders", "x", "beginning")).id
    receipt = await jjq.remote.push("orders", values(b"a", b"b", b"c"))
    assert (receipt.first_offset, receipt.count, receipt.stage, receipt.duplicate) == (0, 3, "synced", False)
    peeked = await jjq.remote.peek(subscriber, 2)
    popped = await jjq.remote.pop(subscriber, 2)
    assert said(peeked.batch) == said(popped.batch) == [b"a", b"b"]
    assert (popped.position, popped.next) == (0, 2)
    assert said((await jjq.remote.pop(subscriber, 9, position=0)).batch) == [b"a", b"b"]
    await jjq.remote.confirm(subscriber, 3)
    empty = await jjq.remote.pop(subscriber, 2)
    assert (empty.batch.num_rows, empty.position, empty.next) == (0, 3, 3)
    with pytest.raises(Conflict):
        await jjq.remote.pop(subscriber, position=1)
    with pytest.raises(Conflict):
        await jjq.remote.push("orders", values(b"d"), expected_offset=7)
    assert (await jjq.remote.push("orders", values(b"d"), expected_offset=3)).first_offset == 3


async def test_batches_keep_every_column(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x", "beginning")
    sent = payload("bytes", [b"1", b""], keys=[b"k", None], headers=[{"h": b"v"}, None])
    await jjq.remote.push("orders", sent)
    got = (await jjq.remote.pop("orders/x", 2)).batch
    assert got.select(["key", "value", "headers"]).to_pylist() == sent.to_pylist()
    assert got.equals((await jjq.store.pop("orders/x", 2, position=0)).batch)


async def test_a_pop_waits(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x")
    pop = asyncio.ensure_future(jjq.remote.pop("orders/x", 5, wait=20.0))
    await jjq.remote.push("orders", values(b"a"))
    assert said((await pop).batch) == [b"a"]


async def test_reading_a_range_and_following(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.push("orders", numbers(0, 2_500))
    offsets = [
        b.column("offset").to_pylist() async for b in jjq.remote.read("orders", "offset:5", "offset:2100")
    ]
    assert [o for batch in offsets for o in batch] == list(range(5, 2_100))
    assert [b async for b in jjq.remote.read("orders", "end")] == []
    follow = jjq.remote.read("orders", "end", follow=True)
    first = asyncio.ensure_future(anext(follow))
    while not first.done():
        await jjq.remote.push("orders", values(b"new"))
    assert set(said(first.result())) == {b"new"}
    await follow.aclose()  # type: ignore[attr-defined]


async def test_sleep_wakeup_and_blocks(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x")
    assert (await jjq.remote.sleep("orders/x")).asleep
    assert not (await jjq.remote.wakeup("orders/x")).asleep
    assert await jjq.remote.list_blocks("orders") == await jjq.store.list_blocks("orders")


async def test_what_protobuf_cannot_hold_or_would_take_for_a_default_is_refused_here(fake: Served) -> None:
    await fake.remote.create_queue("orders")
    await fake.remote.create_subscriber("orders", "x")
    for wrong in (
        fake.remote.pop("orders/x", 0),
        fake.remote.pop("orders/x", True),
        fake.remote.pop("orders/x", 2**70),
        fake.remote.create_subscriber("orders", ""),
        fake.remote.create_subscriber("orders", "y", ""),
        fake.remote.list_subscribers(""),
        fake.remote.create_queue(5),  # type: ignore[arg-type]
        fake.remote.push("orders", values(b"a"), stage="later"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput):
            await wrong
    with pytest.raises(InvalidInput):
        fake.remote.read("orders", "")


async def test_a_closed_client_says_so(fake: Served) -> None:
    await fake.remote.create_queue("orders")
    await fake.remote.close()
    for late in (
        fake.remote.list_queues(),
        fake.remote.push("orders", values(b"a")),
        fake.remote.push("orders", values(b"a"), producer="p", sequence=0),
        anext(fake.remote.read("orders")),
    ):
        with pytest.raises(Unavailable, match="closed"):
            await late


async def test_closing_breaks_off_what_waits(fake: Served) -> None:
    await fake.remote.create_queue("orders")
    await fake.remote.create_subscriber("orders", "x")
    pop = asyncio.ensure_future(fake.remote.pop("orders/x", wait=60.0))
    follow = asyncio.ensure_future(anext(fake.remote.read("orders", follow=True)))
    await fake.remote.list_queues()
    await fake.remote.close()
    for waiting in (pop, follow):
        with pytest.raises(Unavailable, match="closed"):
            await waiting


def test_addresses_are_read_with_their_ports() -> None:
    assert split_targets("a:1, b:2,a:1") == ["a:1", "b:2"]
    assert split_targets("a") == ["a:7575"]
    assert split_targets("[::1]:9,[::2]") == ["[::1]:9", "[::2]:7575"]
    for wrong in ("", "a:1,,b:2", "http://a:1", "a b:1"):
        with pytest.raises(InvalidInput, match="HOST:PORT"):
            split_targets(wrong)


@pytest.mark.parametrize("wrong", [{"timeout_seconds": 0}, {"in_flight_bytes_max": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        RemoteSettings(**wrong)  # type: ignore[arg-type]
