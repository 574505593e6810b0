"""The connection over which a node forwards pushes: each has one outcome, whatever the other side does."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from coldstore.shared.errors import Fenced, Unavailable
from coldstore.shared.results import Receipt
from jjq.limits import WIRE_AGAIN_SECONDS
from jjq.remote.peer_connection import Outcome
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.remote.wiring import LONG, calling, together, unknown
from tests.jjq.server.listening import LoopTime, listening, message
from tests.jjq.serving import until

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
    monkeypatch.setattr("jjq.remote.peer_connection.WIRE_NUMBER_MAX", 3)
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
