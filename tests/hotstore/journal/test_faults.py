"""A disk that fails: EIO poisons, a full disk does not, short writes go unnoticed."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Exhausted, Unavailable
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Poisoned, Record
from hotstore.limits import PAGE_BYTES
from hotstore.testing.simulated_disk import SimDisk, Verb
from tests.hotstore.journal.model import SEGMENT_BYTES, Model, journal_on, opened


def busy(journal: DiskJournal, model: Model) -> None:
    """Appends of several sizes, with rolls and a trim."""
    model.check(journal)
    for size in (100, 5_000, 300, 9_000, 100, 4_000):
        model.append(journal, size)
        model.sync(journal)
    model.trim(journal, 4)
    for size in (100, 100, 8_000):
        model.append(journal, size)
    model.sync(journal)


def each_fault(verb: Verb, code: int) -> Iterator[tuple[SimDisk, DiskJournal, Model, Exception | None]]:
    """Be busy again and again, with the fault one use of the verb later each time."""
    nth = 0
    while True:
        nth += 1
        disk, model = SimDisk(), Model()
        disk.fail(verb, nth, code)
        journal = journal_on(disk, seed=nth)
        try:
            busy(journal, model)
        except (Poisoned, Exhausted) as error:
            yield disk, journal, model, error
            continue
        if disk.pending_faults:
            return
        yield disk, journal, model, None


@pytest.mark.parametrize("verb", ["write", "sync", "rename", "sync_directory"])
@pytest.mark.parametrize("then", ["killed", "power cut"])
def test_an_io_error_poisons_for_ever_and_loses_nothing_synced(verb: Verb, then: str) -> None:
    poisoned = 0
    for disk, journal, model, error in each_fault(verb, errno.EIO):
        if error is None:
            continue  # in the background, for a spare that was not needed any more
        poisoned += 1
        assert isinstance(error, Poisoned)
        for use in (journal.sync, lambda: journal.append([Record(1, b"")]), lambda: journal.trim(1)):  # noqa: B023
            with pytest.raises(Poisoned, match="restart"):
                use()
        journal.close()
        assert "clean" not in disk.files()
        if then == "killed":
            disk.crash()
        else:
            disk.power_cut(SeededChance(poisoned))
        model.check(journal_on(disk, seed=99))
    assert poisoned > 3


def test_a_failed_fsync_is_never_tried_again() -> None:
    disk, model = SimDisk(), Model()
    journal = journal_on(disk)
    model.check(journal)
    model.append(journal)
    disk.fail("sync")
    for _ in range(3):
        with pytest.raises(Poisoned):
            journal.sync()  # a second one would succeed, and prove nothing
    assert issubclass(Poisoned, Unavailable)


def test_a_full_disk_never_loses_anything_and_passes() -> None:
    exhausted = 0
    for disk, journal, model, error in each_fault("write", errno.ENOSPC):
        if isinstance(error, Exhausted) and journal.next_sequence:
            exhausted += 1
            model.append(journal)  # there is room again
            model.sync(journal)
        disk.crash()
        model.check(journal_on(disk, seed=99))
    assert exhausted > 0


def full(disk: SimDisk, model: Model) -> DiskJournal:
    """Append until there is no room left."""
    journal = journal_on(disk)
    model.check(journal)
    while True:
        try:
            model.append(journal, 3_000)
        except Exhausted:
            return journal
        model.sync(journal)


def test_on_a_full_disk_nothing_is_written_and_trimming_makes_room() -> None:
    disk, model = SimDisk(capacity_bytes=8 * SEGMENT_BYTES), Model()
    journal = full(disk, model)
    before, at = disk.files(), journal.next_sequence
    for _ in range(3):
        with pytest.raises(Exhausted, match="full") as caught:
            journal.append([Record(1, b"x" * 3_000)])
        assert caught.value.retry_after > 0
    assert (disk.files(), journal.next_sequence) == (before, at)
    journal.sync()

    model.trim(journal, at - 3)
    for _ in range(6):
        model.append(journal, 3_000)
        model.sync(journal)
    disk.crash()
    model.check(journal_on(disk, seed=5))


@pytest.mark.parametrize("free_bytes", [0, 1, SEGMENT_BYTES - 1])
def test_a_restart_works_while_the_disk_is_full(free_bytes: int) -> None:
    disk, model = SimDisk(capacity_bytes=6 * SEGMENT_BYTES), Model()
    full(disk, model)
    disk.capacity_bytes = 6 * SEGMENT_BYTES - disk.free_bytes() + free_bytes
    for seed in range(3):
        disk.power_cut(SeededChance(seed))
        journal = journal_on(disk, seed)
        model.check(journal)
        model.trim(journal, journal.next_sequence)
        model.append(journal, 3_000)
        model.sync(journal)


def test_on_a_full_disk_a_torn_tail_is_kept_by_moving_the_whole_segment() -> None:
    disk, model = SimDisk(capacity_bytes=6 * SEGMENT_BYTES), Model()
    full(disk, model)
    disk.capacity_bytes -= disk.free_bytes()
    disk.crash()
    last = max(name for name, data in disk.files().items() if data[PAGE_BYTES:].startswith(b"jjqb"))
    disk.corrupt(last, PAGE_BYTES + 80, 0xFF)  # first of three batches there
    damaged = disk.files()[last]
    journal = opened(disk, seed=2)
    assert [damage.kind for damage in journal.damage] == ["corrupt"]
    assert disk.files()[f"quarantine/{last}"] == damaged
    assert last not in disk.files()


def test_on_a_full_disk_a_damaged_segment_is_not_recycled_but_moved_when_it_is_trimmed() -> None:
    disk, model = SimDisk(capacity_bytes=6 * SEGMENT_BYTES), Model()
    full(disk, model)
    disk.capacity_bytes -= disk.free_bytes()
    disk.crash()
    first = min(disk.files())
    disk.corrupt(first, 2 * PAGE_BYTES + 80, 0xFF)
    damaged = disk.files()[first]
    journal = opened(disk, seed=2)
    assert disk.files()[first] == damaged
    journal.trim(journal.next_sequence)
    assert first not in disk.files()
    assert disk.files()[f"quarantine/{first}"] == damaged


def test_a_full_disk_that_lost_its_spare_to_quarantine_needs_room_and_loses_nothing() -> None:
    disk, model = SimDisk(capacity_bytes=6 * SEGMENT_BYTES), Model()
    full(disk, model)
    disk.capacity_bytes -= disk.free_bytes()
    disk.crash()
    last = max(name for name, data in disk.files().items() if data[PAGE_BYTES:].startswith(b"jjqb"))
    disk.corrupt(last, 3 * PAGE_BYTES + 80, 0xFF)
    model.synced_upto -= 1  # the last batch, which looks torn
    model.check(journal_on(disk, seed=2))
    assert f"quarantine/{last}" in disk.files()
    for seed in (3, 4):
        disk.crash()
        with pytest.raises(Exhausted, match="free some space"):
            opened(disk, seed)
    disk.capacity_bytes += SEGMENT_BYTES
    model.check(journal_on(disk, seed=5))


def test_a_close_without_room_for_the_mark_is_only_not_a_clean_one() -> None:
    for verb in ("open", "write", "sync", "rename"):
        disk, model = SimDisk(), Model()
        journal = journal_on(disk)
        model.check(journal)
        model.append(journal)
        model.sync(journal)
        disk.fail(verb, 2 if verb == "sync" else 1, errno.ENOSPC)
        journal.close()
        assert disk.pending_faults == 0
        assert "clean" not in disk.files()
        model.check(journal_on(disk, seed=1))


def test_a_start_without_room_says_so_and_changes_nothing() -> None:
    disk = SimDisk(capacity_bytes=SEGMENT_BYTES // 2)
    with pytest.raises(Exhausted):
        opened(disk)
    assert disk.files() == {}


def test_short_writes_go_on_where_they_stopped() -> None:
    for nth in range(1, 60):
        for taken in (1, 63, 64, 100, 4_096):
            disk, model = SimDisk(), Model()
            disk.shorten(nth, taken)
            disk.shorten(nth + 1, 1)
            busy(journal_on(disk), model)
            disk.power_cut(SeededChance(nth))
            model.check(journal_on(disk, seed=1))


def test_an_interrupted_write_or_read_is_tried_again() -> None:
    for nth in range(1, 30):
        disk, model = SimDisk(), Model()
        disk.fail("write", nth, errno.EINTR)
        busy(journal_on(disk), model)
        disk.fail("read", nth % 5 + 1, errno.EINTR)
        model.check(journal_on(disk, seed=1))


def test_a_write_that_takes_nothing_does_not_hang() -> None:
    disk, model = SimDisk(), Model()
    journal = journal_on(disk)
    model.check(journal)
    disk.shorten(1, 0)
    with pytest.raises(Poisoned):
        model.append(journal)


def test_a_slow_disk_is_only_slow() -> None:
    clock = ManualClock()
    disk, model = SimDisk(clock), Model()
    disk.slow("sync", 5, 60.0)
    busy(journal_on(disk), model)
    assert clock.monotonic() == 60.0
