"""What a node does with pushes that other nodes forward to it, seen from the other end of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import CapturingLogger

from coldstore.answers import Receipt
from coldstore.errors import InvalidInput, JjqError, Unavailable
from jjq.limits import HANDSHAKE_SECONDS
from jjq.server.drain import Drain
from jjq.server.meter import Meter
from jjq.server.peers import Asked, PeerListener
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import frame
from jjq.wire.message import encode
from jjq.wire.peerframes import GREETING, greeting_of
from jjq.wire.status import error_in
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import said, until, values
from tests.jjq.wire.test_peerframes import Kept
from tests.jjq.wire.test_peerframes import frame as framed
from tests.jjq.wire.test_status import EXAMPLES


class Store(FakeStore):
    """Tells what has begun, holds some pushes until they are let go, and fails others."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[bytes] = []
        self.held: dict[bytes, asyncio.Event] = {}
        self.failing: dict[bytes, Exception] = {}

    def has_begun(self, item: bytes) -> bool:
        return item in self.begun

    def hold(self, *items: bytes) -> None:
        self.held |= {item: asyncio.Event() for item in items}

    def release(self, *items: bytes) -> None:
        for item in items:
            self.held[item].set()

    async def push(self, queue: str, payload: pa.RecordBatch, **fields: Any) -> Receipt:
        first = said(payload)[0]
        self.begun.append(first)
        if first in self.held:
            await self.held[first].wait()
        if first in self.failing:
            raise self.failing[first]
        return await super().push(queue, payload, **fields)


class Peer:
    """Another node, made by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def greet(self) -> None:
        self.writer.write(GREETING)
        async with asyncio.timeout(10):
            assert await self._reader.readexactly(32) == greeting_of("here")

    def say(self, number: int, message: bytes) -> None:
        self.writer.write(framed(number, message))

    def push(self, number: int, *items: bytes) -> None:
        self.say(number, message(*items))

    async def answer(self) -> tuple[int, int | JjqError]:
        """The number of a push, and its first offset or what is wrong with it."""
        async with asyncio.timeout(10):
            head = await self._reader.readexactly(8)
            size = int.from_bytes(head[:4], "little")
            raw = await self._reader.readexactly(size + -size % 8)
        result = pb.PushResult.FromString(raw[:size])
        done = result.WhichOneof("result") == "receipt"
        return int.from_bytes(head[4:], "little"), (
            result.receipt.first_offset if done else error_in(result.error)
        )

    async def answers(self, count: int) -> dict[int, int | JjqError]:
        return dict([await self.answer() for _ in range(count)])

    async def ended(self) -> bytes:
        """What still comes before the other side hangs up."""
        async with asyncio.timeout(10):
            found = b""
            with suppress(ConnectionResetError):  # as much an end as any
                found = await self._reader.read()
            return found

    async def leave(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


class Listening:
    """A listener, the store under it, and whoever connects to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.log: Any = CapturingLogger()
        self.drain = Drain()
        self.meter = Meter("PeerPush")
        # Any store will do, but for its exact type: a fake has plain keyword arguments.
        self.listener = PeerListener("here", _any(store), self.drain, self.meter, store.clock, self.log)
        self.port = 0
        self._peers: list[Peer] = []

    async def connect(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self._peers.append(peer)
        return peer

    async def peer(self) -> Peer:
        """One that has greeted."""
        peer = await self.connect()
        await peer.greet()
        return peer

    def only(self) -> Asked:
        """Our side of the only connection."""
        (wire,) = self.listener.wires
        return wire

    def logged(self, level: str) -> list[str]:
        return [str(call.args[0]) for call in self.log.calls if call.method_name == level]

    async def close(self) -> None:
        await self.drain.finish(0)
        await self.listener.close()
        for peer in self._peers:
            await peer.leave()
        await until(lambda: not self.listener.wires)


class LoopTime:
    """Lets the time of the running loop leap, so that timers need not be waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real = loop.time
        self._ahead = 0.0
        monkeypatch.setattr(loop, "time", lambda: real() + self._ahead)

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


def _any(thing: object) -> Any:
    return thing


@asynccontextmanager
async def listening() -> AsyncIterator[Listening]:
    """On a free port, over a store with a queue."""
    store = Store()
    await store.create_queue("orders")
    found = Listening(store)
    found.port = await found.listener.start("127.0.0.1", 0, None)
    try:
        yield found
    finally:
        await found.close()


def message(*items: bytes, queue: str = "orders") -> bytes:
    return encode(pb.PushRequest(queue=queue), values(*items), "arrow")


async def test_a_push_is_written_and_answered_with_its_receipt() -> None:
    async with listening() as node:
        peer = await node.peer()
        peer.push(7, b"a", b"b")
        assert await peer.answer() == (7, 0)
        peer.push(8, b"c")
        assert await peer.answer() == (8, 2)
        assert [value async for batch in node.store.read("orders") for value in said(batch)] == [
            b"a", b"b", b"c",
        ]  # fmt: skip


async def test_all_fields_of_a_push_reach_the_store() -> None:
    async with listening() as node:
        peer = await node.peer()
        request = pb.PushRequest(
            queue="orders", producer="p", sequence=3, expected_offset=0, stage=pb.STAGE_READY
        )
        raw = encode(request, values(b"a"), "arrow")
        peer.say(1, raw)
        peer.say(2, raw)
        request.producer, request.expected_offset = "q", 5
        request.elements.elements.add(value=b"b")
        peer.say(3, request.SerializeToString())
        found = await peer.answers(3)
        assert (found[1], found[2]) == (0, 0)  # the same push twice
        assert str(found[3]) == "expected 5, next is 1"
        assert (await node.store.get_queue("orders")).next_offset == 1


async def test_pushes_begin_in_order_and_are_answered_as_each_is_done() -> None:
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(b"a")
        for number, item in enumerate([b"a", b"b", b"c"]):
            peer.push(number, item)
        assert [await peer.answer(), await peer.answer()] == [(1, 0), (2, 1)]
        assert node.store.begun == [b"a", b"b", b"c"]
        node.store.release(b"a")
        assert await peer.answer() == (0, 2)


async def test_many_pushes_at_once_keep_their_order() -> None:
    async with listening() as node:
        peer = await node.peer()
        for number in range(500):
            peer.push(number, b"%d" % number)
        assert await peer.answers(500) == {number: number for number in range(500)}


async def test_connections_do_not_wait_for_each_other() -> None:
    async with listening() as node:
        one, other = await node.peer(), await node.peer()
        node.store.hold(b"a")
        one.push(1, b"a")
        await until(lambda: node.store.begun)
        other.push(1, b"b")
        assert await other.answer() == (1, 0)
        node.store.release(b"a")
        assert await one.answer() == (1, 1)


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
async def test_an_error_comes_back_unchanged_and_the_connection_goes_on(error: JjqError) -> None:
    async with listening() as node:
        peer = await node.peer()
        node.store.failing[b"bad"] = error
        peer.push(1, b"bad")
        number, found = await peer.answer()
        assert (number, type(found), vars(found)) == (1, type(error), vars(error))
        peer.push(2, b"good")
        assert await peer.answer() == (2, 0)
        assert not node.log.calls


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xff",
        pb.PushRequest(queue="orders").SerializeToString(),
        frame.join(pb.PushRequest(queue="orders").SerializeToString(), [b"no Arrow at all, just text"]),
        message(b"a")[:-20],
        pb.PushRequest(queue="orders", pushes=[pb.PushRequest.FromString(message(b"a"))]).SerializeToString(),
        encode(pb.PushRequest(queue="orders", stage=_any(99)), values(b"a"), "arrow"),
    ],
    ids=["nothing", "garbage", "no batch", "no Arrow", "half", "several", "stage"],
)
async def test_what_is_no_push_is_refused_and_the_connection_goes_on(raw: bytes) -> None:
    async with listening() as node:
        peer = await node.peer()
        peer.say(1, raw)
        peer.push(2, b"good")
        found = await peer.answers(2)
        assert isinstance(found[1], InvalidInput)
        assert found[2] == 0
        assert (node.store.begun, node.log.calls) == ([b"good"], [])


async def test_a_mistake_of_ours_is_logged_and_told_as_of_unknown_outcome() -> None:
    async with listening() as node:
        peer = await node.peer()
        mistake = node.store.failing[b"bad"] = ZeroDivisionError()
        peer.push(1, b"bad")
        number, found = await peer.answer()
        assert (number, type(found)) == (1, Unavailable)
        assert "outcome is unknown" in str(found)
        assert [(call.method_name, call.args, call.kwargs) for call in node.log.calls] == [
            ("error", ("unforeseen",), {"method": "PeerPush", "exc_info": mistake})
        ]
        peer.push(2, b"good")
        assert await peer.answer() == (2, 0)


async def test_what_goes_by_is_counted() -> None:
    async with listening() as node:
        peer = await node.peer()
        assert node.meter.open == 1
        peer.push(1, b"a", b"b")
        peer.push(2, b"c")
        peer.say(3, b"\xff")
        await peer.answers(3)
        assert node.meter.elements == 3
        assert node.meter.received_bytes == len(message(b"a", b"b")) + len(message(b"c")) + 1
        assert node.meter.sent_bytes > 0
        assert node.meter.histogram()[-1] == ("+Inf", 3)
        await peer.leave()
        await until(lambda: node.meter.open == 0)


# Who may speak ------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [b"", GREETING[:-1]], ids=["silent", "half"])
async def test_who_does_not_greet_in_time_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    async with listening() as node:
        good = await node.peer()
        monkeypatch.setattr("jjq.server.peers.HANDSHAKE_SECONDS", 0.01)
        silent = await node.connect()
        silent.writer.write(begin)
        assert await silent.ended() == b""
        await until(lambda: len(node.listener.wires) == 1)
        good.push(1, b"a")
        assert await good.answer() == (1, 0)


async def test_who_has_greeted_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    async with listening() as node:
        good, silent = await node.peer(), await node.connect()
        await until(lambda: len(node.listener.wires) == 2)
        time.advance(HANDSHAKE_SECONDS + 1)
        assert await silent.ended() == b""
        good.push(1, b"a")
        assert await good.answer() == (1, 0)


@pytest.mark.parametrize(
    "words", [b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", bytes(100_000), b"\x16\x03\x01" + bytes(200)]
)
async def test_a_stranger_is_hung_up_on_and_others_do_not_notice(words: bytes) -> None:
    async with listening() as node:
        good = await node.peer()
        node.store.hold(b"a")
        good.push(1, b"a")
        await until(lambda: node.store.begun)
        stranger = await node.connect()
        stranger.writer.write(words)
        assert await stranger.ended() == b""
        node.store.release(b"a")
        assert await good.answer() == (1, 0)
        assert node.logged("warning") == ["a connection for other nodes was ended"]
        assert len(node.listener.wires) == 1


async def test_too_long_a_frame_ends_its_connection_alone() -> None:
    async with listening() as node:
        good, bad = await node.peer(), await node.peer()
        bad.writer.write(b"\xff" * 8)
        assert await bad.ended() == b""
        good.push(1, b"a")
        assert await good.answer() == (1, 0)
        assert "4294967295 bytes" in node.log.calls[0].kwargs["why"]


async def test_too_many_connections_are_refused_while_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jjq.server.peers.WIRES_MAX", 1)
    async with listening() as node:
        first = await node.peer()
        second = await node.connect()
        second.writer.write(GREETING)
        assert await second.ended() == b""
        assert node.logged("warning") == ["too many connections of other nodes"]
        assert node.meter.open == 1
        first.push(1, b"a")
        assert await first.answer() == (1, 0)
        await first.leave()
        await until(lambda: not node.listener.wires)
        third = await node.peer()
        third.push(1, b"b")
        assert await third.answer() == (1, 1)


# Holding back -------------------------------------------------------------------------------------

ITEMS = [b"%d" % n for n in range(10)]


async def stopped(node: Listening, peer: Peer) -> int:
    """Push one after another until we are not read any more; how many were."""
    wire = node.only()
    for number, item in enumerate(ITEMS):
        peer.push(number, item)
        await until(partial(node.store.has_begun, item))
        if not wire.transport.is_reading():
            return number + 1
    raise AssertionError("all were read")


async def test_too_many_pushes_under_way_stop_the_reading_until_one_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jjq.server.peers.STREAM_PUSHES_MAX", 3)
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(*ITEMS)
        assert await stopped(node, peer) == 3
        for number in range(3, len(ITEMS)):
            peer.push(number, ITEMS[number])
        other = await node.peer()
        for number in range(5):  # while others are read …
            other.push(number, b"other")
            assert await other.answer() == (number, number)
        assert node.store.begun == [*ITEMS[:3], *[b"other"] * 5]  # … this one is not
        node.store.release(*ITEMS)
        assert (await peer.answers(len(ITEMS))).keys() == set(range(len(ITEMS)))
        assert node.store.begun[3 + 5 :] == ITEMS[3:]


async def test_pushes_that_came_with_the_last_allowed_one_have_to_be_done_before_more_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has come can not be sent back; but a single result must not let in as many again."""
    monkeypatch.setattr("jjq.server.peers.STREAM_PUSHES_MAX", 3)
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(*ITEMS)
        wire = node.only()
        wire.data_received(b"".join(framed(n, message(item)) for n, item in enumerate(ITEMS)))
        peer.push(10, b"last")
        await until(lambda: node.store.begun == ITEMS)
        for number in range(7):
            node.store.release(ITEMS[number])
            assert await peer.answer() == (number, number)
            assert not wire.transport.is_reading()
        node.store.release(*ITEMS)
        assert (await peer.answers(4)).keys() == {7, 8, 9, 10}
        assert wire.transport.is_reading()


async def test_too_many_bytes_under_way_stop_the_reading_until_half_of_them_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = len(message(ITEMS[0]))
    monkeypatch.setattr("jjq.server.peers.STREAM_BYTES_MAX", 4 * size)
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(*ITEMS)
        assert await stopped(node, peer) == 5
        wire = node.only()
        reading = []
        for number in range(3):
            node.store.release(ITEMS[number])
            assert await peer.answer() == (number, number)
            reading.append(wire.transport.is_reading())
        assert reading == [False, False, True]
        peer.push(5, ITEMS[5])
        node.store.release(*ITEMS)
        assert (await peer.answers(3)).keys() == {3, 4, 5}


async def test_a_result_does_not_stop_the_reading_while_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = len(message(ITEMS[0]))
    monkeypatch.setattr("jjq.server.peers.STREAM_BYTES_MAX", 4 * size)
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(*ITEMS)
        for number in range(4):
            peer.push(number, ITEMS[number])
        await until(lambda: len(node.store.begun) == 4)
        node.store.release(ITEMS[0])
        assert await peer.answer() == (0, 0)
        assert node.only().transport.is_reading()


# The end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [False, True])
async def test_a_push_that_has_begun_is_finished_though_who_sent_it_is_gone(failing: bool) -> None:
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(b"a", b"b")
        if failing:
            node.store.failing[b"a"] = InvalidInput("no")
        peer.push(1, b"a")
        peer.push(2, b"b")
        peer.writer.write(framed(3, message(b"c"))[:-9])  # never to be completed
        await until(lambda: len(node.store.begun) == 2)
        peer.writer.transport.abort()
        await until(lambda: not node.listener.wires)
        node.store.release(b"a", b"b")
        await node.drain.finish(10)
        assert (await node.store.get_queue("orders")).next_offset == (1 if failing else 2)
        assert node.store.begun == [b"a", b"b"]
        other = await node.peer()
        other.push(1, b"d")
        assert (await other.answer())[0] == 1


async def test_pausing_takes_no_more_but_answers_what_is_under_way() -> None:
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(b"a", b"b")
        peer.push(1, b"a")
        peer.push(2, b"b")
        await until(lambda: len(node.store.begun) == 2)
        node.listener.pause()
        peer.push(3, b"c")
        with pytest.raises(ConnectionRefusedError):
            await node.connect()
        for number, item in ((2, b"b"), (1, b"a")):  # results do not begin the reading again
            node.store.release(item)
            assert (await peer.answer())[0] == number
        await node.drain.finish(10)
        await node.listener.close()
        assert await peer.ended() == b""
        assert node.store.begun == [b"a", b"b"]


@pytest.mark.parametrize("end", [PeerListener.pause, None], ids=["paused", "closed"])
async def test_a_connection_that_was_being_made_at_the_end_is_not_taken(
    end: Callable[[PeerListener], None] | None,
) -> None:
    """It was accepted before, and greets the other side by TLS, say."""
    async with listening() as node:
        late = Asked(node.listener)
        if end is None:
            await node.listener.close()
        else:
            end(node.listener)
        transport = Kept()
        late.connection_made(transport)
        assert transport.aborted
        late.connection_lost(None)
        assert (node.listener.wires, node.meter.open) == (set(), 0)


async def test_what_takes_too_long_at_the_end_has_no_answer() -> None:
    """Its outcome is unknown, and a connection that ends says just that."""
    async with listening() as node:
        peer = await node.peer()
        node.store.hold(b"a")
        peer.push(1, b"a")
        await until(lambda: node.store.begun)
        await node.drain.finish(0)
        await node.listener.close()
        assert await peer.ended() == b""


async def test_closing_ends_every_connection_and_may_happen_twice_or_before_the_start() -> None:
    async with listening() as node:
        one, other = await node.peer(), await node.connect()
        await until(lambda: len(node.listener.wires) == 2)
        await node.listener.close()
        assert (await one.ended(), await other.ended()) == (b"", b"")
        await until(lambda: not node.listener.wires)
        await node.listener.close()
        assert node.meter.open == 0
    await Listening(Store()).listener.close()


async def test_a_port_in_use_is_named_with_its_setting() -> None:
    async with listening() as node:
        other = Listening(Store()).listener
        with pytest.raises(InvalidInput, match=f"127.0.0.1:{node.port}: .*peer_port"):
            await other.start("127.0.0.1", node.port, None)
        await other.close()


async def test_one_that_does_not_take_its_results_may_not_push_until_it_does() -> None:
    async with listening() as node:
        peer = await node.peer()
        peer.push(1, b"a")
        assert await peer.answer() == (1, 0)
        wire = next(iter(node.listener.wires))
        wire.pause_writing()  # as the loop calls it when too much is not sent
        received = node.meter.received_bytes
        peer.push(2, b"b")
        other = await node.peer()
        other.push(1, b"c")
        assert await other.answer() == (1, 1), "others go on"
        assert node.meter.received_bytes == received + len(message(b"c"))
        wire.resume_writing()
        assert await peer.answer() == (2, 2)


async def test_closing_does_not_wait_for_one_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jjq.server.peers._LAST_SECONDS", 0.1)
    async with listening() as node:
        peer = await node.peer()
        wire = next(iter(node.listener.wires))
        wire.transport.write(bytes(64 << 20))  # more than the connection holds
        async with asyncio.timeout(10):
            await node.listener.close()
        await until(lambda: not node.listener.wires)
        await peer.leave()
