"""Pops and peeks that wait: woken by what they wait for, and harmless when they are given up."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, NotFound, Unavailable
from tests.hotstore.kit import BLOCK_BYTES, World, drain, fill, push, read_all, seen, turns, values

LONG = 60.0  # nobody waits for so long: the test would fail by its own deadline first


def in_background(world: World, verb: str, name: str, most: int = 1, wait: float = LONG) -> asyncio.Task:
    return asyncio.create_task(getattr(world.store, verb)(f"q/{name}", most, wait))


@pytest.mark.parametrize("verb", ["pop", "peek"])
async def test_a_reader_that_waits_is_woken_by_a_push(world: World, verb: str) -> None:
    # Given
    await world.store.create_subscriber("q", "s", "end")
    waiting = in_background(world, verb, "s", 5)
    await turns()
    assert not waiting.done()
    # When
    await push(world.store, "q", b"a", b"b")
    # Then it has them in the next turns of the loop: nothing polls
    await turns()
    assert waiting.done()
    assert values(waiting.result()) == [b"a", b"b"]
    assert (await world.store.get_subscriber("q/s")).offset == (2 if verb == "pop" else 0)


async def test_a_reader_that_waits_does_nothing_until_it_is_woken(world: World) -> None:
    # Given
    await world.store.create_subscriber("q", "s", "end")
    waiting = in_background(world, "pop", "s")
    await turns()
    (future,) = world.engine.registry.queues["q"]._readers
    # When the loop comes round many times
    await turns(500)
    # Then it still waits for the very same thing
    assert world.engine.registry.queues["q"]._readers == {future}
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_elements_pushed_to_another_queue_wake_nobody_here(world: World) -> None:
    await world.store.create_queue("other", block_bytes=BLOCK_BYTES)
    await world.store.create_subscriber("q", "s", "end")
    waiting = in_background(world, "pop", "s")
    await turns()
    await push(world.store, "other", b"x")
    await turns()
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])


@pytest.mark.parametrize("wait", [0.0, 0.02])
async def test_a_reader_gets_nothing_when_its_time_is_up(world: World, wait: float) -> None:
    # Given
    await push(world.store, "q", b"a")
    await world.store.create_subscriber("q", "s", "end")
    clock = SystemClock()
    started = clock.monotonic()
    # When
    popped = await world.store.pop("q/s", 3, wait)
    # Then
    assert (popped.batch.num_rows, popped.position, popped.next) == (0, 1, 1)
    assert popped.batch.schema.names == ["offset", "timestamp", "key", "value", "headers"]
    assert clock.monotonic() - started >= wait


async def test_a_thousand_readers_that_wait_are_all_woken_by_one_push(world: World) -> None:
    for n in range(1_000):
        await world.store.create_subscriber("q", f"s{n}", "end")
    waiting = [in_background(world, "pop", f"s{n}") for n in range(1_000)]
    await turns()
    await push(world.store, "q", b"to all")
    assert {tuple(values(popped)) for popped in await asyncio.gather(*waiting)} == {(b"to all",)}


@pytest.mark.parametrize("verb", ["pop", "peek"])
async def test_a_reader_that_gives_up_leaves_the_position_where_it_was(world: World, verb: str) -> None:
    # Given
    await world.store.create_subscriber("q", "s", "end")
    waiting = in_background(world, verb, "s")
    await turns()
    # When it gives up in the very moment in which elements come
    pushed = asyncio.create_task(push(world.store, "q", b"a"))
    waiting.cancel()
    await asyncio.wait([waiting, pushed])
    # Then
    assert waiting.cancelled()
    assert (await world.store.get_subscriber("q/s")).offset == 0
    assert values(await world.store.pop("q/s")) == [b"a"]
    assert world.engine.registry.queues["q"]._readers == set()


async def test_a_reader_whose_subscriber_is_deleted_is_told_so(world: World) -> None:
    await world.store.create_subscriber("q", "s", "end")
    waiting = in_background(world, "pop", "s")
    await turns()
    await world.store.delete_subscriber("q/s")
    with pytest.raises(NotFound, match="q/s"):
        await waiting


async def test_a_reader_that_waits_goes_where_a_seek_leads(world: World) -> None:
    await push(world.store, "q", b"a", b"b")
    await world.store.create_subscriber("q", "s", "end")
    waiting = in_background(world, "pop", "s", 9)
    await turns()
    await world.store.seek("q/s", "offset:1")
    assert values(await waiting) == [b"b"]
    assert (await world.store.get_subscriber("q/s")).offset == 2


async def test_a_reader_that_waits_at_a_position_hears_of_a_seek_away_from_it(world: World) -> None:
    await push(world.store, "q", b"a", b"b")
    await world.store.create_subscriber("q", "s", "end")
    waiting = asyncio.create_task(world.store.pop("q/s", 9, LONG, position=2))
    await turns()
    await world.store.seek("q/s", "beginning")
    with pytest.raises(Conflict, match="a seek moved it"):
        await waiting
    assert (await world.store.get_subscriber("q/s")).offset == 0


async def test_concurrent_pops_get_distinct_elements(world: World) -> None:
    # Given more readers than elements, on one subscriber
    await world.store.create_subscriber("q", "s", "end")
    waiting = [in_background(world, "pop", "s", 3) for _ in range(5)]
    await turns()
    # When elements come little by little
    for n in range(6):
        await push(world.store, "q", b"%d" % n, b"%d'" % n)
    popped = await asyncio.gather(*waiting)
    rest = await drain(world.store, "q/s")
    # Then each went to one of them, in order
    got = sorted(e.offset for p in popped for e in seen(p.batch)) + [e.offset for e in rest]
    assert got == [*range(12)]
    assert all(p.batch.num_rows for p in popped)


async def test_a_pop_that_names_its_position_can_be_repeated(world: World) -> None:
    # Given a pop whose reply was lost
    await push(world.store, "q", *(b"%d" % n for n in range(9)))
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.pop("q/s", 2, position=0)
    lost = await world.store.pop("q/s", 3, position=2)
    # When it is repeated, even with another number, before and after a restart
    for most in (3, 1, 100):
        again = await world.store.pop("q/s", most, position=2)
        assert seen(again.batch) == seen(lost.batch)
        assert (again.position, again.next) == (2, 5)
    await world.restart()
    assert values(await world.store.pop("q/s", 3, position=2)) == values(lost)
    # Then nothing is skipped, and what is older is refused
    assert values(await world.store.pop("q/s", 3, position=5)) == [b"5", b"6", b"7"]
    for position in (0, 2, 7, 99, -1):
        with pytest.raises(Conflict, match="is at 8 and its last pop began at 5"):
            await world.store.pop("q/s", 3, position=position)
    assert (await world.store.get_subscriber("q/s")).offset == 8


async def test_a_pop_can_be_repeated_after_its_block_was_sealed(world: World) -> None:
    made = await fill(world.store, "q", 3)
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.pop("q/s", 2, position=0)
    await world.store.seal("q")
    assert values(await world.store.pop("q/s", 2, position=0)) == made[:2]


async def test_after_a_seek_no_earlier_pop_can_be_repeated(world: World) -> None:
    await push(world.store, "q", b"a", b"b", b"c")
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.pop("q/s", 2, position=0)
    await world.store.seek("q/s", "offset:1")
    with pytest.raises(Conflict):
        await world.store.pop("q/s", 2, position=0)
    assert values(await world.store.pop("q/s", 9, position=1)) == [b"b", b"c"]


async def test_confirm_moves_on_and_never_back(world: World) -> None:
    await push(world.store, "q", b"a", b"b", b"c")
    await world.store.create_subscriber("q", "s", "beginning")
    await world.store.confirm("q/s", 2)
    await world.store.confirm("q/s", 1)
    await world.restart()
    assert (await world.store.get_subscriber("q/s")).offset == 2
    assert values(await world.store.pop("q/s", 9)) == [b"c"]


async def test_closing_ends_the_waits(world: World) -> None:
    # Given readers, a follower and a producer that wait for what will not come any more
    await world.store.create_subscriber("q", "s", "end")
    world.objects.down = True
    waits = [
        in_background(world, "pop", "s"),
        in_background(world, "peek", "s"),
        asyncio.create_task(anext(world.store.read("q", "end", follow=True))),
    ]
    await turns()
    # When
    await world.close()
    # Then
    async with asyncio.timeout(5):
        for outcome in await asyncio.gather(*waits, return_exceptions=True):
            assert isinstance(outcome, Unavailable), outcome


async def test_closing_tells_who_waits_for_the_cold_store(world: World) -> None:
    world.objects.down = True
    waiting = asyncio.create_task(push(world.store, "q", b"a", stage="cold"))
    await turns()
    await world.close()
    async with asyncio.timeout(5):
        with pytest.raises(Unavailable):
            await waiting
    world.objects.heal()
    await world.start()
    assert [e.value for e in await read_all(world.store, "q")] == [b"a"]
