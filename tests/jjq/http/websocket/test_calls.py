"""/v1/ws: the methods of gRPC over a WebSocket, spoken by hand with a client that is not ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.rpc import status_pb2  # type: ignore[import-untyped]
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from jjq.v1 import jjq_pb2 as pb
from jjq.wire.call_frames import FrameKind, encode_call, head, split_frame
from tests.jjq.access.keyed import keyed
from tests.jjq.http.asking import Web, web_in


class Caller:
    """Calls by number over one connection."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._number = 0

    async def begin(self, method: str, request: Any) -> int:
        self._number += 1
        await self.socket.send(encode_call(self._number, method, request.SerializeToString()))
        return self._number

    async def receive(self) -> tuple[FrameKind, int, bytes]:
        async with asyncio.timeout(20):
            data = await self.socket.recv()
        assert isinstance(data, bytes)
        return *split_frame(data), data[5:]

    async def call(self, method: str, request: Any, reply: Any) -> Any:
        number = await self.begin(method, request)
        kind, answered, raw = await self.receive()
        assert (kind, answered) == (FrameKind.REPLY, number), raw
        return reply.FromString(raw)

    async def refused(self, method: str, request: Any) -> tuple[int, str, pb.Error | None]:
        """Code, text and our own details of an error."""
        number = await self.begin(method, request)
        kind, answered, raw = await self.receive()
        assert (kind, answered) == (FrameKind.ERROR, number)
        status, error = status_pb2.Status.FromString(raw), pb.Error()
        found = [each for each in status.details if each.Unpack(error)]
        return status.code, status.message, error if found else None


@asynccontextmanager
async def calling(web: Web, **more: Any) -> AsyncIterator[Caller]:
    async with connect(f"ws://127.0.0.1:{web.port}/v1/ws", max_size=None, **more) as socket:
        yield Caller(socket)


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with web_in(tmp_path) as made:
        await made.send("PUT", "/v1/queues/orders")
        yield made


def push(value: bytes, count: int = 1) -> pb.PushRequest:
    return pb.PushRequest(queue="orders", elements=pb.Elements(elements=[pb.Element(value=value)] * count))


async def test_single_verbs_and_their_errors(web: Web) -> None:
    async with calling(web) as caller:
        receipt = (await caller.call("Push", push(b"one"), pb.PushResponse)).receipt
        assert (receipt.first_offset, receipt.count) == (0, 1)
        made = pb.CreateSubscriberRequest(queue="orders", name="s", start="beginning")
        await caller.call("CreateSubscriber", made, pb.CreateSubscriberResponse)
        popped = await caller.call("Pop", pb.PopRequest(subscriber="orders/s", max=5), pb.PopResponse)
        assert [each.value for each in popped.elements.elements] == [b"one"]
        found = await caller.call("GetTransports", pb.GetTransportsRequest(), pb.GetTransportsResponse)
        assert found.websocket_port == web.port
        assert caller.socket.response is not None
        assert caller.socket.response.headers["jjq-instance"] == found.instance
        missing = pb.PopRequest(subscriber="orders/nobody")
        code, text, error = await caller.refused("Pop", missing)
        assert (code, error is not None and error.kind) == (5, pb.ERROR_KIND_NOT_FOUND)
        assert "no subscriber nobody" in text
        code, _, error = await caller.refused("Frobnicate", missing)
        assert (code, error) == (12, None)


async def test_pushes_keep_their_order_whatever_their_size(web: Web) -> None:
    async with calling(web) as caller:
        sizes = [1, 5_000, 1, 1, 3_000, 1] * 5
        for index, count in enumerate(sizes):
            await caller.begin("Push", push(b"%d" % index, count))
        answers = [await caller.receive() for _ in sizes]
        assert {kind for kind, _, _ in answers} == {FrameKind.REPLY}
        first = {number: pb.PushResponse.FromString(raw).receipt.first_offset for _, number, raw in answers}
        assert [first[number] for number in sorted(first)] == [sum(sizes[:i]) for i in range(len(sizes))]


async def test_a_call_that_waits_holds_up_nobody_and_can_be_cancelled(web: Web) -> None:
    async with calling(web) as caller:
        made = pb.CreateSubscriberRequest(queue="orders", name="s", start="beginning")
        await caller.call("CreateSubscriber", made, pb.CreateSubscriberResponse)
        waiting = await caller.begin("Pop", pb.PopRequest(subscriber="orders/s", wait_seconds=600))
        queue = await caller.call("GetQueue", pb.GetQueueRequest(name="orders"), pb.GetQueueResponse)
        assert queue.queue.name == "orders"
        await caller.socket.send(head(FrameKind.CANCEL, waiting))
        await caller.call("Push", push(b"for the next"), pb.PushResponse)
        popped = await caller.call("Pop", pb.PopRequest(subscriber="orders/s"), pb.PopResponse)
        assert popped.position == 0, "the one that was cancelled took nothing"


async def test_a_subscription_with_credit_and_confirmations(web: Web) -> None:
    async with calling(web) as caller:
        made = pb.CreateSubscriberRequest(queue="orders", name="s", start="beginning")
        await caller.call("CreateSubscriber", made, pb.CreateSubscriberResponse)
        start = pb.SubscribeStart(subscriber="orders/s", credit=pb.Credit(elements=2), batch_elements=1)
        number = await caller.begin("Subscribe", pb.SubscribeRequest(start=start))
        await caller.receive()  # where the subscriber is
        for value in (b"a", b"b", b"c"):
            await caller.begin("Push", push(value))
        got: list[bytes] = []
        replies = 0
        while len(got) < 2 or replies < 3:
            kind, answered, raw = await caller.receive()
            if kind is FrameKind.REPLY:
                replies += 1
            else:
                assert (kind, answered) == (FrameKind.MESSAGE, number)
                got += [e.value for e in pb.SubscribeResponse.FromString(raw).elements.elements]
        assert got == [b"a", b"b"], "credit for two"
        more = pb.SubscribeRequest(credit=pb.Credit(elements=1))
        await caller.socket.send(head(FrameKind.MESSAGE, number) + more.SerializeToString())
        _, _, raw = await caller.receive()
        assert [e.value for e in pb.SubscribeResponse.FromString(raw).elements.elements] == [b"c"]
        done = pb.SubscribeRequest(confirm=pb.Confirmation(offset=3))
        await caller.socket.send(head(FrameKind.MESSAGE, number) + done.SerializeToString())
        _, _, raw = await caller.receive()
        assert pb.SubscribeResponse.FromString(raw).confirmed == 3
        await caller.socket.send(head(FrameKind.END, number))
        assert (await caller.receive())[:2] == (FrameKind.END, number)
    assert (await web.store.get_subscriber("orders/s")).offset == 3


MALFORMED = [b"", b"\x01", b"\x08\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01\x09Push", b"\x05\x00\x00\x00\x01",
             b"\x01\x00\x00\x00\x01\x04Push\xff\xff", b"\x01\x00\x00\x00\x01\x01\xff\x00\x00"]  # fmt: skip


async def test_frames_that_are_no_calls_close_the_connection(web: Web) -> None:
    cases: list[tuple[bytes | str, int]] = [*((each, 1002) for each in MALFORMED), ("text", 1003)]
    for sent, code in cases:
        async with calling(web) as caller:
            await caller.socket.send(sent)
            with pytest.raises(ConnectionClosed) as closed:
                await caller.receive()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == code, sent


async def test_so_many_calls_under_way_are_enough(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jjq.http.websocket.calls.WEBSOCKET_CALLS_MAX", 2)
    monkeypatch.setattr("jjq.http.websocket.calls.WEBSOCKET_CALL_BYTES_MAX", 10_000)
    async with calling(web) as caller:
        made = pb.CreateSubscriberRequest(queue="orders", name="s", start="beginning")
        await caller.call("CreateSubscriber", made, pb.CreateSubscriberResponse)
        for _ in range(2):
            await caller.begin("Peek", pb.PeekRequest(subscriber="orders/s", wait_seconds=600))
        code, _, error = await caller.refused("Push", push(b"no room"))
        assert (code, error is not None and error.kind) == (8, pb.ERROR_KIND_EXHAUSTED)
        for number in (2, 3):
            await caller.socket.send(head(FrameKind.CANCEL, number))
        receipt = await caller.call("Push", push(b"x" * 1_000, 100), pb.PushResponse)
        assert receipt.receipt.count == 100, "one that is larger than the limit is served, alone"
    assert web.listener.sockets.outgoing.bytes == 0


async def test_keys_are_asked_for_with_every_call(tmp_path: Path) -> None:
    async with keyed(tmp_path) as web:
        admin = await web.make("admin")
        pusher = await web.make("push:orders")
        bearer = {"additional_headers": {"Authorization": f"Bearer {pusher}"}}
        await web.ring.refresh()
        async with calling(web, additional_headers={"Authorization": f"Bearer {admin}"}) as ruler:
            await ruler.call("CreateQueue", pb.CreateQueueRequest(name="orders"), pb.CreateQueueResponse)
        async with calling(web, **bearer) as caller:
            await caller.call("Push", push(b"mine"), pb.PushResponse)
            code, _, error = await caller.refused("Pop", pb.PopRequest(subscriber="orders/s"))
            assert (code, error is not None and error.kind) == (7, pb.ERROR_KIND_DENIED)
            code, _, _ = await caller.refused("CreateQueue", pb.CreateQueueRequest(name="other"))
            assert code == 7


async def test_a_stop_answers_what_waits_and_closes(tmp_path: Path) -> None:
    async with web_in(tmp_path) as web, calling(web) as caller:
        await web.send("PUT", "/v1/queues/orders")
        made = pb.CreateSubscriberRequest(queue="orders", name="s", start="beginning")
        await caller.call("CreateSubscriber", made, pb.CreateSubscriberResponse)
        number = await caller.begin("Pop", pb.PopRequest(subscriber="orders/s", wait_seconds=600))
        await caller.call("GetQueue", pb.GetQueueRequest(name="orders"), pb.GetQueueResponse)
        stopping = asyncio.gather(web.server.stop(5.0), web.listener.stop(5.0))
        assert (await caller.receive())[:2] == (FrameKind.GOAWAY, 0)
        kind, answered, raw = await caller.receive()
        assert (kind, answered) == (FrameKind.ERROR, number)
        assert status_pb2.Status.FromString(raw).code == 14
        code, _, error = await caller.refused("Push", push(b"too late"))
        assert (code, error is not None and error.kind) == (8, pb.ERROR_KIND_EXHAUSTED), (
            "it was certainly not done"
        )
        await caller.socket.send(head(FrameKind.GOAWAY, 0))
        with pytest.raises(ConnectionClosed) as closed:
            await caller.receive()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        await stopping
