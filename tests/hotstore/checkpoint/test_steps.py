"""What a checkpoint may say, and every step of writing one, on a simulated disk."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from pathlib import Path

import pytest

from coldstore.shared.errors import Exhausted, Unavailable
from hotstore.checkpoint.checkpoint_store import FOLDER, CheckpointName
from hotstore.journal import records
from hotstore.queue.moves import commit_state
from hotstore.testing.simulated_disk import PowerCut
from tests.hotstore.kit import BLOCK_BYTES, World, drain, fill, push, turns


async def made() -> World:
    """A world with a checkpoint, and something after it."""
    world = await World().start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    for name in ("s", "t"):
        await world.store.create_subscriber("q", name, "beginning")
    await fill(world.store, "q", 9)
    await world.quiet()
    await world.engine.checkpointer.write()
    await push(world.store, "q", b"a", producer="p", sequence=1)
    await drain(world.store, "q/s", 2)
    return world


async def positions(world: World) -> dict[str, int]:
    return {info.name: info.offset for info in await world.store.list_subscribers("q")}


def kept(world: World) -> list[str]:
    found = [name.removeprefix(f"{FOLDER}/") for name in world.disk.files() if name.startswith(FOLDER)]
    return [name for name in found if CheckpointName.parse(name)]


@pytest.mark.parametrize("seed", range(3))
async def test_the_power_goes_at_every_step_of_a_checkpoint(seed: int) -> None:
    world = await made()
    await world.crash()
    before = {"s": 10, "t": 0}
    steps = 0
    while True:
        fork = world.fork()
        await fork.start()
        fork.disk.cut_at(steps + 1)
        with contextlib.suppress(PowerCut):
            await fork.until_cut(fork.engine.checkpointer.write())
            await fork.until_cut(fork.engine.checkpointer.trim())
            break
        await fork.power_cut(100 * seed + steps)
        await fork.start()
        assert await positions(fork) == before
        assert (await push(fork.store, "q", b"a", producer="p", sequence=1)).duplicate
        await fork.engine.checkpointer.write()
        await fork.restart()
        assert await positions(fork) == before
        await fork.crash()
        steps += 1
    assert steps >= 8, "marker, content, sync, rename, folder"
    assert len(kept(fork)) == 2


@pytest.mark.parametrize("verb", ["open", "write", "sync", "rename", "sync_directory"])
async def test_a_step_that_fails_leaves_the_checkpoints_of_before(verb: str) -> None:
    # Given a disk that fails after the journal has its record
    world = await made()
    before = kept(world)
    put = world.engine.checkpointer._store.put

    def fails(name: CheckpointName, made: Path) -> None:
        world.disk.fail(verb, code=errno.EIO)  # type: ignore[arg-type]
        put(name, made)

    world.engine.checkpointer._store.put = fails  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="no checkpoint was written"):
        await world.engine.checkpointer.write()
    # Then nothing is trimmed, nothing is lost, and it is tried again, but not at once
    world.engine.checkpointer._store.put = put  # type: ignore[method-assign]
    if verb != "sync_directory":
        assert kept(world) == before
    assert not world.engine.checkpointer.due()
    world.clock.advance(120)
    await world.maintain()
    assert len(kept(world)) >= 2
    await world.restart()
    assert await positions(world) == {"s": 10, "t": 0}


async def test_a_full_disk_is_said_and_waits() -> None:
    world = await made()
    world.disk.fail("write", nth=2, code=errno.ENOSPC)  # after the record in the journal
    with pytest.raises(Exhausted, match="the disk is full"):
        await world.engine.checkpointer.write()
    await world.engine.checkpointer.write()
    assert len(kept(world)) == 2


async def test_a_checkpoint_has_no_subscriber_that_the_journal_does_not_have() -> None:
    # Given a creation that is on its way, and will fail for lack of space
    world = await made()
    registry = world.engine.registry
    subscriber = registry.add_subscriber(registry.queues["q"], "u", "beginning", False, 1)
    await world.engine.checkpointer.write()
    registry.drop_subscriber(subscriber)
    await world.restart()
    assert await positions(world) == {"s": 10, "t": 0}


async def test_a_checkpoint_has_a_subscriber_until_the_journal_says_that_it_is_gone() -> None:
    # Given a deletion that is on its way, and will fail
    world = await made()
    subscriber = await world.engine.registry.subscriber("q/t")
    subscriber.deleted = True
    await world.engine.checkpointer.write()
    await world.restart()
    assert await positions(world) == {"s": 10, "t": 0}
    # And one that has just become durable: no step of the loop lies in between
    seen: list[set[int]] = []

    def look(_: int) -> None:
        seen.append({*world.engine.registry.subscribers})

    gone = asyncio.create_task(world.store.delete_subscriber("q/t"))
    await turns(1)
    await commit_state(world.engine.committer, lambda: [records.rows(records.QUEUES, [])], done=look)
    await gone
    assert len(seen[0]) == 1


async def test_a_position_that_is_not_durable_is_not_in_a_checkpoint() -> None:
    world = await made()
    subscriber = await world.engine.registry.subscriber("q/t")
    subscriber.offset, subscriber.noted = 5, (0, 5)  # as while the journal writes
    world.engine.registry.changes.subscribers.add(subscriber)
    await world.engine.checkpointer.write()
    await world.restart()
    assert await positions(world) == {"s": 10, "t": 0}


async def test_nothing_new_nothing_written() -> None:
    world = await made()
    await world.close()
    await world.start()
    world.clock.advance(1_000)
    await world.maintain()
    assert world.engine.checkpointer.written == 0


async def test_a_cancelled_caller_does_not_stop_a_checkpoint() -> None:
    world = await made()
    writing = asyncio.create_task(world.engine.checkpointer.write())
    await turns(1)
    writing.cancel()
    await world.engine.checkpointer.write()
    with contextlib.suppress(asyncio.CancelledError):
        await writing
    assert len(kept(world)) == 2
    await world.restart()
    assert await positions(world) == {"s": 10, "t": 0}


async def test_a_journal_of_an_earlier_release_is_read_and_goes_on_with_checkpoints() -> None:
    # Given a journal that begins with elements, and in which the rows of a checkpoint follow
    world = await World().start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    for name in ("s", "t"):
        await world.store.create_subscriber("q", name, "beginning")
    await push(world.store, "q", b"old", producer="p", sequence=1)
    for n in range(8):
        await fill(world.store, "q", 9, prefix=f"{n}-")
        await world.quiet()
    await drain(world.store, "q/s", 9)
    registry = world.engine.registry
    queue = registry.queues["q"]
    first = await commit_state(world.engine.committer, lambda: [records.rows(records.QUEUES, [queue.row()])])
    rows = [subscriber.row() for subscriber in registry.subscribers.values()]
    await commit_state(world.engine.committer, lambda: [records.rows(records.SUBSCRIBERS, rows)])
    receipts = [
        [queue.number, *row] for name in queue.producers.names() if (row := queue.producers.row(name))
    ]
    await commit_state(world.engine.committer, lambda: [records.rows(records.PRODUCERS, receipts)])
    floor = queue.floor()
    await world.engine.committer.call(
        lambda: world.journal.trim(first if floor is None else min(first, floor))
    )
    await push(world.store, "q", b"new")
    # When
    await world.restart()
    # Then
    assert kept(world) == []
    assert world.engine.checkpointer._begin > 10, "most of it was trimmed"
    for _ in range(3):
        assert await positions(world) == {"s": 73, "t": 0}
        assert (await push(world.store, "q", b"old", producer="p", sequence=1)).duplicate
        await world.engine.checkpointer.write()
        await world.engine.checkpointer.trim()
        await world.restart()
    # And without any checkpoint it says so, unless the journal is still there from where it began
    begin = world.engine.checkpointer._begin
    for name in kept(world):
        world.disk.remove(f"{FOLDER}/{name}")
    await world.restart()
    lost = world.engine.registry.has_lost_subscribers()
    assert lost == (world.engine.checkpointer._begin > begin)


async def test_the_event_loop_goes_round_while_many_queues_are_taken() -> None:
    world = await World().start()
    for n in range(1_200):
        await world.store.create_queue(f"q{n}")
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    counting = asyncio.create_task(count())
    await world.engine.checkpointer.write()
    counting.cancel()
    assert rounds >= 3, "at most 500 rows are taken in one step"


async def test_a_damaged_copy_is_not_the_base_of_the_next_one() -> None:
    # Given a bit that flipped in the newest checkpoint, which nobody has read since
    world = await made()
    await world.engine.checkpointer.write()
    world.disk.corrupt(f"{FOLDER}/{kept(world)[-1]}", 300, 4)
    await push(world.store, "q", b"b")
    await drain(world.store, "q/t", 3)
    # When
    await world.engine.checkpointer.write()
    # Then the next one is sound
    await world.restart()
    assert world.engine.checkpointer._kept[-1].digest in kept(world)[-1]
    assert await positions(world) == {"s": 10, "t": 11}
