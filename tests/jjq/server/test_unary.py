"""Every method, in both payload forms, as a client that has only the generated code sees it."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_ipc
from tests.jjq.serving import Served, said, values


def friendly(*items: bytes) -> pb.Elements:
    return pb.Elements(elements=[pb.Element(value=item) for item in items])


def arrow(*items: bytes) -> pb.ArrowBatch:
    return pb.ArrowBatch(ipc=b"".join(bytes(part) for part in arrow_ipc.encode(values(*items))))


def rows(batch: pb.ArrowBatch) -> pa.Table:
    """Read as any Arrow library reads it."""
    return pa.ipc.open_stream(batch.ipc).read_all()


async def a_queue(jjq: Served, name: str = "orders", **fields: object) -> None:
    await jjq.stub.CreateQueue(pb.CreateQueueRequest(name=name, **fields))  # type: ignore[arg-type]


async def a_subscriber(jjq: Served, queue: str = "orders", start: str = "beginning") -> str:
    request = pb.CreateSubscriberRequest(queue=queue, name="billing", start=start)
    return (await jjq.stub.CreateSubscriber(request)).subscriber.id


async def test_a_queue_is_created_found_by_name_and_by_subscriber_and_listed(jjq: Served) -> None:
    made = await jjq.stub.CreateQueue(pb.CreateQueueRequest(name="orders", content=pb.CONTENT_TEXT))
    subscriber = await a_subscriber(jjq)
    by_name = await jjq.stub.GetQueue(pb.GetQueueRequest(name="orders"))
    by_subscriber = await jjq.stub.GetQueue(pb.GetQueueRequest(subscriber=subscriber))
    listed = await jjq.stub.ListQueues(pb.ListQueuesRequest())
    assert made.queue.content == pb.CONTENT_TEXT
    assert by_name == by_subscriber
    assert [q.name for q in listed.queues] == ["orders"]


async def test_creating_the_same_queue_twice_returns_it(jjq: Served) -> None:
    first = await jjq.stub.CreateQueue(pb.CreateQueueRequest(name="orders"))
    assert await jjq.stub.CreateQueue(pb.CreateQueueRequest(name="orders")) == first


async def test_a_subscriber_is_created_found_listed_and_deleted(jjq: Served) -> None:
    await a_queue(jjq)
    request = pb.CreateSubscriberRequest(queue="orders", name="billing", start="beginning")
    made = (await jjq.stub.CreateSubscriber(request)).subscriber
    found = (await jjq.stub.GetSubscriber(pb.GetSubscriberRequest(subscriber=made.id))).subscriber
    listed = (await jjq.stub.ListSubscribers(pb.ListSubscribersRequest(queue="orders"))).subscribers
    assert (made.id, made.resolved.rule) == ("orders/billing", "beginning")
    assert [s.id for s in listed] == [found.id] == ["orders/billing"]
    await jjq.stub.DeleteSubscriber(pb.DeleteSubscriberRequest(subscriber=made.id))
    assert not (await jjq.stub.ListSubscribers(pb.ListSubscribersRequest())).subscribers


async def test_a_subscriber_without_a_name_gets_one_and_begins_at_the_end(jjq: Served) -> None:
    await a_queue(jjq)
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=friendly(b"old")))
    made = (await jjq.stub.CreateSubscriber(pb.CreateSubscriberRequest(queue="orders"))).subscriber
    assert made.name
    assert (made.offset, made.start) == (1, "end")


async def test_a_dry_run_resolves_and_creates_nothing(jjq: Served) -> None:
    await a_queue(jjq)
    request = pb.CreateSubscriberRequest(queue="orders", name="x", start="last:5", dry_run=True)
    assert (await jjq.stub.CreateSubscriber(request)).subscriber.resolved.rule.startswith("last")
    assert not (await jjq.stub.ListSubscribers(pb.ListSubscribersRequest())).subscribers


@pytest.mark.parametrize("form", ["elements", "arrow"])
async def test_what_is_pushed_is_popped_in_either_form(jjq: Served, form: str) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    batch = {"elements": friendly(b"a", b"b")} if form == "elements" else {"arrow": arrow(b"a", b"b")}
    receipt = (await jjq.stub.Push(pb.PushRequest(queue="orders", **batch))).receipt
    assert (receipt.first_offset, receipt.count, receipt.stage) == (0, 2, pb.STAGE_SYNCED)

    one = await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, max=1, form=pb.FORM_ELEMENTS))
    assert [(e.offset, e.value, e.timestamp_us) for e in one.elements.elements] == [
        (0, b"a", receipt.timestamp_us)
    ]
    other = await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, max=10, form=pb.FORM_ARROW))
    assert (other.position, other.next) == (1, 2)
    assert rows(other.arrow).column("value").to_pylist() == [b"b"]
    assert rows(other.arrow).column("offset").to_pylist() == [1]


async def test_keys_and_headers_survive_the_friendly_form(jjq: Served) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    sent = [
        pb.Element(value=b"1", key=b"k", headers={"colour": b"red", "size": b""}),
        pb.Element(value=b"", key=b""),
        pb.Element(value=b"3"),
    ]
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=pb.Elements(elements=sent)))
    got = (await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, max=9))).elements.elements
    assert [dict(e.headers) for e in got] == [{"colour": b"red", "size": b""}, {}, {}]
    assert [e.key if e.HasField("key") else None for e in got] == [b"k", b"", None]
    assert [e.value for e in got] == [b"1", b"", b"3"]


async def test_text_is_pushed_and_popped_as_utf8(jjq: Served) -> None:
    await a_queue(jjq, content=pb.CONTENT_TEXT)
    subscriber = await a_subscriber(jjq)
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=friendly("grüß".encode())))
    got = await jjq.stub.Peek(pb.PeekRequest(subscriber=subscriber))
    assert got.elements.elements[0].value.decode() == "grüß"
    fast = await jjq.stub.Peek(pb.PeekRequest(subscriber=subscriber, form=pb.FORM_ARROW))
    assert rows(fast.arrow).column("value").to_pylist() == ["grüß"]


async def test_peek_leaves_the_subscriber_where_it_is(jjq: Served) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=friendly(b"a")))
    for _ in range(2):
        got = await jjq.stub.Peek(pb.PeekRequest(subscriber=subscriber))
        assert got.elements.elements[0].value == b"a"


async def test_pop_on_an_empty_queue_returns_no_elements_in_the_form_asked_for(jjq: Served) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    friendly_reply = await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber))
    fast = await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, form=pb.FORM_ARROW))
    assert friendly_reply.WhichOneof("batch") == "elements"
    assert rows(fast.arrow).num_rows == 0


async def test_a_pop_waits_for_the_first_element(jjq: Served) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    pop = asyncio.ensure_future(jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, wait_seconds=20)))
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=friendly(b"late")))
    assert (await pop).elements.elements[0].value == b"late"


async def test_a_pop_that_names_the_last_position_returns_the_same_elements(jjq: Served) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=friendly(b"a", b"b", b"c")))
    first = await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, max=2, position=0))
    again = await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, max=2, position=0))
    assert first == again
    assert (await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, position=2))).next == 3


async def test_seek_moves_back_and_confirm_moves_on(jjq: Served) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=friendly(b"a", b"b", b"c")))
    await jjq.stub.Pop(pb.PopRequest(subscriber=subscriber, max=3))
    moved = (await jjq.stub.Seek(pb.SeekRequest(subscriber=subscriber, start="offset:1"))).subscriber
    assert (moved.offset, moved.resolved.rule) == (1, "offset")
    await jjq.stub.Confirm(pb.ConfirmRequest(subscriber=subscriber, offset=2))
    await jjq.stub.Confirm(pb.ConfirmRequest(subscriber=subscriber, offset=0))
    assert (await jjq.stub.Peek(pb.PeekRequest(subscriber=subscriber))).position == 2


async def test_sleep_and_wakeup(jjq: Served) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    assert (await jjq.stub.Sleep(pb.SleepRequest(subscriber=subscriber))).subscriber.asleep
    assert not (await jjq.stub.Wakeup(pb.WakeupRequest(subscriber=subscriber))).subscriber.asleep


async def test_blocks_are_listed(jjq: Served) -> None:
    await a_queue(jjq)
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=friendly(b"a", b"b")))
    blocks = (await jjq.stub.ListBlocks(pb.ListBlocksRequest(queue="orders"))).blocks
    assert [(b.kind, b.first_offset, b.last_offset) for b in blocks] == [(pb.BLOCK_KIND_HOT_HOT, 0, 1)]


async def test_the_same_identity_gets_the_same_receipt(jjq: Served) -> None:
    await a_queue(jjq)
    request = pb.PushRequest(queue="orders", producer="p", sequence=0, elements=friendly(b"a"))
    first = (await jjq.stub.Push(request)).receipt
    again = (await jjq.stub.Push(request)).receipt
    assert again.duplicate
    assert (again.first_offset, again.timestamp_us) == (first.first_offset, first.timestamp_us)


async def test_remote_store_speaks_the_same_queue(jjq: Served) -> None:
    await a_queue(jjq)
    subscriber = await a_subscriber(jjq)
    await jjq.stub.Push(pb.PushRequest(queue="orders", elements=friendly(b"a")))
    await jjq.remote.push("orders", values(b"b"))
    assert said((await jjq.remote.pop(subscriber, 5)).batch) == [b"a", b"b"]
