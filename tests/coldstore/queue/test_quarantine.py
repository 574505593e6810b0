"""Files in `data/` that no metadata names: moved out of the way before the first write, and never lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coldstore.block import encode
from coldstore.layout import paths
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore, whole
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import Conflict, Unavailable
from tests.coldstore.making import Made, contents, elements, keys, read_all, shape
from tests.servers.s3 import S3Server

QUARANTINE = paths.quarantine("orders")


@pytest.fixture(params=["memory", "folder", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("moto")
        yield server.objects()
    else:
        yield MemoryObjects() if request.param == "memory" else LocalObjects(tmp_path)


def put_stray(made: Made, first: int, count: int, said: str = "lost") -> bytes:
    """Put a file into `data/` as a copy has it whose metadata was read earlier."""
    data = whole(encode.encode(elements(first, count, said=said), made.queue.settings))
    made.objects.put(paths.data("orders", first), data)
    return data


def copied_late(objects: ObjectStore | None = None, *, firsts: tuple[int, ...] = (3, 5, 8)) -> Made:
    """A final block of three elements, files that its metadata does not know, and a new owner."""
    made = Made(objects=objects)
    made.push(3)
    for first in firsts:
        put_stray(made, first, 2 if first == 3 else 3)
    made.queue = made.reopened()
    return made


def in_data(objects: ObjectStore) -> list[tuple[int, bytes]]:
    """What an engine finds in the folder, in order of the names."""
    found: list[tuple[int, bytes]] = []
    for key in keys(objects, paths.data_folder("orders")):
        table = pq.read_table(pa.BufferReader(objects.get(key).data))
        found += zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
    return found


def kept(objects: ObjectStore) -> list[bytes]:
    return [bytes(objects.get(key).data) for key in keys(objects, QUARANTINE)]


def test_blocks_that_grow_over_strays_leave_an_exact_prefix_and_every_byte(
    objects: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    made = copied_late(objects)
    strays = [data for key, data in contents(objects).items() if paths.data_first(key) in (3, 5, 8)]
    made.push(20)
    made.push(20)
    assert in_data(objects) == read_all(made.reopened()) == [(i, b"value %d" % i) for i in range(43)]
    assert kept(objects) == strays
    assert made.reopened().verify().ok
    for first in (3, 5, 8):
        assert any(paths.data("orders", first) in line for line in caplog.messages)


def test_a_stray_where_nothing_is_written_yet_stays_until_the_first_write(objects: ObjectStore) -> None:
    made = copied_late(objects)
    before = contents(objects)
    read_all(made.queue)
    made.queue.verify()
    made.queue.refresh()
    assert contents(objects) == before


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_no_final_block_begins_where_a_stray_was(count: int) -> None:
    made = copied_late(firsts=(3, 4, 5, 6, 8))
    while made.queue.next_offset < 12:
        made.push(count)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    made.queue.merge(everything=True)
    queue = made.reopened()
    begins = {first for kind, first, _ in shape(queue) if kind == "final"}
    assert begins.isdisjoint({4, 5, 6, 8})
    assert in_data(made.objects) == read_all(queue)[: queue.list_blocks().final_next]
    assert queue.verify().ok


def test_a_merge_that_would_end_where_a_stray_was_takes_one_block_more_or_waits() -> None:
    made = copied_late(firsts=(5, 8))
    for count in (2, 3):
        made.push(count, final=False)  # they end at 5 and at 8
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    assert made.queue.merge() == []
    made.push(1, final=False)
    assert [(b.first, b.last) for b in made.queue.merge(everything=True)] == [(3, 8)]
    assert in_data(made.objects) == read_all(made.reopened())


def test_the_file_in_the_way_of_a_young_block_is_replaced_with_it_and_kept() -> None:
    made = copied_late(firsts=(3,))
    lost = made.objects.get(paths.data("orders", 3)).data
    made.push(1, final=False)
    assert in_data(made.objects) == read_all(made.reopened()) == [(i, b"value %d" % i) for i in range(4)]
    assert kept(made.objects) == [lost]
    made.push(1, final=False)
    assert shape(made.queue)[-1][0] == "young"  # only the first block is final for its sake


def test_the_file_in_the_way_is_adopted_if_it_holds_what_the_new_owner_has() -> None:
    made = Made()
    made.push(3)
    data = put_stray(made, 3, 2, said="value")
    made.queue = made.reopened()
    made.push(4)
    assert made.objects.get(paths.data("orders", 3)).data == data
    assert kept(made.objects) == []
    assert in_data(made.objects) == read_all(made.reopened())[:5]


def test_a_claimed_file_is_no_stray() -> None:
    made = Made()
    made.push(3)
    failpoint.arm("block.metadata_put")
    with pytest.raises(Unavailable):
        made.push(4)
    made.queue = made.reopened()
    made.push(1, final=False)
    assert shape(made.queue) == [("final", 0, 2), ("young", 3, 6), ("young", 7, 7)]
    assert kept(made.objects) == []
    assert read_all(made.reopened()) == [(i, b"value %d" % i) for i in range(8)]


def test_files_that_no_block_could_have_are_moved_too() -> None:
    made = Made()
    made.push(3)
    folder = paths.data_folder("orders")
    for name in ("notes.parquet", "more/part-0.parquet", "00000000000000000001.parquet"):
        made.objects.put(folder + name, b"something else")
    made.queue = made.reopened()
    made.push(3)
    assert keys(made.objects, folder) == [paths.data("orders", 0), paths.data("orders", 3)]
    assert len(kept(made.objects)) == 3
    assert made.queue.verify().ok


def test_a_move_that_was_broken_off_is_finished_by_the_next_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    made = copied_late()

    def fails(key: str) -> None:
        raise Unavailable(f"cannot delete {key}")

    with monkeypatch.context() as broken:
        broken.setattr(made.objects, "delete", fails)
        with pytest.raises(Unavailable):
            made.push(9)
    assert in_data(made.objects)[:3] == [(i, b"value %d" % i) for i in range(3)]
    (half,) = keys(made.objects, QUARANTINE)
    made.objects.put(half, b"cut short")
    made.queue = made.reopened()
    made.push(9)
    assert in_data(made.objects) == read_all(made.reopened())
    assert b"cut short" not in kept(made.objects)


def test_data_that_is_missing_is_told_before_the_first_write(caplog: pytest.LogCaptureFixture) -> None:
    made = Made()
    for _ in range(3):
        made.push(3)
    made.objects.delete(paths.data("orders", 3))
    made.queue = made.reopened()
    with caplog.at_level(logging.ERROR):
        made.push(3)
    assert any("data of 1 final blocks is missing" in line for line in caplog.messages)


def test_a_queue_with_strays_is_not_imported_into() -> None:
    made = copied_late(firsts=(5,))
    with pytest.raises(Conflict, match="did not finish"):
        made.store.begin_import("orders", idle=True)
