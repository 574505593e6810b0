"""PushStream: pipelined, in order, errors in their place."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from coldstore.shared.errors import Exhausted
from hotstore.port import Push, Receipt
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, served


def push(sequence: int | None = None, value: bytes = b"x", **fields: Any) -> pb.PushRequest:
    identity: dict[str, Any] = {} if sequence is None else {"producer": "p", "sequence": sequence}
    batch: dict[str, Any] = {"elements": pb.Elements(elements=[pb.Element(value=value)])}
    return pb.PushRequest(**({"queue": "orders"} | identity | batch | fields))


async def results(call: Any, count: int) -> list[pb.PushResult]:
    found: list[pb.PushResult] = []
    while len(found) < count:
        found += (await call.read()).results
    return found


def told(result: pb.PushResult) -> int | str:
    if result.WhichOneof("result") == "receipt":
        return result.receipt.first_offset
    return pb.ErrorKind.Name(result.error.kind).removeprefix("ERROR_KIND_")


async def opened(jjq: Served) -> Any:
    await jjq.stub.CreateQueue(pb.CreateQueueRequest(name="orders"))
    return jjq.stub.PushStream()


async def test_receipts_come_in_the_order_of_the_requests(jjq: Served) -> None:
    call = await opened(jjq)
    for n in range(200):
        await call.write(push(n))
    assert [told(r) for r in await results(call, 200)] == list(range(200))
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK


async def test_many_pushes_are_in_flight_before_the_first_is_answered() -> None:
    class Slow(FakeStore):
        """Answers nothing before three have arrived."""

        arrived = 0

        async def append(self, push: Push) -> Receipt:
            receipt = await super().append(push)
            self.arrived += 1
            if self.arrived == 3:
                all_here.set()
            await all_here.wait()
            return receipt

    all_here = asyncio.Event()
    async with served(Slow()) as jjq:
        call = await opened(jjq)
        for _ in range(3):
            await call.write(push())
        assert [told(r) for r in await results(call, 3)] == [0, 1, 2]


async def test_a_result_is_not_held_back_by_slow_pushes_behind_it() -> None:
    class Stuck(FakeStore):
        """Never reaches the cold store."""

        async def append(self, push: Push) -> Receipt:
            receipt = await super().append(push)
            if push.stage == "cold":
                await asyncio.Event().wait()
            return receipt

    async with served(Stuck()) as jjq:
        call = await opened(jjq)
        await call.write(push())
        for _ in range(20):
            await call.write(push(stage=pb.STAGE_COLD))
        async with asyncio.timeout(10):
            assert [told(r) for r in await results(call, 1)] == [0]


async def test_the_queue_may_be_named_once(jjq: Served) -> None:
    call = await opened(jjq)
    await call.write(push(0))
    await call.write(push(1, queue=""))
    assert [told(r) for r in await results(call, 2)] == [0, 1]


async def test_an_error_is_reported_in_its_place_and_the_stream_goes_on(jjq: Served) -> None:
    call = await opened(jjq)
    for request in (
        push(),
        push(queue="nowhere"),
        push(elements=pb.Elements()),
        push(stage=99),
        push(queue="orders"),
    ):
        await call.write(request)
    assert [told(r) for r in await results(call, 5)] == [0, "NOT_FOUND", "INVALID_INPUT", "INVALID_INPUT", 1]


async def test_after_a_failure_later_pushes_of_the_producer_fail_until_it_is_pushed_again(
    jjq: Served,
) -> None:
    call = await opened(jjq)
    for request in (push(0), push(1, elements=pb.Elements()), push(2), push(3)):
        await call.write(request)
    assert [told(r) for r in await results(call, 4)] == [0, "INVALID_INPUT", "CONFLICT", "CONFLICT"]
    for n in (1, 2, 3):
        await call.write(push(n))
    assert [told(r) for r in await results(call, 3)] == [1, 2, 3]


async def test_a_producer_whose_first_push_fails_does_not_begin_with_its_second() -> None:
    class Full(FakeStore):
        """Refuses the first push it sees."""

        refused = False

        async def append(self, push: Push) -> Receipt:
            if not self.refused:
                self.refused = True
                raise Exhausted("full", retry_after=0.5)
            return await super().append(push)

    async with served(Full()) as jjq:
        call = await opened(jjq)
        for n in range(3):
            await call.write(push(n))
        first, *rest = await results(call, 3)
        assert first.error.retry_after_seconds == 0.5
        assert [told(r) for r in rest] == ["CONFLICT", "CONFLICT"]
        for n in range(3):
            await call.write(push(n))
        assert [told(r) for r in await results(call, 3)] == [0, 1, 2]


async def test_another_producer_is_not_held_up_by_a_failure(jjq: Served) -> None:
    call = await opened(jjq)
    for request in (push(0, elements=pb.Elements()), push(1), push(0, producer="other")):
        await call.write(request)
    assert [told(r) for r in await results(call, 3)] == ["INVALID_INPUT", "CONFLICT", 0]


async def test_a_resent_push_is_told_apart(jjq: Served) -> None:
    call = await opened(jjq)
    for n in (0, 1, 0, 1, 2):
        await call.write(push(n))
    found = await results(call, 5)
    assert [told(r) for r in found] == [0, 1, 0, 1, 2]
    assert [r.receipt.duplicate for r in found] == [False, False, True, True, False]


async def test_what_was_sent_is_written_although_the_client_is_gone(jjq: Served) -> None:
    call = await opened(jjq)
    await call.write(push(0))
    await results(call, 1)
    await call.write(push(1))
    await call.write(push(2))
    await call.done_writing()
    assert [told(r) for r in await results(call, 2)] == [1, 2]
    assert (await jjq.stub.GetQueue(pb.GetQueueRequest(name="orders"))).queue.next_offset == 3


async def test_a_message_that_is_no_push_is_an_error_in_its_place(jjq: Served) -> None:
    await opened(jjq)
    call: Any = jjq.channel.stream_stream("/jjq.v1.Jjq/PushStream")()
    await call.write(b"\xff\xff")
    await call.write(push().SerializeToString())
    found: list[pb.PushResult] = []
    while len(found) < 2:
        found += pb.PushStreamResponse.FromString(await call.read()).results
    assert [told(r) for r in found] == ["INVALID_INPUT", 0]


@pytest.mark.parametrize("half", [{"producer": "p"}, {"sequence": 3}])
async def test_half_an_identity_is_refused(jjq: Served, half: dict[str, Any]) -> None:
    call = await opened(jjq)
    request = push()
    request.MergeFrom(pb.PushRequest(**half))
    await call.write(request)
    assert [told(r) for r in await results(call, 1)] == ["INVALID_INPUT"]
