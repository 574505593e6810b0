"""Pushes to a JSON queue: a large one is checked in steps, and nothing changes its place for that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import InvalidInput
from coldstore.shared.json_text import check_json
from hotstore.port import Receipt
from hotstore.queue.queue import HotQueue
from tests.hotstore.kit import World, read_all

LARGE = ["1"] * 8_000


def queue_of(world: World) -> HotQueue:
    return world.store._registry.queues["j"]


async def test_others_work_while_a_large_push_is_checked(world: World) -> None:
    await world.store.create_queue("j", content="json")
    pushing = asyncio.create_task(world.store.push("j", payload("json", LARGE)))
    await asyncio.sleep(0)
    other = await world.store.push("q", payload("bytes", [b"other"]))
    assert (other.first_offset, pushing.done()) == (0, False)
    assert queue_of(world).in_line == 1
    assert (await pushing).count == len(LARGE)
    assert queue_of(world).in_line == 0


async def test_pushes_behind_a_large_one_keep_their_order(world: World) -> None:
    await world.store.create_queue("j", content="json")
    batches = [LARGE, ['"a"'], ["2"] * 3_000, ['"b"', '"c"'], ['"d"']]
    pushing = []
    for texts in batches:
        pushing.append(asyncio.create_task(world.store.push("j", payload("json", texts))))
        await asyncio.sleep(0)
    late: list[asyncio.Task[Receipt]] = []

    def come_late(_: object) -> None:
        """Another comes while the line moves on."""
        late.append(asyncio.create_task(world.store.push("j", payload("json", ['"e"']))))

    pushing[1].add_done_callback(come_late)
    firsts = [(await each).first_offset for each in pushing]
    firsts += [(await each).first_offset for each in late]
    sizes = [len(texts) for texts in batches]
    assert firsts == [sum(sizes[:n]) for n in range(len(sizes) + 1)]


async def test_a_producers_sequence_holds_behind_a_large_push(world: World) -> None:
    await world.store.create_queue("j", content="json")
    pushing = [
        asyncio.create_task(world.store.push("j", payload("json", texts), producer="p", sequence=n))
        for n, texts in enumerate([LARGE, ['"a"'], ['"b"']])
    ]
    assert [(await each).first_offset for each in pushing] == [0, len(LARGE), len(LARGE) + 1]


async def test_a_bad_value_far_behind_refuses_the_whole_push_and_holds_up_nobody(world: World) -> None:
    await world.store.create_queue("j", content="json")
    bad = asyncio.create_task(world.store.push("j", payload("json", [*LARGE, "{"])))
    await asyncio.sleep(0)
    good = asyncio.create_task(world.store.push("j", payload("json", ['"good"'])))
    with pytest.raises(InvalidInput) as caught:
        await bad
    assert caught.value.position == len(LARGE)
    assert (await good).first_offset == 0


async def test_a_push_that_is_cancelled_while_it_is_checked_leaves_the_line(world: World) -> None:
    await world.store.create_queue("j", content="json")
    large = asyncio.create_task(world.store.push("j", payload("json", LARGE)))
    await asyncio.sleep(0)
    behind = asyncio.create_task(world.store.push("j", payload("json", ['"behind"'])))
    await asyncio.sleep(0)
    large.cancel()
    assert (await behind).first_offset == 0
    assert (queue_of(world).in_line, queue_of(world).checking.locked()) == (0, False)
    assert [each.value for each in await read_all(world.store, "j")] == ['"behind"']


async def test_of_all_queues_one_step_is_done_in_each_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, done = 0, []

    def counted(values: pa.Array) -> Iterator[None]:
        for _ in check_json(values):
            done.append(rounds)
            yield

    monkeypatch.setattr("hotstore.write.push.check_json", counted)
    for name in "abc":
        await world.store.create_queue(name, content="json")
    pushing = [asyncio.create_task(world.store.push(name, payload("json", LARGE))) for name in "abc"]
    while not all(each.done() for each in pushing):
        rounds += 1
        await asyncio.sleep(0)
    later = done[len(pushing) :]  # the first step of each is done at once
    assert len(later) == 3 * (len(LARGE) // 1_000 - 2)
    assert len(set(later)) == len(later)
