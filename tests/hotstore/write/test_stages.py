"""Ack stages, and who may see what when: readers see what is synced, and no answer rests on less."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import pytest_asyncio

from coldstore.shared.errors import Conflict, InvalidInput
from hotstore.journal.port import Journal, Record
from hotstore.port import Receipt
from tests.hotstore.kit import BLOCK_BYTES, World, fill, push, read_all, turns, values
from tests.hotstore.threaded import threaded


class GatedJournal:
    """A journal whose append and sync wait, in the journal's thread, until a test lets them go on."""

    def __init__(self, inner: Journal) -> None:
        self._inner = inner
        self.gates = {"append": threading.Event(), "sync": threading.Event()}
        self.arrived = {"append": threading.Event(), "sync": threading.Event()}
        for gate in self.gates.values():
            gate.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, records: Sequence[Record]) -> int:
        self._pass("append")
        return self._inner.append(records)

    def sync(self) -> None:
        self._pass("sync")
        self._inner.sync()

    def _pass(self, verb: str) -> None:
        self.arrived[verb].set()
        assert self.gates[verb].wait(30), "a test forgot to open its gate"

    @contextmanager
    def held(self, verb: str) -> Iterator[None]:
        """Nothing gets past `verb` before the end of the block."""
        self.arrived[verb].clear()
        self.gates[verb].clear()
        try:
            yield
        finally:
            self.gates[verb].set()


async def arrived(journal: GatedJournal, verb: str) -> None:
    """Wait until the journal's thread stands at the gate."""
    assert await asyncio.to_thread(journal.arrived[verb].wait, 30)
    await turns()


@pytest_asyncio.fixture
async def gated() -> AsyncIterator[tuple[World, GatedJournal]]:
    async with threaded(GatedJournal) as made:
        yield made


Gated = tuple[World, GatedJournal]


async def test_synced_is_the_default_and_the_reply_names_the_stage(gated: Gated) -> None:
    world, _ = gated
    assert await push(world.store, "q", b"a") == Receipt(0, 1, world.clock.now_us(), "synced")


@pytest.mark.parametrize(
    ("stage", "held", "answered"),
    [
        ("ready", "append", True),
        ("written", "append", False),
        ("written", "sync", True),
        ("synced", "sync", False),
        ("cold", "sync", False),
    ],
)
async def test_each_stage_is_answered_when_it_is_reached_and_not_before(
    gated: Gated, stage: Any, held: str, answered: bool
) -> None:
    # Given a disk that holds on at one step
    world, journal = gated
    with journal.held(held):
        # When
        pushed = asyncio.create_task(push(world.store, "q", b"a", stage=stage))
        await arrived(journal, held)
        # Then
        assert pushed.done() == answered
    receipt = await pushed
    assert receipt.stage == stage
    assert receipt.first_offset == 0


async def test_readers_never_see_what_is_not_synced(gated: Gated) -> None:
    # Given a push that is written, and not synced
    world, journal = gated
    await push(world.store, "q", b"old")
    waiting = asyncio.create_task(world.store.pop("q/s", 9, 0.0))
    assert values(await waiting) == [b"old"]
    follower = world.store.read("q", "end", follow=True)
    following = asyncio.ensure_future(anext(follower))
    with journal.held("sync"):
        receipt = await push(world.store, "q", b"new", stage="written")
        await arrived(journal, "sync")
        # Then nobody sees it, in whichever way they look
        assert (await world.store.get_queue("q")).next_offset == receipt.first_offset == 1
        assert values(await world.store.peek("q/s", 9)) == []
        assert len(await read_all(world.store, "q")) == 1
        assert not following.done()
        assert (await world.store.create_subscriber("q", "x", "end", dry_run=True)).offset == 1
        assert sum(b.count for b in await world.store.list_blocks("q")) == 1
    # And everybody once it is
    assert (await following).column("value").to_pylist() == [b"new"]
    assert values(await world.store.peek("q/s", 9)) == [b"new"]
    await follower.aclose()


async def test_a_refusal_that_rests_on_unsynced_records_waits_for_them(gated: Gated) -> None:
    # Given a push on its way, and in the same group another that expected its offset
    world, journal = gated
    await push(world.store, "q", b"a")
    with journal.held("sync"):
        first = asyncio.create_task(push(world.store, "q", b"b", expected_offset=1))
        second = asyncio.create_task(push(world.store, "q", b"c", expected_offset=1))
        await arrived(journal, "sync")
        # Then it is not told so before the first one is durable
        assert not second.done()
    assert (await first).first_offset == 1
    with pytest.raises(Conflict, match="expected offset 1 but the next is 2"):
        await second


async def test_a_duplicate_of_an_unsynced_push_waits_for_it(gated: Gated) -> None:
    world, journal = gated
    with journal.held("sync"):
        twins = [
            asyncio.create_task(push(world.store, "q", b"a", producer="p", sequence=0, stage=stage))
            for stage in ("synced", "ready")
        ]
        await arrived(journal, "sync")
        assert not twins[0].done()
        assert not twins[1].done(), "a duplicate has nothing in memory of its own"
    one, two = await asyncio.gather(*twins)
    assert (one.first_offset, one.duplicate) == (0, False)
    assert (two.first_offset, two.duplicate, two.stage) == (0, True, "ready"), "the stage that was asked for"


async def test_pushes_that_come_while_the_disk_works_share_the_next_write(gated: Gated) -> None:
    # Given a disk that is busy
    world, journal = gated
    await world.store.create_queue("other", block_bytes=BLOCK_BYTES)
    before = world.journal.next_sequence
    with journal.held("sync"):
        first = asyncio.create_task(push(world.store, "q", b"first"))
        await arrived(journal, "sync")
        # When a hundred more come, to two queues, with pops between them
        others = [
            asyncio.create_task(push(world.store, "q" if n % 2 else "other", b"%d" % n)) for n in range(100)
        ]
        await turns()
    receipts = await asyncio.gather(first, *others)
    # Then all of them are in one journal batch, in the order in which they came
    assert world.journal.next_sequence == before + 2
    assert [r.first_offset for r in receipts[1:]] == [n // 2 + (1 if n % 2 else 0) for n in range(100)]


async def test_a_push_that_is_given_up_while_the_disk_works_is_whole_all_the_same(gated: Gated) -> None:
    world, journal = gated
    with journal.held("sync"):
        pushed = asyncio.create_task(push(world.store, "q", b"a", b"b"))
        await arrived(journal, "sync")
        pushed.cancel()
        await asyncio.wait([pushed])
    await push(world.store, "q", b"c")
    assert [e.value for e in await read_all(world.store, "q")] == [b"a", b"b", b"c"]
    assert world.engine.committer.pending_bytes == 0


async def test_a_pop_that_is_given_up_on_its_way_to_the_disk_can_be_repeated(gated: Gated) -> None:
    world, journal = gated
    await push(world.store, "q", b"a", b"b")
    with journal.held("sync"):
        popped = asyncio.create_task(world.store.pop("q/s", 1, position=0))
        await arrived(journal, "sync")
        popped.cancel()
        await asyncio.wait([popped])
    assert values(await world.store.pop("q/s", 1, position=0)) == [b"a"]
    assert values(await world.store.pop("q/s", 1, position=1)) == [b"b"]


async def test_cold_is_answered_when_the_elements_are_in_the_cold_store(world: World) -> None:
    # Given
    before = await fill(world.store, "q", 2, size=100)
    # When
    receipt = await push(world.store, "q", b"a", stage="cold")
    # Then it did not wait for the block to fill, and it is there
    assert (receipt.first_offset, receipt.stage) == (2, "cold")
    assert (await world.store.get_queue("q")).cold_offset == 3
    assert world.cold.open_queue("q").next_offset == 3
    assert [e.value for e in await read_all(world.store, "q")] == [*before, b"a"]


async def test_cold_waits_while_the_cold_store_is_away_and_others_do_not(world: World) -> None:
    world.objects.down = True
    waiting = asyncio.create_task(push(world.store, "q", b"a", stage="cold"))
    await turns()
    assert (await push(world.store, "q", b"b")).stage == "synced"
    assert not waiting.done()
    world.objects.heal()
    world.clock.advance(60)
    await world.maintain()
    await turns()
    assert (await waiting).stage == "cold"


async def test_cold_for_a_duplicate_waits_for_the_first_one(world: World) -> None:
    await push(world.store, "q", b"a", producer="p", sequence=0)
    again = await push(world.store, "q", b"a", producer="p", sequence=0, stage="cold")
    assert (again.first_offset, again.stage, again.duplicate) == (0, "cold", True)
    assert (await world.store.get_queue("q")).cold_offset == 1
    once_more = await push(world.store, "q", b"a", producer="p", sequence=0, stage="cold")
    assert (once_more.first_offset, once_more.stage) == (0, "cold")


async def test_an_unknown_stage_is_refused(world: World) -> None:
    with pytest.raises(InvalidInput, match="ready, written, synced, cold"):
        await push(world.store, "q", b"a", stage="eventually")  # type: ignore[arg-type]
