"""Plain pushes that are made at the same time travel together, and each gets its own receipt."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import Exhausted, InvalidInput, Unavailable
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt
from jjq.limits import JOIN_BYTES_MAX, JOIN_CALLS, JOIN_PUSH_BYTES
from jjq.remote.coalesce import PushCoalescer
from tests.jjq.serving import until


class Sender:
    """A queue that answers when it is told to."""

    def __init__(self) -> None:
        self.calls: list[list[bytes]] = []
        self.gate = asyncio.Event()
        self.later = asyncio.Event()  # for those that did not go at once
        self.later.set()
        self.fails: dict[bytes, Exception] = {}
        self.next = 0

    async def __call__(self, push: Push) -> Receipt:
        values = push.payload.column("value").to_pylist()
        self.calls.append(values)
        await (self.gate if len(self.calls) <= JOIN_CALLS else self.later).wait()
        for value in values:
            if value in self.fails:
                raise self.fails[value]
        first, self.next = self.next, self.next + len(values)
        return Receipt(first, len(values), 7, push.stage)


def begun(coalescer: PushCoalescer, *values: bytes, queue: str = "q") -> list[asyncio.Task[Receipt]]:
    return [asyncio.create_task(coalescer.append(Push(queue, payload("bytes", [value])))) for value in values]


async def test_what_comes_while_two_are_on_their_way_travels_together() -> None:
    # Given two calls that are on their way
    sender = Sender()
    coalescer = PushCoalescer(sender)
    tasks = begun(coalescer, b"a", b"b", b"c", b"d", b"e")
    await until(lambda: len(sender.calls) == JOIN_CALLS)
    # When they end
    sender.gate.set()
    receipts = await asyncio.gather(*tasks)
    # Then the three others were one call, and each has the offset of its own element
    assert sender.calls == [[b"a"], [b"b"], [b"c", b"d", b"e"]]
    assert [r.first_offset for r in receipts] == [0, 1, 2, 3, 4]
    assert {(r.count, r.timestamp_us, r.stage) for r in receipts} == {(1, 7, "synced")}


async def test_one_after_the_other_is_a_call_each() -> None:
    sender = Sender()
    sender.gate.set()
    coalescer = PushCoalescer(sender)
    for value in (b"a", b"b", b"c"):
        await coalescer.append(Push("q", payload("bytes", [value])))
    assert sender.calls == [[b"a"], [b"b"], [b"c"]]


async def test_queues_and_large_pushes_do_not_wait_for_others() -> None:
    sender = Sender()
    coalescer = PushCoalescer(sender)
    large = bytes(JOIN_PUSH_BYTES + 1)
    tasks = begun(coalescer, b"a", b"b") + begun(coalescer, b"x", queue="r") + begun(coalescer, large)
    await until(lambda: len(sender.calls) == 4)
    sender.gate.set()
    await asyncio.gather(*tasks)


async def test_a_call_is_not_made_larger_than_is_good() -> None:
    sender = Sender()
    coalescer = PushCoalescer(sender)
    value = bytes(JOIN_PUSH_BYTES // 2)
    tasks = begun(coalescer, *[value] * 400)
    await until(lambda: len(sender.calls) == JOIN_CALLS)
    sender.gate.set()
    await asyncio.gather(*tasks)
    assert max(sum(map(len, call)) for call in sender.calls) <= JOIN_BYTES_MAX
    assert sum(map(len, sender.calls)) == 400


async def test_wrong_input_fails_who_gave_it_and_nobody_else() -> None:
    sender = Sender()
    coalescer = PushCoalescer(sender)
    sender.fails[b"d"] = InvalidInput("d is wrong", position=2)
    tasks = begun(coalescer, b"a", b"b", b"c", b"d", b"e")
    await until(lambda: len(sender.calls) == JOIN_CALLS)
    sender.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Receipt, Receipt, Receipt, InvalidInput, Receipt]
    assert sender.calls[2:] == [[b"c", b"d", b"e"], [b"c"], [b"d"], [b"e"]]


@pytest.mark.parametrize("error", [Unavailable("unknown"), Exhausted("later", retry_after=3.0)])
async def test_any_other_error_is_that_of_all_and_a_copy_for_each(error: Exception) -> None:
    sender = Sender()
    coalescer = PushCoalescer(sender)
    sender.fails[b"d"] = error
    tasks = begun(coalescer, b"a", b"b", b"c", b"d")
    await until(lambda: len(sender.calls) == JOIN_CALLS)
    sender.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failed = outcomes[2:]
    assert [type(one) for one in failed] == [type(error)] * 2
    assert [str(one) for one in failed] == [str(error)] * 2
    assert [getattr(one, "retry_after", None) for one in failed] == [getattr(error, "retry_after", None)] * 2
    assert failed[0] is not failed[1]
    # And the line goes on
    assert (await coalescer.append(Push("q", payload("bytes", [b"z"])))).count == 1


async def test_who_no_longer_waits_is_not_sent() -> None:
    sender = Sender()
    coalescer = PushCoalescer(sender)
    tasks = begun(coalescer, b"a", b"b", b"c", b"d")
    await until(lambda: len(sender.calls) == JOIN_CALLS)
    tasks[2].cancel()
    await asyncio.wait({tasks[2]})
    sender.gate.set()
    await asyncio.gather(tasks[0], tasks[1], tasks[3])
    assert sender.calls[2:] == [[b"d"]]


async def test_a_call_that_is_broken_off_lets_the_next_ones_go() -> None:
    sender = Sender()
    coalescer = PushCoalescer(sender)
    tasks = begun(coalescer, b"a", b"b", b"c")
    await until(lambda: len(sender.calls) == JOIN_CALLS)
    tasks[0].cancel()
    await until(lambda: len(sender.calls) == 3)
    sender.gate.set()
    assert (await tasks[2]).count == 1


async def test_who_leaves_while_the_common_call_is_under_way_fails_nobody_else() -> None:
    # Given three pushes that travel together
    sender = Sender()
    coalescer = PushCoalescer(sender)
    tasks = begun(coalescer, b"a", b"b", b"c", b"d", b"e")
    await until(lambda: len(sender.calls) == JOIN_CALLS)
    sender.later.clear()
    sender.gate.set()
    await until(lambda: len(sender.calls) == 3)
    # When the first of them is given up before the answer comes
    tasks[2].cancel()
    await asyncio.wait({tasks[2]})
    sender.later.set()
    # Then the others get their receipts
    assert [r.first_offset for r in await asyncio.gather(tasks[3], tasks[4])] == [3, 4]


async def test_pushes_of_another_schema_travel_in_a_call_of_their_own() -> None:
    # Given bytes, text and bytes again, that wait for a queue
    sender = Sender()
    coalescer = PushCoalescer(sender)
    tasks = begun(coalescer, b"a", b"b", b"c")
    await until(lambda: len(sender.calls) == JOIN_CALLS)
    tasks.append(asyncio.create_task(coalescer.append(Push("q", payload("text", ["t"])))))
    tasks += begun(coalescer, b"d")
    await asyncio.sleep(0)
    # When they may go
    sender.gate.set()
    receipts = await asyncio.gather(*tasks)
    # Then each is written, and none together with one of another schema
    assert [r.count for r in receipts] == [1] * 5
    assert sorted(map(str, sender.calls)) == sorted(map(str, [[b"a"], [b"b"], [b"c"], ["t"], [b"d"]]))
