"""Reads of a range and reads that follow: each element once, whatever is sealed or merged meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from coldstore.shared.errors import InvalidInput, NotFound, OutOfRange, Unavailable
from coldstore.shared.limits import MIB, READ_BATCH_BYTES
from tests.hotstore.kit import BLOCK_BYTES, World, fat, fill, push, read_all, seen, turns


async def follow(batches: AsyncIterator[pa.RecordBatch], count: int) -> list[bytes]:
    """The next `count` values."""
    found: list[bytes] = []
    while len(found) < count:
        found += (await anext(batches)).column("value").to_pylist()
    return found


@pytest.mark.parametrize("sealed_after", range(8))
async def test_a_follower_sees_each_element_once_wherever_the_block_is_sealed(
    world: World, sealed_after: int
) -> None:
    # Given a follower, at the beginning of a queue that has something already
    made = await fill(world.store, "q", 2, size=9_000)
    batches = world.store.read("q", follow=True)
    found: list[bytes] = []
    # When elements come one by one, and the block is sealed after one of them
    for n in range(6):
        if n == sealed_after:
            await world.store.seal("q")
        value = fat(f"f{n}", 9_000)
        made.append(value)
        await push(world.store, "q", value)
        if n % 2:
            found += await follow(batches, len(made) - len(found))
        if n == sealed_after - 6:
            await world.store.seal("q")
    found += await follow(batches, len(made) - len(found))
    # Then
    assert found == made
    await batches.aclose()


async def test_a_follower_sees_each_element_once_while_blocks_are_sealed_and_merged_beside_it(
    world: World,
) -> None:
    # Given one that reads ahead of the seals, and one far behind them
    batches = world.store.read("q", follow=True)
    slow = world.store.read("q", follow=True)
    made: list[bytes] = []
    found: list[bytes] = []
    for n in range(30):
        made.append(fat(f"m{n}", 9_000))
        pushed = asyncio.create_task(push(world.store, "q", made[-1]))
        found += (await anext(batches)).column("value").to_pylist()
        await pushed
        if n % 4 == 3:
            sealing = asyncio.create_task(world.store.seal("q"))
            await turns(n % 5)
            found += await follow(batches, len(made) - len(found))
            await sealing
        if n % 7 == 6:
            world.clock.advance(11)
            await world.maintain()
    found += await follow(batches, len(made) - len(found))
    # Then
    assert found == made
    assert await follow(slow, len(made)) == made
    await batches.aclose()
    await slow.aclose()


async def test_a_follower_is_woken_without_polling(world: World) -> None:
    batches = world.store.read("q", "end", follow=True)
    waiting = asyncio.ensure_future(anext(batches))
    await turns()
    assert not waiting.done()
    await push(world.store, "q", b"a")
    await turns()
    assert seen(waiting.result())[0].value == b"a"
    await batches.aclose()


async def test_a_slow_follower_does_not_slow_the_writer(world: World) -> None:
    # Given a follower that took one batch and does nothing since
    await push(world.store, "q", b"first")
    batches = world.store.read("q", follow=True)
    await anext(batches)
    # When much is pushed, sealed and forgotten from memory
    made = await fill(world.store, "q", 40)
    await world.quiet()
    # Then nothing is held for it but its own block
    assert world.engine.blocks.bytes <= 2 * (BLOCK_BYTES + 64 * 1024)
    assert world.engine.usage.unsealed_bytes < 2 * BLOCK_BYTES
    assert await follow(batches, 40) == made
    await batches.aclose()


async def test_a_read_ends_where_the_queue_ended_when_it_began(world: World) -> None:
    await push(world.store, "q", b"a", b"b")
    batches = world.store.read("q")
    first = await anext(batches)
    await push(world.store, "q", b"later")
    assert seen(first)[-1].offset == 1
    assert [b async for b in batches] == []


async def test_a_range_is_read_exactly_across_blocks(world: World) -> None:
    made = await fill(world.store, "q", 10)
    await world.quiet()
    found = await read_all(world.store, "q", "offset:3", "offset:9")
    assert [(e.offset, e.value) for e in found] == [(n, made[n]) for n in range(3, 9)]
    assert await read_all(world.store, "q", "offset:4", "offset:4") == []
    assert len(await read_all(world.store, "q", "last:3")) == 3
    assert await read_all(world.store, "q", "end") == []


async def test_batches_fit_into_one_message(world: World) -> None:
    await world.store.create_queue("large", block_bytes=64 * MIB)
    world.engine.settings  # noqa: B018
    for n in range(8):
        await push(world.store, "large", *(fat(f"{n}-{i}", 20_000) for i in range(4)))
    for n in range(300):
        await push(world.store, "large", *(fat(f"x{n}-{i}", 9_000) for i in range(3)))
    sizes = [batch.nbytes async for batch in world.store.read("large")]
    assert len(sizes) > 1
    assert max(sizes) <= READ_BATCH_BYTES


@pytest.mark.parametrize(
    ("start", "end", "follow", "error"),
    [
        ("offset:2", "offset:1", False, InvalidInput),
        ("offset:9", None, False, OutOfRange),
        ("beginning", "offset:9", False, OutOfRange),
        ("beginning", "end", True, InvalidInput),
        ("sometime", None, False, InvalidInput),
        ("subscriber:nobody", None, False, NotFound),
    ],
)
async def test_a_read_that_makes_no_sense_is_refused(
    world: World, start: str, end: str | None, follow: bool, error: type[Exception]
) -> None:
    await push(world.store, "q", b"a", b"b", b"c")
    with pytest.raises(error):
        await anext(world.store.read("q", start, end, follow=follow))


async def test_a_read_of_history_says_when_the_cold_store_is_away_and_goes_on_afterwards(
    world: World,
) -> None:
    made = await fill(world.store, "q", 9)
    await world.quiet()
    world.objects.down = True
    with pytest.raises(Unavailable):
        await read_all(world.store, "q")
    assert [e.value for e in await read_all(world.store, "q", "offset:8")] == made[8:], (
        "the tail needs no cold store"
    )
    world.objects.heal()
    assert [e.value for e in await read_all(world.store, "q")] == made
