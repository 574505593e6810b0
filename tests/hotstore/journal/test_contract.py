"""What every journal promises, on the simulated and on the real disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coldstore.shared.chance import SeededChance, SystemChance
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import MIB
from hotstore.journal.disk import Disk, RealDisk
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Journal, Record
from hotstore.limits import GATHER_BYTES_MAX, PAGE_BYTES
from hotstore.testing.simulated_disk import SimDisk
from tests.hotstore.journal.model import SEGMENT_BYTES, Content, content_of, journal_on

Open = Callable[[], DiskJournal]


@pytest.fixture(params=["simulated", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return SimDisk() if request.param == "simulated" else RealDisk(tmp_path / "journal")


@pytest.fixture
def reopen(disk: Disk) -> Open:
    return lambda: DiskJournal(disk, SystemChance(), segment_bytes=SEGMENT_BYTES)


def recovered(journal: Journal) -> list[tuple[int, Content]]:
    return [(batch.sequence, content_of(batch)) for batch in journal.recover()]


def fill(journal: Journal, count: int, size: int = 3_000) -> None:
    for _ in range(count):
        journal.append([Record(1, b"%d" % journal.next_sequence + bytes(size))])
        journal.sync()


def test_a_new_journal_is_empty(reopen: Open) -> None:
    journal = reopen()
    assert recovered(journal) == []
    assert (journal.next_sequence, journal.used_bytes, list(journal.damage)) == (0, 0, [])
    journal.close()


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_synced_is_delivered_in_order_after_a_restart(reopen: Open, clean: bool) -> None:
    journal = reopen()
    recovered(journal)
    appended = [(sequence, [(7, b"%d" % sequence * 1_000), (8, b"")]) for sequence in range(9)]
    for sequence, content in appended:
        assert journal.append([Record(*record) for record in content]) == sequence
        journal.sync()
    used = journal.used_bytes
    journal.close(clean)

    journal = reopen()
    assert recovered(journal) == appended
    assert (journal.next_sequence, journal.used_bytes, list(journal.damage)) == (9, used, [])
    journal.close()


def test_sequence_numbers_go_on_over_restarts_and_trims(reopen: Open) -> None:
    for start in range(0, 30, 5):
        journal = reopen()
        recovered(journal)
        assert journal.next_sequence == start
        fill(journal, 5)
        journal.trim(journal.next_sequence)
        journal.close(clean=start % 2 == 0)


def test_trim_frees_whole_segments_and_never_what_is_needed(reopen: Open) -> None:
    journal = reopen()
    recovered(journal)
    fill(journal, 10)
    before = journal.used_bytes
    journal.trim(0)
    assert journal.used_bytes == before
    journal.trim(5)
    assert journal.used_bytes < before
    journal.close()

    journal = reopen()
    left = [sequence for sequence, _ in recovered(journal)]
    assert left == list(range(left[0], 10))
    assert 0 < left[0] <= 5
    journal.trim(1_000_000)
    assert 0 < journal.used_bytes <= SEGMENT_BYTES
    journal.close()


def test_several_appends_may_share_one_sync(reopen: Open) -> None:
    journal = reopen()
    recovered(journal)
    for _ in range(10):
        journal.append([Record(1, b"x" * 2_000)])
    journal.sync()
    journal.close(clean=False)
    journal = reopen()
    assert len(recovered(journal)) == 10
    journal.close()


def test_a_payload_may_come_in_pieces_of_any_buffer(reopen: Open) -> None:
    journal = reopen()
    recovered(journal)
    array = memoryview(bytearray(range(200))).cast("I")
    journal.append(
        [Record(3, (b"a", bytearray(b"b"), memoryview(b"cc")[1:], pa.py_buffer(b"d"), array, b""))]
    )
    journal.close()
    journal = reopen()
    assert recovered(journal) == [(0, [(3, b"abcd" + bytes(range(200)))])]
    journal.close()


def test_a_batch_of_more_pieces_than_one_system_call_takes_is_whole(tmp_path: Path) -> None:
    pieces = [bytes([number % 251]) * (GATHER_BYTES_MAX + 1) for number in range(600)]
    disk = RealDisk(tmp_path)
    journal = DiskJournal(disk, SystemChance(), segment_bytes=32 * MIB)
    recovered(journal)
    journal.append([Record(1, piece) for piece in pieces])
    journal.close(clean=False)
    journal = DiskJournal(disk, SystemChance(), segment_bytes=32 * MIB)
    assert recovered(journal) == [(0, [(1, piece) for piece in pieces])]
    journal.close()


def test_a_batch_that_is_empty_or_too_large_is_refused_and_leaves_no_trace(reopen: Open) -> None:
    journal = reopen()
    recovered(journal)
    for records in ([], [Record(1, bytes(SEGMENT_BYTES - PAGE_BYTES))], [Record(1, b"")] * 10_000):
        with pytest.raises(InvalidInput):
            journal.append(records)
    assert journal.next_sequence == 0
    journal.append([Record(1, bytes(SEGMENT_BYTES - PAGE_BYTES - 100))])
    journal.close()
    journal = reopen()
    assert len(recovered(journal)) == 1
    journal.close()


def test_using_a_journal_before_recovery_or_after_close_is_a_mistake(reopen: Open) -> None:
    journal = reopen()
    with pytest.raises(AssertionError):
        journal.append([Record(1, b"")])
    recovered(journal)
    with pytest.raises(AssertionError):
        recovered(journal)
    journal.close()
    journal.close()
    for use in (journal.sync, lambda: journal.trim(1), lambda: journal.append([Record(1, b"")])):
        with pytest.raises(AssertionError):
            use()


def test_views_handed_out_by_recovery_stay_as_they_are(reopen: Open) -> None:
    journal = reopen()
    recovered(journal)
    fill(journal, 6)
    journal.close()
    journal = reopen()
    batches = list(journal.recover())
    before = [content_of(batch) for batch in batches]
    fill(journal, 12)
    journal.trim(12)
    fill(journal, 6)
    assert [content_of(batch) for batch in batches] == before
    journal.close()


def test_a_recovery_that_is_broken_off_changes_nothing() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    recovered(journal)
    fill(journal, 6)
    journal.close(clean=False)
    before = disk.files()
    batches = journal_on(disk).recover()
    for _ in range(6):
        next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert disk.files() == before


def test_a_clean_start_writes_on_in_the_same_segment_and_an_unclean_one_in_a_fresh_one() -> None:
    for clean in (True, False):
        disk = SimDisk()
        journal = journal_on(disk)
        recovered(journal)
        fill(journal, 1)
        journal.close(clean)
        assert ("clean" in disk.files()) == clean
        recovered(journal := journal_on(disk))
        assert "clean" not in disk.files()
        journal.close(clean=False)
        assert ("00000000000000000001.seg" in disk.files()) == clean


def test_the_mark_of_a_clean_close_is_gone_for_good_before_anything_is_written() -> None:
    for seed in range(20):
        disk = SimDisk()
        journal = journal_on(disk)
        recovered(journal)
        fill(journal, 1)
        journal.close()
        recovered(journal_on(disk))
        disk.power_cut(SeededChance(seed))
        assert "clean" not in disk.files()


def test_an_old_mark_of_a_clean_close_does_not_make_a_later_stop_clean() -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    recovered(journal)
    fill(journal, 1)
    journal.close()
    mark = disk.files()["clean"]
    journal = journal_on(disk)
    recovered(journal)
    fill(journal, 1)
    disk.crash()
    disk.open("clean", create=True).write(0, [mark])
    assert len(recovered(journal_on(disk))) == 2
    assert "00000000000000000001.seg" not in disk.files(), "the last segment was not copied"


contents_strategy = st.lists(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=9_000)), min_size=1, max_size=3),
    max_size=12,
).filter(lambda batches: all(sum(len(data) for _, data in batch) < 11_000 for batch in batches))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=contents_strategy, clean=st.booleans(), every=st.integers(1, 4))
def test_any_records_come_back_as_they_went_in(batches: list[Content], clean: bool, every: int) -> None:
    disk = SimDisk()
    journal = journal_on(disk)
    recovered(journal)
    for number, batch in enumerate(batches):
        journal.append([Record(*record) for record in batch])
        if number % every == 0:
            journal.sync()
    journal.close(clean)
    disk.crash()
    journal = journal_on(disk)
    assert recovered(journal) == list(enumerate(batches))
    assert journal.damage == []
    journal.close()
