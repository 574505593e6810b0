"""Starting points on a real queue: in the hot-hot block, in one being sealed, in young and final ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from coldstore.shared.batch import from_us
from coldstore.shared.errors import Conflict, InvalidInput, NotFound, OutOfRange, Unavailable
from hotstore.port import SubscriberInfo
from tests.hotstore.kit import BLOCK_BYTES, World, drain, fat, push, turns, values

HOUR = 3_600.0
# An element every hour: four in a final block, two in a young one, two being sealed, two hot-hot.
KINDS = ["final"] * 4 + ["young"] * 2 + ["sealing"] * 2 + ["hot-hot"] * 2


@pytest_asyncio.fixture
async def day() -> AsyncIterator[World]:
    world = await World().start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    for n in range(10):
        await push(world.store, "q", fat(f"e{n}", 20_000 if n < 4 else 100))
        world.clock.advance(HOUR)
        if n == 3:
            await world.quiet()
        if n == 5:
            await world.store.seal("q")
        if n == 7:
            world.objects.down = True
            with pytest.raises(Unavailable):
                await world.store.seal("q")
            world.objects.heal()
    blocks = await world.store.list_blocks("q")
    assert [b.kind for b in blocks for _ in range(b.count)] == KINDS
    yield world
    await world.crash()


def at(n: float) -> str:
    """The time of element `n`, as one writes it."""
    return f"time:{from_us(1_767_225_600_000_000 + round(n * HOUR * 1_000_000)).isoformat()}"


POINTS = [
    ("beginning", 0, "beginning"),
    ("end", 10, "end"),
    *((f"offset:{n}", n, "offset") for n in range(11)),
    *((at(n), n, "time") for n in range(10)),
    *((at(n - 0.5), n, "time") for n in range(1, 10)),
    (at(-0.5), 0, "time: before all → beginning"),
    (at(9.01), 10, "time: after all → end"),
    ("time:0001-01-01T00:00:00Z", 0, "time: before all → beginning"),
    ("time:9999-12-31T23:59:59Z", 10, "time: after all → end"),
    *((f"ago:{10 - n}h", n, "ago") for n in range(10)),
    ("ago:11h", 0, "ago: before all → beginning"),
    ("ago:30m", 10, "ago: after all → end"),
    ("ago:0s", 10, "ago: after all → end"),
    ("ago:99999999999999999w", 0, "ago: before all → beginning"),
    *((f"last:{n}", 10 - n, "last") for n in range(11)),
    ("last:11", 0, "last: fewer elements → beginning"),
    (f"last:{2**63 - 1}", 0, "last: fewer elements → beginning"),
]


@pytest.mark.parametrize(("start", "offset", "rule"), POINTS, ids=str)
async def test_each_starting_point_leads_to_its_element(
    day: World, start: str, offset: int, rule: str
) -> None:
    # When
    made = await day.store.create_subscriber("q", "s", start)
    # Then the reply tells all of it
    assert made.resolved is not None
    timestamp = None if offset == 10 else 1_767_225_600_000_000 + round(offset * HOUR * 1_000_000)
    assert (made.offset, made.resolved.offset, made.resolved.rule) == (offset, offset, rule)
    assert (made.resolved.first_offset, made.resolved.next_offset) == (0, 10)
    assert made.resolved.timestamp_us == timestamp
    # And the first pop is that element
    assert values(await day.store.pop("q/s")) == (
        [] if offset == 10 else [fat(f"e{offset}", 20_000 if offset < 4 else 100)]
    )
    # And a seek leads to the same place
    await day.store.create_subscriber("q", "other", "end")
    sought = await day.store.seek("q/other", start)
    assert (sought.offset, sought.resolved) == (offset, made.resolved)


async def test_an_offset_outside_names_the_valid_range_unless_clamped(day: World) -> None:
    for start, clamped in (("offset:11", 10), ("offset:-1", 0)):
        with pytest.raises(OutOfRange, match=r"outside 0\.\.10") as error:
            await day.store.create_subscriber("q", "s", start)
        assert (error.value.first, error.value.next) == (0, 10)
        made = await day.store.create_subscriber("q", f"s{clamped}", start, clamp=True)
        assert made.offset == clamped
        assert made.resolved is not None
        assert "→" in made.resolved.rule
        with pytest.raises(OutOfRange):
            await day.store.seek(made.id, start)
        assert (await day.store.seek(made.id, start, clamp=True)).offset == clamped


async def test_in_an_empty_queue_every_starting_point_is_offset_0(world: World) -> None:
    starts = ["beginning", "end", "offset:0", "last:3", "ago:1d", "time:2020-01-01T00:00:00Z"]
    for n, start in enumerate(starts):
        assert (await world.store.create_subscriber("q", f"s{n}", start)).offset == 0
    await push(world.store, "q", b"a")
    for n in range(len(starts)):
        assert values(await world.store.pop(f"q/s{n}")) == [b"a"]


async def test_end_is_stored_when_the_subscriber_is_created(world: World) -> None:
    # Given one at the end that has not asked for anything yet
    await push(world.store, "q", b"before")
    await world.store.create_subscriber("q", "s", "end")
    # When elements come, and the machine stops
    await push(world.store, "q", b"after")
    await world.restart()
    # Then they are not lost to it
    assert [e.value for e in await drain(world.store, "q/s")] == [b"after"]


async def test_a_copy_of_a_subscriber_is_where_that_one_is_now_and_then_goes_its_own_way(day: World) -> None:
    await day.store.create_subscriber("q", "one", "beginning")
    await day.store.pop("q/one", 3)
    copy = await day.store.create_subscriber("q", "two", "subscriber:one")
    assert (copy.offset, copy.resolved and copy.resolved.rule) == (3, "subscriber")
    await day.store.pop("q/one", 1)
    assert (await day.store.get_subscriber("q/two")).offset == 3
    assert (await day.store.seek("q/two", "subscriber:one")).offset == 4
    for verb in (
        day.store.create_subscriber("q", "x", "subscriber:nobody"),
        day.store.seek("q/two", "subscriber:nobody"),
    ):
        with pytest.raises(NotFound, match="queue q has no subscriber nobody"):
            await verb


async def test_a_dry_run_resolves_and_creates_nothing(day: World) -> None:
    before = day.journal.next_sequence
    dry = await day.store.create_subscriber("q", "s", "last:3", dry_run=True)
    assert dry.resolved is not None
    assert (dry.id, dry.offset, dry.resolved.rule, dry.lag, dry.block) == ("q/s", 7, "last", 3, 6)
    assert await day.store.list_subscribers("q") == []
    assert day.journal.next_sequence == before
    with pytest.raises(NotFound):
        await day.store.pop("q/s")


async def test_a_dry_run_of_a_seek_moves_nothing(day: World) -> None:
    await day.store.create_subscriber("q", "s", "offset:2")
    before = day.journal.next_sequence
    dry = await day.store.seek("q/s", "end", dry_run=True)
    assert dry.offset == 10
    assert (await day.store.get_subscriber("q/s")).offset == 2
    assert day.journal.next_sequence == before
    with pytest.raises(InvalidInput):
        await day.store.seek("q/s", "nowhere", dry_run=True)


async def test_creating_the_same_subscriber_again_returns_the_one_that_is_there(day: World) -> None:
    made = await day.store.create_subscriber("q", "s", "last:3")
    await drain(day.store, "q/s", 1)
    before = day.journal.next_sequence
    again = await day.store.create_subscriber("q", "s", "last:3")
    assert (again.offset, again.created_us, again.start) == (10, made.created_us, "last:3")
    assert day.journal.next_sequence == before
    await day.restart()
    assert (await day.store.create_subscriber("q", "s", "last:3")).offset == 10


@pytest.mark.parametrize(("start", "clamp"), [("end", False), ("last:3", True), ("last:03", False)])
async def test_creating_it_again_with_another_request_is_a_conflict(
    day: World, start: str, clamp: bool
) -> None:
    await day.store.create_subscriber("q", "s", "last:3")
    with pytest.raises(Conflict, match="was created with start 'last:3'"):
        await day.store.create_subscriber("q", "s", start, clamp=clamp)
    assert (await day.store.get_subscriber("q/s")).offset == 7


async def test_creating_the_same_subscriber_many_times_at_once_makes_one(day: World) -> None:
    made: list[SubscriberInfo] = await asyncio.gather(
        *(day.store.create_subscriber("q", "s", "ago:10h") for _ in range(20))
    )
    assert {(m.id, m.offset, m.created_us) for m in made} == {("q/s", 0, made[0].created_us)}
    assert len(await day.store.list_subscribers("q")) == 1
    await day.restart()
    assert [s.offset for s in await day.store.list_subscribers("q")] == [0]


async def test_without_a_name_each_gets_its_own(world: World) -> None:
    made = [await world.store.create_subscriber("q") for _ in range(3)]
    assert len({m.name for m in made}) == 3
    assert all(m.name.startswith("sub-") and m.start == "end" for m in made)


async def test_names_are_unique_in_a_queue_only(world: World) -> None:
    await world.store.create_queue("other", block_bytes=BLOCK_BYTES)
    await push(world.store, "other", b"a")
    one = await world.store.create_subscriber("q", "s", "beginning")
    two = await world.store.create_subscriber("other", "s", "end")
    assert (one.id, one.offset, two.id, two.offset) == ("q/s", 0, "other/s", 1)
    assert (await world.store.get_queue("other/s")).name == "other"


async def test_seek_while_readers_wait_and_read(day: World) -> None:
    # Given one that waits at the end
    await day.store.create_subscriber("q", "s", "end")
    waiting = asyncio.create_task(day.store.pop("q/s", 2, 60.0))
    await turns()
    # When it is sought into history that has to be loaded
    sought = await day.store.seek("q/s", "beginning")
    # Then the reader gets it, and the position is behind what it got
    assert sought.offset == 0
    assert values(await waiting) == [fat("e0", 20_000), fat("e1", 20_000)]
    assert (await day.store.get_subscriber("q/s")).offset == 2
    await day.restart()
    assert (await day.store.get_subscriber("q/s")).offset == 2


async def test_lag_is_what_lies_between_the_position_and_the_end(day: World) -> None:
    made = await day.store.create_subscriber("q", "s", "offset:4")
    assert made.lag == 6
    await push(day.store, "q", b"x")
    assert (await day.store.get_subscriber("q/s")).lag == 7
    await drain(day.store, "q/s")
    assert (await day.store.get_subscriber("q/s")).lag == 0


async def test_times_that_need_the_cold_store_say_when_it_is_away(day: World) -> None:
    day.objects.down = True
    with pytest.raises(Unavailable):
        await day.store.create_subscriber("q", "s", at(1))
    assert (await day.store.create_subscriber("q", "s", at(8))).offset == 8, (
        "the hot-hot block needs no cold store"
    )
    day.objects.heal()
    assert (await day.store.seek("q/s", at(1))).offset == 1
