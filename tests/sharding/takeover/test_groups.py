"""Worker groups in a cluster: they go where their queue goes, and sessions that live keep their tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coldstore.shared import failpoint
from coldstore.shared.errors import Fenced, Unavailable
from hotstore.groups.values import Take
from sharding.documents.tenure import JournalKind
from tests.hotstore.work.kit import change, create, put, states, take
from tests.sharding.members import BLOCK_BYTES, Cluster, cluster
from tests.sharding.takeover.test_takeover import settled

JOURNALS: list[JournalKind] = ["s3", "disk"]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoint.disarm()


async def working(made: Cluster, journal: JournalKind = "s3") -> None:
    """Node a has a queue of six tasks: one done, one delayed, two taken by a session, two ready."""
    a = await made.open("a", journal)
    await made.open("b", journal)
    store = a.engine.store
    await store.create_queue("orders", block_bytes=BLOCK_BYTES)
    await create(store, "orders/g", ttr=100_000.0)
    await put(store, *[b"%d" % n for n in range(6)], queue="orders")
    await store.attach_session("worker", 60.0)
    taken = await take(store, 4, "orders/g", "worker", stage="synced")
    await change(store, "ack", taken[:1], "orders/g", "worker")
    await change(store, "nack", taken[1:2], "orders/g", "worker", delay=50_000.0)


WORKING = {"done": 1, "delayed": 1, "taken": 2, "ready": 2}


@pytest.mark.parametrize("journal", JOURNALS)
async def test_a_group_moves_with_its_queue(tmp_path: Path, journal: JournalKind) -> None:
    async with cluster(tmp_path) as made:
        await working(made, journal)
        a, b = made._members
        await a.ownership.hand_over("orders", "b")
        with pytest.raises(Fenced) as refused:
            await a.engine.store.take(Take("orders/g"))
        assert refused.value.owner == "b"
        store = b.engine.store
        assert await states(store, "orders/g") == WORKING
        await store.attach_session("worker", 60.0)
        assert (await change(store, "ack", [(2, 1), (3, 1)], "orders/g", "worker")).changed == 2
        assert await take(store, 9, "orders/g") == [(4, 1), (5, 1)]
        made.clock.advance(50_001)
        assert await take(store, 9, "orders/g") == [(1, 2)]
        assert not a.ownership.owns("orders~g")
        assert b.ownership.owns("orders~g")
        assert list(b.ownership.held()) == ["orders"]


async def test_there_and_back_with_a_group(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await working(made)
        a, b = made._members
        for source, to in ((a, "b"), (b, "a")):
            await source.ownership.hand_over("orders", to)
        assert await states(a.engine.store, "orders/g") == WORKING
        assert await take(a.engine.store, 9, "orders/g") == [(4, 1), (5, 1)]


async def test_a_move_that_fails_leaves_the_group_as_it_was(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await working(made)
        a, _ = made._members
        failpoint.arm("move.sealed")
        with pytest.raises(Unavailable):
            await a.ownership.hand_over("orders", "b")
        failpoint.disarm()
        store = a.engine.store
        assert await states(store, "orders/g") == WORKING
        assert (await change(store, "ack", [(2, 1)], "orders/g", "worker")).changed == 1


async def test_a_session_that_attaches_in_time_keeps_its_tasks_after_a_takeover(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await working(made)
        a, b = made._members
        await made.stop(a)
        await made.pronounce_dead(b)
        await settled(made, "a")
        store = b.engine.store
        assert await states(store, "orders/g") == WORKING
        made.clock.advance(20)
        await store.attach_session("worker", 60.0)
        made.clock.advance(45)  # longer than its time to attach
        b.engine.work.tick()
        assert (await change(store, "ack", [(2, 1), (3, 1)], "orders/g", "worker")).changed == 2


async def test_a_session_that_does_not_come_back_loses_its_tasks(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await working(made)
        a, b = made._members
        await made.stop(a)
        await made.pronounce_dead(b)
        await settled(made, "a")
        store = b.engine.store
        assert (await states(store, "orders/g"))["taken"] == 2
        made.clock.advance(59)
        b.engine.work.tick()
        assert (await states(store, "orders/g"))["taken"] == 2
        made.clock.advance(2)
        b.engine.work.tick()
        assert "taken" not in await states(store, "orders/g")


async def test_a_queue_is_deleted_and_brought_back_with_its_group(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await working(made)
        a, _ = made._members
        store = a.engine.store
        await store.delete_queue("orders")
        assert await store.list_groups() == []
        await store.undelete_queue("orders")
        assert [group.id for group in await store.list_groups("orders")] == ["orders/g"]
        assert (await states(store, "orders/g"))["done"] == 1
