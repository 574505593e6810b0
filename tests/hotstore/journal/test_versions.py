"""Data of a newer jjq is refused clearly, and not one byte of it is changed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from coldstore.shared.chance import SystemChance
from coldstore.shared.errors import Conflict
from hotstore.journal import layout
from hotstore.journal.disk import RealDisk
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Record
from hotstore.testing.simulated_disk import SimDisk
from tests.hotstore.journal.model import SEGMENT_BYTES, opened


def used(clean: bool) -> SimDisk:
    disk = SimDisk()
    journal = opened(disk)
    for sequence in range(7):
        journal.append([Record(1 + sequence % 2, b"x" * 3_000)])
        journal.sync()
    journal.close(clean)
    disk.crash()
    return disk


def make_newer(disk: SimDisk, name: str) -> None:
    """Give the header the next version, with a checksum that agrees."""
    file = disk.open(name)
    fields = bytearray(file.read(0, layout.SEGMENT.size))
    struct.pack_into("<H", fields, 4, layout.VERSION + 1)
    crc = layout.checksum(layout.seed(0, int(name[:20]), 0), bytes(fields))
    file.write(0, [bytes(fields) + layout.CHECKSUM.pack(crc)])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_newer_segment_wherever_it_is_stops_the_start(clean: bool, which: int) -> None:
    disk = used(clean)
    make_newer(disk, [name for name in disk.files() if name.endswith(".seg")][which])
    before = disk.files()
    with pytest.raises(Conflict, match="nothing was changed"):
        opened(disk, seed=2)
    assert disk.files() == before


def test_a_newer_mark_of_a_clean_close_stops_the_start() -> None:
    disk = used(clean=True)
    file = disk.open("clean")
    data = bytearray(file.read(0, 100))
    struct.pack_into("<H", data, 4, layout.VERSION + 1)
    data[-4:] = layout.CHECKSUM.pack(layout.checksum(0, bytes(data[:-4])))
    file.write(0, [bytes(data)])
    before = disk.files()
    with pytest.raises(Conflict, match="nothing was changed"):
        opened(disk, seed=2)
    assert disk.files() == before


@pytest.mark.parametrize("clean", [True, False])
def test_an_unknown_kind_of_record_stops_the_start(clean: bool) -> None:
    disk = used(clean)
    before = disk.files()
    journal = DiskJournal(disk, SystemChance(), segment_bytes=SEGMENT_BYTES, kinds={1})
    with pytest.raises(Conflict, match="kind 2"):
        list(journal.recover())
    assert disk.files() == before
    journal.close()
    assert (
        len(list(DiskJournal(disk, SystemChance(), segment_bytes=SEGMENT_BYTES, kinds={1, 2}).recover())) == 7
    )


def test_a_damaged_version_is_damage_and_not_a_newer_version() -> None:
    disk = used(clean=True)
    first = min(name for name in disk.files() if name.endswith(".seg"))
    disk.corrupt(first, 4, 0x02)
    assert opened(disk, seed=2).next_sequence == 7


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    strange = ["readme.txt", "123.seg", "9" * 20 + ".seg", "x" * 20 + ".seg", "clean.bak"]
    for name in strange:
        (tmp_path / name).write_bytes(b"not ours")
    for _ in range(3):
        journal = DiskJournal(RealDisk(tmp_path), SystemChance(), segment_bytes=SEGMENT_BYTES)
        list(journal.recover())
        journal.append([Record(1, b"x" * 9_000)])
        journal.append([Record(1, b"x" * 9_000)])
        journal.close()
    assert all((tmp_path / name).read_bytes() == b"not ours" for name in strange)
