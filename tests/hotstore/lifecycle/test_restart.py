"""Ends and starts on a real disk: quick, complete, and one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coldstore.objects.local import LocalObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, JjqError, Unavailable
from coldstore.store import ColdStore
from hotstore.engine import Engine
from hotstore.opening import open_engine, open_store
from hotstore.testing.simulated_disk import SimDisk
from tests.hotstore.kit import BLOCK_BYTES, World, drain, fat, fill, push, read_all, settings

ROOT = Path(__file__).parents[3]


def cold_at(path: Path) -> ColdStore:
    return ColdStore(LocalObjects(path / "cold"), SystemClock(), SystemChance())


async def opened(path: Path, **changes: Any) -> Engine:
    hot = settings(maintain_seconds=1e6, **changes)
    return await open_engine(
        path / "data", cold_at(path), settings=hot, clock=SystemClock(), chance=SystemChance()
    )


@asynccontextmanager
async def serving(path: Path, **changes: Any) -> AsyncIterator[Engine]:
    engine = await opened(path, **changes)
    try:
        yield engine
    finally:
        await engine.close()


async def test_a_store_is_opened_closed_and_opened_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as engine:
        await engine.store.create_queue("q", block_bytes=BLOCK_BYTES)
        made = await fill(engine.store, "q", 9)
        await engine.store.create_subscriber("q", "s", "offset:2")
        await engine.store.pop("q/s", 3)
        info, position = await engine.store.get_queue("q"), await engine.store.get_subscriber("q/s")
    async with serving(tmp_path) as engine:
        again, where = await engine.store.get_queue("q"), await engine.store.get_subscriber("q/s")
        assert (again.id, again.next_offset, again.created_us) == (info.id, info.next_offset, info.created_us)
        assert (where.previous, where.offset) == (position.previous, position.offset)
        assert [e.value for e in await read_all(engine.store, "q")] == made
    names = sorted(p.name for p in (tmp_path / "data").iterdir())
    assert names == ["checkpoints", "journal", "journal.bounds", "lock"]


async def test_closing_the_store_closes_everything_and_may_be_repeated(tmp_path: Path) -> None:
    store = await open_store(
        tmp_path / "data", cold_at(tmp_path), settings=settings(), clock=SystemClock(), chance=SystemChance()
    )
    await store.create_queue("q", block_bytes=BLOCK_BYTES)
    await store.close()
    await store.close()
    with pytest.raises(Unavailable, match="closing"):
        await push(store, "q", b"x")
    async with serving(tmp_path):
        pass


async def test_a_clean_end_keeps_the_tail_in_the_journal(world: World) -> None:
    made = await fill(world.store, "q", 2)
    puts = dict(world.objects.calls)
    await world.close()
    assert world.objects.calls == puts, "nothing was sealed"
    await world.start()
    assert world.journal.damage == []
    assert [e.value for e in await read_all(world.store, "q")] == made
    assert (await world.store.get_queue("q")).cold_offset == 0


async def test_a_clean_end_seals_the_tail_where_that_is_asked_for() -> None:
    world = await World(seal_on_close=True).start()
    for name in ("a", "b"):
        await world.store.create_queue(name, block_bytes=BLOCK_BYTES)
        await push(world.store, name, name.encode())
    await world.close()
    for name in ("a", "b"):
        assert world.cold.open_queue(name).next_offset == 1
    await world.start()
    assert (await world.store.get_queue("a")).cold_offset == 1
    assert [e.value for e in await read_all(world.store, "b")] == [b"b"]


async def test_a_clean_end_with_the_cold_store_away_loses_nothing() -> None:
    world = await World(seal_on_close=True).start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await push(world.store, "q", b"a")
    world.objects.down = True
    await world.close()
    world.objects.heal()
    await world.start()
    assert [e.value for e in await read_all(world.store, "q")] == [b"a"]


async def test_a_clean_end_on_a_full_disk_loses_nothing(world: World) -> None:
    await push(world.store, "q", b"a")
    world.disk.capacity_bytes = sum(map(len, world.disk.files().values()))
    await world.close()
    await world.start()
    assert [e.value for e in await read_all(world.store, "q")] == [b"a"]


async def test_a_clean_end_makes_the_next_start_short(world: World) -> None:
    # Given much that is sealed, and a journal full of positions
    await world.store.create_subscriber("q", "s", "beginning")
    await fill(world.store, "q", 40)
    await world.quiet()
    await drain(world.store, "q/s", 1)
    await world.store.seal("q")
    await world.engine.checkpointer.write()
    await push(world.store, "q", b"last")
    await drain(world.store, "q/s", 1)
    await world.store.seal("q")
    await world.close()
    # When
    reads = Reads(world)
    await world.start()
    # Then little of it is read again
    assert reads.bytes < 600_000
    assert (await world.store.get_subscriber("q/s")).offset == 41


class Reads:
    """Counts the bytes that a journal reads."""

    def __init__(self, world: World) -> None:
        self.bytes = 0
        make = SimDisk.open

        def counting(disk: SimDisk, name: str, *, create: bool = False) -> Any:
            file = make(disk, name, create=create)
            read = file.read

            def counted(position: int, length: int) -> bytes:
                data = read(position, length)
                self.bytes += len(data)
                return data

            file.read = counted  # type: ignore[method-assign]
            return file

        world.disk.open = counting.__get__(world.disk)  # type: ignore[method-assign]


async def test_a_thousand_queues_start_at_once_and_are_all_there() -> None:
    # Given
    world = await World().start()
    for n in range(1_000):
        await world.store.create_queue(f"q{n}", block_bytes=BLOCK_BYTES)
        await push(world.store, f"q{n}", b"%d" % n)
        if n % 10 == 0:
            await world.store.create_subscriber(f"q{n}", "s", "beginning")
    await world.crash()
    calls = dict(world.objects.calls)
    # When
    await world.start()
    # Then the cold store was not asked for any of them, whatever their number
    assert sum(world.objects.calls.values()) - sum(calls.values()) <= 2
    for n in (0, 1, 500, 999):
        assert [e.value for e in await read_all(world.store, f"q{n}")] == [b"%d" % n]
    assert len(await world.store.list_queues()) == 1_000
    assert len(await world.store.list_subscribers()) == 100


async def test_a_node_that_lost_its_disk_finds_its_queues_in_the_cold_store() -> None:
    # Given what is cold, and what is only in the journal
    world = await World().start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await push(world.store, "q", b"cold", stage="cold")
    await push(world.store, "q", b"exposed")
    await world.crash()
    # When
    world.disk = type(world.disk)(world.clock)
    await world.start()
    # Then it goes on after what is cold; the rest is lost, as documented
    assert [q.name for q in await world.store.list_queues()] == ["q"]
    assert [e.value for e in await read_all(world.store, "q")] == [b"cold"]
    assert (await push(world.store, "q", b"next")).first_offset == 1
    await world.restart()
    assert [e.value for e in await read_all(world.store, "q")] == [b"cold", b"next"]


async def test_a_second_open_in_the_same_process_names_who_has_it(tmp_path: Path) -> None:
    async with serving(tmp_path):
        with pytest.raises(Conflict, match=f"is in use by process {os.getpid()}: stop it"):
            await opened(tmp_path)
    async with serving(tmp_path):
        pass


async def test_another_process_is_told_who_has_it(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom tests.hotstore.lifecycle.test_restart import opened\n"
        "asyncio.run(opened(Path(sys.argv[1])))\n"
    )
    async with serving(tmp_path):
        other = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
            [sys.executable, "-c", script, str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert other.returncode == 1
    assert f"Conflict: {tmp_path / 'data'} is in use by process {os.getpid()}" in other.stderr


async def test_a_start_that_fails_lets_go_of_everything(tmp_path: Path) -> None:
    # Given a journal that a newer version wrote
    async with serving(tmp_path) as engine:
        await engine.store.create_queue("q", block_bytes=BLOCK_BYTES)
    (segment, *_) = sorted((tmp_path / "data" / "journal").glob("*.seg"))
    mark = tmp_path / "data" / "journal" / "clean"
    whole = mark.read_bytes()
    mark.write_bytes(newer(whole))
    before = set(threading.enumerate())
    # When
    with pytest.raises(Conflict, match="nothing was changed"):
        await opened(tmp_path)
    # Then no thread is left behind, and the next start works once that is put right
    left = set(threading.enumerate()) - before
    assert [thread.name for thread in left if thread.name.startswith("jjq")] == []
    mark.write_bytes(whole)
    assert segment.exists()
    async with serving(tmp_path) as engine:
        assert [q.name for q in await engine.store.list_queues()] == ["q"]


def newer(mark: bytes) -> bytes:
    """The mark of a clean end, as a later format would have it."""
    from hotstore.journal import layout

    fields = mark[:4] + (99).to_bytes(2, "little") + mark[6 : -layout.CHECKSUM.size]
    return fields + layout.CHECKSUM.pack(layout.checksum(0, fields))


async def test_with_threads_everything_is_as_without(tmp_path: Path) -> None:
    # Given the real runners, and blocks that are sealed, loaded and merged while pushes and pops go on
    import asyncio

    async with serving(tmp_path, hot_bytes_max=4 * BLOCK_BYTES) as engine:
        store = engine.store
        await store.create_queue("q", block_bytes=BLOCK_BYTES)
        for n in range(3):
            await store.create_subscriber("q", f"s{n}", "beginning")

        async def produce(n: int) -> None:
            for i in range(20):
                await push(store, "q", fat(f"{n}.{i}", 9_000), producer=f"p{n}", sequence=i)

        async def consume(name: str) -> list[bytes | str]:
            found: list[bytes | str] = []
            while len(found) < 80:
                popped = await store.pop(f"q/{name}", 5, 10.0)
                found += popped.batch.column("value").to_pylist()
            return found

        results = await asyncio.gather(*(produce(n) for n in range(4)), *(consume(f"s{n}") for n in range(3)))
        await store.seal("q")
        await engine.maintenance.once()
        log = [e.value for e in await read_all(store, "q")]
    for found in results[4:]:
        assert found == log
    for n in range(4):
        assert [v for v in log if v.startswith(b"<%d." % n)] == [fat(f"{n}.{i}", 9_000) for i in range(20)]  # type: ignore[arg-type]


FAILING: dict[str, Callable[[World], Awaitable[object]]] = {
    "push": lambda w: push(w.store, "q", b"x"),
    "pop": lambda w: w.store.pop("q/s", 1),
    "create": lambda w: w.store.create_subscriber("q", "t"),
}


@pytest.mark.parametrize("verb", FAILING)
async def test_after_the_end_every_verb_says_that_the_store_is_closing(world: World, verb: str) -> None:
    await world.store.create_subscriber("q", "s", "beginning")
    await push(world.store, "q", b"a")
    engine = world.engine
    await engine.close()
    with pytest.raises(JjqError, match="closing"):
        await FAILING[verb](world)
