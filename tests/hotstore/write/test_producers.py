"""Idempotent producers: the same receipt on every retry, also after restarts, until they are forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.batch import payload
from coldstore.shared.errors import Conflict, InvalidInput, Unavailable
from coldstore.shared.limits import OFFSET_MAX, PRODUCER_RECEIPTS_MAX
from hotstore.limits import PRODUCERS_MAX
from hotstore.port import Stage
from hotstore.write.producers import KnownPush, Producers, check_identity
from tests.hotstore.journaled import push_batch
from tests.hotstore.kit import BLOCK_BYTES, World, push, read_all


def pushed(sequence: int, first: int | None = None, timestamp_us: int = 0) -> KnownPush:
    return KnownPush(sequence, sequence if first is None else first, 1, timestamp_us)


def test_a_producer_that_is_not_known_may_begin_anywhere() -> None:
    producers = Producers()
    assert producers.find("p", 41) is None
    assert producers.last("p") is None
    producers.remember("p", pushed(41))
    assert producers.find("p", 41) == pushed(41)
    assert producers.find("p", 42) is None


def test_a_sequence_that_is_skipped_is_refused_and_says_which_is_due() -> None:
    producers = Producers()
    producers.remember("p", pushed(7))
    with pytest.raises(Conflict, match="skipped from sequence 7 to 9: push 8 first"):
        producers.find("p", 9)


def test_as_many_pushes_as_may_be_in_flight_are_remembered_and_older_ones_refused() -> None:
    producers = Producers()
    for n in range(PRODUCER_RECEIPTS_MAX + 5):
        producers.remember("p", pushed(n, first=10 * n))
    for n in range(5, PRODUCER_RECEIPTS_MAX + 5):
        assert producers.find("p", n) == pushed(n, first=10 * n)
    with pytest.raises(Conflict, match="its receipt is forgotten"):
        producers.find("p", 4)


def test_the_producer_idle_for_longest_makes_room() -> None:
    producers = Producers()
    for n in range(PRODUCERS_MAX):
        producers.remember(f"p{n}", pushed(0))
    producers.remember("p0", pushed(1))
    producers.remember("new", pushed(0))
    assert len(producers) == PRODUCERS_MAX
    assert producers.last("p0") == 1
    assert producers.last("p1") is None


def test_old_producers_are_forgotten() -> None:
    producers = Producers()
    producers.remember("old", pushed(0, timestamp_us=10))
    producers.remember("new", pushed(0, timestamp_us=20))
    assert producers.forget_before(20) == ["old"]
    assert producers.names() == ["new"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3)), max_size=200), st.integers(0, 200))
def test_rows_of_a_checkpoint_restore_what_was_known(script: list[tuple[str, int]], at: int) -> None:
    # Given a run of pushes, with a checkpoint somewhere in it; what follows it is replayed on top
    whole, replayed, first = Producers(), Producers(), 0
    due = {"a": 0, "b": 5}
    for n, (name, count) in enumerate(script):
        if n == at:
            for known in whole.names():
                row = whole.row(known)
                assert row is not None
                replayed.restore(*row)
        one = KnownPush(due[name], first, count, n)
        whole.remember(name, one)
        if n >= at - 3:  # a few pushes before the rows are in the journal too
            replayed.remember(name, one)
        due[name] += 1
        first += count
    if at < len(script):
        # Then both know the same
        assert {name: whole.row(name) for name in whole.names()} == {
            name: replayed.row(name) for name in whole.names()
        }


@pytest.mark.parametrize(
    ("producer", "sequence"), [(None, None), ("p", 0), ("ä" * 64, 2**63 - 1), ("a b/c", 5)]
)
def test_an_identity_is_whole_or_absent(producer: str | None, sequence: int | None) -> None:
    check_identity(producer, sequence)


def test_half_an_identity_is_refused() -> None:
    with pytest.raises(InvalidInput, match="both"):
        check_identity("p", None)


# In the engine


async def test_a_retry_returns_the_first_receipt_and_writes_nothing(world: World) -> None:
    first = await push(world.store, "q", b"a", b"b", producer="p", sequence=7)
    world.clock.advance(5)
    before = world.journal.next_sequence
    again = await push(world.store, "q", b"a", b"b", producer="p", sequence=7)
    assert (again.first_offset, again.count, again.timestamp_us) == (0, 2, first.timestamp_us)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert world.journal.next_sequence == before
    assert (await world.store.get_queue("q")).next_offset == 2


@pytest.mark.parametrize("stop", ["crash", "close", "power_cut"])
@pytest.mark.parametrize("checkpoint", [False, True])
async def test_receipts_survive_restarts(world: World, stop: str, checkpoint: bool) -> None:
    receipts = [await push(world.store, "q", b"%d" % n, producer="p", sequence=n) for n in range(5)]
    if checkpoint:
        await world.store.seal("q")
        await world.engine.checkpointer.write()
        await world.engine.checkpointer.trim()
        receipts.append(await push(world.store, "q", b"5", producer="p", sequence=5))
    await getattr(world, stop)()
    await world.start()
    for n, receipt in enumerate(receipts):
        again = await push(world.store, "q", b"%d" % n, producer="p", sequence=n)
        assert (again.first_offset, again.timestamp_us, again.duplicate) == (n, receipt.timestamp_us, True)
    with pytest.raises(Conflict, match="skipped"):
        await push(world.store, "q", b"?", producer="p", sequence=99)


async def test_receipts_survive_the_trim_of_the_records_that_made_them(world: World) -> None:
    # Given a push whose journal segment is long gone
    await push(world.store, "q", b"first", producer="p", sequence=1)
    for n in range(80):
        await push(world.store, "q", bytes([n]) * 20_000)
        if n % 10 == 9:
            await world.quiet()
            await world.maintain()
    with pytest.raises(AssertionError, match="no such push"):
        push_batch(world, 0)
    await world.restart()
    # Then
    again = await push(world.store, "q", b"first", producer="p", sequence=1)
    assert (again.first_offset, again.duplicate) == (0, True)


async def test_producers_are_known_per_queue(world: World) -> None:
    await world.store.create_queue("other", block_bytes=BLOCK_BYTES)
    await push(world.store, "q", b"a", producer="p", sequence=5)
    receipt = await push(world.store, "other", b"a", producer="p", sequence=0)
    assert not receipt.duplicate


async def test_an_idle_producer_is_forgotten_as_documented_and_may_begin_anew(world: World) -> None:
    # Given one producer that is idle and one that is not
    await push(world.store, "q", b"a", producer="idle", sequence=5)
    world.clock.advance(world.settings.producer_seconds * 0.9)
    await push(world.store, "q", b"b", producer="busy", sequence=5)
    world.clock.advance(world.settings.producer_seconds * 0.2)
    # When
    await world.maintain()
    # Then
    assert (await push(world.store, "q", b"b", producer="busy", sequence=5)).duplicate
    anew = await push(world.store, "q", b"again", producer="idle", sequence=0)
    assert (anew.duplicate, anew.first_offset) == (False, 2)
    await world.restart()
    assert (await push(world.store, "q", b"again", producer="idle", sequence=0)).duplicate
    assert not (await push(world.store, "q", b"next", producer="idle", sequence=1)).duplicate


async def test_pushes_of_a_producer_side_by_side_keep_their_order(world: World) -> None:
    pushes = [push(world.store, "q", b"%d" % n, producer="p", sequence=n) for n in (0, 1, 1, 2, 0, 3)]
    receipts = await asyncio.gather(*pushes)
    assert [(r.first_offset, r.duplicate) for r in receipts] == [
        (0, False), (1, False), (1, True), (2, False), (0, True), (3, False),
    ]  # fmt: skip
    assert [e.value for e in await read_all(world.store, "q")] == [b"0", b"1", b"2", b"3"]


async def test_in_one_group_as_in_several_a_sequence_out_of_order_is_refused(world: World) -> None:
    pushes = [push(world.store, "q", b"%d" % n, producer="new", sequence=n) for n in (7, 3, 9, 8)]
    outcomes = await asyncio.gather(*pushes, return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["Receipt", "Conflict", "Conflict", "Receipt"]
    assert [e.value for e in await read_all(world.store, "q")] == [b"7", b"8"]


async def test_a_refused_push_uses_up_no_sequence(world: World) -> None:
    await push(world.store, "q", b"a", producer="p", sequence=0)
    with pytest.raises(Conflict):
        await push(world.store, "q", b"b", producer="p", sequence=1, expected_offset=0)
    assert (await push(world.store, "q", b"b", producer="p", sequence=1, expected_offset=1)).first_offset == 1
    # And a retry is recognised although what it expected is long past
    assert (await push(world.store, "q", b"b", producer="p", sequence=1, expected_offset=1)).duplicate


@pytest.mark.parametrize("where", ["memory", "journal", "cold", "cold after a restart"])
async def test_another_payload_under_the_same_identity_is_a_conflict_wherever_the_first_one_is(
    world: World, where: str
) -> None:
    # Given pushes under an identity
    first = await push(world.store, "q", b"a", b"b", producer="p", sequence=0)
    await push(world.store, "q", b"c", producer="p", sequence=1)
    if where.startswith("cold"):
        await world.store.seal("q")
    if where in {"journal", "cold after a restart"}:
        await world.restart()
    # When the identity comes again with something else: another value, fewer, more, a key
    for values in ([b"a", b"x"], [b"a"], [b"a", b"b", b"c"]):
        with pytest.raises(Conflict, match=r"pushed other elements as sequence 0 before, at offsets 0\.\.1"):
            await push(world.store, "q", *values, producer="p", sequence=0)
    keyed = payload("bytes", [b"a", b"b"], [b"k", None])
    with pytest.raises(Conflict, match="other elements"):
        await world.store.push("q", keyed, producer="p", sequence=0)
    # Then nothing was written, and a true retry has the first receipt but for its flag
    assert (await world.store.get_queue("q")).next_offset == 3
    again = await push(world.store, "q", b"a", b"b", producer="p", sequence=0)
    assert again == replace(first, duplicate=True)
    assert (await push(world.store, "q", b"d", producer="p", sequence=2)).first_offset == 3


async def test_a_push_that_can_never_be_written_asks_for_the_receipt_of_any_payload(world: World) -> None:
    first = await push(world.store, "q", b"a", b"b", producer="p", sequence=0)
    asked = await push(world.store, "q", b"0", producer="p", sequence=0, expected_offset=OFFSET_MAX)
    assert asked == replace(first, duplicate=True)
    with pytest.raises(Conflict):
        await push(world.store, "q", b"0", producer="p", sequence=1, expected_offset=OFFSET_MAX)
    assert [e.value for e in await read_all(world.store, "q")] == [b"a", b"b"]


async def test_another_payload_beside_the_first_one_is_a_conflict_as_well(world: World) -> None:
    pushes = [push(world.store, "q", value, producer="p", sequence=0) for value in (b"a", b"b", b"a")]
    outcomes = await asyncio.gather(*pushes, return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["Receipt", "Conflict", "Receipt"]
    assert [e.value for e in await read_all(world.store, "q")] == [b"a"]


@pytest.mark.parametrize("stage", ["ready", "written", "synced"])
async def test_a_repeated_receipt_equals_the_first_but_for_its_flag(world: World, stage: Stage) -> None:
    batch = payload("bytes", [b"a"])
    first = await world.store.push("q", batch, producer="p", sequence=0, stage=stage)
    world.clock.advance(5)
    again = await world.store.push("q", batch, producer="p", sequence=0, stage=stage)
    assert again == replace(first, duplicate=True)
    assert first.stage == stage


async def test_headers_count_as_well_and_forms_of_arrow_do_not(world: World) -> None:
    labelled = payload("bytes", [b"a", b"b"], None, [{"h": b"1"}, None])
    await world.store.push("q", labelled, producer="p", sequence=0)
    await world.store.seal("q")
    large = labelled.set_column(1, "value", labelled.column("value").cast(pa.large_binary()))
    assert (await world.store.push("q", large, producer="p", sequence=0)).duplicate
    other = payload("bytes", [b"a", b"b"], None, [{"h": b"2"}, None])
    with pytest.raises(Conflict, match="other elements"):
        await world.store.push("q", other, producer="p", sequence=0)


async def test_a_retry_whose_elements_cannot_be_read_is_believed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await push(world.store, "q", b"a", producer="p", sequence=0)

    async def read(*_: object) -> AsyncIterator[pa.RecordBatch]:
        for _batch in ["the first one"]:
            raise Unavailable("the cold store does not answer")
        yield pa.record_batch({})

    monkeypatch.setattr(world.store._reading, "read", read)
    assert await push(world.store, "q", b"a", producer="p", sequence=0) == replace(first, duplicate=True)
