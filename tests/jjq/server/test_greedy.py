"""Requests that cost far more than their sender pays: refused or done in bounded memory, and nobody waits for them.

How long the loop was held up is counted in its own processor time, so a busy machine fails nothing.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import thread_time
from typing import Any

import grpc
import pyarrow as pa
import pytest

from coldstore.shared.batch import payload_schema
from coldstore.shared.errors import InvalidInput, Unavailable
from coldstore.shared.limits import BATCH_ELEMENTS_MAX, HEADERS_MAX, KIB, MIB
from jjq.limits import REQUEST_BYTES_MAX
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_field
from jjq.wire.repeated_elements import decode, decode_small, finish
from tests.jjq.server import greedy
from tests.jjq.serving import Served, rest, said, until

STALL_SECONDS = 0.15  # one step takes about a millisecond; a whole message of these took 0.5 to 10 s


class Large:
    """Stands for what a request holds."""


class Stall:
    """The longest time for which the loop worked without serving anybody else, in processor time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def watch(self) -> None:
        while True:
            began = thread_time()
            await asyncio.sleep(0)
            self.seconds = max(self.seconds, thread_time() - began)


@asynccontextmanager
async def watched_loop() -> AsyncIterator[Stall]:
    """Watch for as long as the block lasts. As in a server, the collector leaves alone what was there before: walking
    over some millions of objects of other tests takes it 0.3 s, which is no stall of the server's."""
    gc.collect()
    gc.freeze()
    stall = Stall()
    watching = asyncio.create_task(stall.watch())
    await asyncio.sleep(0)
    try:
        yield stall
    finally:
        watching.cancel()
        gc.unfreeze()


async def refused(jjq: Served, method: str, raw: bytes) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await jjq.raw(method)(raw)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return str(caught.value.details())


async def test_too_many_elements_are_counted_before_one_is_parsed(
    fake: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fake.remote.create_queue("greedy")
    raw = greedy.elements(b"", 2 * BATCH_ELEMENTS_MAX)
    monkeypatch.delattr("jjq.wire.repeated_elements._part")  # nothing gets there
    async with watched_loop() as stall:
        assert "more than 1000000 elements" in await refused(fake, "Push", raw)
    assert stall.seconds < STALL_SECONDS


async def test_a_large_push_in_the_friendly_form_is_decoded_while_others_are_served(hot: Served) -> None:
    await hot.remote.create_queue("greedy")
    count = 300_000
    await hot.raw("Push")(greedy.elements(b"\x22\x01x", 1))  # the first one imports modules
    async with watched_loop() as stall:
        receipt = pb.PushResponse.FromString(
            await hot.raw("Push")(greedy.elements(b"\x22\x01x", count))
        ).receipt
    assert receipt.count == count
    assert stall.seconds < STALL_SECONDS
    assert hot.server._scheduler.steps > count / 1_000


async def test_a_large_push_to_a_json_queue_is_checked_while_others_are_served(hot: Served) -> None:
    """In one call of the parser a million values held up everybody for 0.4 s."""
    await hot.remote.create_queue("json", content="json")
    small, large = (
        greedy.arrow(pa.RecordBatch.from_arrays([pa.array([b'{"a":[1,2]}'] * count)], ["value"]), "json")
        for count in (1, 350_000)
    )
    await hot.raw("Push")(small)
    async with watched_loop() as stall:
        reply = pb.PushResponse.FromString(await hot.raw("Push")(large))
    assert reply.receipt.count == 350_000
    assert stall.seconds < STALL_SECONDS


async def test_a_long_value_of_a_json_queue_is_checked_while_others_are_served_and_keeps_its_place(
    hot: Served,
) -> None:
    """In one call of the parser 8 MiB held up everybody for 0.2 s."""
    await hot.remote.create_queue("json", content="json")
    await hot.raw("Push")(greedy.REQUESTS["json"].build(0.000_1))
    long, short = greedy.REQUESTS["json"].build(1.0), greedy.REQUESTS["json"].build(0.000_1)
    async with watched_loop() as stall:
        first = hot.raw("Push")(long)
        await until(lambda: hot.store._registry.queues["json"].in_line > 0)
        receipts = [
            pb.PushResponse.FromString(await call).receipt for call in (hot.raw("Push")(short), first)
        ]
    assert [receipt.first_offset for receipt in receipts] == [2, 1]
    assert stall.seconds < STALL_SECONDS


async def test_a_large_reply_in_the_friendly_form_is_encoded_while_others_are_served(hot: Served) -> None:
    await hot.remote.create_queue("greedy")
    await hot.remote.create_subscriber("greedy", "x", "beginning")
    await hot.raw("Push")(greedy.elements(b"\x22\x01x", 100_000))
    request = pb.PopRequest(subscriber="greedy/x", max=100_000)
    before = hot.server._scheduler.steps
    async with watched_loop() as stall:
        raw = await hot.raw("Pop")(request.SerializeToString())
    assert stall.seconds < STALL_SECONDS
    assert hot.server._scheduler.steps > before + 100
    reply = pb.PopResponse.FromString(raw)
    assert [e.offset for e in reply.elements.elements] == list(range(100_000))


async def test_a_small_push_does_not_wait_for_large_ones(hot: Served) -> None:
    await hot.remote.create_queue("greedy")
    await hot.remote.create_queue("healthy")
    large = asyncio.gather(*(hot.raw("Push")(greedy.elements(b"\x22\x01x", 100_000)) for _ in range(4)))
    await until(lambda: hot.server._scheduler.steps > 5)
    small = pb.PushRequest(queue="healthy", elements=pb.Elements(elements=[pb.Element(value=b"a")]))
    await hot.stub.Push(small)
    assert not large.done()
    await large


@pytest.mark.parametrize(
    ("element", "why"),
    [
        (b"".join(b"\x2a\x06\x0a\x04%04x" % n for n in range(2 * HEADERS_MAX)), "more than 1000 headers"),
        (b"\x30\x01" * 500_000, "more than 1000 headers"),
    ],
    ids=["headers", "unknown fields"],
)
async def test_an_element_with_too_many_fields_is_refused_unparsed(
    fake: Served, element: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fake.remote.create_queue("greedy")
    monkeypatch.delattr("jjq.wire.repeated_elements._part")
    assert why in await refused(fake, "Push", greedy.elements(element, 1))


@pytest.mark.parametrize(
    "raw", [b"\x0a", b"\x0a\x05", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0b"]
)
async def test_elements_that_are_no_elements_are_refused(fake: Served, raw: bytes) -> None:
    await fake.remote.create_queue("greedy")
    head = pb.PushRequest(queue="greedy").SerializeToString()
    assert "not a protobuf encoding" in await refused(
        fake, "Push", head + arrow_field.lead_elements(len(raw)) + raw
    )


@pytest.mark.parametrize(
    "method",
    ["CreateQueue", "GetQueue", "ListQueues", "CreateSubscriber", "Seek", "Pop", "Peek", "Confirm", "Push"],
)
async def test_a_request_larger_than_any_that_makes_sense_is_refused_unparsed(
    fake: Served, method: str
) -> None:
    name = b"\x0a" + arrow_field.varint(MIB) + b"x" * MIB
    assert f"at most {REQUEST_BYTES_MAX}" in await refused(fake, method, name)


async def test_the_pops_of_a_message_are_parsed_one_at_a_time(fake: Served) -> None:
    call: Any = fake.channel.stream_stream("/jjq.v1.Jjq/PopStream")()
    async with watched_loop() as stall:
        await call.write(b"\x0a\x00" * 2_000_000)
        with pytest.raises(grpc.aio.AioRpcError, match="not answered yet"):
            await rest(call)
    assert stall.seconds < STALL_SECONDS


@pytest.mark.parametrize("name", ["columns", "dictionary"])
async def test_an_arrow_batch_that_grows_is_refused_before_it_does(fake: Served, name: str) -> None:
    await fake.remote.create_queue("greedy")
    raw = greedy.REQUESTS[name].build(0.2)
    async with watched_loop() as stall:
        assert {"columns": "schema", "dictionary": "once expanded"}[name] in await refused(fake, "Push", raw)
    assert stall.seconds < STALL_SECONDS


async def test_what_a_refused_request_held_is_let_go_at_once(fake: Served) -> None:
    """gRPC keeps the error that ends a call; with it, until garbage was collected, went the whole request."""
    kept: list[weakref.ref[Large]] = []

    async def fails(*_: object, **__: object) -> None:
        large = Large()
        kept.append(weakref.ref(large))
        raise InvalidInput("no")

    fake.store.get_queue = fails
    gc.disable()
    try:
        with pytest.raises(grpc.aio.AioRpcError):
            await fake.stub.GetQueue(pb.GetQueueRequest(name="orders"))
        await until(lambda: kept[0]() is None)
    finally:
        gc.enable()


async def test_an_error_whose_causes_are_a_circle_ends_its_call_and_not_the_server(fake: Served) -> None:
    """A journal's failure is told to all who wait; some raise it from what it was the cause of."""
    first, second = Unavailable("the journal failed"), Unavailable("the queue stays")
    first.__cause__, second.__cause__ = second, first

    async def fails(*_: object, **__: object) -> None:
        raise first

    fake.store.get_queue = fails
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await fake.stub.GetQueue(pb.GetQueueRequest(name="orders"))
    assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_server_gives_memory_back_and_a_healthy_client_goes_on(tmp_path: Path) -> None:
    """The drill in small: a real process, eight connections."""
    with greedy.OpenServer(tmp_path) as server:
        figures = await greedy.drill(server, "empty-elements", 0.15, 2)
    assert figures.sent == 2 * greedy.CONNECTIONS
    assert figures.peak - figures.before < 150 * MIB
    assert figures.after - figures.before < 30 * MIB


def test_the_friendly_form_is_what_protobuf_reads() -> None:
    sent = pb.Elements()
    for n in range(1_203):
        element = sent.elements.add(value=b"%d" % n)
        if n % 3 == 0:
            element.key = b"k" * (n % 200)
        if n in {7, 900}:
            element.headers["h"] = b"v" * 40_000
    raw = sent.SerializeToString() + b"\x50\x01"  # an unknown field, which protobuf passes over
    batch = finish(decode(arrow_field.RepeatedElementsSpan(raw, 0, len(raw))))
    assert said(batch) == [e.value for e in sent.elements]
    assert batch.column("key").to_pylist() == [e.key if e.HasField("key") else None for e in sent.elements]
    headers = [list(e.headers.items()) or None for e in sent.elements]
    assert batch.column("headers").to_pylist() == headers
    batch.validate(full=True)


@pytest.mark.parametrize(
    "element", [b"\x1a\x01k\x2a\x06\x0a\x01h\x12\x01v", b"\x9a\x00\x01k\xaa\x00\x06\x0a\x01h\x12\x01v"]
)
def test_keys_and_headers_are_found_however_their_tags_are_written(element: bytes) -> None:
    content = b"\x0a\x03\x22\x01x\x0a" + bytes([len(element)]) + element
    assert [(e.key, dict(e.headers)) for e in pb.Elements.FromString(content).elements] == [
        (b"", {}),
        (b"k", {"h": b"v"}),
    ]
    batch = finish(decode(arrow_field.RepeatedElementsSpan(content, 0, len(content))))
    assert batch.column("key").to_pylist() == [None, b"k"]
    assert batch.column("headers").to_pylist() == [None, [("h", b"v")]]


@pytest.mark.parametrize(
    ("element", "count"),
    [(b"\x22\x01x", 1), (b"\x22\x64" + b"x" * 100, 1_000), (b"\x22\x64" + b"\n" * 100, 15)],
    ids=["one", "a thousand", "many line feeds"],
)
def test_a_small_batch_is_decoded_without_a_count(
    element: bytes, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting made a push of a thousand elements a sixth slower."""
    monkeypatch.delattr("jjq.wire.repeated_elements._count")  # nothing gets there
    content = (b"\x0a" + arrow_field.varint(len(element)) + element) * count
    batch = decode_small(
        arrow_field.RepeatedElementsSpan(b"before" + content + b"after", 6, 6 + len(content))
    )
    assert batch is not None
    assert said(batch) == [element[2:]] * count
    assert batch.schema == payload_schema("bytes")
    batch.validate(full=True)


@pytest.mark.parametrize(
    "content",
    [
        b"\x0a\x00" * 2_001,
        b"\x0a"
        + arrow_field.varint(300 * KIB)
        + b"\x22"
        + arrow_field.varint(300 * KIB - 4)
        + bytes(300 * KIB),
    ],
    ids=["elements", "bytes"],
)
def test_a_batch_that_may_take_long_is_not_decoded_at_once(content: bytes) -> None:
    assert decode_small(arrow_field.RepeatedElementsSpan(content, 0, len(content))) is None
