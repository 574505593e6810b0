"""Where a read through a router begins and ends: asked of the owner only where it is not said as an offset."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from tests.sharding.cluster import World, elements

ELEMENTS = 10


@pytest.fixture
async def world() -> World:
    """Nodes a and b; queue q with ten elements at b."""
    made = World()
    for name in "ab":
        await made.add(name)
    await made.store.create_queue("q")
    made.own("q", "b")
    await made.store.push("q", elements(*(b"%d" % n for n in range(ELEMENTS))))
    return made


async def values(world: World, *given: str) -> list[Any]:
    return [
        value
        async for batch in world.nodes["a"].router.read("q", *given)
        for value in batch.column("value").to_pylist()
    ]


async def test_the_owner_is_asked_for_an_end_only_where_it_is_not_given(world: World) -> None:
    """Asked from node a, of node b, which owns the queue."""
    router, asked = world.nodes["a"].router, world.nodes["b"].asked

    async def questions(*given: str) -> tuple[int, list[bytes]]:
        asked.clear()
        found = await values(world, *given)
        return asked.count("create_subscriber"), found

    every = [b"%d" % n for n in range(ELEMENTS)]
    async with asyncio.timeout(20):
        assert await questions() == (1, every)
        assert await questions("offset:3") == (1, every[3:]), "it ends where the queue ended when it began"
        assert await questions("offset:3", "offset:5") == (0, every[3:5])
        assert await questions("last:2", "offset:9") == (1, every[8:9])
        assert await questions("offset:3", "last:2") == (1, every[3:8])
        assert await questions("last:4", "last:2") == (2, every[6:8])
        asked.clear()
        async with aclosing(router.read("q", "offset:7", follow=True)) as batches:
            assert (await anext(batches)).column("value")[0].as_py() == every[7]
        assert "create_subscriber" not in asked


async def test_a_read_ends_where_the_queue_ended_when_it_began(world: World) -> None:
    found: list[bytes] = []
    async with asyncio.timeout(20):
        async for batch in world.nodes["a"].router.read("q", "offset:0"):
            found += batch.column("value").to_pylist()
            await world.store.push("q", elements(b"later"))
    assert found == [b"%d" % n for n in range(ELEMENTS)]
