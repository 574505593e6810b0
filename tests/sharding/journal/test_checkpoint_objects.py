"""Checkpoints beside a journal on object storage: read by the next process, and by who takes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from coldstore.layout import paths
from coldstore.shared.errors import DataLoss, Exhausted
from hotstore.checkpoint.checkpoint_store import CheckpointName
from sharding.documents import tenure
from sharding.journal.checkpoint_objects import all_names
from sharding.node import Member
from tests.hotstore.kit import values
from tests.sharding.members import BLOCK_BYTES, Cluster, cluster, contents, push


async def trimmed(made: Cluster, member: Member) -> None:
    """A queue, a subscriber and a producer; rows of which the journal has nothing any more."""
    store = member.engine.store
    await store.create_queue("orders", block_bytes=BLOCK_BYTES)
    await store.create_subscriber("orders", "s", "beginning")
    await push(member, "orders", b"0", producer="p", sequence=0)
    await push(member, "orders", b"1", b"2")
    await store.pop("orders/s", 1)
    await store.seal("orders")
    for _ in range(2):
        await member.engine.checkpointer.write()
    made.clock.advance(3_600)
    await member.engine.checkpointer.trim()
    await push(member, "orders", b"3")
    await store.pop("orders/s", 1)
    found = tenure.read(made.objects, "a")
    assert found is not None
    assert found.tenure.boundary == all_names(made.objects, "a")[0].sequence, (
        "the rows are gone from the journal"
    )


async def check(member: Member) -> None:
    assert await push(member, "orders", b"0", producer="p", sequence=0) == 0
    assert await contents(member, "orders") == [b"0", b"1", b"2", b"3"]
    assert values(await member.engine.store.pop("orders/s", 1)) == [b"2"]


def spoil(made: Cluster, name: CheckpointName) -> None:
    key = paths.checkpoint("a", str(name))
    data = bytearray(made.objects.get(key).data)
    data[len(data) // 2] ^= 1
    made.objects.put(key, bytes(data))


@pytest.mark.parametrize("damaged", [0, 1])
async def test_the_next_process_goes_on_from_it(tmp_path: Path, damaged: int) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a")
        await trimmed(made, a)
        await made.stop(a)
        if damaged:  # here, and in the copy for people
            spoil(made, all_names(made.objects, "a")[-1])
            (copy,) = (tmp_path / "a" / "checkpoints").glob("0*.duckdb")
            copy.write_bytes(b"")
        again = await made.open("a")
        await check(again)
        aside = list(made.objects.list(paths.checkpoint_quarantine("a", "")[:-1] + "/"))
        assert len(aside) == damaged


@pytest.mark.parametrize("damaged", [0, 1])
async def test_who_takes_over_goes_on_from_it(tmp_path: Path, damaged: int) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a"), await made.open("b")
        await trimmed(made, a)
        await made.stop(a)
        if damaged:
            spoil(made, all_names(made.objects, "a")[-1])
        await made.pronounce_dead(b)
        await check(b)
        assert all_names(made.objects, "a") == [], "what nobody needs any more is removed"
        # And a later tenure of the node begins with nothing of it
        a = await made.open("a")
        assert a.engine.registry.queues == {}


async def test_without_any_checkpoint_nothing_is_taken_over_in_part(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a"), await made.open("b")
        await trimmed(made, a)
        await made.stop(a)
        for name in all_names(made.objects, "a"):
            spoil(made, name)
        # Then the journal stays, and who watches is told why
        with pytest.raises(DataLoss, match=r"no checkpoint could be read.*put a checkpoint back"):
            await made.pronounce_dead(b)
        assert list(made.objects.list(paths.journal_folder("a")))
        with pytest.raises(Exhausted, match="being taken over"):
            await push(b, "orders", b"x")


async def test_a_planned_move_takes_the_state_with_it_and_the_checkpoint_forgets_the_queue(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a"), await made.open("b")
        await trimmed(made, a)
        await a.ownership.hand_over("orders", "b")
        await check(b)
        await a.engine.checkpointer.write()
        await made.stop(a)
        again = await made.open("a")
        assert again.engine.registry.queues == {}
        await b.engine.checkpointer.write()
        await made.stop(b)
        b = await made.open("b")
        assert values(await b.engine.store.pop("orders/s", 1)) == [b"3"]


async def test_people_find_the_newest_one_on_the_disk_of_the_node(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a")
        await trimmed(made, a)
        newest = all_names(made.objects, "a")[-1]
        assert [path.name for path in (tmp_path / "a" / "checkpoints").glob("0*.duckdb")] == [str(newest)]


async def test_a_node_without_any_checkpoint_says_what_it_lost(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a")
        await trimmed(made, a)
        await made.stop(a)
        for name in all_names(made.objects, "a"):
            spoil(made, name)
        (path,) = (tmp_path / "a" / "checkpoints").glob("0*.duckdb")
        path.unlink()
        again = await made.open("a")
        with pytest.raises(DataLoss, match="accept-loss orders"):
            await again.engine.store.create_subscriber("orders", "s", "beginning")
