"""Nodes and servers that are alone refuse each other's stores; a node with a disk has one data directory."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.errors import Conflict
from sharding.documents import tenure
from tests.hotstore.kit import push
from tests.sharding.journals import Spoiled
from tests.sharding.members import cluster, everything
from tests.sharding.single_nodes import World, filled


async def test_nodes_and_lone_servers_refuse_each_other(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        alone = World(tmp_path, nodes.objects)
        first = await alone.open("alone")
        with pytest.raises(Conflict, match=r"in use by process .*each with a --node name"):
            await nodes.open("n1", "disk")
        assert tenure.read(nodes.objects, "n1") is None
        await first.close()
        await nodes.open("n1", "disk")
        with pytest.raises(Conflict, match=r"served by nodes \(n1\).*--node"):
            await alone.open("alone")
        assert alone.found.state == "settled"


async def test_a_lone_server_becomes_a_node_with_what_it_has(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        alone = World(tmp_path, nodes.objects)
        await filled(first := await alone.open("n1"), b"0")
        await first.close()
        with pytest.raises(Conflict, match="--seal-on-close"):
            await nodes.open("n2", "disk")
        member = await nodes.open("n1", "disk")
        assert [seen.value for seen in await everything(member.engine.store, "orders")] == [b"0"]
        assert (alone.found.state, alone.found.by) == ("settled", "n1")
        await nodes.open("n2", "disk")


@pytest.mark.parametrize("quicker", ["node", "lone"])
async def test_a_node_and_a_lone_server_that_start_at_once(tmp_path: Path, quicker: str) -> None:
    """Each looks at the other after it has said that it is there."""
    objects = Spoiled(MemoryObjects())
    async with cluster(tmp_path, objects) as nodes:
        alone = World(tmp_path, objects)
        loop = asyncio.get_running_loop()
        mine, theirs = (paths.SINGLE_NODE, "n1") if quicker == "node" else ("n1", paths.SINGLE_NODE)

        def meanwhile(verb: str, key: str) -> None:
            """The slower one has found nobody, and is about to say that it is there."""
            if verb == "put_if_absent" and key == paths.tenure(mine):
                objects.before = lambda verb, key: None
                other = nodes.open("n1", "disk") if quicker == "node" else alone.open("alone")
                asyncio.run_coroutine_threadsafe(other, loop).result(30)

        objects.before = meanwhile
        slower = alone.open("alone") if quicker == "node" else nodes.open("n1", "disk")
        with pytest.raises(Conflict):
            await slower
        states = {name: tenure.read(objects, name) for name in (mine, theirs)}
        assert states[mine].tenure.state == "settled"  # type: ignore[union-attr]
        assert states[theirs].tenure.state == "open"  # type: ignore[union-attr]
        await alone.end()


async def test_a_node_with_its_journal_on_a_disk_does_not_start_from_another_directory(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a", "disk")
        await a.engine.store.create_queue("orders")
        await push(a.engine.store, "orders", b"0")
        await made.stop(a)
        (tmp_path / "a").rename(tmp_path / "away")
        with pytest.raises(Conflict, match=r"start it with that data directory.*jjq node take-over"):
            await made.open("a", "disk")
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "away").rename(tmp_path / "a")
        again = await made.open("a", "disk")
        assert [seen.value for seen in await everything(again.engine.store, "orders")] == [b"0"]


async def test_a_node_with_its_journal_on_object_storage_starts_anywhere(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a")
        await a.engine.store.create_queue("orders")
        await push(a.engine.store, "orders", b"0")
        await made.stop(a)
        (tmp_path / "a").rename(tmp_path / "away")
        again = await made.open("a")
        assert [seen.value for seen in await everything(again.engine.store, "orders")] == [b"0"]
