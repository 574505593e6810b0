"""Pushing and sealing: order, time, conditions, and the switch from hot-hot to cold."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared import failpoint
from coldstore.shared.errors import Conflict, Unavailable
from hotstore.port import Receipt
from tests.hotstore.kit import (
    BLOCK_BYTES,
    VERBS,
    WRITES,
    Verb,
    World,
    check_cold,
    data_values,
    drain,
    fat,
    fill,
    push,
    read_all,
    turns,
    values,
)


async def kinds(world: World) -> list[tuple[str, int]]:
    return [(b.kind, b.count) for b in await world.store.list_blocks("q")]


async def test_pushes_of_many_at_once_are_whole_and_dense(world: World) -> None:
    receipts: list[Receipt] = await asyncio.gather(
        *(push(world.store, "q", *(b"%d.%d" % (n, i) for i in range(n % 5 + 1))) for n in range(60))
    )
    there = [e.value for e in await read_all(world.store, "q")]
    for n, receipt in enumerate(receipts):
        mine = there[receipt.first_offset : receipt.first_offset + receipt.count]
        assert mine == [b"%d.%d" % (n, i) for i in range(n % 5 + 1)]
    assert sum(r.count for r in receipts) == len(there)


async def test_timestamps_never_go_back_though_the_clock_does(world: World) -> None:
    # Given
    first = await push(world.store, "q", b"a")
    # When the clock is set back by an hour, before and after restarts and seals
    world.clock.jump(-3_600)
    second = await push(world.store, "q", b"b")
    await world.restart()
    third = await push(world.store, "q", b"c")
    await world.store.seal("q")
    await world.close()
    await world.start()
    world.clock.jump(-86_400)
    fourth = await push(world.store, "q", b"d")
    world.clock.jump(2 * 86_400)
    fifth = await push(world.store, "q", b"e")
    # Then
    assert first.timestamp_us == second.timestamp_us == third.timestamp_us == fourth.timestamp_us
    assert fifth.timestamp_us == world.clock.now_us() > fourth.timestamp_us
    assert [e.timestamp_us for e in await read_all(world.store, "q")] == [first.timestamp_us] * 4 + [
        fifth.timestamp_us
    ]


async def test_a_conditional_push_is_made_only_at_the_expected_offset(world: World) -> None:
    assert (await push(world.store, "q", b"a", expected_offset=0)).first_offset == 0
    before = world.journal.next_sequence
    for expected in (0, 2):
        with pytest.raises(Conflict, match=f"expected offset {expected} but the next is 1"):
            await push(world.store, "q", b"b", expected_offset=expected)
    assert world.journal.next_sequence == before
    assert (await push(world.store, "q", b"b", expected_offset=1)).first_offset == 1


async def test_of_many_conditional_pushes_at_one_offset_one_wins(world: World) -> None:
    outcomes = await asyncio.gather(
        *(push(world.store, "q", b"%d" % n, expected_offset=0) for n in range(10)), return_exceptions=True
    )
    assert [isinstance(o, Receipt) for o in outcomes] == [True] + [False] * 9
    assert len(await read_all(world.store, "q")) == 1


async def test_a_block_is_sealed_when_it_is_full(world: World) -> None:
    await fill(world.store, "q", 3)
    assert await kinds(world) == [("hot-hot", 3)]
    await fill(world.store, "q", 3)
    await world.quiet()
    assert await kinds(world) == [("final", 4), ("hot-hot", 2)]
    assert (await world.store.get_queue("q")).cold_offset == 4


async def test_large_batches_and_small_single_pushes_become_blocks_of_about_the_size_asked_for(
    world: World,
) -> None:
    for _ in range(6):  # three and a half blocks in one batch
        await push(world.store, "q", *(fat(str(n), 3 * 1024) for n in range(75)))
    await asyncio.gather(*(push(world.store, "q", b"%099d" % n) for n in range(3_000)))
    for n in range(300):  # each alone in its group: it counts for much more in the journal than in a file
        await push(world.store, "q", b"%099d" % n)
    await world.quiet()
    await world.maintain()
    sizes = [b.raw_bytes / BLOCK_BYTES for b in await world.store.list_blocks("q") if b.kind == "final"]
    assert len(sizes) >= 24
    assert min(sizes) >= 0.5
    assert max(sizes) <= 1.26
    assert len(await read_all(world.store, "q")) == 3_750


async def test_a_block_is_sealed_when_it_is_old(world: World) -> None:
    await push(world.store, "q", b"a")
    world.clock.advance((await world.store.get_queue("q")).block_seconds - 1)
    await push(world.store, "q", b"b")
    await world.maintain()
    assert await kinds(world) == [("hot-hot", 2)]
    world.clock.advance(1)
    await world.maintain()
    assert await kinds(world) == [("young", 2), ("hot-hot", 0)]


async def test_a_queue_that_nobody_asks_for_is_sealed_by_age_after_a_restart(world: World) -> None:
    await push(world.store, "q", b"a")
    await world.restart()
    world.clock.advance(301)
    await world.maintain()
    await world.maintain()
    assert world.cold.open_queue("q").next_offset == 1


async def test_sealing_on_request_and_of_nothing(world: World) -> None:
    assert (await world.store.seal("q")).cold_offset == 0
    await push(world.store, "q", b"a")
    assert (await world.store.seal("q")).cold_offset == 1
    assert (await world.store.seal("q")).cold_offset == 1
    assert await kinds(world) == [("young", 1), ("hot-hot", 0)]


async def test_young_blocks_are_merged_and_swept_and_nothing_changes_for_readers(world: World) -> None:
    # Given
    made: list[bytes] = []
    await world.store.create_subscriber("q", "s", "beginning")
    for n in range(4):
        made += await fill(world.store, "q", 1, prefix=f"{n}-")
        await world.store.seal("q")
    assert await kinds(world) == [("young", 1)] * 4 + [("hot-hot", 0)]
    assert data_values(world, "q") == []
    # When
    world.clock.advance(11)
    await world.maintain()
    assert await kinds(world) == [("final", 4), ("hot-hot", 0)]
    world.clock.advance(90_000)
    await world.maintain()
    # Then
    assert list(world.objects.list("queues/q/young/")) == []
    assert [e.value for e in await drain(world.store, "q/s")] == made
    check_cold(world, "q", await read_all(world.store, "q"))


async def test_pushes_go_on_while_a_block_is_sealed(world: World) -> None:
    # Given a cold store that does not answer
    await world.store.create_subscriber("q", "s", "beginning")
    made = await fill(world.store, "q", 3)
    world.objects.down = True
    with pytest.raises(Unavailable):
        await world.store.seal("q")
    # When
    made += await fill(world.store, "q", 2, prefix="on")
    # Then the block being sealed and the next one are both there
    assert await kinds(world) == [("sealing", 3), ("hot-hot", 2)]
    assert [e.value for e in await read_all(world.store, "q")] == made
    assert [e.value for e in await drain(world.store, "q/s", 2)] == made
    world.objects.heal()
    await world.store.seal("q")
    assert await kinds(world) == [("young", 3), ("young", 2), ("hot-hot", 0)]


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("verb", VERBS)
async def test_a_seal_whose_call_failed_or_whose_reply_was_lost_is_repeated_without_a_trace(
    world: World, verb: Verb, mode: str
) -> None:
    # Given
    made = await fill(world.store, "q", 5)
    await world.quiet()
    # When each of the calls that a seal makes fails in turn
    for nth in range(1, 6):
        made += await fill(world.store, "q", 2, prefix=f"n{nth}-")
        world.objects.fail(verb, nth, "before" if mode == "before" else "after")
        for _ in range(3):
            try:
                await world.store.seal("q")
            except Unavailable:
                continue
            break
        world.objects.heal()
        await world.store.seal("q")
    # Then every element is there once, and every file is sound
    log = await read_all(world.store, "q")
    assert [e.value for e in log] == made
    check_cold(world, "q", log)
    await world.restart()
    assert await read_all(world.store, "q") == log


@pytest.mark.parametrize(
    "point", ["seal.started", "block.data_put", "block.metadata_put", "seal.stored", "seal.switched"]
)
async def test_a_seal_interrupted_at_a_fail_point_is_repeated(world: World, point: str) -> None:
    made = await fill(world.store, "q", 2)
    failpoint.arm(point)
    try:
        with pytest.raises(Unavailable):
            await world.store.seal("q")
    finally:
        failpoint.disarm()
    assert [e.value for e in await read_all(world.store, "q")] == made
    made += await fill(world.store, "q", 1, prefix="x")
    await world.store.seal("q")
    log = await read_all(world.store, "q")
    assert [e.value for e in log] == made
    check_cold(world, "q", log)


async def test_a_lost_reply_to_any_write_of_the_cold_store_makes_no_block_twice(world: World) -> None:
    for nth in range(1, 4):
        for verb in WRITES:
            world.objects.fail(verb, nth, "after")
    made = await fill(world.store, "q", 9)
    for _ in range(4):
        world.clock.advance(60)
        await world.maintain()
    log = await read_all(world.store, "q")
    assert [e.value for e in log] == made
    check_cold(world, "q", log)
    assert [b.first_offset for b in await world.store.list_blocks("q")][:2] == [0, 4]


async def test_a_reader_finds_every_offset_at_every_step_of_a_seal(world: World) -> None:
    # Given one that looks at everything between any two steps of the event loop
    made = await fill(world.store, "q", 3)
    await world.store.create_subscriber("q", "s", "beginning")
    sealing = asyncio.create_task(world.store.seal("q"))
    looks = 0
    while not sealing.done():
        assert values(await world.store.peek("q/s", 9)) == made
        blocks = await world.store.list_blocks("q")
        assert sum(b.count for b in blocks) == 3
        assert [b.first_offset for b in blocks] == sorted({b.first_offset for b in blocks})
        looks += 1
        await turns(1)
    assert looks > 2
    await sealing
    assert values(await world.store.peek("q/s", 9)) == made


async def test_the_hot_hot_block_stays_in_memory_without_subscribers(world: World) -> None:
    made = await fill(world.store, "q", 2)
    before = dict(world.objects.calls)
    assert [e.value for e in await read_all(world.store, "q")] == made
    assert world.objects.calls == before


async def test_json_and_text_queues_hold_what_they_say(world: World) -> None:
    await world.store.create_queue("j", content="json", block_bytes=BLOCK_BYTES)
    await world.store.create_queue("t", content="text", block_bytes=BLOCK_BYTES)
    await push(world.store, "j", '{"a":1}', "[]", content="json")
    await push(world.store, "t", "ä", "", content="text")
    for name, expected in (("j", ['{"a":1}', "[]"]), ("t", ["ä", ""])):
        await world.store.seal(name)
        assert [e.value for e in await read_all(world.store, name)] == expected
    await world.restart()
    assert [e.value for e in await read_all(world.store, "t")] == ["ä", ""]


async def test_queues_do_not_mix(world: World) -> None:
    await world.store.create_queue("other", block_bytes=BLOCK_BYTES)
    await asyncio.gather(
        *(push(world.store, name, fat(f"{name}{n}", 9_000)) for n in range(20) for name in ("q", "other"))
    )
    await world.quiet()
    await world.restart()
    for name in ("q", "other"):
        assert [e.value for e in await read_all(world.store, name)] == [
            fat(f"{name}{n}", 9_000) for n in range(20)
        ]
