"""Segments live many lives; nothing of an earlier one shows through."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import pytest

from coldstore.shared.chance import SeededChance
from hotstore.journal import layout
from hotstore.journal.bounds import JournalBounds
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Poisoned, Record
from hotstore.journal.segment import parse_name, zeroed
from hotstore.journal.spares import Inline, Spares, Thread
from hotstore.limits import FREE_SEGMENTS_MAX, PAGE_BYTES
from hotstore.testing.simulated_disk import SimDisk, SimFile, Verb
from tests.hotstore.journal.model import SEGMENT_BYTES, contents, journal_on, opened

T = TypeVar("T")


def headers(disk: SimDisk) -> dict[str, layout.SegmentHeader | None]:
    parsed = {name: parse_name(name) for name in disk.files()}
    return {
        name: layout.decode_segment(disk.files()[name][:PAGE_BYTES], number[0])
        for name, number in parsed.items()
        if number and number[1] == "seg"
    }


def turn_over(disk: SimDisk, journal: DiskJournal, rounds: int) -> None:
    """Write and trim, so that the files go round."""
    for _ in range(rounds):
        journal.append([Record(1, b"%d" % journal.next_sequence * 500)])
        journal.sync()
        journal.trim(journal.next_sequence)


class Counting(SimDisk):
    created = 0

    def open(self, name: str, *, create: bool = False) -> SimFile:
        self.created += create
        return super().open(name, create=create)


def test_a_journal_that_is_trimmed_stays_small_and_creates_no_more_files() -> None:
    disk = Counting()
    journal = opened(disk)
    turn_over(disk, journal, 10)
    assert 0 < disk.created <= 2 + 1 + FREE_SEGMENTS_MAX
    disk.created = 0
    turn_over(disk, journal, 100)
    assert disk.created == 0
    assert sum(map(len, disk.files().values())) <= (2 + 1 + FREE_SEGMENTS_MAX) * SEGMENT_BYTES


def test_a_synced_batch_stays_whatever_is_trimmed_so_that_numbers_go_on() -> None:
    for seed in range(20):
        disk = SimDisk()
        journal = opened(disk)
        for _ in range(3):
            journal.append([Record(1, b"x")])
            journal.sync()
        journal.append([Record(1, b"in the next segment, and not synced")])
        journal.trim(3)
        disk.power_cut(SeededChance(seed))
        journal = opened(disk, seed=1)
        assert journal.next_sequence in (3, 4)
        assert not any(damage.kind == "corrupt" for damage in journal.damage)


def test_each_life_has_a_number_and_an_identity_of_its_own() -> None:
    disk = SimDisk()
    journal = opened(disk)
    seen: dict[int, int] = {}
    for _ in range(50):
        turn_over(disk, journal, 1)
        for header in headers(disk).values():
            assert header is not None
            assert seen.setdefault(header.number, header.identity) == header.identity
    assert len(set(seen.values())) == len(seen) > 10


def test_batches_of_an_earlier_life_are_never_delivered() -> None:
    # Given files that are full of sound batches of earlier lives, at the very places of new ones
    disk = SimDisk()
    journal = opened(disk)
    for lap in range(40):
        for _ in range(4):
            journal.append([Record(1, b"lap %d" % lap)])
            journal.sync()
        journal.trim(journal.next_sequence - 1)
        # When the process dies
        disk.crash()
        # Then only the new ones count, and what lies behind them is not even remarked upon
        journal = journal_on(disk, seed=lap)
        for batch in journal.recover():
            assert bytes(batch.records[0].payload) in (b"lap %d" % lap, b"lap %d" % (lap - 1))
        assert journal.damage == []
    stale = [data for name, data in disk.files().items() if name.endswith("free")]
    assert any(layout.BATCH_MAGIC in data for data in stale)


def test_a_stale_file_under_a_live_name_is_not_believed() -> None:
    disk = SimDisk()
    journal = opened(disk)
    turn_over(disk, journal, 12)
    journal.close()
    before = contents(disk)
    free = next(name for name in disk.files() if name.endswith(".free"))
    disk.rename(free, f"{999:020d}.seg")
    assert contents(disk) == before


def test_a_restart_with_other_segment_sizes_keeps_everything() -> None:
    disk = SimDisk()
    expected: dict[int, list[tuple[int, bytes]]] = {}
    for seed, pages in enumerate((8, 4, 16, 5, 4, 32)):
        journal = journal_on(disk, seed, pages * PAGE_BYTES)
        assert {
            batch.sequence: [(1, bytes(batch.records[0].payload))] for batch in journal.recover()
        } == expected
        for _ in range(5):
            data = b"%d" % journal.next_sequence * 1_000
            expected[journal.append([Record(1, data)])] = [(1, data)]
            journal.sync()
        if seed % 2:
            journal.close()
        disk.crash()
        for name, header in headers(disk).items():
            assert header is not None
            assert len(disk.files()[name]) == header.segment_bytes
    assert contents(disk) == expected


class Held:
    """Background work that waits until it is let go."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], T], /) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            done = Inline().submit(work)
            if error := done.exception():
                future.set_exception(error)
            else:
                future.set_result(done.result())

        self.work.append(run)
        return future

    def shutdown(self) -> None:
        """Nothing runs by itself."""


def test_the_push_path_does_not_wait_for_a_spare_before_it_needs_one() -> None:
    disk, held = SimDisk(), Held()
    journal = DiskJournal(disk, SeededChance(0), segment_bytes=SEGMENT_BYTES, background=held)
    assert list(journal.recover()) == []
    for _ in range(3):
        journal.append([Record(1, b"x")])
        journal.sync()
    assert held.work, "the spare was asked for long before"
    for work in held.work:
        work()
    journal.append([Record(1, b"rolls")])
    assert journal.next_sequence == 4


@pytest.mark.parametrize("verb", ["write", "sync", "rename", "sync_directory"])
def test_an_io_error_in_the_background_poisons_when_the_spare_is_needed(verb: Verb) -> None:
    disk, held = SimDisk(), Held()
    journal = DiskJournal(disk, SeededChance(0), segment_bytes=SEGMENT_BYTES, background=held)
    assert list(journal.recover()) == []
    disk.fail(verb)
    held.work.pop()()
    for _ in range(3):
        journal.append([Record(1, b"x")])
        journal.sync()
    for work in held.work:
        work()
    with pytest.raises(Poisoned):
        journal.append([Record(1, b"rolls")])


def test_a_free_file_that_could_not_be_written_is_not_forgotten() -> None:
    disk = Counting()
    spares = Spares(disk, SeededChance(0), SEGMENT_BYTES, Inline(), JournalBounds(None))
    spares.put_back([zeroed(disk, 1, SEGMENT_BYTES)])
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        spares.begin(0, layout.NO_SEGMENT, 0)
    spares.begin(0, layout.NO_SEGMENT, 0)
    assert disk.created == 1


def test_spares_are_prepared_by_one_thread_of_their_own() -> None:
    background, names = Thread(), set()
    for _ in range(5):
        background.submit(lambda: names.add(threading.current_thread().name)).result()
    background.shutdown()
    assert len(names) == 1
    assert threading.current_thread().name not in names
