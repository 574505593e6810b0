"""Nodes with their journal on a disk: taken over only by an operator, and fenced by their lease."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.shared import failpoint
from coldstore.shared.errors import Conflict, DataLoss, Exhausted, Fenced, JjqError, Unavailable
from sharding.documents import shards, tenure
from tests.sharding.journals import Spoiled, lost
from tests.sharding.members import BLOCK_BYTES, cluster, contents, push


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoint.disarm()


async def test_a_dead_disk_is_taken_over_only_with_its_loss_accepted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a", "disk"), await made.open("b", "disk")
        await a.engine.store.create_queue("orders", block_bytes=BLOCK_BYTES)
        await push(a, "orders", b"0", b"1")
        await a.engine.store.seal("orders")
        await push(a, "orders", b"2")
        await made.stop(a)
        await made.pronounce_dead(b)
        with pytest.raises(Fenced):
            await push(b, "orders", b"x")
        assert [(lost.queue, lost.first) for lost in await b.ownership.lost_by("a")] == [("orders", 2)]
        with pytest.raises(Conflict, match="orders from 2"):
            await b.ownership.take_over("a")
        taken = await b.ownership.take_over("a", accept_loss=True)
        assert (taken.moved, taken.lost[0].first) == (("orders",), 2)
        assert await push(b, "orders", b"new") == 2
        with pytest.raises(JjqError):
            await a._watch.beat()
        with pytest.raises(Unavailable):
            await push(a, "orders", b"zombie")
        a = await made.open(
            "a", "disk"
        )  # its disk is back: what it has of the queue is not the queue's any more
        with pytest.raises(Fenced):
            await a.engine.store.get_queue("orders")


async def test_a_disk_that_comes_back_before_anyone_took_its_queues_has_lost_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a", "disk")
        await a.engine.store.create_queue("orders", block_bytes=BLOCK_BYTES)
        await push(a, "orders", b"0", b"1")
        await made.stop(a)
        found = tenure.read(made.objects, "a")
        assert found is not None
        tenure.end(made.objects, found, "b")
        a = await made.open("a", "disk")
        assert await contents(a, "orders") == [b"0", b"1"]
        assert await push(a, "orders", b"2") == 2
        after = shards.read(made.objects, "orders")
        assert after is not None
        assert (after.shards.epoch, after.shards.run) == (2, 2)


async def test_a_disk_node_acknowledges_only_under_its_lease(tmp_path: Path) -> None:
    objects = Spoiled(MemoryObjects())
    async with cluster(tmp_path, objects) as made:
        a = await made.open("a", "disk")
        await a.engine.store.create_queue("orders")
        made.clock.advance(10_000)
        with pytest.raises(Exhausted):  # certain: nothing was written
            await push(a, "orders", b"x")
        await a._watch.beat()
        assert await push(a, "orders", b"0") == 0

        def pause(name: str) -> None:
            """Between write and acknowledgement: the lease runs out, and the store is away."""
            made.clock.advance(10_000)
            objects.before = away

        def away(verb: str, key: str) -> None:
            raise lost()

        failpoint.arm("journal.synced", action=pause)
        late = asyncio.create_task(push(a, "orders", b"1"))
        done, _ = await asyncio.wait([late], timeout=0.3)
        assert not done
        objects.before = lambda verb, key: None
        assert await late == 1, "it is still the node: a beat said so"
        found = tenure.read(made.objects, "a")
        assert found is not None
        failpoint.arm("journal.synced", action=lambda name: made.clock.advance(10_000))
        tenure.end(made.objects, found, "b")
        with pytest.raises(Unavailable):
            await push(a, "orders", b"2")


async def test_a_node_that_lost_its_directory_says_so_for_its_own_queues_and_for_no_others(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a", "disk"), await made.open("b", "disk")
        for node, queue in ((a, "orders"), (b, "visits")):
            await node.engine.store.create_queue(queue, block_bytes=BLOCK_BYTES)
            await push(node, queue, b"0", b"1")
        await a.engine.look_at_journal(durable=True, due=True)
        await made.stop(a)
        shutil.rmtree(tmp_path / "a" / "journal")
        # When it starts again
        a = await made.open("a", "disk")
        # Then its queue takes no pushes and cannot be moved away, and another's that arrives does
        with pytest.raises(DataLoss, match=r"queue orders: elements 0\.\.1 were acknowledged"):
            await push(a, "orders", b"x")
        with pytest.raises(DataLoss):
            await a.ownership.hand_over("orders", "b")
        await b.ownership.hand_over("visits", "a")
        assert await push(a, "visits", b"2") == 2
        # And with the loss accepted it goes on, and may move
        lost = await a.engine.store.accept_loss("orders")
        assert lost.ranges == ((0, 2),)
        assert lost.in_doubt
        assert await push(a, "orders", b"2") == 2
        await a.ownership.hand_over("orders", "b")
        assert await push(b, "orders", b"3") == 3
        assert await contents(b, "orders") == [b"", b"", b"2", b"3"]
