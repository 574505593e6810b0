"""Backups and restores: sound at every instant, no more work than was added, and nothing in the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coldstore import backup
from coldstore.backup import Copied, Copying
from coldstore.layout import metadata, paths
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared import failpoint, limits
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, DataLoss, JjqError, NotFound, Unavailable
from coldstore.store import ColdStore
from tests.coldstore.making import Made, contents, elements, flip, keys, read_all, shape
from tests.servers.s3 import S3Server


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Final blocks 0, 10, … 40, young ones 50 and 60."""
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 4)
    made = Made()
    for epoch in range(5):
        made.push(10, epoch=epoch)
    made.push(10, final=False, epoch=5)
    made.push(10, final=False, epoch=5)
    return made


def copy(made: Made, target: ObjectStore, **how: Any) -> Copied:
    """One backup of the queue."""
    empty = how.pop("empty", False)
    source = ColdStore(how.pop("source", made.objects), made.clock, SeededChance(7))
    work = Copying(source, target, made.clock, SeededChance(8), **how)
    backup.prepare(work, empty=empty)
    return backup.copy_queue(work, "orders")


def opened(objects: ObjectStore) -> ColdQueue:
    return ColdStore(objects, ManualClock(), SeededChance(9)).open_queue("orders")


def in_data(objects: ObjectStore) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for key in keys(objects, paths.data_folder("orders")):
        table = pq.read_table(pa.BufferReader(objects.get(key).data))
        found += zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
    return found


def test_a_backup_holds_all_blocks_and_nothing_that_is_of_this_place(made: Made) -> None:
    for key in (
        paths.shards("orders"),
        paths.state("orders", "1-ab.json"),
        paths.node("n1"),
        paths.journal("n1", 1),
    ):
        made.objects.put(key, b"of this place")
    target = MemoryObjects()
    done = copy(made, target)
    assert (done.problem, done.next, done.blocks) == (None, 70, 7)
    assert done.report is not None
    assert done.report.ok
    assert read_all(opened(target)) == read_all(made.queue)
    assert shape(opened(target)) == shape(made.queue)
    copied = contents(target)
    assert {key: data for key, data in contents(made.objects).items() if key in copied} == copied
    assert {key.split("/")[2] for key in copied if key != paths.STORE} == {
        "queue.json",
        "data",
        "young",
        "meta",
        "index",
    }


def test_the_next_backup_reads_and_writes_only_what_was_added(made: Made) -> None:
    target = MemoryObjects()
    copy(made, target)
    before = contents(target)
    done = copy(made, target)
    assert (done.blocks, done.stored_bytes, done.next) == (0, 0, 70)
    assert contents(target) == before
    made.push(10, epoch=5)  # with the young blocks before it
    done = copy(made, target)
    assert (done.blocks, done.next, done.problem) == (1, 80, None)
    assert read_all(opened(target)) == read_all(made.queue)
    assert in_data(target) == read_all(made.queue)


def test_young_blocks_that_were_merged_since_are_swept_from_the_backup(made: Made) -> None:
    target = MemoryObjects(made.clock)
    copy(made, target)
    made.push(10, epoch=5)
    made.clock.advance(1.0)
    copy(made, target)
    made.clock.advance(1.0)
    copy(made, target)
    assert keys(target, paths.young_folder("orders")) == []
    assert [key for key in keys(target, paths.meta_folder("orders")) if "young" in key] == []
    assert opened(target).verify().notes == ()


class Dies:
    """A target whose store ends after so many writes."""

    def __init__(self, inner: ObjectStore, writes: int) -> None:
        self._inner = inner
        self._left = writes

    def __getattr__(self, verb: str) -> Any:
        inner = getattr(self._inner, verb)
        if not verb.startswith("put"):
            return inner

        def put(*args: Any) -> Any:
            if self._left == 0:
                raise Unavailable("killed")
            self._left -= 1
            return inner(*args)

        return put


def test_a_backup_that_is_broken_off_anywhere_is_a_sound_prefix_and_gone_on_with(made: Made) -> None:
    for writes in range(20):
        target = MemoryObjects()
        broken: JjqError | None = None
        try:
            broken = copy(made, Dies(target, writes)).problem
        except Unavailable as error:
            broken = error
        assert isinstance(broken, Unavailable) or writes > 15
        if paths.queue("orders") in keys(target):
            report = opened(target).verify()
            assert report.ok, (writes, report.defects)
            assert read_all(opened(target)) == read_all(made.queue)[: opened(target).next_offset]
        assert copy(made, target).problem is None
        assert read_all(opened(target)) == read_all(made.queue)


class Meanwhile:
    """A source in which something happens before each read of a key."""

    def __init__(self, inner: ObjectStore, happen: Callable[[str], None]) -> None:
        self._inner = inner
        self._happen = happen

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._inner, verb)

    def get(self, key: str, *args: Any) -> Any:
        self._happen(key)
        return self._inner.get(key, *args)


@pytest.mark.parametrize("when", ["/meta/", "/young/", "/data/"])
def test_blocks_that_are_merged_and_swept_meanwhile_are_copied_as_they_are_then(
    made: Made, when: str
) -> None:
    owner = made.reopened()
    happened = 0

    def merge(key: str) -> None:
        nonlocal happened
        if when in key and paths.parse_rollup(key) is None and not happened:
            happened = 1
            owner.write_block(elements(70, 10), epoch=6)
            owner.sweep(grace_seconds=-1.0)

    target = MemoryObjects()
    done = copy(made, target, source=Meanwhile(made.objects, merge))
    assert (done.problem, happened) == (None, 1)
    assert done.next in (70, 80)
    assert read_all(opened(target)) == read_all(made.reopened())[: done.next]
    assert opened(target).verify().ok


def test_a_claim_is_copied_and_so_is_what_it_becomes(made: Made) -> None:
    failpoint.arm("block.metadata_put")
    with pytest.raises(Unavailable):
        made.push(10, epoch=5)
    target = MemoryObjects()
    done = copy(made, target)
    assert (done.problem, done.next) == (None, 80)
    assert read_all(opened(target)) == read_all(made.reopened())
    made.queue = made.reopened()
    made.push(10, epoch=6)
    assert copy(made, target).next == 90
    assert opened(target).verify().ok


def test_a_restore_begins_to_count_owners_anew(made: Made) -> None:
    kept = MemoryObjects()
    copy(made, kept)
    place = MemoryObjects(made.clock)
    done = copy(made, place, source=kept, fresh=True, empty=True)
    assert (done.problem, done.next) == (None, 70)
    queue = opened(place)
    assert read_all(queue) == read_all(made.queue)
    assert {block.epoch for block in queue.list_blocks()} == {0}
    queue.write_block(elements(70, 10), epoch=0)
    assert queue.verify().ok
    assert in_data(place) == read_all(queue)


def test_a_restore_takes_an_empty_place_or_goes_on_where_it_was_broken_off(made: Made) -> None:
    place = MemoryObjects()
    with pytest.raises(Unavailable):
        raise copy(made, Dies(place, 6), fresh=True, empty=True).problem or AssertionError
    with pytest.raises(Conflict, match=r"is not empty.*--resume"):
        copy(made, place, fresh=True, empty=True)
    assert copy(made, place, fresh=True).problem is None
    assert read_all(opened(place)) == read_all(made.queue)


def other_store(target: ObjectStore) -> None:
    Made(objects=target, seed=99).push(1)


def something_else(target: ObjectStore) -> None:
    target.put("photos/1.jpg", b"")


def used_by_a_node(target: ObjectStore) -> None:
    target.put(paths.node("n1"), b"")


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (other_store, "holds another store"),
        (something_else, "no jjq.json: choose an empty place"),
    ],
)
def test_a_wrong_target_is_refused_and_left_alone(
    made: Made, there: Callable[[ObjectStore], None], words: str
) -> None:
    target = MemoryObjects()
    there(target)
    before = contents(target)
    with pytest.raises(Conflict, match=words):
        copy(made, target)
    assert contents(target) == before


def test_a_target_that_servers_have_used_is_refused(made: Made) -> None:
    target = MemoryObjects()
    copy(made, target)
    target.put(paths.shards("orders"), b"")
    assert "servers have used it" in str(copy(made, target).problem)
    used_by_a_node(target)
    with pytest.raises(Conflict, match="servers have used it"):
        copy(made, target)
    with pytest.raises(Conflict, match="the same place"):
        copy(made, made.objects)
    with pytest.raises(NotFound, match="nothing was ever written"):
        copy(made, MemoryObjects(), source=MemoryObjects())


def test_a_target_that_went_on_by_itself_is_refused(made: Made) -> None:
    target = MemoryObjects()
    copy(made, target)
    opened(target).write_block(elements(70, 10, said="other"), epoch=9)
    made.push(20, epoch=9)
    done = copy(made, target)
    assert isinstance(done.problem, Conflict)
    assert "does not go on as the source does" in str(done.problem)
    assert opened(target).verify().ok


def test_a_source_that_is_cut_off_gives_all_that_is_sound(made: Made) -> None:
    for first in (30, 40):
        made.objects.delete(paths.data("orders", first))
    target = MemoryObjects()
    done = copy(made, target)
    assert isinstance(done.problem, DataLoss)
    assert (done.next, done.cut) == (30, 30)
    assert done.report is not None
    assert done.report.ok
    assert read_all(opened(target)) == [(i, b"value %d" % i) for i in range(30)]


def test_a_source_whose_blocks_are_not_connected_gives_all_before_the_hole(made: Made) -> None:
    made.objects.delete(paths.meta("orders", 40, "final"))
    done = copy(made, target := MemoryObjects())
    assert isinstance(done.problem, DataLoss)
    assert (done.next, done.cut) == (40, 40)
    assert opened(target).verify().ok
    made.objects.delete(paths.meta("orders", 10, "final"))
    made.objects.delete(paths.rollup("orders", 0, 40))
    done = copy(made, MemoryObjects())
    assert (done.next, done.cut) == (10, None)


def test_damage_is_told_and_all_before_it_is_copied(made: Made) -> None:
    flip(made.objects, paths.data("orders", 20), 50)
    done = copy(made, target := MemoryObjects())
    assert isinstance(done.problem, DataLoss)
    assert (done.next, done.cut) == (20, None)
    assert opened(target).verify().ok


def test_a_backup_that_was_damaged_is_found_by_the_next_one(made: Made) -> None:
    target = MemoryObjects()
    copy(made, target)
    flip(target, paths.data("orders", 20), 50)
    done = copy(made, target)
    assert done.report is not None
    assert [defect.kind for defect in done.report.defects] == ["data damaged"]
    assert copy(made, target, check="copied").report is None
    flip(target, paths.meta("orders", 40, "final"), 50)
    assert "the target is damaged" in str(copy(made, target).problem)


def test_what_was_copied_is_read_back(made: Made) -> None:
    class Rots(MemoryObjects):
        def put_if_absent(self, key: str, data: Any) -> str:
            etag = super().put_if_absent(key, data)
            if key == paths.data("orders", 20):
                flip(self, key, 50)
            return etag

    done = copy(made, Rots(), check="copied")
    assert isinstance(done.problem, DataLoss)
    assert "sha256" in str(done.problem)


def test_a_file_of_a_broken_off_backup_that_is_wrong_is_replaced(made: Made) -> None:
    target = MemoryObjects()
    with pytest.raises(Unavailable):
        raise copy(made, Dies(target, 3)).problem or AssertionError
    assert keys(target, paths.data_folder("orders")) == [paths.data("orders", 0)]
    target.put(paths.data("orders", 0), b"torn")
    assert copy(made, target).problem is None
    assert read_all(opened(target)) == read_all(made.queue)


@pytest.fixture
def places(tmp_path: Path, moto: S3Server) -> dict[str, Callable[[], ObjectStore]]:
    return {
        "folder": lambda: LocalObjects(tmp_path / SeededChance(len(list(tmp_path.iterdir()))).token()),
        "s3": moto.objects,
    }


@pytest.mark.parametrize("source", ["folder", "s3"])
@pytest.mark.parametrize("target", ["folder", "s3"])
def test_between_folders_and_s3_in_every_combination(
    places: dict[str, Callable[[], ObjectStore]], source: str, target: str
) -> None:
    made = Made(objects=places[source]())
    made.push(10)
    made.push(10, final=False)
    there = places[target]()
    assert copy(made, there).next == 20
    made.push(10)
    assert copy(made, there).next == 30
    place = places[source]()
    assert copy(made, place, source=there, fresh=True, empty=True).problem is None
    assert read_all(opened(place)) == read_all(made.queue) == in_data(place)


def test_blocks_are_read_ahead_within_bounds(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [block.stored_bytes for block in made.queue.list_blocks()]
    monkeypatch.setattr(limits, "BACKUP_BYTES_AHEAD", sizes[0] - 1)  # less than one block: one at a time
    told: list[tuple[int, int]] = []
    source = ColdStore(made.objects, made.clock, SeededChance(7))
    work = Copying(source, MemoryObjects(), made.clock, SeededChance(8))
    backup.prepare(work, empty=True)
    done = backup.copy_queue(work, "orders", lambda done, total: told.append((done, total)))
    assert done.problem is None
    assert told == [(sum(sizes[:n]), sum(sizes)) for n in range(8)]


def test_metadata_of_a_backup_is_byte_for_byte_that_of_the_source(made: Made) -> None:
    target = MemoryObjects()
    copy(made, target)
    key = paths.meta("orders", 20, "final")
    assert target.get(key).data == made.objects.get(key).data
    assert metadata.decode(target.get(key).data, key, made.queue.settings.id).epoch == 2
