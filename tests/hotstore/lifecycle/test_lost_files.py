"""Whole files of the journal are lost, in every way: it is said by queue and offsets, and what is sound stays."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from coldstore.objects.local import LocalObjects
from coldstore.shared.batch import Element, elements, payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, DataLoss
from coldstore.shared.limits import KIB
from coldstore.store import ColdStore
from hotstore.checkpoint.checkpointer import Checkpointer
from hotstore.engine import Engine
from hotstore.journal.bounds import NAME
from hotstore.journal.spares import Inline
from hotstore.opening import open_engine
from hotstore.queue.placeholders import HEADER
from hotstore.queue.queue import HotQueue
from tests.hotstore.kit import BLOCK_BYTES, fat, settings

COUNT = 24  # elements of 20 KiB: about four to a segment
SMALL = settings(segment_bytes=96 * KIB, group_bytes_max=32 * KIB)


@pytest.fixture(autouse=True)
def _inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread prepares files while a test copies the folder."""
    monkeypatch.setattr("hotstore.journal.disk_journal.Thread", Inline)


@dataclass
class Place:
    """A data directory and a cold store of its own, elsewhere."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def journal(self) -> Path:
        return self.data / "journal"

    @property
    def files(self) -> list[Path]:
        """The segments that may have batches, oldest first."""
        return sorted(self.journal.glob("*.seg"))

    @asynccontextmanager
    async def opened(self, *, clean: bool = False, at: str = "") -> AsyncIterator[Engine]:
        """A node that does nothing on its own; killed at the end unless `clean`."""
        clock, chance = SystemClock(), SystemChance()
        cold = ColdStore(LocalObjects(self.root / "cold", clock=clock, chance=chance), clock, chance)
        engine = await open_engine(self.data, cold, settings=SMALL, clock=clock, chance=chance, place=at)
        await engine.maintenance.stop()
        copy = self.root / "killed"
        kept: dict[Path, bytes] = {}
        try:
            yield engine
            if not clean:
                shutil.copytree(self.data, copy)
                kept = {path: path.read_bytes() for path in (self.root / "cold").rglob("*") if path.is_file()}
        finally:
            await engine.close()
        if not clean:  # put back what a process that was killed here would have left
            shutil.rmtree(self.data)
            copy.rename(self.data)
            shutil.rmtree(self.root / "cold")
            for path, content in kept.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


async def fill(engine: Engine, count: int = COUNT, start: int = 0) -> None:
    for number in range(start, start + count):
        await engine.store.push("q", payload("bytes", [fat(f"e{number}")]))


async def read_sound(engine: Engine) -> dict[int, Element]:
    found: dict[int, Element] = {}
    for block in await engine.store.list_blocks("q"):
        if block.count:
            first, end = f"offset:{block.first_offset}", f"offset:{block.last_offset + 1}"
            async for batch in engine.store.read("q", first, end):
                found |= {each.offset: each for each in elements(batch)}
    return found


async def fresh(tmp_path: Path) -> Place:
    """Elements in several segments, not one of them cold; killed."""
    place = Place(tmp_path)
    async with place.opened() as engine:
        await engine.store.create_queue("q", block_bytes=64 * BLOCK_BYTES)
        await fill(engine)
        await engine.look_at_journal(durable=True, due=True)
    assert len(place.files) > 4
    return place


def lose_first(place: Place) -> None:
    place.files[0].unlink()


def lose_first_three(place: Place) -> None:
    for path in place.files[:3]:
        path.unlink()


def lose_middle(place: Place) -> None:
    place.files[len(place.files) // 2].unlink()


def lose_last_with_data(place: Place) -> None:
    place.files[-2].unlink()  # the last one is the spare


def lose_last_two(place: Place) -> None:
    for path in place.files[-2:]:
        path.unlink()


def lose_all(place: Place) -> None:
    for path in place.files:
        path.unlink()


def lose_folder(place: Place) -> None:
    shutil.rmtree(place.journal)


def lose_data_directory(place: Place) -> None:
    shutil.rmtree(place.data)


def lose_last_and_bounds(place: Place) -> None:
    """The cold store alone knows then how far it went."""
    place.files[-2].unlink()
    place.files[-1].unlink()
    (place.data / NAME).unlink()


LOSSES: list[Callable[[Place], None]] = [
    lose_first,
    lose_first_three,
    lose_middle,
    lose_last_with_data,
    lose_last_two,
    lose_all,
    lose_folder,
    lose_data_directory,
    lose_last_and_bounds,
]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
async def test_lost_files_are_noticed_told_and_can_be_accepted(
    tmp_path: Path, lose: Callable[[Place], None], caplog: pytest.LogCaptureFixture
) -> None:
    place = await fresh(tmp_path)
    lose(place)
    sound: dict[int, Element] = {}
    for _ in range(2):  # the second start knows it as well, whatever the first one wrote
        caplog.clear()
        async with place.opened() as engine:
            # Then it is said, pushes are refused, and what is sound is read
            with pytest.raises(DataLoss, match="queue q"):
                await engine.store.push("q", payload("bytes", [b"more"]))
            assert "DATA_LOSS: queue q" in caplog.text
            found = await read_sound(engine)
            assert all(each.value == fat(f"e{offset}") for offset, each in found.items())
            assert len(found) < COUNT
            assert not sound or found == sound, "a start destroyed what was sound"
            sound = found
            await engine.maintenance.once()  # trims nothing that is needed
    # When an operator asks, nothing changes; when he accepts, offsets stay dense
    async with place.opened() as engine:
        told = await engine.store.accept_loss("q", dry_run=True)
        end = max([COUNT, told.next_offset])
        with pytest.raises(DataLoss):
            await engine.store.push("q", payload("bytes", [b"more"]))
        caplog.clear()
        lost = await engine.store.accept_loss("q", next_offset=end if told.in_doubt else None)
        assert lost.count == COUNT - len(sound)
        assert "loss accepted: queue='q'" in caplog.text
        assert "cause=''" not in caplog.text
        receipt = await engine.store.push("q", payload("bytes", [fat(f"e{COUNT}")]))
        assert receipt.first_offset == COUNT
        await check_dense(engine, sound)
    async with place.opened(clean=True) as engine:
        await check_dense(engine, sound)
        await engine.store.seal("q")
        await engine.maintenance.once()
        await check_dense(engine, sound)
        again = await engine.store.accept_loss("q")
        assert not again.ranges
        assert not again.in_doubt
    async with place.opened(clean=True) as engine:
        await fill(engine, 2, COUNT + 1)
        await check_dense(engine, sound, COUNT + 3)


async def check_dense(engine: Engine, sound: dict[int, Element], end: int = COUNT + 1) -> None:
    found = [each async for batch in engine.store.read("q") for each in elements(batch)]
    assert [each.offset for each in found] == list(range(end))
    times = [each.timestamp for each in found]
    assert times == sorted(times)
    for each in found:
        lost = each.offset not in sound and each.offset < COUNT
        assert (HEADER in each.headers) is lost
        assert each.value == (b"" if lost else fat(f"e{each.offset}"))


async def test_a_folder_of_another_node_is_refused_and_left_alone(tmp_path: Path) -> None:
    one, other = await fresh(tmp_path / "one"), await fresh(tmp_path / "other")
    shutil.rmtree(one.journal)
    shutil.copytree(other.journal, one.journal)
    before = {path.name: path.read_bytes() for path in one.files}
    with pytest.raises(Conflict, match="another data directory's journal"):
        async with one.opened():
            pass
    assert {path.name: path.read_bytes() for path in one.files} == before


async def test_one_file_of_another_node_is_refused(tmp_path: Path) -> None:
    one, other = await fresh(tmp_path / "one"), await fresh(tmp_path / "other")
    shutil.copyfile(other.files[1], one.files[1])
    with pytest.raises(Conflict, match=one.files[1].name):
        async with one.opened():
            pass


async def test_a_data_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    one, other = await fresh(tmp_path / "one"), await fresh(tmp_path / "other")
    shutil.rmtree(one.data)
    shutil.copytree(other.data, one.data)
    with pytest.raises(Conflict, match="start it with its own data directory"):
        async with one.opened():
            pass


@pytest.mark.parametrize("what", ["journal", "data"])
async def test_an_older_copy_put_back_is_noticed(tmp_path: Path, what: str) -> None:
    place = await fresh(tmp_path)
    shutil.copytree(place.data, tmp_path / "older")
    async with place.opened() as engine:
        await fill(engine, 2, COUNT)
        await engine.look_at_journal(durable=True, due=True)
    old, new = (
        (tmp_path / "older", place.data) if what == "data" else (tmp_path / "older/journal", place.journal)
    )
    shutil.rmtree(new)
    shutil.copytree(old, new)
    async with place.opened() as engine:
        with pytest.raises(DataLoss, match=f"elements {COUNT}..{COUNT + 1} were acknowledged"):
            await engine.store.push("q", payload("bytes", [b"more"]))


async def test_an_older_copy_is_noticed_by_the_cold_store_alone(tmp_path: Path) -> None:
    # Given a copy from before a block was sealed; and nobody had the time to say how far the journal goes
    place = await fresh(tmp_path)
    shutil.copytree(place.data, tmp_path / "older")
    said = (tmp_path / "cold/journal.json").read_bytes()
    async with place.opened() as engine:
        await fill(engine, 2, COUNT)
        await engine.store.seal("q")
    shutil.rmtree(place.data)
    shutil.copytree(tmp_path / "older", place.data)
    (tmp_path / "cold/journal.json").write_bytes(said)
    async with place.opened() as engine:
        with pytest.raises(DataLoss, match="seems to be an older copy"):
            await engine.store.push("q", payload("bytes", [b"more"]))
        assert len(await read_sound(engine)) == COUNT + 2
        lost = await engine.store.accept_loss("q")
        assert lost.in_doubt
        assert not lost.ranges
        assert (await engine.store.push("q", payload("bytes", [b"x"]))).first_offset == COUNT + 2
    async with place.opened() as engine:
        assert (await engine.store.push("q", payload("bytes", [b"x"]))).first_offset == COUNT + 3


async def test_new_nodes_and_lost_notes_start_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path)
    async with place.opened(clean=True) as engine:
        await engine.store.create_queue("q", block_bytes=64 * BLOCK_BYTES)
        await fill(engine)
    for name in (NAME, "lock", "journal/clean"):
        (place.data / name).unlink(missing_ok=True)
        shutil.rmtree(place.data / "quarantine", ignore_errors=True)
        async with place.opened() as engine:
            assert len(await read_sound(engine)) == COUNT
    (tmp_path / "cold/journal.json").unlink()
    async with place.opened(clean=True) as engine:
        await fill(engine, 1, COUNT)
        await engine.store.seal("q")
    assert "DATA_LOSS" not in caplog.text
    # All of it was cold when the node stopped: an empty directory loses no element, and that is said
    shutil.rmtree(place.data)
    async with place.opened() as engine:
        await fill(engine, 1, COUNT + 1)
    assert "its subscribers are gone, and 0 queues" in caplog.text
    assert "DATA_LOSS: queue" not in caplog.text


async def test_a_copy_of_the_cold_store_at_another_place_is_no_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path)
    async with place.opened(at="here") as engine:
        await engine.store.create_queue("q", block_bytes=64 * BLOCK_BYTES)
        await fill(engine, 3)
        await engine.look_at_journal(durable=True, due=True)
    lose_data_directory(place)
    async with place.opened(at="there") as engine:
        assert (await engine.store.push("q", payload("bytes", [b"x"]))).first_offset == 0
    assert "this cold store is a copy of here" in caplog.text
    assert "DATA_LOSS" not in caplog.text


async def test_elements_without_a_name_are_kept_while_it_is_open_whose_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a journal as earlier versions wrote it: the row of the queue is in the first file alone, which is gone
    with monkeypatch.context() as earlier:
        earlier.setattr(HotQueue, "records", HotQueue._pushes)
        earlier.setattr(Checkpointer, "due", lambda _: False)
        place = await fresh(tmp_path)
    lose_first(place)
    for _ in range(2):
        async with place.opened() as engine:
            with pytest.raises(DataLoss, match="queue q"):
                await engine.store.push("q", payload("bytes", [b"more"]))
            await engine.checkpointer.write()
            await engine.checkpointer.trim()
            assert any(fat("e20") in path.read_bytes() for path in place.files), (
                "sound elements were destroyed"
            )
    # Then they are let go of once the loss is accepted
    async with place.opened(clean=True) as engine:
        lost = await engine.store.accept_loss("q", next_offset=COUNT)
        assert lost.ranges == ((0, COUNT),)
        await engine.store.seal("q")
        await engine.checkpointer.write()
        await engine.checkpointer.trim()
        assert len(place.files) <= 3


async def test_placeholders_fit_the_content_of_the_queue(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.opened() as engine:
        await engine.store.create_queue("q", content="json")
        await engine.store.push("q", payload("json", ["1"]))
        await engine.look_at_journal(durable=True, due=True)
    lose_folder(place)
    async with place.opened(clean=True) as engine:
        await engine.store.accept_loss("q")
        await engine.store.push("q", payload("json", ["2"]))
        await engine.store.seal("q")
        found = [each async for batch in engine.store.read("q") for each in elements(batch)]
        assert [each.value for each in found] == ["null", "2"]
