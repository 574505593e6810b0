"""The relational view of a running store: right, up to date, and rebuilt when it is gone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import duckdb
import pytest

from coldstore.objects.local import LocalObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from hotstore.catalog.catalog import Catalog, Snapshot
from hotstore.engine import Engine
from hotstore.opening import open_engine
from tests.hotstore.kit import BLOCK_BYTES, fill, push, settings

ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Engine]:
    cold = ColdStore(LocalObjects(path / "cold"), SystemClock(), SystemChance())
    # Nothing happens on its own; the catalog is written each time that a test asks for maintenance.
    hot = settings(maintain_seconds=1e6, checkpoint_seconds=1e-9)
    engine = await open_engine(path / "data", cold, settings=hot, clock=SystemClock(), chance=SystemChance())
    try:
        yield engine
    finally:
        await engine.close()


def catalog(path: Path) -> Catalog:
    return Catalog(
        path / "data" / "catalog.duckdb", path / "data" / "quarantine", SystemClock(), SystemChance()
    )


async def positions(engine: Engine) -> dict[str, tuple[int, int, int]]:
    infos = await engine.store.list_subscribers()
    return {info.id: (info.previous, info.offset, info.block) for info in infos}


def stored(snapshot: Snapshot) -> dict[str, tuple[int, int, int]]:
    rows = snapshot.subscribers.to_pylist()
    return {row["id"]: (row["previous"], row["offset"], row["block"]) for row in rows}


async def busy(engine: Engine) -> None:
    """Two queues, blocks, subscribers in several of them, one deleted."""
    store = engine.store
    for name in ("a", "b"):
        await store.create_queue(name, block_bytes=BLOCK_BYTES)
        await fill(store, name, 9)
        await store.seal(name)
    for n, start in enumerate(("beginning", "offset:5", "end", "last:1")):
        await store.create_subscriber("a", f"s{n}", start)
        await store.pop(f"a/s{n}", 2)
    await store.create_subscriber("b", "gone")
    await store.delete_subscriber("b/gone")
    await store.create_subscriber("b", "s", "offset:4")


async def test_the_catalog_says_what_the_store_says(tmp_path: Path) -> None:
    async with serving(tmp_path) as engine:
        # Given
        await busy(engine)
        # When
        await engine.maintenance.once()
        # Then
        view = catalog(tmp_path)
        snapshot = view.read()
        assert stored(snapshot) == await positions(engine)
        queues = {row["name"]: row for row in snapshot.queues.to_pylist()}
        for info in await engine.store.list_queues():
            row = queues[info.name]
            assert (row["id"], row["next_offset"], row["cold_offset"]) == (info.id, 9, 9)
        # And the questions of the seed are answered there
        assert view.subscribers_in("a", 0) == ["s0"]
        assert view.lag("a").to_pylist()[0]["subscriber"] == "a/s0"
        assert sum(view.blocks_with_subscribers("a").values()) == 4
        blocks = {b.id: b.subscribers for b in await engine.store.list_blocks("a") if b.subscribers}
        assert view.blocks_with_subscribers("a") == blocks


async def test_the_catalog_follows_blocks_that_are_sealed_and_merged(tmp_path: Path) -> None:
    async with serving(tmp_path) as engine:
        # Given subscribers that do not move
        store = engine.store
        await store.create_queue("q", block_bytes=BLOCK_BYTES)
        for n in range(3):
            await store.create_subscriber("q", f"s{n}", "end")
            await fill(store, "q", 1, prefix=f"{n}-", size=30_000)
        await engine.maintenance.once()
        assert catalog(tmp_path).blocks_with_subscribers("q") == {0: 3}
        # When their blocks become others: cut, and then merged
        await store.seal("q")
        await store.create_subscriber("q", "last", "end")
        await fill(store, "q", 1, prefix="more", size=30_000)
        await store.seal("q")
        await engine.maintenance.once()
        seen = [catalog(tmp_path).blocks_with_subscribers("q")]
        await fill(store, "q", 4, prefix="most")
        await store.seal("q")
        await engine.maintenance.once()
        seen.append(catalog(tmp_path).blocks_with_subscribers("q"))
        # Then the catalog says so each time
        now = {b.id: b.subscribers for b in await store.list_blocks("q") if b.subscribers}
        assert seen[-1] == now
        assert seen[0] != {0: 3}


async def test_only_what_changed_is_written_and_what_is_gone_goes(tmp_path: Path) -> None:
    async with serving(tmp_path) as engine:
        await busy(engine)
        await engine.maintenance.once()
        written = catalog(tmp_path).read().written_us
        await engine.maintenance.once()
        assert catalog(tmp_path).read().written_us == written, "nothing changed, nothing was written"
        await engine.store.delete_subscriber("a/s1")
        await engine.store.seek("a/s0", "end")
        await push(engine.store, "b", b"more")
        await engine.maintenance.once()
        snapshot = catalog(tmp_path).read()
        assert stored(snapshot) == await positions(engine)
        assert "a/s1" not in stored(snapshot)
        assert {row["name"]: row["next_offset"] for row in snapshot.queues.to_pylist()} == {"a": 9, "b": 10}


def overwrite(file: Path) -> None:
    file.write_bytes(b"not a database" * 1_000)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for position in range(4_096, len(data), 997):
        data[position] ^= 0x55
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5_000])


@pytest.mark.parametrize("harm", [Path.unlink, overwrite, flip, cut], ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("clean", [True, False])
async def test_a_damaged_or_missing_catalog_is_rebuilt_with_the_same_positions(
    tmp_path: Path, harm: object, clean: bool
) -> None:
    # Given
    async with serving(tmp_path) as engine:
        await busy(engine)
        await engine.maintenance.once()
        before = await positions(engine)
    file = tmp_path / "data" / "catalog.duckdb"
    harm(file)  # type: ignore[operator]
    # When
    async with serving(tmp_path) as engine:
        if not clean:
            await engine.store.pop("a/s0", 1)
        await engine.maintenance.once()
        after = await positions(engine)  # opens the queues: now their blocks are known
        await engine.maintenance.once()
        # Then positions come from the journal, and the catalog has them again
        expected = before if clean else {**before, "a/s0": (2, 3, 0)}
        assert after == expected
        assert stored(catalog(tmp_path).read()) == expected
    # And what was there is kept aside
    kept = list((tmp_path / "data" / "quarantine").glob("**/catalog.duckdb"))
    assert len(kept) == (0 if harm is Path.unlink else 1)


async def test_a_catalog_that_another_process_holds_is_left_alone_and_caught_up_with_later(
    tmp_path: Path,
) -> None:
    # Given a tool that has the file open for writing
    script = (
        "import duckdb, sys\nc = duckdb.connect(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.read()\n"
    )
    async with serving(tmp_path) as engine:
        await busy(engine)
        await engine.maintenance.once()
        file = tmp_path / "data" / "catalog.duckdb"
        tool = subprocess.Popen(  # noqa: ASYNC220 - it is waited for by its first line
            [sys.executable, "-c", script, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert tool.stdout is not None
        assert tool.stdin is not None
        assert tool.stdout.readline() == "open\n"
        # When
        await engine.store.seek("a/s0", "end")
        await engine.maintenance.once()
        # Then the store goes on
        assert (await push(engine.store, "a", b"x")).first_offset == 9
        tool.stdin.close()
        tool.stdout.close()
        tool.wait()
        await engine.maintenance.once()
        assert stored(catalog(tmp_path).read()) == await positions(engine)


async def test_anyone_may_read_the_catalog_between_two_writes(tmp_path: Path) -> None:
    async with serving(tmp_path) as engine:
        await busy(engine)
        await engine.maintenance.once()
        with duckdb.connect(str(tmp_path / "data" / "catalog.duckdb"), read_only=True) as connection:
            rows = connection.execute(
                "SELECT q.name, s.name FROM subscribers s JOIN queues q ON q.id = s.queue_id ORDER BY ALL"
            ).fetchall()
    assert rows == [("a", "s0"), ("a", "s1"), ("a", "s2"), ("a", "s3"), ("b", "s")]
