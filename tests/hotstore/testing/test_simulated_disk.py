"""The simulated disk is only worth its tests if it is as unkind as it claims, and no kinder or worse."""

from __future__ import annotations

import errno

import pytest

from coldstore.shared.chance import SeededChance
from hotstore.testing.simulated_disk import SECTOR_BYTES, PowerCut, SimDisk

SEEDS = range(60)


def written(synced: bytes, unsynced: bytes = b"") -> SimDisk:
    disk = SimDisk()
    file = disk.open("a", create=True)
    file.write(0, [synced])
    file.sync()
    disk.sync_directory()
    if unsynced:
        file.write(0, [unsynced])
    return disk


def test_what_was_synced_survives_any_power_cut() -> None:
    for seed in SEEDS:
        disk = written(b"x" * 5_000)
        disk.power_cut(SeededChance(seed))
        assert disk.files() == {"a": b"x" * 5_000}


def test_unsynced_sectors_are_kept_dropped_and_torn() -> None:
    old, new = b"o" * 8 * SECTOR_BYTES, b"n" * 8 * SECTOR_BYTES
    outcomes = set()
    for seed in SEEDS:
        disk = written(old, new)
        disk.power_cut(SeededChance(seed))
        outcomes.add(disk.files()["a"])
    assert {old, new} <= outcomes
    sectors = {data[at : at + SECTOR_BYTES] for data in outcomes for at in range(0, len(data), SECTOR_BYTES)}
    assert any(0 < sector.count(b"n") < SECTOR_BYTES for sector in sectors), "no sector was torn"
    assert len(outcomes) > 10
    assert all(set(data) <= set(b"on") for data in outcomes), "bytes from nowhere"


def test_a_crash_of_the_process_keeps_what_was_written_and_closes_files() -> None:
    disk = written(b"old", b"new")
    file = disk.open("a")
    disk.crash()
    assert disk.files() == {"a": b"new"}
    with pytest.raises(OSError, match="before the machine stopped"):
        file.read(0, 1)


def test_names_are_lost_and_kept_one_by_one_until_their_directory_is_synced() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = written(b"1")
        disk.open("b", create=True).sync()
        disk.rename("a", "c")
        disk.power_cut(SeededChance(seed))
        outcomes.add(frozenset(disk.files()))
    assert outcomes == {frozenset(names) for names in ("a", "c", "ab", "cb")}

    for seed in SEEDS:
        disk = written(b"1")
        disk.remove("a")
        disk.open("b", create=True).sync()
        disk.sync_directory()
        disk.power_cut(SeededChance(seed))
        assert set(disk.files()) == {"b"}


def test_a_move_between_directories_needs_both_of_them_synced() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = written(b"1")
        disk.rename("a", "there/a")
        disk.sync_directory("there")
        disk.power_cut(SeededChance(seed))
        outcomes.add(frozenset(disk.files()))
    assert frozenset(["there/a"]) in outcomes
    assert all("there/a" in names for names in outcomes)


def test_after_a_failed_sync_the_pages_are_clean_and_not_on_disk() -> None:
    disk = written(b"old", b"new")
    file = disk.open("a")
    disk.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()  # succeeds, and proves nothing
    assert file.read(0, 3) == b"new"
    disk.power_cut(SeededChance(0))
    assert disk.files() == {"a": b"old"}


def test_the_machine_stops_before_the_nth_change() -> None:
    disk = written(b"old")
    disk.cut_at(2)
    file = disk.open("a")
    file.write(0, [b"1"])
    with pytest.raises(PowerCut):
        file.write(1, [b"2"])
    with pytest.raises(PowerCut):
        file.sync()
    assert disk.files() == {"a": b"1ld"}


def test_it_fills_up_and_names_are_exclusive() -> None:
    disk = SimDisk(capacity_bytes=10)
    file = disk.open("a", create=True)
    file.write(0, [b"x" * 8])
    with pytest.raises(OSError, match="No space") as caught:
        file.write(8, [b"x" * 3])
    assert caught.value.errno == errno.ENOSPC
    file.write(0, [b"y" * 8])
    with pytest.raises(FileExistsError):
        disk.open("a", create=True)
    with pytest.raises(FileNotFoundError):
        disk.open("b")


def test_the_same_seed_gives_the_same_wreck() -> None:
    wrecks = []
    for _ in range(2):
        disk = written(b"o" * 5_000, b"n" * 5_000)
        disk.power_cut(SeededChance(7))
        wrecks.append(disk.files())
    assert wrecks[0] == wrecks[1]
