"""Lists, whole and in pages: the same entries in the same order."""

from __future__ import annotations

import pytest

from coldstore.shared.limits import KIB
from coldstore.shared.results import BlockInfo
from tests.hotstore.kit import World, fill, push


async def a_world() -> World:
    """Blocks 0, 4 and 8 are final, 12 is being written; subscribers in all of them."""
    world = await World().start()
    await world.store.create_queue("q", block_bytes=64 * KIB)
    await fill(world.store, "q", 14)
    await world.quiet()
    for offset in (0, 3, 4, 8, 11, 12, 14):
        await world.store.create_subscriber("q", f"at-{offset}", f"offset:{offset}")
    return world


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
async def test_pages_of_blocks_are_the_list(size: int) -> None:
    world = await a_world()
    whole = await world.store.list_blocks("q")
    assert [(b.id, b.subscribers) for b in whole] == [(0, 2), (4, 1), (8, 2), (12, 2)]
    found: list[BlockInfo] = []
    while not found or found[-1].kind != "hot-hot":
        place = found[-1].last_offset + 1 if found else 0
        page = await world.store.list_blocks("q", from_offset=place, limit=size)
        assert 1 <= len(page) <= size
        found += page
    assert found == whole


async def test_the_key_of_a_block_names_its_object() -> None:
    world = await a_world()
    sealed = [block for block in await world.store.list_blocks("q") if block.kind == "final"]
    assert len(sealed) == 3
    assert all(len(world.objects.get(str(block.key)).data) == block.stored_bytes for block in sealed)


async def test_a_page_begins_with_the_block_that_holds_the_offset() -> None:
    world = await a_world()
    for offset, first in ((0, 0), (3, 0), (4, 4), (11, 8), (12, 12), (14, 12), (1_000, 12)):
        assert (await world.store.list_blocks("q", from_offset=offset))[0].id == first
    world.objects.down = True
    await fill(world.store, "q", 4)  # now 12 waits to be sealed
    assert [(b.id, b.kind) for b in await world.store.list_blocks("q", from_offset=9, limit=2)] == [
        (8, "final"),
        (12, "sealing"),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_pages_of_queues_and_subscribers_are_the_lists(size: int) -> None:
    world = await World().start()
    for name in ("a", "a-b", "a.b", "b", "c"):
        await world.store.create_queue(name)
        for subscriber in ("x", "x-y", "z") if name != "b" else ():
            await world.store.create_subscriber(name, subscriber)
    queues = await world.store.list_queues()
    subscribers = await world.store.list_subscribers()
    assert [q.name for q in queues] == ["a", "a-b", "a.b", "b", "c"]
    assert [s.id for s in subscribers][:4] == ["a/x", "a/x-y", "a/z", "a-b/x"]
    after, names = "", []
    while page := await world.store.list_queues(after=after, limit=size):
        names += page
        after = page[-1].name
    assert names == queues
    after, ids = "", []
    while some := await world.store.list_subscribers(after=after, limit=size):
        ids += some
        after = some[-1].id
    assert ids == subscribers
    assert [s.name for s in await world.store.list_subscribers("a", after="a/x", limit=size)] == [
        "x-y",
        "z",
    ][:size]


async def test_a_page_opens_only_the_queues_that_are_on_it() -> None:
    world = await World().start()
    for name in ("a", "b", "c"):
        await world.store.create_queue(name)
        await world.store.create_subscriber(name, "x")
        await push(world.store, name, b"1")
    await world.restart()
    registry = world.engine.registry
    assert [q.name for q in await world.store.list_queues(after="a", limit=1)] == ["b"]
    assert [name for name, queue in registry.queues.items() if queue.cold is not None] == ["b"]
    assert [s.id for s in await world.store.list_subscribers(limit=1)] == ["a/x"]
    assert registry.queues["c"].cold is None
