"""Lists in pages, by generated code alone and by our own client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import chain
from typing import Any

import grpc
import pytest

from coldstore.shared.limits import KIB
from coldstore.shared.results import QueueInfo
from jjq.limits import PAGE_ENTRIES, PAGE_MAX
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.pages import token
from tests.hotstore.kit import World, fill, push
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, served

INVALID = grpc.StatusCode.INVALID_ARGUMENT


class Many(FakeStore):
    """Has as many queues as anybody asks for, and remembers what was asked."""

    def __init__(self, there: int) -> None:
        super().__init__()
        self.there = there
        self.asked: list[tuple[str, int | None]] = []

    async def list_queues(
        self, *, after: str = "", limit: int | None = None, ledgers: bool = False
    ) -> list[QueueInfo]:
        self.asked.append((after, limit))
        first = int(after[1:]) + 1 if after else 0
        one = QueueInfo("id", "q", "bytes", 1, 1.0, 0, 0, 0, 0, 0)
        last = self.there if limit is None else min(self.there, first + limit)
        return [replace(one, name=f"q{n:06d}") for n in range(first, last)]


@pytest.fixture
async def jjq() -> AsyncIterator[Served]:
    async with served(FakeStore()) as found:
        yield found


async def pages(ask: Any, request: Any, field: str) -> list[list[str]]:
    """All pages, each as the names in it."""
    found: list[list[str]] = []
    while not found or request.page_token:
        reply = await ask(request)
        found.append([getattr(entry, "id", "") or entry.name for entry in getattr(reply, field)])
        request.page_token = reply.next_page_token
    return found


async def test_queues_come_in_pages_and_the_last_one_says_so(jjq: Served) -> None:
    for n in range(7):
        await jjq.remote.create_queue(f"q{n}")
    request = pb.ListQueuesRequest(page_size=3)
    found = await pages(jjq.stub.ListQueues, request, "queues")
    assert [len(page) for page in found] == [3, 3, 1]
    assert list(chain(*found)) == [f"id-q{n}" for n in range(7)]
    full = await jjq.stub.ListQueues(pb.ListQueuesRequest(page_size=7))
    assert (len(full.queues), full.next_page_token) == (7, "")


async def test_subscribers_of_all_queues_come_by_queue_and_name(jjq: Served) -> None:
    ids = [f"{queue}/{name}" for queue in ("a", "a-b", "a.b", "b") for name in ("x", "y-z", "z")]
    for subscriber in reversed(ids):  # as texts "a-b/x" comes before "a/x", but not as a queue
        queue, name = subscriber.split("/")
        await jjq.remote.create_queue(queue)
        await jjq.remote.create_subscriber(queue, name)
    for size in (1, 2, 5, 12, 13):
        request = pb.ListSubscribersRequest(page_size=size)
        assert list(chain(*await pages(jjq.stub.ListSubscribers, request, "subscribers"))) == ids
    one = pb.ListSubscribersRequest(queue="a-b", page_size=2)
    assert await pages(jjq.stub.ListSubscribers, one, "subscribers") == [ids[3:5], ids[5:6]]


async def test_what_is_there_all_the_while_comes_once_whatever_is_created_and_deleted(jjq: Served) -> None:
    for n in range(10, 30, 2):
        await jjq.remote.create_queue(f"q{n}")
    request = pb.ListQueuesRequest(page_size=3)
    seen: list[str] = []
    for step in range(10):
        reply = await jjq.stub.ListQueues(request)
        seen += [queue.name for queue in reply.queues]
        request.page_token = reply.next_page_token
        if not request.page_token:
            break
        for n in (9 - step, 11 + 2 * step, 29):  # before, amid and behind
            await jjq.remote.create_queue(f"q{n}")
        del jjq.store.queues[seen[-1]]  # the very one that the token names
    assert seen == sorted(set(seen))
    assert {f"q{n}" for n in range(10, 30, 2)} <= set(seen)
    assert "q29" in seen


@pytest.mark.parametrize("size", [PAGE_MAX, PAGE_MAX + 1, 2**31 - 1])
async def test_a_page_has_at_most_so_many(size: int) -> None:
    async with served(Many(PAGE_MAX + 5)) as jjq:
        reply = await jjq.stub.ListQueues(pb.ListQueuesRequest(page_size=size))
        assert len(reply.queues) == PAGE_MAX
        rest = await jjq.stub.ListQueues(
            pb.ListQueuesRequest(page_size=size, page_token=reply.next_page_token)
        )
        assert (len(rest.queues), rest.next_page_token) == (5, "")


async def test_a_client_that_knows_no_pages_gets_all_or_is_told() -> None:
    async with served(Many(PAGE_MAX)) as jjq:
        reply = await jjq.stub.ListQueues(pb.ListQueuesRequest())
        assert (len(reply.queues), reply.next_page_token) == (PAGE_MAX, "")
        jjq.store.there += 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await jjq.stub.ListQueues(pb.ListQueuesRequest())
    assert caught.value.code() is INVALID
    assert "page_size" in str(caught.value.details())


@pytest.mark.parametrize(
    "page_token",
    ["x", "%%%", "\N{SNOWMAN}", "cXVldWVz", token("queues", "orders"), token("blocks other", 3)]
    + [token("blocks orders", place) for place in ("-1", "soon", "9" * 5_000, " ")],
)
async def test_a_token_that_no_such_list_gave_is_refused(jjq: Served, page_token: str) -> None:
    await jjq.remote.create_queue("orders")
    for call in (
        jjq.stub.ListBlocks(pb.ListBlocksRequest(queue="orders", page_token=page_token)),
        jjq.stub.ListSubscribers(pb.ListSubscribersRequest(page_token=page_token)),
    ):
        assert await call.code() is INVALID
        assert "next_page_token" in await call.details()
    assert len((await jjq.stub.ListQueues(pb.ListQueuesRequest())).queues) == 1


async def test_a_negative_page_size_is_refused(jjq: Served) -> None:
    call = jjq.stub.ListQueues(pb.ListQueuesRequest(page_size=-1))
    assert await call.code() is INVALID
    assert "page_size" in await call.details()


async def test_our_client_asks_for_all_pages() -> None:
    async with served(Many(2 * PAGE_ENTRIES + 1)) as jjq:
        found = await jjq.remote.list_queues()
        assert [queue.name for queue in found] == [f"q{n:06d}" for n in range(2 * PAGE_ENTRIES + 1)]
        assert [limit for _, limit in jjq.store.asked] == [PAGE_ENTRIES + 1] * 3
        some = await jjq.remote.list_queues(after="q000009", limit=2)
        assert [queue.name for queue in some] == ["q000010", "q000011"]
        assert await jjq.remote.list_queues(limit=0) == []


async def test_blocks_that_are_merged_between_two_pages_leave_no_hole_and_come_once() -> None:
    world = await World().start()
    await world.store.create_queue("q", block_bytes=64 * KIB, block_seconds=60.0)
    for _ in range(3):
        await push(world.store, "q", b"a", b"b")
        world.clock.advance(61.0)
        await world.maintain()
    async with served(world.store) as jjq:
        first = await jjq.stub.ListBlocks(pb.ListBlocksRequest(queue="q", page_size=2))
        assert [(b.first_offset, b.kind) for b in first.blocks] == [
            (0, pb.BLOCK_KIND_YOUNG), (2, pb.BLOCK_KIND_YOUNG),
        ]  # fmt: skip
        await fill(world.store, "q", 4)  # fills a block, which takes the young ones in
        await world.quiet()
        request = pb.ListBlocksRequest(queue="q", page_size=2, page_token=first.next_page_token)
        second = await jjq.stub.ListBlocks(request)
        assert [(b.first_offset, b.last_offset) for b in second.blocks] == [(0, 9), (10, 9)]
        whole = await jjq.remote.list_blocks("q")
    assert [(b.first_offset, b.last_offset) for b in whole] == [(0, 9), (10, 9)]


async def test_our_client_takes_the_merged_block_for_those_it_had(jjq: Served) -> None:
    def block(first: int, last: int) -> pb.Block:
        return pb.Block(first_offset=first, last_offset=last, kind=pb.BLOCK_KIND_YOUNG)

    answers = [
        pb.ListBlocksResponse(blocks=[block(0, 4), block(5, 6), block(7, 8)], next_page_token="more"),
        pb.ListBlocksResponse(blocks=[block(5, 20), block(21, 30)]),
    ]

    async def answer(*_: Any) -> Any:
        return answers.pop(0)

    jjq.remote._call = answer  # type: ignore[assignment, method-assign]
    found = await jjq.remote.list_blocks("orders")
    assert [(b.first_offset, b.last_offset) for b in found] == [(0, 4), (5, 20), (21, 30)]
