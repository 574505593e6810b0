"""The connection over which a node forwards pushes: each has one outcome, whatever the other side does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import pytest

from coldstore.answers import Receipt
from coldstore.clock import ManualClock
from coldstore.errors import Fenced, JjqError, Unavailable
from jjq.limits import CONNECT_SECONDS, WIRE_AGAIN_SECONDS
from jjq.remote.settings import ClientTls
from jjq.remote.wire import Asking, Outcome, Place, Wire
from jjq.server.settings import Tls
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.info import receipt_out
from jjq.wire.peerframes import GREETING, greeting_of
from jjq.wire.status import error_out
from tests.jjq.server.test_peers import Listening, LoopTime, Store, listening, message
from tests.jjq.server.test_tls import Authority
from tests.jjq.serving import until
from tests.jjq.wire.test_peerframes import frame

LONG = 1_000.0  # the loop's time leaps so far only where a test says so
SILENT = b""
ANSWER = greeting_of("here")


class Node:
    """The other side, made by hand: keeps what came and answers when told to."""

    def __init__(self, greeting: bytes = ANSWER) -> None:
        self.greeting = greeting
        self.address = ""
        self.connections = 0
        self.heard: list[tuple[int, bytes]] = []
        self._came: set[tuple[str, int]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._came.add(writer.get_extra_info("peername"))
        with suppress(asyncio.IncompleteReadError, OSError):
            assert await reader.readexactly(len(GREETING)) == GREETING
            self.connections += 1
            writer.write(self.greeting)
            while True:
                head = await reader.readexactly(8)
                size = int.from_bytes(head[:4], "little")
                raw = await reader.readexactly(size + -size % 8)
                self.heard.append((int.from_bytes(head[4:], "little"), raw[:size]))
        self._writers.remove(writer)
        writer.close()

    @property
    def alone(self) -> bool:
        """Nobody is connected."""
        return not self._writers

    def say(self, number: int, raw: bytes) -> None:
        """Over the connection that was made last."""
        self._writers[-1].write(frame(number, raw))

    def answer(self, number: int, offset: int) -> None:
        result = pb.PushResult(receipt=receipt_out(Receipt(offset, 1, 0, "synced")))
        self.say(number, result.SerializeToString())

    def refuse(self, number: int, error: JjqError) -> None:
        self.say(number, pb.PushResult(error=error_out(error)).SerializeToString())

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def settled(self) -> None:
        """Return when all who have connected by now have been let in: they come in order."""
        host, _, port = self.address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        name = writer.get_extra_info("sockname")
        await until(lambda: name in self._came)
        writer.close()
        await writer.wait_closed()

    async def close(self) -> None:
        await self.settled()
        self.cut()
        await until(lambda: self.alone)
        if self._server is not None:
            self._server.close()


@asynccontextmanager
async def started(greeting: bytes = ANSWER) -> AsyncIterator[Node]:
    node = Node(greeting)
    await node.start()
    try:
        yield node
    finally:
        await node.close()


class Caller:
    """A wire to some address, under a clock that is moved by hand."""

    def __init__(self, address: str, seconds: float, tls: ClientTls | None) -> None:
        self.address = address
        self.asked = 0  # for the address
        self.clock = ManualClock()
        self.wire = Wire(self._where, None if tls is None else tls.context, seconds, self.clock)

    def _where(self) -> Place | None:
        self.asked += 1
        return Place(self.address, "here") if self.address else None

    @property
    def trying(self) -> bool:
        return self.wire._trying is not None

    async def connected(self) -> Asking:
        await until(self.wire.at_hand)
        asking = self.wire.at_hand()
        assert asking is not None
        return asking

    async def in_vain(self) -> None:
        """Try once, which gives nothing."""
        assert self.wire.at_hand() is None
        await until(lambda: not self.trying)
        assert self.wire.at_hand() is None


@asynccontextmanager
async def calling(address: str, seconds: float = LONG, tls: ClientTls | None = None) -> AsyncIterator[Caller]:
    caller = Caller(address, seconds, tls)
    try:
        yield caller
    finally:
        await caller.wire.close()


@asynccontextmanager
async def together(seconds: float = LONG) -> AsyncIterator[tuple[Node, Caller, Asking]]:
    """A node by hand and a connection to it."""
    async with started() as node, calling(node.address, seconds) as caller:
        yield node, caller, await caller.connected()


def unknown(why: str) -> str:
    return f"127.0.0.1:[0-9]+: .*{why}.*; the outcome is unknown"


# Pushes -------------------------------------------------------------------------------------------


async def test_a_push_gives_its_receipt() -> None:
    async with listening() as node, calling(f"127.0.0.1:{node.port}") as caller:
        asking = await caller.connected()
        first = await asking.push(message(b"a", b"b"))
        assert first == Receipt(0, 2, node.store.clock.now_us(), "synced")
        assert (await asking.push(message(b"c"))).first_offset == 2


async def test_many_pushes_at_once_get_each_its_own_outcome() -> None:
    async with listening() as node, calling(f"127.0.0.1:{node.port}") as caller:
        asking = await caller.connected()
        node.store.failing[b"bad"] = Fenced("moved", owner="b:1")
        counts = [n % 7 for n in range(300)]
        outcomes = await asyncio.gather(
            *(asking.push(message(*[b"x"] * n if n else [b"bad"])) for n in counts), return_exceptions=True
        )
        next_offset = 0
        for count, outcome in zip(counts, outcomes, strict=True):
            if count:
                assert isinstance(outcome, Receipt)
                assert (outcome.first_offset, outcome.count) == (next_offset, count)
                next_offset += count
            else:
                assert isinstance(outcome, Fenced)
                assert outcome.owner == "b:1"


async def test_answers_may_come_in_any_order() -> None:
    async with together() as (node, _, asking):
        pushes = [asking.push(b"%d" % n) for n in range(3)]
        await until(lambda: len(node.heard) == 3)
        assert [raw for _, raw in node.heard] == [b"0", b"1", b"2"]
        for number, raw in reversed(node.heard):
            node.answer(number, 10 + int(raw))
        assert [receipt.first_offset for receipt in await asyncio.gather(*pushes)] == [10, 11, 12]


async def test_who_gave_a_function_has_it_called_once_with_what_came() -> None:
    async with together() as (node, _, asking):
        outcomes: list[Outcome] = []
        for raw in (b"a", b"b", b"c"):
            asking.send(raw, outcomes.append)
        await until(lambda: len(node.heard) == 3)
        node.refuse(2, Fenced("moved", owner="b:1"))
        node.answer(1, 7)
        await until(lambda: len(outcomes) == 2)
        node.cut()
        await until(lambda: len(outcomes) == 3)
        moved, receipt, broken = outcomes
        assert isinstance(moved, Fenced)
        assert moved.owner == "b:1"
        assert receipt == Receipt(7, 1, 0, "synced")
        assert isinstance(broken, Unavailable)


@pytest.mark.parametrize(
    "raw", [b"\xff\xff", pb.PushResult(receipt={"stage": cast("pb.Stage", 99)})], ids=repr
)
async def test_an_answer_that_cannot_be_read_is_of_unknown_outcome(raw: bytes | pb.PushResult) -> None:
    async with together() as (node, _, asking):
        push, later = asking.push(b"a"), asking.push(b"b")
        await until(lambda: len(node.heard) == 2)
        node.say(1, raw if isinstance(raw, bytes) else raw.SerializeToString())
        with pytest.raises(Unavailable, match="the outcome is unknown"):
            await push
        node.answer(2, 5)
        assert (await later).first_offset == 5


async def test_a_cancelled_caller_does_no_harm_when_its_answer_comes() -> None:
    async with together() as (node, _, asking):
        gone, other = asking.push(b"a"), asking.push(b"b")
        gone.cancel()
        await until(lambda: len(node.heard) == 2)
        node.answer(1, 5)
        node.answer(2, 6)
        assert (await other).first_offset == 6
        last, gone = asking.push(b"c"), asking.push(b"d")
        gone.cancel()
        node.cut()
        with pytest.raises(Unavailable):
            await last


async def test_answers_that_nobody_waits_for_are_ignored() -> None:
    async with together() as (node, _, asking):
        push = asking.push(b"a")
        await until(lambda: node.heard)
        for number in (0, 2, 77, 1, 1):
            node.answer(number, number)
        assert (await push).first_offset == 1
        push = asking.push(b"b")
        await until(lambda: len(node.heard) == 2)
        node.answer(2, 8)
        assert (await push).first_offset == 8


async def test_numbers_begin_again_after_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jjq.remote.wire.NUMBER_MAX", 3)
    async with together() as (node, _, asking):
        pushes = [asking.push(b"%d" % n) for n in range(3)]
        await until(lambda: len(node.heard) == 3)
        for number in (1, 2, 3):
            node.answer(number, number)
        await asyncio.gather(*pushes)
        pushes = [asking.push(b"%d" % n) for n in range(3, 5)]
        await until(lambda: len(node.heard) == 5)
        assert [number for number, _ in node.heard] == [1, 2, 3, 1, 2]
        node.answer(2, 40)
        node.answer(1, 30)
        assert [receipt.first_offset for receipt in await asyncio.gather(*pushes)] == [30, 40]


# No answer ----------------------------------------------------------------------------------------


async def test_all_that_is_unanswered_when_the_connection_breaks_is_of_unknown_outcome() -> None:
    async with together() as (node, caller, asking):
        answered, *others = [asking.push(b"%d" % n) for n in range(5)]
        await until(lambda: len(node.heard) == 5)
        node.answer(1, 9)
        assert (await answered).first_offset == 9
        node.cut()
        for push in others:
            with pytest.raises(Unavailable, match=unknown("broke")):
                await push
        assert asking.closed
        assert caller.wire.at_hand() is None


@pytest.mark.parametrize("words", [b"\xff" * 8, (1 << 31).to_bytes(4, "little") + bytes(4)])
async def test_a_node_that_begins_to_talk_nonsense_is_hung_up_on(words: bytes) -> None:
    async with together() as (node, _, asking):
        push = asking.push(b"a")
        await until(lambda: node.heard)
        node._writers[0].write(words)
        with pytest.raises(Unavailable, match=unknown("does not speak as nodes do")):
            await push
        assert asking.closed
        await until(lambda: node.alone)


async def test_one_without_an_answer_is_given_up_and_the_connection_stays_if_others_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = LoopTime(monkeypatch)
    async with together() as (node, caller, asking):
        lost = asking.push(b"lost")
        await until(lambda: node.heard)
        time.advance(0.6 * LONG)
        young, other = asking.push(b"young"), asking.push(b"other")
        await until(lambda: len(node.heard) == 3)
        node.answer(3, 5)
        assert (await other).first_offset == 5
        assert not lost.done()
        time.advance(0.6 * LONG)
        with pytest.raises(Unavailable, match=unknown("no result within 1000 s")):
            await lost
        assert caller.wire.at_hand() is asking
        assert not young.done()
        node.answer(1, 6)  # too late
        node.answer(2, 7)
        assert (await young).first_offset == 7
        last = asking.push(b"last")
        await until(lambda: len(node.heard) == 4)
        node.answer(4, 8)
        assert (await last).first_offset == 8


async def test_a_connection_from_which_nothing_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    async with together() as (node, caller, asking):
        first = asking.push(b"a")
        await until(lambda: node.heard)
        time.advance(0.6 * LONG)
        second = asking.push(b"b")
        await until(lambda: len(node.heard) == 2)
        time.advance(0.6 * LONG)
        for push in (first, second):  # nor would there be an answer to the second
            with pytest.raises(Unavailable, match=unknown("nothing came within 1000 s")):
                await push
        assert asking.closed
        await until(lambda: node.alone)
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        again = await caller.connected()
        push = again.push(b"c")
        await until(lambda: len(node.heard) == 3)
        node.answer(1, 0)
        assert (await push).first_offset == 0


async def test_a_clock_of_coarse_steps_does_not_keep_a_dead_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of uvloop counts milliseconds, so the time of a push is often up to the very tick."""
    loop = asyncio.get_running_loop()
    async with together() as (_, _, asking):
        with monkeypatch.context() as coarse:
            coarse.setattr(loop, "time", lambda: 5_000.0)
            push = asking.push(b"a")
            coarse.setattr(loop, "time", lambda: 5_000.0 + LONG)
            asking._overdue()
        with pytest.raises(Unavailable, match=unknown("nothing came")):
            await push
        assert asking.closed


async def test_a_connection_may_be_idle_for_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    async with together() as (node, caller, asking):
        for number in range(1, 4):
            push = asking.push(b"a")
            await until(lambda sent=number: len(node.heard) == sent)  # type: ignore[misc]
            time.advance(0.9 * LONG)  # what counts is the time since there was something to wait for
            await asyncio.sleep(0)
            node.answer(number, number)
            assert (await push).first_offset == number
            time.advance(10 * LONG)
            await asyncio.sleep(0)
            assert caller.wire.at_hand() is asking


async def test_the_time_is_kept_by_real_timers_too() -> None:
    async with together(seconds=0.02) as (_, _, asking):
        with pytest.raises(Unavailable, match=unknown("nothing came within 0.02 s")):
            await asking.push(b"a")


# Connecting ---------------------------------------------------------------------------------------


async def test_a_connection_is_begun_when_it_is_first_wanted_and_given_once_it_stands() -> None:
    async with started() as node, calling(node.address) as caller:
        await asyncio.sleep(0)
        assert (caller.asked, node.connections) == (0, 0)
        assert caller.wire.at_hand() is None
        for _ in range(3):
            assert caller.wire.at_hand() is None  # one is enough
        asking = await caller.connected()
        assert caller.wire.at_hand() is asking
        assert (caller.asked, node.connections) == (1, 1)


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", ANSWER[:-1] + b"x", greeting_of("there")]
)
async def test_a_node_that_greets_otherwise_is_left_alone_for_a_while(greeting: bytes) -> None:
    async with started(greeting) as node, calling(node.address) as caller:
        await caller.in_vain()
        assert node.connections == 1
        await until(lambda: node.alone)
        caller.clock.advance(WIRE_AGAIN_SECONDS / 2)
        assert caller.wire.at_hand() is None
        assert not caller.trying
        caller.clock.advance(WIRE_AGAIN_SECONDS / 2)
        await caller.in_vain()
        assert node.connections == 2
        node.greeting = ANSWER  # it was replaced by a newer one
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        await caller.connected()
        assert node.connections == 3


@pytest.mark.parametrize("greeting", [SILENT, ANSWER[:-1]], ids=["silent", "half"])
async def test_a_node_that_does_not_greet_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch, greeting: bytes
) -> None:
    time = LoopTime(monkeypatch)
    async with started(greeting) as node, calling(node.address) as caller:
        for attempt in (1, 2):
            assert caller.wire.at_hand() is None
            await until(lambda made=attempt: node.connections == made)  # type: ignore[misc]
            caller.clock.advance(WIRE_AGAIN_SECONDS)
            assert caller.wire.at_hand() is None  # one attempt at a time
            time.advance(CONNECT_SECONDS)
            await until(lambda: not caller.trying)
            await until(lambda: node.alone)
            assert node.connections == attempt


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1"])
async def test_an_address_where_nobody_listens_is_tried_again_after_a_while(address: str) -> None:
    async with started() as node, calling(address) as caller:
        await caller.in_vain()
        assert caller.asked == 1
        caller.address = node.address
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        await caller.connected()
        assert caller.asked == 2


async def test_a_node_without_an_address_is_never_connected_to() -> None:
    async with started() as node, calling("") as caller:
        for attempt in range(1, 4):
            await caller.in_vain()
            assert caller.asked == attempt  # it may have joined again, with one
            caller.clock.advance(WIRE_AGAIN_SECONDS)
        caller.address = node.address
        await caller.connected()


async def test_a_broken_connection_is_made_again() -> None:
    async with together() as (node, caller, asking):
        node.cut()
        await until(lambda: asking.closed)
        assert caller.wire.at_hand() is None
        assert not caller.trying  # it was made just now
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        again = await caller.connected()
        assert again is not asking
        assert node.connections == 2


# Closing ------------------------------------------------------------------------------------------


async def test_closing_tells_those_who_wait_and_nothing_is_begun_any_more() -> None:
    async with together() as (node, caller, asking):
        pushes = [asking.push(b"%d" % n) for n in range(3)]
        await caller.wire.close()
        for push in pushes:
            with pytest.raises(Unavailable, match=unknown("the client was closed")):
                await push
        assert asking.closed
        await until(lambda: node.alone)
        caller.clock.advance(WIRE_AGAIN_SECONDS)
        assert caller.wire.at_hand() is None
        assert not caller.trying
        await caller.wire.close()


async def test_closing_breaks_off_a_connection_that_is_being_made() -> None:
    async with started(SILENT) as node, calling(node.address) as caller:
        assert caller.wire.at_hand() is None
        await until(lambda: node.connections == 1)
        async with asyncio.timeout(10):
            await caller.wire.close()
        assert caller.wire.at_hand() is None
        await until(lambda: node.alone)


async def test_closing_before_the_attempt_has_begun_or_without_one_is_quick() -> None:
    async with started() as node, calling(node.address) as caller, calling(node.address) as other:
        assert caller.wire.at_hand() is None
        for each in (caller, other):
            await each.wire.close()
            assert each.wire.at_hand() is None
        assert node.connections == 0


@pytest.mark.parametrize("turns", range(12))
async def test_closing_leaves_nothing_open_however_far_the_connection_has_come(turns: int) -> None:
    async with started() as node, calling(node.address) as caller:
        caller.wire.at_hand()
        for _ in range(turns):
            await asyncio.sleep(0)
        await caller.wire.close()
        assert caller.wire.at_hand() is None
        await node.settled()
        await until(lambda: node.alone)


# TLS ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening_by_tls(tls: Tls) -> AsyncIterator[Listening]:
    node = Listening(Store())
    await node.store.create_queue("orders")
    node.port = await node.listener.start("127.0.0.1", 0, tls.context())
    try:
        yield node
    finally:
        await node.close()


async def test_nodes_that_know_each_other_by_tls_are_connected_and_others_are_not(tmp_path: Path) -> None:
    ours, stranger = Authority(tmp_path, "ours"), Authority(tmp_path, "stranger")
    own = ours.issue("node")
    async with listening_by_tls(Tls(*own, client_ca=ours.path)) as node:
        address = f"127.0.0.1:{node.port}"
        async with calling(address, tls=ClientTls(ours.path, *own)) as caller:
            asking = await caller.connected()
            large = bytes(1_000_000)
            receipts = await asyncio.gather(*(asking.push(message(large)) for _ in range(5)))
            assert [receipt.first_offset for receipt in receipts] == list(range(5))
            for tls in (
                None,
                ClientTls(ours.path),
                ClientTls(ours.path, *stranger.issue("intruder")),
                ClientTls(stranger.path, *own),
            ):
                async with calling(address, tls=tls) as other:
                    await other.in_vain()
            assert (await asking.push(message(b"a"))).first_offset == 5
            await asyncio.gather(caller.wire.close(), node.listener.close())
        await until(lambda: not node.listener.wires)


async def test_a_node_is_held_back_by_tls_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jjq.server.peers.STREAM_PUSHES_MAX", 3)
    ours = Authority(tmp_path, "ours")
    items = [b"%d" % n for n in range(20)]
    async with listening_by_tls(Tls(*ours.issue("node"))) as node:
        async with calling(f"127.0.0.1:{node.port}", tls=ClientTls(ours.path)) as caller:
            asking = await caller.connected()
            node.store.hold(*items)
            pushes = [asking.push(message(item)) for item in items]
            await until(lambda: not node.only().transport.is_reading())
            node.store.release(*items)
            receipts = await asyncio.gather(*pushes)
            assert [receipt.first_offset for receipt in receipts] == list(range(20))
            assert node.store.begun == items
        await until(lambda: not node.listener.wires)
