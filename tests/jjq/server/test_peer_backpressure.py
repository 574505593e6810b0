"""Other nodes that push too much, or are there when this one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from coldstore.shared.errors import InvalidInput
from jjq.server.peer_listener import Asked, PeerListener
from tests.jjq.server.listening import Listening, Peer, Store, listening, message
from tests.jjq.serving import until
from tests.jjq.wire.test_peer_protocol import Kept
from tests.jjq.wire.test_peer_protocol import frame as framed

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
    monkeypatch.setattr("jjq.server.peer_listener.STREAM_PUSHES_MAX", 3)
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
    monkeypatch.setattr("jjq.server.peer_listener.STREAM_PUSHES_MAX", 3)
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
    monkeypatch.setattr("jjq.server.peer_listener.STREAM_BYTES_MAX", 4 * size)
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
    monkeypatch.setattr("jjq.server.peer_listener.STREAM_BYTES_MAX", 4 * size)
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
    monkeypatch.setattr("jjq.server.peer_listener._LAST_SECONDS", 0.1)
    async with listening() as node:
        peer = await node.peer()
        wire = next(iter(node.listener.wires))
        wire.transport.write(bytes(64 << 20))  # more than the connection holds
        async with asyncio.timeout(10):
            await node.listener.close()
        await until(lambda: not node.listener.wires)
        await peer.leave()
