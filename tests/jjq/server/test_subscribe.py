"""Subscribe as a plain client uses it: credit, confirmation, resuming, seeks."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from jjq.v1 import jjq_pb2 as pb
from tests.jjq.serving import Served, numbers, rest

SUBSCRIBER = "orders/billing"


class Stream:
    """One call, and what it has received."""

    def __init__(self, jjq: Served, **start: Any) -> None:
        credit = start.pop("credit", pb.Credit(elements=100))
        self.call = jjq.stub.Subscribe()
        self.start = pb.SubscribeStart(subscriber=SUBSCRIBER, credit=credit, **start)

    async def begin(self) -> pb.SubscribeResponse:
        """Open, and the first response."""
        await self.call.write(pb.SubscribeRequest(start=self.start))
        return await self.next()

    async def next(self) -> pb.SubscribeResponse:
        reply: pb.SubscribeResponse = await self.call.read()
        assert isinstance(reply, pb.SubscribeResponse), await self.call.code()
        return reply

    async def offsets(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            found += [e.offset for e in (await self.next()).elements.elements]
        return found

    async def confirm(self, offset: int, generation: int = 0) -> None:
        request = pb.Confirmation(offset=offset, generation=generation)
        await self.call.write(pb.SubscribeRequest(confirm=request))

    async def confirmed(self, offset: int, generation: int = 0) -> None:
        """Confirm, and wait until it is durable."""
        await self.confirm(offset, generation)
        while (await self.next()).confirmed < offset:
            pass

    async def allow(self, elements: int = 0, nbytes: int = 0) -> None:
        await self.call.write(pb.SubscribeRequest(credit=pb.Credit(elements=elements, bytes=nbytes)))

    async def why(self) -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rest(self.call)
        return caught.value


async def filled(jjq: Served, count: int = 10) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "billing", "beginning")
    if count:
        await jjq.remote.push("orders", numbers(0, count))


async def test_elements_come_as_they_are_pushed(jjq: Served) -> None:
    await filled(jjq, 3)
    stream = Stream(jjq)
    hello = await stream.begin()
    assert (hello.position, hello.next, hello.confirmed, hello.WhichOneof("batch")) == (0, 0, 0, None)
    assert await stream.offsets(3) == [0, 1, 2]
    await jjq.remote.push("orders", numbers(3, 2))
    assert await stream.offsets(2) == [3, 4]


async def test_no_more_elements_are_sent_than_credit_allows(jjq: Served) -> None:
    await filled(jjq, 10)
    stream = Stream(jjq, credit=pb.Credit(elements=4), batch_elements=3)
    await stream.begin()
    assert [len((await stream.next()).elements.elements) for _ in range(2)] == [3, 1]
    await stream.allow(elements=2)
    assert await stream.offsets(2) == [4, 5]
    await stream.confirmed(6)  # the next response is news of this, not elements
    await stream.allow(elements=100)
    assert await stream.offsets(4) == [6, 7, 8, 9]


async def test_credit_may_be_bytes(jjq: Served) -> None:
    await filled(jjq, 100)
    stream = Stream(jjq, credit=pb.Credit(bytes=1))
    await stream.begin()
    assert await stream.offsets(1) == [0]  # one element is more than a byte, and comes alone
    await stream.allow(nbytes=1_000)
    first = await stream.offsets(1)
    assert first[0] == 1
    assert 1 < len(first) < 99
    await stream.allow(nbytes=1_000_000)
    assert (await stream.offsets(99 - len(first)))[-1] == 99


async def test_confirmed_elements_do_not_come_again_and_others_do(jjq: Served) -> None:
    await filled(jjq, 10)
    stream = Stream(jjq)
    await stream.begin()
    await stream.offsets(10)
    await stream.confirmed(4)
    stream.call.cancel()
    again = Stream(jjq)
    assert (await again.begin()).position == 4
    assert await again.offsets(6) == [4, 5, 6, 7, 8, 9]
    assert (await jjq.remote.get_subscriber(SUBSCRIBER)).offset == 4


async def test_confirmations_sent_before_closing_are_kept(jjq: Served) -> None:
    await filled(jjq, 10)
    stream = Stream(jjq)
    await stream.begin()
    await stream.offsets(10)
    await stream.confirm(3)
    await stream.confirm(9)
    await stream.call.done_writing()
    await rest(stream.call)
    assert await stream.call.code() is grpc.StatusCode.OK
    assert (await jjq.remote.get_subscriber(SUBSCRIBER)).offset == 9


async def test_a_resumed_stream_sends_nothing_twice(jjq: Served) -> None:
    await filled(jjq, 10)
    stream = Stream(jjq, credit=pb.Credit(elements=6))
    await stream.begin()
    await stream.offsets(6)
    await stream.confirmed(2)
    stream.call.cancel()  # and a confirmation of 5 was lost with it
    resume = pb.Resume(confirmed=2, confirm=5, next=6)
    again = Stream(jjq, resume=resume)
    hello = await again.begin()
    assert (hello.position, hello.confirmed) == (6, 5)
    assert await again.offsets(4) == [6, 7, 8, 9]
    assert (await jjq.remote.get_subscriber(SUBSCRIBER)).offset == 5


@pytest.mark.parametrize("seek", ["beginning", "end", "offset:7"])
async def test_resuming_is_ignored_after_a_seek(jjq: Served, seek: str) -> None:
    await filled(jjq, 10)
    moved = (await jjq.remote.seek(SUBSCRIBER, seek)).offset
    again = Stream(jjq, resume=pb.Resume(confirmed=2, confirm=5, next=6))
    hello = await again.begin()
    assert (hello.position, hello.confirmed) == (moved, moved)


async def test_an_open_stream_follows_a_seek(jjq: Served) -> None:
    await filled(jjq, 10)
    stream = Stream(jjq)
    await stream.begin()
    assert await stream.offsets(10) == list(range(10))
    await jjq.remote.seek(SUBSCRIBER, "offset:8")
    news = await stream.next()
    assert (news.generation, news.position, news.confirmed) == (1, 8, 8)
    assert await stream.offsets(2) == [8, 9]


async def test_a_confirmation_of_what_came_before_a_seek_does_not_undo_it(jjq: Served) -> None:
    await filled(jjq, 10)
    stream = Stream(jjq)
    await stream.begin()
    await stream.offsets(10)
    await jjq.remote.seek(SUBSCRIBER, "beginning")
    await stream.confirm(10, generation=0)
    assert await stream.offsets(10) == list(range(10))
    assert (await jjq.remote.get_subscriber(SUBSCRIBER)).offset == 0
    await stream.confirmed(1, generation=1)
    assert (await jjq.remote.get_subscriber(SUBSCRIBER)).offset == 1


async def test_a_seek_behind_the_servers_back_is_found_by_looking(jjq: Served) -> None:
    await filled(jjq, 10)
    stream = Stream(jjq)
    await stream.begin()
    await stream.offsets(10)
    await stream.confirmed(10)
    await jjq.store.seek(SUBSCRIBER, "offset:5")
    await jjq.server._streams.look()
    assert await stream.offsets(5) == [5, 6, 7, 8, 9]


async def test_looking_does_not_take_a_confirmation_for_a_seek(jjq: Served) -> None:
    await filled(jjq, 10)
    stream = Stream(jjq)
    await stream.begin()
    await stream.offsets(10)
    await stream.confirmed(6)
    await jjq.server._streams.look()
    await stream.confirm(7)
    assert (await stream.next()).generation == 0


async def test_a_newer_stream_ends_the_older(jjq: Served) -> None:
    await filled(jjq, 1)
    older, newer = Stream(jjq), Stream(jjq)
    await older.begin()
    await newer.begin()
    assert (await older.why()).code() is grpc.StatusCode.FAILED_PRECONDITION
    assert await newer.offsets(1) == [0]


async def test_deleting_the_subscriber_ends_its_stream(jjq: Served) -> None:
    await filled(jjq, 1)
    stream = Stream(jjq)
    await stream.begin()
    await jjq.remote.delete_subscriber(SUBSCRIBER)
    assert (await stream.why()).code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.SubscribeRequest(), "must be start"),
        (pb.SubscribeRequest(credit=pb.Credit(elements=1)), "must be start"),
        (pb.SubscribeRequest(start=pb.SubscribeStart(subscriber=SUBSCRIBER)), "without credit"),
        (
            pb.SubscribeRequest(
                start=pb.SubscribeStart(subscriber=SUBSCRIBER, credit=pb.Credit(elements=-1, bytes=5))
            ),
            "negative",
        ),
        (
            pb.SubscribeRequest(
                start=pb.SubscribeStart(subscriber=SUBSCRIBER, credit=pb.Credit(bytes=5), batch_elements=-1)
            ),
            "negative",
        ),
        (
            pb.SubscribeRequest(
                start=pb.SubscribeStart(
                    subscriber=SUBSCRIBER,
                    credit=pb.Credit(bytes=5),
                    form=7,  # type: ignore[arg-type]
                )
            ),
            "form 7",
        ),
    ],
    ids=["nothing", "credit first", "no credit", "negative credit", "negative batch", "unknown form"],
)
async def test_a_stream_that_begins_wrongly_is_refused(
    fake: Served, request_: pb.SubscribeRequest, text: str
) -> None:
    await filled(fake, 0)
    call = fake.stub.Subscribe()
    await call.write(request_)
    with pytest.raises(grpc.aio.AioRpcError, match=text) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_confirming_what_was_never_sent_is_refused(jjq: Served) -> None:
    await filled(jjq, 3)
    stream = Stream(jjq)
    await stream.begin()
    await stream.confirm(99)
    assert (await stream.why()).code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_unknown_subscriber_is_told_so(jjq: Served) -> None:
    await filled(jjq, 0)
    await jjq.remote.delete_subscriber(SUBSCRIBER)
    stream = Stream(jjq)
    await stream.call.write(pb.SubscribeRequest(start=stream.start))
    assert (await stream.why()).code() is grpc.StatusCode.NOT_FOUND
