"""PopStream: many in flight, answered as they are ready, errors as results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from hotstore.port import Popped
from jjq.limits import POP_STREAM_MAX, STREAM_MESSAGE_BYTES
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.results import results
from tests.jjq.client.faulty import FaultyStore
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, numbers, rest, said, served, until, values


def pops(*names: str, first: int = 0, **fields: Any) -> pb.PopStreamRequest:
    """A message with a pop of each of these subscribers, numbered from `first` on."""
    return pb.PopStreamRequest(
        pops=[
            pb.NumberedPop(id=n, pop=pb.PopRequest(**({"subscriber": f"orders/{name}"} | fields)))
            for n, name in enumerate(names, first)
        ]
    )


async def answers(call: Any, count: int) -> dict[int, pb.PopResult]:
    found: dict[int, pb.PopResult] = {}
    while len(found) < count:
        for result in (await call.read()).results:
            assert result.id not in found
            found[result.id] = result
    return found


def told(result: pb.PopResult) -> list[bytes] | str:
    if result.WhichOneof("result") == "popped":
        return [element.value for element in result.popped.elements.elements]
    return pb.ErrorKind.Name(result.error.kind).removeprefix("ERROR_KIND_")


async def opened(jjq: Served, *subscribers: str, elements: int = 10) -> Any:
    """A stream; a queue with elements 0, 1, … and subscribers at its beginning, or, named `end…`, at its end."""
    await jjq.store.create_queue("orders")
    if elements:
        await jjq.store.push("orders", numbers(0, elements))
    for name in subscribers:
        await jjq.store.create_subscriber("orders", name, "end" if name.startswith("end") else "beginning")
    return jjq.stub.PopStream()


async def code_of(call: Any) -> grpc.StatusCode:
    """How a stream that has nothing more to say ends."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rest(call)
    return caught.value.code()


async def test_pops_of_several_messages_are_answered_by_their_numbers(jjq: Served) -> None:
    call = await opened(jjq, "a", "b")
    await call.write(pops("a", "b", max=3))
    await call.write(pops("a", first=2))
    found = await answers(call, 3)
    assert told(found[1]) == [b"0", b"1", b"2"]
    assert sorted([*told(found[0]), *told(found[2])]) == [b"0", b"1", b"2", b"3"]
    assert (found[1].popped.position, found[1].popped.next) == (0, 3)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_a_pop_that_waits_holds_up_nobody(jjq: Served) -> None:
    call = await opened(jjq, "a", "end")
    await call.write(pops("end", "a", wait_seconds=60))
    assert told((await answers(call, 1))[1]) == [b"0"]
    await call.write(pops("a", first=2))
    assert told((await answers(call, 1))[2]) == [b"1"]
    await jjq.store.push("orders", values(b"new"))
    assert told((await answers(call, 1))[0]) == [b"new"]


async def test_all_results_come_although_the_client_has_closed_its_side(jjq: Served) -> None:
    call = await opened(jjq, "a", "end")
    await call.write(pops("a", "end", wait_seconds=60))
    await call.done_writing()
    assert told((await answers(call, 1))[0]) == [b"0"]
    await jjq.store.push("orders", values(b"new"))
    assert told((await answers(call, 1))[1]) == [b"new"]
    assert await call.read() is grpc.aio.EOF


async def test_an_error_is_a_result_and_the_stream_goes_on(jjq: Served) -> None:
    call = await opened(jjq, "a")
    await call.write(pops("nobody", "a"))
    await call.write(pops("a", first=2, form=99))
    await call.write(pops("a", first=3, wait_seconds=-1))
    await call.write(pops("a", first=4, position=7))
    await call.write(pb.PopStreamRequest(pops=[pb.NumberedPop(id=5)]))
    found = await answers(call, 6)
    wrong = {"INVALID_INPUT", "NOT_FOUND"}
    assert told(found.pop(5)) in wrong
    assert [told(found[n]) for n in sorted(found)] == [
        "NOT_FOUND", [b"0"], "INVALID_INPUT", "INVALID_INPUT", "CONFLICT",
    ]  # fmt: skip
    await call.write(pops("a", first=9))
    assert told((await answers(call, 1))[9]) == [b"1"]


async def test_an_error_that_nobody_foresaw_is_of_unknown_outcome() -> None:
    class Broken(FakeStore):
        """Cannot count."""

        async def pop(self, *args: Any, **fields: Any) -> Popped:
            raise ZeroDivisionError

    async with served(Broken()) as jjq:
        call = await opened(jjq, "a")
        await call.write(pops("a"))
        assert told((await answers(call, 1))[0]) == "UNAVAILABLE"


async def test_a_message_that_is_none_ends_the_stream(jjq: Served) -> None:
    await opened(jjq)
    call: Any = jjq.channel.stream_stream("/jjq.v1.Jjq/PopStream")()
    await call.write(b"\xff\xff")
    assert await code_of(call) is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_number_that_is_in_use_ends_the_stream(jjq: Served) -> None:
    call = await opened(jjq, "a", "end")
    await call.write(pops("end", wait_seconds=60))
    await call.write(pops("a"))
    assert await code_of(call) is grpc.StatusCode.INVALID_ARGUMENT
    assert (await jjq.store.get_subscriber("orders/a")).offset == 0


async def test_a_number_may_be_used_again_once_it_was_answered(jjq: Served) -> None:
    call = await opened(jjq, "a")
    for n in range(3):
        await call.write(pops("a"))
        assert told((await answers(call, 1))[0]) == [b"%d" % n]


async def test_the_arrow_form_and_the_friendly_one_in_one_message(jjq: Served) -> None:
    await opened(jjq, "a", "b")
    request = pops("a", "b", max=4)
    request.pops[0].pop.form = pb.FORM_ARROW
    call: Any = jjq.channel.stream_stream("/jjq.v1.Jjq/PopStream")()
    await call.write(request.SerializeToString())
    found: dict[int, Any] = {}
    while len(found) < 2:
        found |= dict(results(await call.read()))
    assert said(found[0][1]) == said(found[1][1]) == [b"0", b"1", b"2", b"3"]
    assert found[0][0].HasField("arrow") is False, "it was cut out"
    assert found[1][0].HasField("elements") is False, "it was cut out"


async def test_each_pop_is_answered_in_the_form_that_it_asked_for(jjq: Served) -> None:
    call = await opened(jjq, "a", "b")
    request = pops("a", "b", max=4)
    request.pops[0].pop.form = pb.FORM_ARROW
    await call.write(request)
    found = await answers(call, 2)
    assert found[0].popped.WhichOneof("batch") == "arrow"
    assert [e.value for e in found[1].popped.elements.elements] == [b"0", b"1", b"2", b"3"]


@asynccontextmanager
async def too_many(more: int) -> AsyncIterator[tuple[Served, FaultyStore, Any, list[str]]]:
    """A stream, subscribers for so many more pops than it takes, and a store that holds pops at a gate."""
    store = FaultyStore(FakeStore())
    async with served(store) as jjq:
        names = [f"s{n}" for n in range(POP_STREAM_MAX + more)]
        call = await opened(jjq, *names)
        store.gates["pop"] = asyncio.Event()
        yield jjq, store, call, names


async def test_so_many_are_in_flight_and_the_others_wait_for_them() -> None:
    async with too_many(10) as (_, store, call, names):
        await call.write(pops(*names[:-5]))
        await call.write(pops(*names[-5:], first=len(names) - 5))
        await until(lambda: store.under_way == POP_STREAM_MAX)
        store.gates["pop"].set()
        found = await answers(call, len(names))
        assert [told(result) for result in found.values()] == [[b"0"]] * len(names)
        assert store.most_under_way == POP_STREAM_MAX


async def test_large_results_come_in_several_messages(fake: Served) -> None:
    await opened(fake, elements=0)
    names = [f"s{n}" for n in range(6)]
    await fake.store.push("orders", values(bytes(STREAM_MESSAGE_BYTES // 3)))
    for name in names:
        await fake.store.create_subscriber("orders", name, "beginning")
    call: Any = fake.channel.stream_stream("/jjq.v1.Jjq/PopStream")()
    await call.write(pops(*names, form=pb.FORM_ARROW).SerializeToString())
    messages: list[bytes] = []
    while sum(len(list(results(raw))) for raw in messages) < len(names):
        messages.append(await call.read())
    assert len(messages) > 1
    assert max(map(len, messages)) < 2 * STREAM_MESSAGE_BYTES


class Held(FakeStore):
    """Pops of subscriber `held` have taken their elements, and are held until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.holding = asyncio.Event()
        self.go = asyncio.Event()

    async def pop(self, subscriber: str, *args: Any, **fields: Any) -> Popped:
        popped = await super().pop(subscriber, *args, **fields)
        if subscriber == "orders/held":
            self.holding.set()
            await self.go.wait()
        return popped


async def test_a_stopping_server_answers_what_was_taken_and_breaks_off_what_waits() -> None:
    store = Held()
    async with served(store) as jjq:
        call = await opened(jjq, "held", "end")
        await call.write(pops("held", "end", wait_seconds=60))
        await store.holding.wait()
        await until(lambda: len(jjq.server._drain._waiting) == 2)  # the stream's next message, and an element
        end = asyncio.create_task(jjq.server.stop())
        assert told((await answers(call, 1))[1]) == "UNAVAILABLE"
        store.go.set()
        assert told((await answers(call, 1))[0]) == [b"0"]
        assert await code_of(call) is grpc.StatusCode.UNAVAILABLE
        await end
        assert (await store.get_subscriber("orders/end")).offset == 10


async def test_a_stopping_server_begins_nothing_that_waits_for_room() -> None:
    async with too_many(3) as (jjq, store, call, names):
        await call.write(pops(*names))
        await until(lambda: store.under_way == POP_STREAM_MAX and jjq.server._drain._waiting)
        end = asyncio.create_task(jjq.server.stop())
        await until(lambda: not jjq.server._drain._waiting)
        store.gates["pop"].set()
        assert len(await answers(call, POP_STREAM_MAX)) == POP_STREAM_MAX
        assert await code_of(call) is grpc.StatusCode.UNAVAILABLE
        await end
        assert store.calls["pop"] == POP_STREAM_MAX


@pytest.mark.parametrize("closed", [False, True])
async def test_a_client_that_goes_away_takes_its_pops_with_it(closed: bool) -> None:
    store = FaultyStore(FakeStore())
    async with served(store) as jjq:
        call = await opened(jjq, "end", "end2")
        await call.write(pops("end", "end2", wait_seconds=60))
        if closed:
            await call.done_writing()
        await until(lambda: store.calls.get("pop") == 4)
        assert store.under_way == 2
        call.cancel()
        await until(lambda: store.under_way == 0 and not jjq.server._drain._pending)
        await jjq.store.push("orders", values(b"new"))
        assert (await jjq.store.get_subscriber("orders/end")).offset == 10


async def test_elements_bytes_and_times_are_counted(jjq: Served) -> None:
    call = await opened(jjq, "a", "b")
    await call.write(pops("a", "b", "nobody", max=4))
    await answers(call, 3)
    meter = jjq.server.metrics.meter("PopStream")
    assert (meter.elements, meter.open) == (8, 1)
    assert dict(meter.histogram())["+Inf"] == 3
    assert meter.received_bytes > 0
    await until(lambda: meter.sent_bytes > 0)
    await call.done_writing()
    await until(lambda: meter.open == 0)
    assert meter.calls == {grpc.StatusCode.OK: 1}
