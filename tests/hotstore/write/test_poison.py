"""A failed fsync: nobody is told that it went well, nothing more is taken, a restart loses nothing."""

from __future__ import annotations

import asyncio
import errno

import pytest

from coldstore.shared.errors import Unavailable
from hotstore.testing.simulated_disk import Verb
from tests.hotstore.kit import BLOCK_BYTES, World, push, read_all, turns, values


async def poisoned(world: World) -> None:
    """The journal's next fsync fails, once; the one after it would succeed."""
    world.disk.fail("sync")
    with pytest.raises(Unavailable, match="outcome is unknown"):
        await push(world.store, "q", b"unknown", producer="p", sequence=1)


async def test_everyone_who_waits_for_the_failed_fsync_hears_that_the_outcome_is_unknown(
    world: World,
) -> None:
    # Given pushes, a pop and a new subscriber in one group
    await push(world.store, "q", b"known")
    await world.store.create_subscriber("q", "s", "beginning")
    world.disk.fail("sync")
    # When
    outcomes = await asyncio.gather(
        push(world.store, "q", b"a"),
        push(world.store, "q", b"b", stage="cold"),
        world.store.pop("q/s", 1),
        world.store.create_subscriber("q", "t"),
        world.store.delete_subscriber("q/s"),
        return_exceptions=True,
    )
    # Then
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 5
    assert all("unknown" in str(outcome) for outcome in outcomes)
    assert [e.value for e in await read_all(world.store, "q")] == [b"known"], "nobody may see them"
    assert world.engine.failed.done()
    assert isinstance(world.engine.failed.result(), Unavailable)


async def test_nothing_is_taken_after_a_failed_fsync_although_the_next_would_succeed(world: World) -> None:
    await push(world.store, "q", b"known")
    await world.store.create_subscriber("q", "s", "beginning")
    await poisoned(world)
    before = world.journal.next_sequence
    for refused in (
        push(world.store, "q", b"x"),
        world.store.pop("q/s", 1),
        world.store.create_subscriber("q", "t"),
        world.store.seek("q/s", "end"),
        world.store.delete_subscriber("q/s"),
        world.store.create_queue("new", block_bytes=BLOCK_BYTES),
        world.store.seal("q"),
    ):
        with pytest.raises(Unavailable, match="start the server again"):
            await refused
    assert world.journal.next_sequence == before
    assert values(await world.store.peek("q/s", 9)) == [b"known"], "what is durable can still be read"
    assert world.engine.committer.pending_bytes == 0


async def test_those_who_wait_for_elements_or_for_the_cold_store_are_told(world: World) -> None:
    await world.store.create_subscriber("q", "s", "end")
    await world.store.create_queue("other", block_bytes=BLOCK_BYTES)
    world.objects.down = True
    waiting: list[asyncio.Task[object]] = [
        asyncio.create_task(world.store.pop("q/s", 1, 60.0)),
        asyncio.create_task(push(world.store, "other", b"a", stage="cold")),
    ]
    await turns()
    world.disk.fail("sync")
    with pytest.raises(Unavailable):
        await push(world.store, "q", b"b")
    async with asyncio.timeout(5):
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, Unavailable)


@pytest.mark.parametrize("stop", ["kill", "power cut", "close"])
async def test_a_restart_loses_nothing_that_was_acknowledged(world: World, stop: str) -> None:
    # Given
    await world.store.create_subscriber("q", "s", "beginning")
    await push(world.store, "q", b"a", b"b")
    await world.store.pop("q/s", 1)
    await poisoned(world)
    # When
    match stop:
        case "kill":
            await world.crash()
        case "power cut":
            await world.power_cut(seed=3)
        case _:
            await world.close()
    await world.start()
    # Then what was acknowledged is there, and the rest is there whole or not at all
    there = [e.value for e in await read_all(world.store, "q")]
    assert there in ([b"a", b"b"], [b"a", b"b", b"unknown"])
    assert (await world.store.get_subscriber("q/s")).offset == 1
    # And a retry with the same identity tells which
    again = await push(world.store, "q", b"unknown", producer="p", sequence=1)
    assert again.duplicate == (len(there) == 3)
    assert [e.value for e in await read_all(world.store, "q")] == [b"a", b"b", b"unknown"]


async def test_what_a_restart_found_in_the_page_cache_survives_the_power_cut_after_it(world: World) -> None:
    # Given a failed fsync, after which the kernel takes the pages for clean
    await push(world.store, "q", b"a")
    await poisoned(world)
    await world.restart()
    served = [e.value for e in await read_all(world.store, "q")]
    # When
    for seed in range(5):
        await world.power_cut(seed)
        await world.start()
        # Then whatever was served is still there
        assert [e.value for e in await read_all(world.store, "q")] == served


@pytest.mark.parametrize(
    ("verb", "code"), [("write", errno.EIO), ("sync", errno.EIO), ("sync", errno.ENOSPC)]
)
async def test_any_failure_of_the_disk_while_it_writes_is_poison(world: World, verb: Verb, code: int) -> None:
    await push(world.store, "q", b"a")
    world.disk.fail(verb, 1, code)
    with pytest.raises(Unavailable, match="unknown"):
        await push(world.store, "q", b"b")
    assert world.engine.failed.done()
    await world.restart()
    assert (await read_all(world.store, "q"))[0].value == b"a"


async def test_a_short_write_is_none(world: World) -> None:
    world.disk.shorten(1, 100)
    await push(world.store, "q", b"a" * 5_000)
    await world.power_cut(1)
    await world.start()
    assert [e.value for e in await read_all(world.store, "q")] == [b"a" * 5_000]


async def test_a_failure_while_the_journal_is_trimmed_is_found_out(world: World) -> None:
    # Given a journal that has a segment to give back
    for n in range(40):
        await push(world.store, "q", bytes([n]) * 20_000)
    await world.quiet()
    for _ in range(2):
        await world.engine.checkpointer.write()
    world.disk.fail("rename")
    # When
    with pytest.raises(Unavailable):
        await world.engine.checkpointer.trim()
    # Then the next push is not acknowledged
    with pytest.raises(Unavailable):
        await push(world.store, "q", b"x")
    assert world.engine.failed.done()
    await world.restart()
    assert (await world.store.get_queue("q")).next_offset == 40
