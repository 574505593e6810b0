"""Checkpoints of a running store: right, read by the next start, and open to everybody's tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict
from hotstore.checkpoint import duckdb_file
from hotstore.checkpoint.duckdb_file import CheckpointHead, DuckDbCodec
from hotstore.checkpoint.part import CheckpointImage, TableForm
from hotstore.checkpoint.registry_part import RegistryPart
from hotstore.engine import Engine
from tests.hotstore.checkpoint.places import DataPlace, busy, positions
from tests.hotstore.kit import BLOCK_BYTES, fill, push

OTHER = """
import sys, duckdb
with duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read") as connection:
    if sys.argv[2] == "write":
        connection.execute('UPDATE positions SET "offset" = 0')
    print(connection.execute("SELECT count(*) FROM subscribers").fetchone()[0], flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def place(tmp_path: Path) -> DataPlace:
    return DataPlace(tmp_path)


def other(path: Path, how: str) -> subprocess.Popen[str]:
    """Another program that has the file open."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) == 5
    return process


async def test_a_checkpoint_says_what_the_store_says(place: DataPlace) -> None:
    async with place.opened() as engine:
        await busy(engine)
        await engine.maintenance.once()
        # Then
        rows = place.ask('SELECT id, previous, "offset", asleep FROM subscribers')
        assert {id_: tuple(rest) for id_, *rest in rows} == await positions(engine)
        infos = await engine.store.list_queues()
        assert place.ask("SELECT name, id, next_offset, cold_offset FROM queues ORDER BY name") == [
            (info.name, info.id, 12, 9) for info in infos
        ]
        assert place.ask("SELECT name, len(receipts) FROM producers ORDER BY id") == [("p", 3), ("p", 3)]
        # And the questions of people are answered there
        assert place.ask("SELECT subscriber FROM lag WHERE queue = 'a' ORDER BY lag DESC LIMIT 1") == [
            ("a/s0",)
        ]
        blocks = {b.id: b.subscribers for b in await engine.store.list_blocks("a") if b.subscribers}
        assert (
            dict(place.ask("SELECT block, subscribers FROM subscribers_by_block WHERE queue = 'a'")) == blocks
        )


async def test_a_checkpoint_follows_blocks_that_are_sealed_and_merged(place: DataPlace) -> None:
    async with place.opened() as engine:
        # Given subscribers that do not move
        store = engine.store
        await store.create_queue("q", block_bytes=BLOCK_BYTES)
        for n in range(3):
            await store.create_subscriber("q", f"s{n}", "end")
            await fill(store, "q", 1, prefix=f"{n}-", size=10_000)
        await engine.checkpointer.write()
        question = "SELECT block, subscribers FROM subscribers_by_block ORDER BY block"
        assert place.ask(question) == [(0, 3)]
        # When their blocks become others
        await store.seal("q")
        await fill(store, "q", 4, prefix="most")
        await store.seal("q")
        await store.create_subscriber("q", "last", "end")
        await engine.maintenance.once()
        # Then
        blocks = {b.id: b.subscribers for b in await store.list_blocks("q") if b.subscribers}
        assert dict(place.ask(question)) == blocks


@pytest.mark.parametrize("clean", [True, False])
async def test_a_start_goes_on_from_the_checkpoint(place: DataPlace, clean: bool) -> None:
    # Given a journal of which most is trimmed, and a little after the last checkpoint
    async with place.opened(clean=clean) as engine:
        await busy(engine)
        for n in range(3):
            await fill(engine.store, "b", 9, prefix=f"more{n}")
            await engine.store.seal("b")
            await engine.maintenance.once()
        await engine.store.pop("a/s0", 1)
        await engine.store.create_subscriber("a", "late", "beginning")
        await engine.store.delete_subscriber("a/s3")
        receipt = await push(engine.store, "a", b"3", producer="p", sequence=3)
        before = await positions(engine)
    assert len(place.checkpoints) == 2
    # When
    async with place.opened() as engine:
        assert await positions(engine) == before
        old = await push(engine.store, "a", b"0", producer="p", sequence=0)  # in the checkpoint
        new = await push(engine.store, "a", b"3", producer="p", sequence=3)  # after it
        assert (old.duplicate, new.duplicate, new.first_offset) == (True, True, receipt.first_offset)


@pytest.mark.parametrize("how", ["read", "write"])
async def test_another_program_has_the_files_open(place: DataPlace, how: str) -> None:
    async with place.opened() as engine:
        # Given both checkpoints in use by other programs, which perhaps change them
        await busy(engine)
        await engine.checkpointer.write()
        await engine.store.pop("a/s0", 1)
        await engine.checkpointer.write()
        others = [other(path, how) for path in place.checkpoints]
        try:
            # When the server goes on
            await engine.store.pop("a/s0", 1)
            await engine.maintenance.once()
            await engine.maintenance.once()
            before = await positions(engine)
            assert engine.checkpointer.written >= 3
        finally:
            for process in others:
                process.communicate("\n")
    # Then nothing of it shows
    async with place.opened() as engine:
        assert await positions(engine) == before


async def test_a_start_while_another_program_writes_to_the_files(place: DataPlace) -> None:
    async with place.opened() as engine:
        await busy(engine)
        await engine.checkpointer.write()
        before = await positions(engine)
    process = other(place.checkpoints[-1], "read")
    try:
        async with place.opened() as engine:
            assert await positions(engine) == before
    finally:
        process.communicate("\n")


async def test_checkpoints_that_somebody_removed_are_written_again(place: DataPlace) -> None:
    async with place.opened() as engine:
        await busy(engine)
        await engine.checkpointer.write()
        await engine.store.pop("a/s0", 1)
        await engine.checkpointer.write()
        for path in place.checkpoints:
            path.unlink()
        await engine.maintenance.once()  # finds out
        await engine.maintenance.once()
        before = await positions(engine)
        assert len(place.checkpoints) == 1
    async with place.opened() as engine:
        assert await positions(engine) == before


async def test_what_changed_gives_the_same_tables_as_all_of_it(place: DataPlace) -> None:
    async with place.opened() as engine:
        # Given checkpoints that were made of changes, over all that can change
        await busy(engine)
        await engine.checkpointer.write()
        await fill(engine.store, "a", 9, prefix="more")
        await engine.store.pop("a/s1", 3)
        await engine.store.delete_subscriber("a/s2")
        await engine.store.seek("a/s0", "end")
        await engine.store.wakeup("b/s")
        await engine.store.seal("a")
        await engine.store.update_queue("b", block_seconds=7.0)
        await push(engine.store, "a", b"again", producer="q", sequence=1)
        await engine.store.create_queue("c")
        await engine.store.create_subscriber("c", "s")
        await engine.checkpointer.write()
        await engine.store.delete_queue("c")
        await engine.store.create_queue("d")
        engine.registry.queues["a"].producers.forget_before(1 << 62)
        engine.registry.changes.queues.add(engine.registry.queues["a"])
        await engine.checkpointer.write()
        # When all of it is taken
        whole = CheckpointImage(RegistryPart.forms)
        whole.apply(await RegistryPart(engine.registry, engine.checkpointer._runner).collect(whole=True))
        # Then
        made = engine.checkpointer._image
        for form in RegistryPart.forms:
            assert _sorted(made, form) == _sorted(whole, form), form.name
        assert made.tables["positions"].num_rows == 4


def _sorted(image: CheckpointImage, form: TableForm) -> list[dict[str, object]]:
    return image.tables[form.name].sort_by(form.key).to_pylist()


async def test_a_checkpoint_of_a_newer_version_refuses_the_start_and_stays(
    place: DataPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.opened() as engine:
        await busy(engine)
    before = place.checkpoints
    with monkeypatch.context() as older:
        older.setattr(duckdb_file, "FORMAT", 0)
        with pytest.raises(Conflict, match="format 1, this jjq reads 0"):
            async with place.opened():
                pass
        older.setattr(duckdb_file, "FORMAT", 1)
        older.setattr(RegistryPart, "forms", RegistryPart.forms[:5])
        with pytest.raises(Conflict, match=r"tables that this jjq does not know \(numbers\)"):
            async with place.opened():
                pass
    assert place.checkpoints == before
    async with place.opened() as engine:
        assert len(await positions(engine)) == 5


def test_duckdb_can_do_nothing_but_what_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "made.duckdb"
    DuckDbCodec().write(path, CheckpointHead(1, 2, 0, SystemClock().now_us()), _empty())
    with duckdb_file.open_reader(path) as connection:
        told = dict(connection.execute("SELECT name, value FROM duckdb_settings()").fetchall())
        assert told["enable_progress_bar"] == "false"
        assert (told["enable_external_access"], told["lock_configuration"]) == ("false", "true")
        with pytest.raises(duckdb.Error):
            connection.execute("SET threads = 2")
        with pytest.raises(duckdb.PermissionException):
            connection.execute("SELECT * FROM read_text('/etc/passwd')")


def _empty() -> dict[str, object]:
    return {form.name: form.empty() for form in RegistryPart.forms}


async def test_the_file_of_an_earlier_release_is_removed(place: DataPlace) -> None:
    place.data.mkdir(parents=True)
    (place.data / "catalog.duckdb").write_bytes(b"a view of last week")
    async with place.opened() as engine:
        assert isinstance(engine, Engine)
        assert not (place.data / "catalog.duckdb").exists()
