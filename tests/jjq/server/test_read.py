"""Read: ranges of a queue, in both forms, and the tail."""

from __future__ import annotations

from typing import Any

import grpc
import pyarrow as pa
import pytest

from jjq.v1 import jjq_pb2 as pb
from tests.jjq.serving import Served, numbers


async def filled(jjq: Served, count: int = 10) -> None:
    await jjq.stub.CreateQueue(pb.CreateQueueRequest(name="orders"))
    if count:
        await jjq.remote.push("orders", numbers(0, count))


async def replies(jjq: Served, **fields: Any) -> list[pb.ReadResponse]:
    return [reply async for reply in jjq.stub.Read(pb.ReadRequest(queue="orders", **fields))]


def offsets(found: list[pb.ReadResponse]) -> list[int]:
    return [e.offset for reply in found for e in reply.elements.elements]


async def test_all_of_a_queue_in_the_friendly_form(jjq: Served) -> None:
    await filled(jjq)
    header, *rest = await replies(jjq)
    assert (header.start_offset, header.end_offset, header.WhichOneof("batch")) == (0, 10, None)
    assert [e.value for r in rest for e in r.elements.elements] == [b"%d" % n for n in range(10)]
    assert rest[-1].next == 10


async def test_all_of_a_queue_as_arrow(jjq: Served) -> None:
    await filled(jjq)
    _, *rest = await replies(jjq, form=pb.FORM_ARROW)
    tables = [pa.ipc.open_stream(reply.arrow.ipc).read_all() for reply in rest]
    assert pa.concat_tables(tables).column("offset").to_pylist() == list(range(10))


RANGES = [
    ("offset:3", "offset:5", [3, 4]),
    ("last:2", "", [8, 9]),
    ("end", "", []),
    ("offset:4", "offset:4", []),
    ("time:2000-01-01T00:00:00Z", "offset:1", [0]),
    ("ago:1d", "last:8", [0, 1]),
    ("subscriber:billing", "", [7, 8, 9]),
]


async def test_both_ends_are_starting_points(jjq: Served) -> None:
    await filled(jjq)
    await jjq.remote.create_subscriber("orders", "billing", "offset:7")
    for start, end, wanted in RANGES:
        assert offsets(await replies(jjq, start=start, end=end)) == wanted


async def test_what_is_pushed_after_the_read_began_is_not_part_of_it(jjq: Served) -> None:
    await filled(jjq, 3)
    call = jjq.stub.Read(pb.ReadRequest(queue="orders"))
    header = await call.read()
    await jjq.remote.push("orders", numbers(3, 3))
    assert header.end_offset == 3
    assert offsets([await call.read()]) == [0, 1, 2]
    assert await call.read() is grpc.aio.EOF


async def test_a_read_that_follows_sees_what_is_pushed_later(jjq: Served) -> None:
    await filled(jjq, 2)
    call = jjq.stub.Read(pb.ReadRequest(queue="orders", start="end", follow=True))
    header = await call.read()
    assert not header.HasField("end_offset")
    await jjq.remote.push("orders", numbers(2, 2))
    seen: list[int] = []
    while len(seen) < 2:
        seen += offsets([await call.read()])
    assert seen == [2, 3]
    call.cancel()


NONSENSE: list[tuple[dict[str, Any], grpc.StatusCode]] = [
    ({"start": "offset:99"}, grpc.StatusCode.OUT_OF_RANGE),
    ({"end": "offset:99"}, grpc.StatusCode.OUT_OF_RANGE),
    ({"start": "offset:5", "end": "offset:2"}, grpc.StatusCode.INVALID_ARGUMENT),
    ({"start": "yesterday"}, grpc.StatusCode.INVALID_ARGUMENT),
    ({"start": "time:2026-01-01T00:00:00"}, grpc.StatusCode.INVALID_ARGUMENT),
    ({"start": "subscriber:nobody"}, grpc.StatusCode.NOT_FOUND),
    ({"end": "offset:3", "follow": True}, grpc.StatusCode.INVALID_ARGUMENT),
    ({"form": 9}, grpc.StatusCode.INVALID_ARGUMENT),
]


async def test_a_range_that_makes_no_sense_is_refused(jjq: Served) -> None:
    await filled(jjq)
    for fields, code in NONSENSE:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await replies(jjq, **fields)
        assert caught.value.code() is code, fields
