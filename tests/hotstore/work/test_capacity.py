"""A full group stays full, whatever happens to it meanwhile: it is loaded, it comes to this node, or it nearly left."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import Exhausted, InvalidInput
from coldstore.shared.push import Push
from hotstore.groups.group import GroupState
from hotstore.queue.queue import HotQueue
from tests.hotstore.kit import World, turns
from tests.hotstore.work.kit import create, put, states
from tests.hotstore.work.test_departure import ELSEWHERE, Hold


async def full(world: World) -> None:
    await create(world.store, driver="limfifottl", capacity=3)
    await put(world.store, b"0", b"1", b"2")


async def refused(*pushes: asyncio.Task[object]) -> None:
    for push in pushes:
        with pytest.raises(Exhausted, match="3 tasks of at most 3"):
            await push


async def test_a_wait_that_ends_just_when_there_is_room_ends_as_it_was_told(world: World) -> None:
    await full(world)
    waiting = asyncio.create_task(put(world.store, b"x", timeout=60.0))
    await turns()
    waiting.cancel()
    (await world.engine.work.group("q/g")).wake_pushes()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_push_that_is_refused_for_what_it_says_takes_no_room(world: World) -> None:
    await world.store.create_queue("j", content="json")
    await create(world.store, "j/g", driver="limfifottl", capacity=1)
    for _ in range(2):
        with pytest.raises(InvalidInput, match="JSON"):
            await world.store.append(Push("j", payload("json", ["{"])))
    await world.store.append(Push("j", payload("json", ["{}"])))
    assert await states(world.store, "j/g") == {"ready": 1}


async def test_all_pushes_wait_while_a_group_is_loaded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await full(world)
    await world.restart()
    loader, loaded = world.engine.work._loader, asyncio.Event()
    load = loader.load

    async def slowly(ledger: HotQueue) -> GroupState:
        await loaded.wait()
        return await load(ledger)

    monkeypatch.setattr(loader, "load", slowly)
    pushes = [asyncio.create_task(put(world.store, b"x")) for _ in range(3)]
    await turns()
    assert not any(push.done() for push in pushes)
    loaded.set()
    await refused(*pushes)
    assert await states(world.store) == {"ready": 3}


async def test_pushes_wait_for_the_ledgers_of_a_queue_that_has_just_come(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await full(world)
    departures, registry = world.engine.departures, world.engine.registry
    leaving, _ = await departures.begin("q", ELSEWHERE)
    await departures.leave(leaving, ELSEWHERE)
    registry.on_arrived = world.engine.work.arrived  # as in a cluster
    hold = Hold(world, monkeypatch, "q~g")
    coming = asyncio.create_task(registry.queue("q"))
    await hold.reached.wait()
    push = asyncio.create_task(put(world.store, b"x"))
    await turns()
    assert not push.done()
    hold.go_on.set()
    await coming
    await refused(push)


async def test_a_queue_that_stays_after_all_is_as_full_as_before(world: World) -> None:
    await full(world)
    leaving, _ = await world.engine.departures.begin("q", ELSEWHERE)
    await world.engine.departures.stay(leaving)
    await refused(asyncio.create_task(put(world.store, b"x")))


async def test_a_queue_without_groups_that_comes_asks_nobody(world: World) -> None:
    await world.store.create_queue("plain")
    departures, registry = world.engine.departures, world.engine.registry
    leaving, _ = await departures.begin("plain", ELSEWHERE)
    await departures.leave(leaving, ELSEWHERE)
    registry.on_arrived = world.engine.work.arrived
    assert (await registry.queue("plain")).on_grown is None
    assert (await put(world.store, b"x", queue="plain")).first_offset == 0
