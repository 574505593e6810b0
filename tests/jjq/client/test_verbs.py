"""The verbs, over the fake, in process and over a server: the same answers everywhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta

import pyarrow as pa
import pytest

from coldstore.shared.errors import Conflict, InvalidInput, NotFound, OutOfRange
from jjq.client.client import AsyncClient


async def test_two_subscribers_each_see_every_element(client: AsyncClient) -> None:
    await client.create_queue("orders")
    billing = await client.create_subscriber("orders", name="billing", start="beginning")
    audit = await client.create_subscriber("orders", name="audit", start="beginning")
    receipt = await client.push("orders", [b"a", b"b"], keys=[b"k", None], headers=[None, {"h": b"1"}])
    assert (receipt.first_offset, receipt.count, receipt.stage) == (0, 2, "synced")
    for subscriber in (billing, audit.id):
        first, second = await client.pop(subscriber, max=10)
        assert (first.offset, first.key, first.value, first.headers) == (0, b"k", b"a", {})
        assert (second.offset, second.key, second.value, second.headers) == (1, None, b"b", {"h": b"1"})
        assert first.timestamp == second.timestamp == receipt.timestamp
        assert await client.pop(subscriber, max=10) == []


async def test_times_have_a_zone(client: AsyncClient) -> None:
    queue = await client.create_queue("orders")
    subscriber = await client.create_subscriber("orders", "s", "beginning")
    receipt = await client.push("orders", [b"a"])
    found = await client.seek(subscriber, "beginning")
    assert found.resolved is not None
    times = [queue.created, subscriber.created, receipt.timestamp, found.resolved.timestamp]
    assert all(time is not None and time.utcoffset() == timedelta(0) for time in times)
    assert receipt.timestamp.tzinfo is UTC


async def test_peek_stays_and_pop_moves(client: AsyncClient) -> None:
    await client.create_queue("orders")
    subscriber = await client.create_subscriber("orders", "s", "beginning")
    await client.push("orders", [b"a", b"b", b"c"])
    assert [e.value for e in await client.peek(subscriber, max=2)] == [b"a", b"b"]
    assert [e.value for e in await client.pop(subscriber)] == [b"a"]
    assert (await client.peek_batch(subscriber)).column("value").to_pylist() == [b"b", b"c"]
    assert (await client.pop_batch(subscriber)).column("offset").to_pylist() == [1, 2]
    assert (await client.get_subscriber(subscriber)).offset == 3


async def test_a_waiting_pop_gets_what_is_pushed_meanwhile(client: AsyncClient) -> None:
    await client.create_queue("orders")
    subscriber = await client.create_subscriber("orders", "s")
    waiting = asyncio.create_task(client.pop(subscriber, max=10, wait=30.0))
    await client.push("orders", [b"a"])
    assert [e.value for e in await waiting] == [b"a"]


async def test_a_queue_is_found_by_name_and_by_subscriber(client: AsyncClient) -> None:
    made = await client.create_queue("orders", content="json")
    subscriber = await client.create_subscriber("orders", "s")
    assert (await client.get_queue("orders")).id == made.id
    assert (await client.get_queue(subscriber)).id == (await client.get_queue("orders/s")).id == made.id
    assert [queue.name for queue in await client.list_queues()] == ["orders"]
    assert [found.id for found in await client.list_subscribers("orders")] == ["orders/s"]


async def test_text_comes_back_as_text_and_tables_go_in_whole(client: AsyncClient) -> None:
    await client.create_queue("notes", content="text")
    await client.push("notes", ["ä", "b"])
    await client.push("notes", pa.table({"key": [b"k"], "value": ["c"]}))
    elements = [e async for e in client.replay("notes").elements()]
    assert [(e.key, e.value) for e in elements] == [(None, "ä"), (None, "b"), (b"k", "c")]


async def test_the_same_identity_is_written_once(client: AsyncClient) -> None:
    await client.create_queue("orders")
    first = await client.push("orders", [b"a"], producer="p", sequence=0)
    again = await client.push("orders", [b"a"], producer="p", sequence=0)
    assert (again.first_offset, again.duplicate) == (first.first_offset, True)
    assert (await client.get_queue("orders")).next_offset == 1


async def test_a_conditional_push_is_written_only_there(client: AsyncClient) -> None:
    await client.create_queue("orders")
    await client.push("orders", [b"a"], expected_offset=0)
    with pytest.raises(Conflict):
        await client.push("orders", [b"b"], expected_offset=0)
    assert (await client.get_queue("orders")).next_offset == 1


async def test_seek_sleep_wakeup_and_delete(client: AsyncClient) -> None:
    await client.create_queue("orders")
    subscriber = await client.create_subscriber("orders", "s", "beginning")
    await client.push("orders", [b"a", b"b", b"c"])
    await client.pop(subscriber, max=3)
    assert (await client.seek(subscriber, "last:2", dry_run=True)).offset == 1
    assert (await client.get_subscriber(subscriber)).offset == 3
    assert (await client.seek(subscriber, "last:2")).offset == 1
    assert (await client.sleep(subscriber)).asleep
    assert not (await client.wakeup(subscriber)).asleep
    assert [e.value for e in await client.pop(subscriber, max=9)] == [b"b", b"c"]
    await client.delete_subscriber(subscriber)
    with pytest.raises(NotFound):
        await client.pop(subscriber)


async def test_bad_requests_are_refused_with_the_error_that_says_what_to_do(client: AsyncClient) -> None:
    await client.create_queue("orders")
    subscriber = await client.create_subscriber("orders", "s")
    with pytest.raises(NotFound, match="nope"):
        await client.push("nope", [b"a"])
    with pytest.raises(InvalidInput, match="empty"):
        await client.push("orders", [])
    with pytest.raises(InvalidInput, match=r"\.\."):
        await client.create_queue("../up")
    with pytest.raises(OutOfRange) as out:
        await client.seek(subscriber, "offset:9")
    assert (out.value.first, out.value.next) == (0, 0)
    with pytest.raises(InvalidInput):
        await client.pop(subscriber, max=0)
    with pytest.raises(InvalidInput):
        await client.pop(subscriber, wait=-1)


async def test_a_block_can_be_sealed(client: AsyncClient) -> None:
    await client.create_queue("orders", block_seconds=60.0)
    await client.push("orders", [b"a"])
    blocks = await client.list_blocks("orders")
    assert [(block.kind, block.count) for block in blocks] == [("hot-hot", 1)]
    assert (await client.seal("orders")).cold_offset == 1
    stored = [block for block in await client.list_blocks("orders") if block.key]
    assert [(block.first_offset, block.count) for block in stored] == [(0, 1)]


async def test_settings_of_a_queue_can_be_changed_one_by_one(client: AsyncClient) -> None:
    await client.create_queue("orders", block_bytes=1 << 20, block_seconds=60.0)
    assert (await client.update_queue("orders", block_bytes=1 << 21)).block_bytes == 1 << 21
    changed = await client.update_queue("orders", block_seconds=5.0)
    assert (changed.block_bytes, changed.block_seconds) == (1 << 21, 5.0)
    assert await client.get_queue("orders") == changed
    # A program that creates its queue without saying how goes on as before.
    assert await client.create_queue("orders") == changed
    with pytest.raises(Conflict):
        await client.create_queue("orders", block_bytes=1 << 20)


async def test_a_deleted_queue_is_gone_for_everybody_and_comes_back_whole(client: AsyncClient) -> None:
    await client.create_queue("orders")
    await client.create_queue("others")
    subscriber = await client.create_subscriber("orders", "billing", "beginning")
    await client.push("orders", [b"a", b"b", b"c"], producer="p", sequence=7)
    assert [e.value for e in await client.pop(subscriber)] == [b"a"]
    before = await client.get_queue("orders")

    planned = await client.delete_queue("orders", grace_seconds=600.0, dry_run=True)
    assert planned.until_us - planned.deleted_us == 600_000_000
    assert await client.get_queue("orders") == before

    deleted = await client.delete_queue("orders", grace_seconds=600.0)
    assert (deleted.queue, deleted.id) == ("orders", before.id)
    assert deleted.until_us - deleted.deleted_us == 600_000_000
    assert await client.delete_queue("orders") == deleted  # again: the same answer
    for asking in (
        client.get_queue("orders"), client.push("orders", [b"d"]), client.pop(subscriber),
        client.get_subscriber(subscriber), client.list_blocks("orders"),
        client.update_queue("orders", block_bytes=1 << 20),
    ):  # fmt: skip
        with pytest.raises(NotFound):
            await asking
    assert [queue.name for queue in await client.list_queues()] == ["others"]
    assert await client.list_subscribers() == []

    restored = await client.undelete_queue("orders")
    assert (restored.id, restored.next_offset) == (before.id, 3)
    assert [e.value for e in await client.pop(subscriber, max=10)] == [b"b", b"c"]
    again = await client.push("orders", [b"a", b"b", b"c"], producer="p", sequence=7)
    assert (again.duplicate, again.first_offset) == (True, 0)
    assert (await client.push("orders", [b"d"], producer="p", sequence=8)).first_offset == 3
    assert await client.undelete_queue("orders") == await client.get_queue("orders")


async def test_what_is_not_there_can_be_neither_deleted_nor_brought_back(client: AsyncClient) -> None:
    for asking in (client.delete_queue("orders"), client.undelete_queue("orders"), client.seal("orders")):
        with pytest.raises(NotFound):
            await asking


async def test_status_tells_how_the_store_is(client: AsyncClient) -> None:
    await client.create_queue("orders")
    [status] = await client.status()
    assert status.figures["queues"] == 1.0
    assert status.version
    assert status.uptime_seconds >= 0
    assert (status.node, status.cold_error, status.error) == ("", "", "")


async def test_closing_twice_is_allowed(client: AsyncClient) -> None:
    closed: list[str] = []
    close = client._on_close

    async def counted() -> None:
        closed.append("the store")
        if close is not None:
            await close()

    client._on_close = counted
    await client.create_queue("orders")
    producer = client.producer("orders", linger=50.0)
    pushed = await producer.push(b"a")
    await client.close()
    assert (await pushed).first_offset == 0, "closing flushes first"
    await client.close()
    assert closed == ["the store"], "and the second time nothing is closed again"
