"""A producer: single pushes in batches, written once and in order whatever gets lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coldstore.shared.chance import SeededChance
from coldstore.shared.errors import Conflict, Exhausted, InvalidInput, JjqError, NotFound, Unavailable
from coldstore.shared.limits import ELEMENT_BYTES_MAX
from jjq.client.client import AsyncClient
from jjq.client.producer import AsyncProducer
from tests.jjq.client.faulty import FaultyStore, Mode, lost, until


async def written(store: Any, queue: str = "orders") -> list[Any]:
    found = [batch async for batch in store.read(queue)]
    return [value for batch in found for value in batch.column("value").to_pylist()]


def a_producer(store: Any, queue: str = "orders", **more: Any) -> AsyncProducer:
    return AsyncClient(store).producer(queue, **more)


async def test_single_pushes_travel_together_and_each_gets_its_receipt(faulty: FaultyStore) -> None:
    async with a_producer(faulty) as producer:
        pushed = [await producer.push(b"%d" % n) for n in range(1_000)]
        receipts = await asyncio.gather(*pushed)
    assert [receipt.first_offset for receipt in receipts] == list(range(1_000))
    assert {(receipt.count, receipt.stage) for receipt in receipts} == {(1, "synced")}
    assert await written(faulty) == [b"%d" % n for n in range(1_000)]
    assert faulty.calls["push"] == 1


async def test_a_lonely_push_is_sent_when_its_linger_is_over(faulty: FaultyStore) -> None:
    producer = a_producer(faulty, linger=0.001)
    assert (await (await producer.push("text"))).first_offset == 0
    assert (await (await producer.push(b"more", key=b"k", headers={"h": "1"}))).first_offset == 1
    assert await written(faulty) == [b"text", b"more"]
    await producer.close()


async def test_keys_and_headers_stay_with_their_elements(faulty: FaultyStore) -> None:
    async with a_producer(faulty) as producer:
        await producer.push(b"0")
        await producer.push(b"1", key=b"k1")
        await producer.push(bytearray(b"2"), headers={"h": b"2"})
        await producer.push(memoryview(b"3"), key="k3", headers={"h": "3"})
        await producer.push(b"4")
    (batch,) = [batch async for batch in faulty.read("orders")]
    assert batch.column("value").to_pylist() == [b"0", b"1", b"2", b"3", b"4"]
    assert batch.column("key").to_pylist() == [None, b"k1", None, b"k3", None]
    assert batch.column("headers").to_pylist() == [None, None, [("h", b"2")], [("h", b"3")], None]


async def test_a_value_may_be_changed_after_it_was_pushed(faulty: FaultyStore) -> None:
    value = bytearray(b"before")
    async with a_producer(faulty) as producer:
        await producer.push(value)
        value[:] = b"after!"
    assert await written(faulty) == [b"before"]


def trouble(chance: SeededChance) -> tuple[Mode, JjqError] | None:
    """Three pushes in ten get lost or are refused."""
    what = chance.jitter()
    if what < 0.1:
        return lost("after")
    if what < 0.2:
        return lost("before")
    return ("before", Exhausted("full, by order of a test", retry_after=0.001)) if what < 0.3 else None


@pytest.mark.parametrize("seed", range(25))
async def test_every_push_is_written_once_and_in_order_whatever_gets_lost(
    faulty: FaultyStore, seed: int
) -> None:
    chance, inner = SeededChance(seed), faulty.inner.push

    async def push(*args: Any, **kwargs: Any) -> Any:
        for _ in range(int(chance.jitter() * 4)):  # pushes overtake each other, too
            await asyncio.sleep(0)
        return await inner(*args, **kwargs)

    faulty.inner.push = push
    faulty.judges["push"] = lambda number: trouble(chance)
    async with a_producer(faulty, batch_elements=3, linger=0.0, in_flight=8) as producer:
        pushed = [await producer.push(b"%d" % n) for n in range(100)]
        receipts = [await each for each in pushed]
    assert await written(faulty) == [b"%d" % n for n in range(100)]
    assert [receipt.first_offset for receipt in receipts] == list(range(100))


async def test_many_batches_are_in_flight_but_the_first_goes_alone(faulty: FaultyStore) -> None:
    gate = faulty.gates["push"] = asyncio.Event()
    producer = a_producer(faulty, batch_elements=1, linger=0.0, in_flight=5)
    for n in range(20):
        await producer.push(b"%d" % n)
    await until(lambda: faulty.under_way == 1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert faulty.most_under_way == 1
    second = faulty.gates["push"] = asyncio.Event()
    gate.set()
    await until(lambda: faulty.under_way == 5)
    for _ in range(20):
        await asyncio.sleep(0)
    assert faulty.most_under_way == 5
    second.set()
    await producer.close()
    assert await written(faulty) == [b"%d" % n for n in range(20)]


async def test_an_element_that_the_queue_cannot_hold_fails_alone(faulty: FaultyStore) -> None:
    await faulty.create_queue("events", content="json")
    producer = a_producer(faulty, "events")
    pushed = [await producer.push(text) for text in ("1", "{", "2", "\ud800", "[3]", "}")]
    with pytest.raises(InvalidInput, match="element"):
        await producer.close()
    outcomes = await asyncio.gather(*pushed, return_exceptions=True)
    assert [o.first_offset if not isinstance(o, BaseException) else type(o) for o in outcomes] == [
        0, InvalidInput, 1, InvalidInput, 2, InvalidInput,
    ]  # fmt: skip
    assert await written(faulty, "events") == ["1", "2", "[3]"]


async def test_a_batch_of_nothing_but_bad_elements_fails_and_the_next_one_is_written(
    faulty: FaultyStore,
) -> None:
    await faulty.create_queue("events", content="json")
    producer = a_producer(faulty, "events", batch_elements=2)
    pushed = [await producer.push(text) for text in ("{", "}", "1", "2")]
    with pytest.raises(InvalidInput):
        await producer.flush()
    assert [type(o) for o in await asyncio.gather(*pushed[:2], return_exceptions=True)] == [InvalidInput] * 2
    assert [(await each).first_offset for each in pushed[2:]] == [0, 1]
    await producer.close()


@pytest.mark.parametrize(
    ("value", "more", "why"),
    [
        (7, {}, "not int"),
        (b"x" * (ELEMENT_BYTES_MAX + 1), {}, "at most"),
        (b"x", {"key": 7}, "not int"),
        (b"x", {"headers": [("a", b"b")]}, "mapping"),
        (b"x", {"headers": {"a": 7}}, "not int"),
        (b"x", {"headers": {"a": b"1", "jjq-a": b"1"}}, "'jjq-a' is reserved"),
    ],
    ids=["value", "size", "key", "headers", "header", "reserved"],
)
async def test_what_can_never_be_pushed_is_refused_at_once_and_hurts_nobody(
    faulty: FaultyStore, value: Any, more: dict[str, Any], why: str
) -> None:
    async with a_producer(faulty) as producer:
        await producer.push(b"before")
        with pytest.raises(InvalidInput, match=why):
            await producer.push(value, **more)
        await producer.push(b"after")
    assert await written(faulty) == [b"before", b"after"]


async def test_errors_are_on_the_futures_and_raised_by_flush_once(faulty: FaultyStore) -> None:
    producer = a_producer(faulty, "nope")
    pushed = await producer.push(b"a")
    with pytest.raises(NotFound, match="nope"):
        await producer.flush()
    with pytest.raises(NotFound, match="nope"):
        await pushed
    assert pushed.done()
    await producer.flush()
    await faulty.create_queue("nope")
    assert (await (await producer.push(b"b"))).first_offset == 0
    await producer.close()


async def test_a_push_that_cannot_be_made_fails_when_its_deadline_has_passed(faulty: FaultyStore) -> None:
    faulty.fail("push", *[lost("after")] * 1_000)
    producer = a_producer(faulty, deadline=0.2, linger=0.0)
    pushed = await producer.push(b"a")
    with pytest.raises(Unavailable, match="lost after"):
        await producer.flush()
    with pytest.raises(Unavailable):
        await pushed
    faulty.judges.clear()
    assert (await (await producer.push(b"b"))).first_offset == 1
    await producer.close()
    assert await written(faulty) == [b"a", b"b"]


async def test_what_is_unknown_when_a_batch_is_given_up_is_never_written_twice(faulty: FaultyStore) -> None:
    producer = a_producer(faulty, batch_elements=1, linger=0.0, deadline=0.3)
    await (await producer.push(b"first"))
    # From now on every reply is lost: all of these are written, and nobody can know.
    faulty.judges["push"] = lambda number: lost("after")
    pushed = [await producer.push(b"%d" % n) for n in range(5)]
    outcomes = await asyncio.gather(*pushed, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    faulty.judges.clear()
    await (await producer.push(b"last"))
    with pytest.raises(Unavailable):
        await producer.close()
    found = await written(faulty)
    assert found == sorted(set(found), key=found.index)
    assert (found[0], found[-1]) == (b"first", b"last")


async def test_a_refusal_for_now_is_waited_out(faulty: FaultyStore) -> None:
    full = ("before", Exhausted("full", retry_after=0.01))
    faulty.fail("push", full, full, full)  # type: ignore[arg-type]
    async with a_producer(faulty, linger=0.0) as producer:
        assert (await (await producer.push(b"a"))).first_offset == 0
    assert faulty.calls["push"] == 4


async def test_nothing_new_is_sent_while_a_failed_batch_waits_to_be_repeated(faulty: FaultyStore) -> None:
    async with a_producer(faulty, batch_elements=1, linger=0.0, in_flight=4) as producer:
        await (await producer.push(b"0"))
        faulty.fail("push", ("before", Exhausted("full", retry_after=0.05)))
        await producer.push(b"1")
        await until(lambda: faulty.calls["push"] == 2)
        for n in range(2, 6):
            await producer.push(b"%d" % n)
    sequences = [kwargs["sequence"] for verb, kwargs in faulty.asked if verb == "push"]
    assert sequences == [0, 1, 1, 2, 3, 4, 5]


async def test_an_unforeseen_error_reaches_the_caller(faulty: FaultyStore) -> None:
    async def push(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("a bug, by order of a test")

    faulty.inner.push = push
    producer = a_producer(faulty, linger=0.0)
    with pytest.raises(JjqError, match="a bug, by order of a test"):
        await (await producer.push(b"a"))


async def test_pushes_wait_while_too_many_bytes_are_under_way(faulty: FaultyStore) -> None:
    gate = faulty.gates["push"] = asyncio.Event()
    producer = a_producer(faulty, batch_bytes=4_096, memory_bytes=8_192, linger=0.0)
    taken = 0

    async def push_all() -> None:
        nonlocal taken
        for _ in range(100):
            await producer.push(bytes(1_000))
            taken += 1

    pushing = asyncio.create_task(push_all())
    await until(lambda: faulty.under_way == 1)
    for _ in range(50):
        await asyncio.sleep(0)
    assert 1 < taken * 1_064 <= 8_192
    gate.set()
    await pushing
    await producer.close()
    assert len(await written(faulty)) == 100


async def test_an_element_larger_than_the_memory_budget_still_goes(faulty: FaultyStore) -> None:
    async with a_producer(faulty, batch_bytes=2_048, memory_bytes=2_048, linger=0.0) as producer:
        for _ in range(3):
            await producer.push(bytes(10_000))
    assert [len(value) for value in await written(faulty)] == [10_000] * 3


async def test_a_closed_producer_takes_no_more_and_has_written_all(faulty: FaultyStore) -> None:
    producer = a_producer(faulty, linger=60.0)
    await producer.push(b"a")
    await producer.close()
    await producer.close()
    with pytest.raises(Conflict, match="closed"):
        await producer.push(b"b")
    assert await written(faulty) == [b"a"]


async def test_closing_the_client_flushes_its_producers(faulty: FaultyStore) -> None:
    async with AsyncClient(faulty) as client:
        await client.producer("orders", linger=60.0).push(b"a")
    assert await written(faulty) == [b"a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"linger": -1}, {"in_flight": 0}, {"in_flight": 64}, {"batch_elements": 0}, {"batch_bytes": 1},
        {"memory_bytes": 1}, {"deadline": 0},
    ],
    ids=str,
)  # fmt: skip
async def test_settings_that_make_no_sense_are_refused(faulty: FaultyStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        a_producer(faulty, **wrong)


async def test_an_awaited_push_can_be_asked_again(faulty: FaultyStore) -> None:
    async with a_producer(faulty, linger=60.0) as producer:
        pushed = await producer.push(b"a")
        assert not pushed.done()
        with pytest.raises(asyncio.InvalidStateError):
            pushed.result()
        await producer.flush()
        assert await pushed == await pushed == pushed.result()
