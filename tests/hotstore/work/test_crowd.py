"""Acks of many callers share the syncs of the disk, also where each has to wait for a key that another one frees."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.errors import Unavailable
from tests.hotstore.kit import World, turns
from tests.hotstore.work.kit import change, create, put, states, take

CALLERS = 12


async def crowded(world: World) -> None:
    """A group with one key, whose last flush was that of several callers."""
    store = world.store
    await create(store, driver="utube")
    await put(store, b"first", key=b"one")
    await put(store, b"second", key=b"other")
    both = [await take(store), await take(store)]
    await asyncio.gather(*(change(store, "ack", tasks) for tasks in both))
    await put(store, *[b"x"] * (CALLERS + 1), key=b"one")


async def test_acks_that_free_a_key_for_one_another_are_one_commit(world: World) -> None:
    await crowded(world)
    store, before = world.store, world.engine.committer.groups

    async def work() -> None:
        assert (await change(store, "ack", await take(store, wait=60.0))).changed == 1

    await asyncio.gather(*(work() for _ in range(CALLERS)))
    assert world.engine.committer.groups - before == 1
    assert await states(store) == {"done": 2 + CALLERS, "ready": 1}


async def test_a_caller_alone_does_not_wait_for_others_for_long(world: World) -> None:
    await crowded(world)
    for _ in range(2):  # the first one after a crowd looks whether anybody joins it
        tasks = await take(world.store)
        done = asyncio.create_task(change(world.store, "ack", tasks))
        await turns()
        assert done.done()
    assert await states(world.store) == {"done": 4, "ready": CALLERS - 1}


async def test_what_waits_for_its_crowd_when_the_store_closes_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await crowded(world)
    tasks = await take(world.store)

    def refuse(entry: object) -> None:
        raise Unavailable("the store is closing; retry when it is back")

    with monkeypatch.context() as closing:
        closing.setattr(type(world.engine.committer), "submit", lambda committer, entry: refuse(entry))
        with pytest.raises(Unavailable, match="closing"):
            await change(world.store, "ack", tasks)
