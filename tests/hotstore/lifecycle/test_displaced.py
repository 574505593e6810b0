"""The data directory is deleted or replaced under a running node: nothing more is acknowledged into lost files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Unavailable
from coldstore.shared.limits import KIB
from coldstore.store import ColdStore
from hotstore.engine import Engine
from hotstore.journal.bounds import NAME
from hotstore.opening import open_engine
from tests.hotstore.kit import BLOCK_BYTES, World, fat, fill, push, settings

SMALL = settings(segment_bytes=96 * KIB, group_bytes_max=32 * KIB)


async def running(data: Path) -> Engine:
    """A node that looks after itself only when it is told to."""
    clock, chance = SystemClock(), SystemChance()
    engine = await open_engine(
        data, ColdStore(MemoryObjects(clock), clock, chance), settings=SMALL, clock=clock, chance=chance
    )
    await engine.maintenance.stop()
    await engine.store.create_queue("q", block_bytes=64 * BLOCK_BYTES)
    await engine.store.push("q", payload("bytes", [b"known"]))
    return engine


def delete_directory(data: Path) -> None:
    shutil.rmtree(data)


def delete_journal(data: Path) -> None:
    shutil.rmtree(data / "journal")


def delete_file(data: Path) -> None:
    min((data / "journal").glob("*.seg")).unlink()


def replace_by_copy(data: Path) -> None:
    """The same names with the same bytes, and yet other files."""
    shutil.copytree(data / "journal", data / "copy")
    shutil.rmtree(data / "journal")
    (data / "copy").rename(data / "journal")


def delete_lock(data: Path) -> None:
    """A second process could lock a new file of this name, and write beside the first."""
    (data / "lock").unlink()


WAYS: list[Callable[[Path], None]] = [delete_directory, delete_journal, delete_file, replace_by_copy]


@pytest.mark.parametrize("displace", [*WAYS, delete_lock], ids=lambda way: way.__name__)
async def test_maintenance_notices_that_the_files_are_gone(
    tmp_path: Path, displace: Callable[[Path], None]
) -> None:
    engine = await running(tmp_path / "data")
    try:
        displace(tmp_path / "data")
        with pytest.raises(Unavailable, match="was the data directory deleted or replaced"):
            await engine.maintenance.once()
        assert engine.failed.done(), "the process must end"
        with pytest.raises(Unavailable, match="start the server again"):
            await engine.store.push("q", payload("bytes", [b"more"]))
    finally:
        await engine.close()


@pytest.mark.parametrize("displace", WAYS, ids=lambda way: way.__name__)
async def test_a_roll_notices_it_and_who_waits_hears_that_the_outcome_is_unknown(
    tmp_path: Path, displace: Callable[[Path], None]
) -> None:
    engine = await running(tmp_path / "data")
    try:
        displace(tmp_path / "data")
        with pytest.raises(Unavailable, match="outcome is unknown"):
            await fill(engine.store, "q", 6)  # more than a segment holds
        assert engine.failed.done()
    finally:
        await engine.close()


async def test_bounds_that_were_deleted_stop_the_node_as_well(tmp_path: Path) -> None:
    """Without them a later loss would go unnoticed; whoever deletes one file may have deleted more."""
    engine = await running(tmp_path / "data")
    try:
        (tmp_path / "data" / NAME).unlink()
        await engine.store.push("q", payload("bytes", [b"more"]))
        with pytest.raises(Unavailable, match="writing its bounds"):
            await engine.look_at_journal(durable=True)
        assert engine.failed.done()
    finally:
        await engine.close()


async def test_an_older_file_of_the_journal_that_vanishes_is_noticed(world: World) -> None:
    for number in range(20):
        await push(world.store, "q", fat(f"e{number}"))
    segments = [name for name in world.disk.list() if name.endswith(".seg")]
    await world.engine.look_at_journal(durable=True)
    world.disk.remove(segments[0])
    with pytest.raises(Unavailable, match=segments[0]):
        await world.engine.look_at_journal(durable=True)
    assert world.engine.failed.done()
