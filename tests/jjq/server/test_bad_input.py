"""Bad input gets the status and the text a user would want, and the server serves on."""

from __future__ import annotations

import random  # noqa: TID251 - seeded, to damage bytes at reproducible places
from typing import Any

import grpc
import pyarrow as pa
import pytest

from coldstore.shared.batch import payload
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_field, arrow_ipc
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, served, values

ELEMENTS = pb.Elements(elements=[pb.Element(value=b"a")])
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def stream_of(batch: pa.RecordBatch) -> bytes:
    return b"".join(bytes(part) for part in arrow_ipc.encode(batch))


async def prepared(jjq: Served) -> None:
    await jjq.stub.CreateQueue(pb.CreateQueueRequest(name="orders"))
    await jjq.stub.CreateQueue(pb.CreateQueueRequest(name="notes", content=pb.CONTENT_JSON))
    await jjq.stub.CreateSubscriber(pb.CreateSubscriberRequest(queue="orders", name="billing"))


async def alive(jjq: Served) -> None:
    """The server still takes pushes."""
    assert (await jjq.stub.Push(pb.PushRequest(queue="orders", elements=ELEMENTS))).receipt.count == 1


def push(**fields: Any) -> pb.PushRequest:
    return pb.PushRequest(**({"queue": "orders"} | fields))


def named(name: str) -> pb.CreateQueueRequest:
    return pb.CreateQueueRequest(name=name)


PAGE = grpc.StatusCode.NOT_FOUND
BAD: dict[str, tuple[str, Any, grpc.StatusCode, str]] = {
    "no batch": ("Push", push(), INVALID, "no batch"),
    "empty batch": ("Push", push(elements=pb.Elements()), INVALID, "empty"),
    "empty arrow": ("Push", push(arrow=pb.ArrowBatch()), INVALID, "Arrow"),
    "noise for arrow": ("Push", push(arrow=pb.ArrowBatch(ipc=b"noise")), INVALID, "Arrow"),
    "reserved header": (
        "Push",
        push(elements=pb.Elements(elements=[pb.Element(value=b"a", headers={"jjq-lost": b"1"})])),
        INVALID,
        "element 0: the name of its header 'jjq-lost' is reserved",
    ),
    "reserved header in arrow": (
        "Push",
        push(
            arrow=pb.ArrowBatch(
                ipc=stream_of(payload("bytes", [b"a", b"b"], headers=[None, {"jjq-lost": b"1"}]))
            )
        ),
        INVALID,
        "element 1: the name of its header 'jjq-lost' is reserved",
    ),
    "wrong column": (
        "Push",
        push(arrow=pb.ArrowBatch(ipc=stream_of(pa.RecordBatch.from_pydict({"name": [b"a"]})))),
        INVALID,
        "value",
    ),
    "wrong type": (
        "Push",
        push(arrow=pb.ArrowBatch(ipc=stream_of(pa.RecordBatch.from_pydict({"value": [1]})))),
        INVALID,
        "int64",
    ),
    "null value": (
        "Push",
        push(arrow=pb.ArrowBatch(ipc=stream_of(pa.RecordBatch.from_pydict({"value": [b"a", None]})))),
        INVALID,
        "null",
    ),
    "not json": ("Push", push(queue="notes", elements=ELEMENTS), INVALID, "JSON"),
    "unknown stage": ("Push", push(elements=ELEMENTS, stage=9), INVALID, "stage 9"),
    "unknown content": ("CreateQueue", pb.CreateQueueRequest(name="x", content=8), INVALID, "content 8"),  # type: ignore[arg-type]
    "unknown form": ("Pop", pb.PopRequest(subscriber="orders/billing", form=7), INVALID, "form 7"),  # type: ignore[arg-type]
    "half an identity": ("Push", push(elements=ELEMENTS, producer="p"), INVALID, "both"),
    "queue name with a path": ("CreateQueue", named("../etc"), INVALID, "name"),
    "queue name with a slash": ("CreateQueue", named("a/b"), INVALID, "name"),
    "queue name with dots": ("CreateQueue", named("a..b"), INVALID, "name"),
    "queue name empty": ("CreateQueue", named(""), INVALID, "name"),
    "queue name long": ("CreateQueue", named("a" * 129), INVALID, "name"),
    "push to a path": ("Push", push(queue="../../x", elements=ELEMENTS), INVALID, "name"),
    "read of a path": ("ListBlocks", pb.ListBlocksRequest(queue="/etc/passwd"), INVALID, "name"),
    "negative max": ("Pop", pb.PopRequest(subscriber="orders/billing", max=-1), INVALID, "max"),
    "negative wait": ("Pop", pb.PopRequest(subscriber="orders/billing", wait_seconds=-1), INVALID, "wait"),
    "endless wait": (
        "Pop",
        pb.PopRequest(subscriber="orders/billing", wait_seconds=float("inf")),
        INVALID,
        "wait",
    ),
    "no wait at all": (
        "Peek",
        pb.PeekRequest(subscriber="orders/billing", wait_seconds=float("nan")),
        INVALID,
        "wait",
    ),
    "which queue": ("GetQueue", pb.GetQueueRequest(), INVALID, "which queue"),
    "name that is an id": ("GetQueue", pb.GetQueueRequest(name="orders/billing"), INVALID, "slash"),
    "id that is a name": ("GetQueue", pb.GetQueueRequest(subscriber="orders"), INVALID, "not an id"),
    "unknown queue": ("Push", push(queue="nowhere", elements=ELEMENTS), PAGE, "nowhere"),
    "unknown subscriber": ("Pop", pb.PopRequest(subscriber="orders/nobody"), PAGE, "nobody"),
    "subscriber of another queue": ("Pop", pb.PopRequest(subscriber="notes/billing"), PAGE, "billing"),
    "copy of a subscriber of another queue": (
        "CreateSubscriber",
        pb.CreateSubscriberRequest(queue="notes", name="b", start="subscriber:billing"),
        PAGE,
        "billing",
    ),
    "wrong offset": (
        "Push",
        push(elements=ELEMENTS, expected_offset=55),
        grpc.StatusCode.FAILED_PRECONDITION,
        "55",
    ),
    "wrong position": (
        "Pop",
        pb.PopRequest(subscriber="orders/billing", position=55),
        grpc.StatusCode.FAILED_PRECONDITION,
        "55",
    ),
    "start outside": (
        "Seek",
        pb.SeekRequest(subscriber="orders/billing", start="offset:9"),
        grpc.StatusCode.OUT_OF_RANGE,
        "0..0",
    ),
    "empty start": ("Seek", pb.SeekRequest(subscriber="orders/billing"), INVALID, "starting point"),
    "other settings": (
        "CreateQueue",
        pb.CreateQueueRequest(name="orders", content=pb.CONTENT_TEXT),
        grpc.StatusCode.FAILED_PRECONDITION,
        "orders",
    ),
}


async def refused(jjq: Served, name: str) -> None:
    method, request, code, text = BAD[name]
    with pytest.raises(grpc.aio.AioRpcError, match=text) as caught:
        await getattr(jjq.stub, method)(request)
    assert caught.value.code() is code


@pytest.mark.parametrize("name", BAD)
async def test_bad_input_is_refused_with_its_reason(fake: Served, name: str) -> None:
    await prepared(fake)
    await refused(fake, name)
    await alive(fake)


async def test_the_real_store_refuses_all_of_it_as_well(hot: Served) -> None:
    await prepared(hot)
    for name in BAD:
        await refused(hot, name)
    await alive(hot)


@pytest.mark.parametrize("method", ["Push", "Pop", "CreateQueue", "ListQueues"])
async def test_bytes_that_are_no_message_are_refused(fake: Served, method: str) -> None:
    await prepared(fake)
    with pytest.raises(grpc.aio.AioRpcError, match="protobuf") as caught:
        await fake.raw(method)(b"\xff\xff\xff\xff")
    assert caught.value.code() is INVALID
    await alive(fake)


async def test_both_forms_at_once_are_refused_and_nothing_is_written(jjq: Served) -> None:
    await prepared(jjq)
    both = arrow_field.join(push(elements=ELEMENTS).SerializeToString(), arrow_ipc.encode(values(b"b")))
    with pytest.raises(grpc.aio.AioRpcError, match="either elements or arrow") as caught:
        await jjq.raw("Push")(both)
    assert caught.value.code() is INVALID
    assert (await jjq.stub.GetQueue(pb.GetQueueRequest(name="orders"))).queue.next_offset == 0


async def test_text_that_is_not_utf8_in_a_name_is_refused(jjq: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await jjq.raw("CreateQueue")(b"\x0a\x02\xff\xfe")
    assert caught.value.code() is INVALID


async def test_the_element_at_fault_is_named(jjq: Served) -> None:
    await prepared(jjq)
    texts = [b"1", b"{}", b"nonsense"]
    elements = pb.Elements(elements=[pb.Element(value=text) for text in texts])
    with pytest.raises(grpc.aio.AioRpcError, match="element 2"):
        await jjq.stub.Push(push(queue="notes", elements=elements))


async def test_a_damaged_arrow_message_never_brings_the_server_down(jjq: Served) -> None:
    await prepared(jjq)
    whole = stream_of(payload("bytes", [b"abc", b"", b"defg"], keys=[b"k", None, b"l"]))
    source = random.Random(5)
    for _ in range(150):
        raw = bytearray(whole)
        for _ in range(source.randint(1, 3)):
            raw[source.randrange(len(raw))] = source.randrange(256)
        call = jjq.stub.Push(push(arrow=pb.ArrowBatch(ipc=bytes(raw))))
        assert await call.code() in (grpc.StatusCode.OK, INVALID)
    await alive(jjq)
    await jjq.remote.create_subscriber("orders", "reader", "beginning")
    while (popped := await jjq.remote.pop("orders/reader", 1_000)).batch.num_rows:
        popped.batch.validate(full=True)


async def test_an_unforeseen_failure_is_internal_neutral_and_logged() -> None:
    class Broken(FakeStore):
        """Fails as only a mistake of ours can."""

        async def list_queues(
            self, *, after: str = "", limit: int | None = None, ledgers: bool = False
        ) -> list[Any]:
            raise KeyError("a secret of the inside")

        append = pop = list_queues  # type: ignore[assignment]

    logged: list[tuple[str, dict[str, Any]]] = []

    class Log:
        """Keeps what is logged."""

        def __getattr__(self, level: str) -> Any:
            return lambda event, **fields: logged.append((f"{level} {event}", fields))

    async with served(Broken(), log=Log()) as jjq:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await jjq.stub.ListQueues(pb.ListQueuesRequest())
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert "secret" not in str(caught.value.details())
        fields = next(fields for event, fields in logged if event == "error unforeseen")
        assert isinstance(fields["exc_info"], KeyError)
        assert fields["method"] == "ListQueues"
        # And on a stream, which goes on
        logged.clear()
        pushes, pops = jjq.stub.PushStream(), jjq.stub.PopStream()
        await pushes.write(push(elements=ELEMENTS))
        await pops.write(pb.PopStreamRequest(pops=[pb.NumberedPop(pop=pb.PopRequest(subscriber="q/s"))]))
        for method, call in (("PushStream", pushes), ("PopStream", pops)):
            result = (await call.read()).results[0]
            assert result.error.kind == pb.ERROR_KIND_UNAVAILABLE
            assert "secret" not in result.error.message
            assert [fields["method"] for _, fields in logged if fields.get("method") == method]
            call.cancel()
