"""Damaged, cut, missing and foreign checkpoints: put aside and named; the other one gives the same. Both: DATA_LOSS."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import DataLoss, NotFound
from hotstore.checkpoint.salvage import salvage
from hotstore.engine import Engine
from tests.hotstore.checkpoint.places import DataPlace, Position, busy, positions
from tests.hotstore.kit import fill, push

Harm = Callable[[Path], object]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1_000])


def change(path: Path) -> None:
    """By another program, in a way that leaves a sound DuckDB file."""
    with duckdb.connect(str(path)) as connection:
        connection.execute('UPDATE positions SET "offset" = 0, previous = 0')


def exchange(path: Path) -> None:
    """For the checkpoint of another data directory, whose name vouches for it."""
    sequence, _, digest = path.name.split("-")
    path.rename(path.with_name(f"{sequence}-{'f' * 16}-{digest}"))


HARMS: dict[str, Harm] = {
    "flipped": flip,
    "cut": cut,
    "emptied": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("hello"),
    "changed": change,
    "missing": Path.unlink,
    "foreign": exchange,
}


async def _build(path: Path) -> DataPlace:
    """A store that was killed: two checkpoints, a journal that begins with the older one, and more behind the newer."""
    made = DataPlace(path)
    async with made.opened(clean=False) as engine:
        await busy(engine)
        await engine.store.seal("a")
        for n in range(4):
            await fill(engine.store, "b", 14, prefix=f"more{n}")
            await engine.store.seal("b")
            await engine.checkpointer.write()
            await engine.checkpointer.trim()
            await engine.store.pop("b/s", 2)
            await engine.store.pop("a/s1", 1)
        await engine.store.create_subscriber("b", "late", "offset:7")
        made.before = await positions(engine)
    assert len(made.checkpoints) == 2
    return made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> DataPlace:
    return asyncio.run(_build(tmp_path_factory.mktemp("built")))


@pytest.fixture
def place(built: DataPlace, tmp_path: Path) -> DataPlace:
    shutil.copytree(built.path, tmp_path / "copy")
    made = DataPlace(tmp_path / "copy")
    made.before = built.before
    return made


async def check_whole(engine: Engine, before: dict[str, Position]) -> None:
    assert await positions(engine) == before
    again = await push(engine.store, "a", b"1", producer="p", sequence=1)
    assert again.duplicate
    assert (await engine.store.get_queue("b")).next_offset == 12 + 4 * 14


@pytest.mark.parametrize("which", ["newest", "older"])
@pytest.mark.parametrize("harm", HARMS)
async def test_one_damaged_checkpoint_changes_nothing(
    place: DataPlace, harm: str, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = place.checkpoints[-1 if which == "newest" else 0]
    HARMS[harm](path)
    for _ in range(2):
        async with place.opened(clean=False) as engine:
            await check_whole(engine, place.before)
            assert engine.registry.in_doubt() == []
    if which == "newest" and harm != "missing":
        assert [name.split("-")[0] for name in place.quarantined if name.endswith("duckdb")] == [
            path.name.split("-")[0]
        ]
        assert "it is not used, and was moved to quarantine/" in caplog.text
        assert path.name.split("-")[0] in caplog.text
    # And checkpoints go on
    async with place.opened() as engine:
        await engine.store.pop("a/s0", 1)
        await engine.checkpointer.write()
        await engine.checkpointer.write()
        await engine.checkpointer.trim()
        before = await positions(engine)
    async with place.opened() as engine:
        await check_whole(engine, before)


@pytest.mark.parametrize("harm", ["flipped", "missing"])
async def test_without_any_checkpoint_nothing_begins_anew_unnoticed(
    place: DataPlace, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    copies = [shutil.copy(path, place.path) for path in place.checkpoints]
    for path in place.checkpoints:
        HARMS[harm](path)
    for _ in range(2):  # the second time it is known from the journal
        async with place.opened(clean=False) as engine:
            assert "DATA_LOSS: no checkpoint could be read" in caplog.text
            # Then what was created since is known, what is unknown is not taken for new, and nothing is pushed
            assert (await engine.store.get_subscriber("b/late")).offset == 7
            for call in (
                engine.store.get_subscriber("a/s1"),
                engine.store.create_subscriber("a", "s1", "offset:5"),
                engine.store.pop("b/s"),
                engine.store.push("a", payload("bytes", [b"x"])),
            ):
                with pytest.raises(DataLoss, match="jjq queue accept-loss"):
                    await call
            assert [e async for e in engine.store.read("a", end="offset:1")]
    # When a file is put back
    for copy in copies:
        shutil.copy(copy, place.data / "checkpoints")
    async with place.opened(clean=False) as engine:
        found = await positions(engine)
        assert {name: found[name] for name in place.before} == place.before


async def test_what_is_left_of_damaged_checkpoints_says_who_is_affected(
    place: DataPlace, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a bit that flipped in each: most of such a file can be read
    for path in place.checkpoints:
        flip(path)
    for _ in range(2):  # the second time the files are in quarantine, and the journal has the names
        async with place.opened(clean=False) as engine:
            with pytest.raises(DataLoss, match=r"Affected.*: s0 at offset 2, s1 .*, s2 .*, s3") as lost:
                await engine.store.pop("a/s1")
            assert "late" not in lost.value.message
            with pytest.raises(DataLoss, match=r"Affected.*: s at offset 10$"):
                await engine.store.push("b", payload("bytes", [b"x"]))
    assert "By what is left of the checkpoints, 5 are affected (a/s0" in caplog.text


def test_a_checkpoint_that_tells_nothing_is_no_failure(tmp_path: Path) -> None:
    assert salvage([b"", b"text", b"x" * 8 + b"DUCK" + b"x" * 5_000], tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


async def test_the_loss_of_all_checkpoints_is_accepted(place: DataPlace) -> None:
    for path in place.checkpoints:
        flip(path)
    async with place.opened() as engine:
        dry = await engine.store.accept_loss("a", dry_run=True)
        assert dry.in_doubt
        assert "no checkpoint could be read" in dry.cause
        await engine.store.accept_loss("a")
        with pytest.raises(NotFound):
            await engine.store.get_subscriber("a/s1")
        assert (await engine.store.create_subscriber("a", "s1", "offset:5")).offset == 5
        await push(engine.store, "a", b"x")
    async with place.opened() as engine:
        assert (await engine.store.get_subscriber("a/s1")).offset == 5
        with pytest.raises(DataLoss):
            await engine.store.get_subscriber("b/s")


async def test_a_journal_that_is_whole_needs_no_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a short journal, of which nothing was trimmed
    place = DataPlace(tmp_path)
    async with place.opened() as engine:
        await busy(engine)
        await engine.checkpointer.write()
        before = await positions(engine)
    for path in place.checkpoints:
        flip(path)
    caplog.set_level(logging.ERROR)
    async with place.opened() as engine:
        assert await positions(engine) == before
    assert "DATA_LOSS" not in caplog.text


async def test_a_checkpoint_without_its_journal_is_used_and_the_queues_are_in_doubt(place: DataPlace) -> None:
    # Given all of the journal is gone, and what is kept beside it
    shutil.rmtree(place.data / "journal")
    (place.data / "journal.bounds").unlink()
    (place.path / "cold" / "journal.json").unlink()
    for _ in range(2):
        async with place.opened(clean=False) as engine:
            found = await positions(engine)
            assert {*place.before} - {*found} == {"b/late"}, "all that the checkpoint knew"
            with pytest.raises(DataLoss):
                await push(engine.store, "a", b"x")


async def test_an_older_journal_under_a_newer_checkpoint_is_not_believed(place: DataPlace) -> None:
    # Given a copy of the journal from before the last checkpoint is put in its place
    shutil.copytree(place.data / "journal", place.path / "old")
    async with place.opened() as engine:
        await engine.store.pop("a/s0", 1)
        await engine.checkpointer.write()
        before = await positions(engine)
    shutil.rmtree(place.data / "journal")
    shutil.move(place.path / "old", place.data / "journal")
    (place.data / "journal.bounds").unlink()
    (place.path / "cold" / "journal.json").unlink()
    # Then no sequence is given out twice, and what may be lost is said
    async with place.opened() as engine:
        assert await positions(engine) == before
        assert engine.journal.next_sequence > engine.checkpointer._kept[-1].sequence
        with pytest.raises(DataLoss):
            await push(engine.store, "a", b"x")
