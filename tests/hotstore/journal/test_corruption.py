"""Damage: harmless, or reported; never wrong bytes, never an error that is not documented."""

from __future__ import annotations

import contextlib
import copy
import tracemalloc

import pytest

from coldstore.shared.chance import SeededChance
from hotstore.journal.port import Damage, Record
from hotstore.limits import PAGE_BYTES, SCAN_BYTES
from hotstore.testing.simulated_disk import PowerCut, SimDisk
from tests.hotstore.journal.model import (
    SEGMENT_BYTES,
    Content,
    content_of,
    contents,
    journal_on,
    opened,
    peek,
)

FIRST, SECOND, SPARE = (f"{number:020d}.seg" for number in (1, 2, 4))


@pytest.fixture
def disk() -> SimDisk:
    """Five batches of one page each, all synced, in two segments: three and two. Not closed."""
    disk = SimDisk()
    journal = opened(disk)
    for sequence in range(5):
        journal.append([Record(1, b"batch %d" % sequence * 9), Record(2, b"more")])
        journal.sync()
    disk.crash()
    assert {FIRST, SECOND, SPARE} <= disk.files().keys()
    return disk


def look(disk: SimDisk) -> tuple[dict[int, Content], list[Damage]]:
    recovery = peek(disk)
    return {batch.sequence: content_of(batch) for batch in recovery.batches()}, recovery.walk.damage


def lost(damage: list[Damage]) -> set[int]:
    """Sequence numbers that a report covers; an unknown end reaches far."""
    ranges = [range(each.first or 0, 99 if each.last is None else each.last + 1) for each in damage]
    return {sequence for covered in ranges for sequence in covered}


def judge(disk: SimDisk, sound: dict[int, Content], what: str) -> None:
    found, damage = look(disk)
    assert found.items() <= sound.items(), f"{what}: wrong bytes, or bytes from nowhere"
    assert list(found) == sorted(found), what
    missing = sound.keys() - found.keys()
    assert missing <= lost(damage), f"{what}: batches {missing} are gone and nobody says so"
    for each in damage:
        if each.kind == "torn":  # only what lies at the very end may be taken for an unfinished write
            assert missing <= {4}, f"{what}: batch {missing} was followed by others"


@pytest.mark.parametrize(
    ("name", "size"), [(FIRST, SEGMENT_BYTES), (SECOND, SEGMENT_BYTES), (SPARE, 2 * PAGE_BYTES)]
)
def test_a_bit_flipped_in_any_byte_is_harmless_or_reported(disk: SimDisk, name: str, size: int) -> None:
    sound = contents(disk)
    for position in range(size):
        mask = 1 << position % 8
        disk.corrupt(name, position, mask)
        judge(disk, sound, f"bit {mask} of byte {position} of {name}")
        disk.corrupt(name, position, mask)
    assert look(disk) == (sound, [])


def test_any_bit_of_headers_and_records_may_flip(disk: SimDisk) -> None:
    sound = contents(disk)
    for name in (FIRST, SECOND):
        for page in range(0, SEGMENT_BYTES, PAGE_BYTES):
            for bit in range(8 * 160):
                disk.corrupt(name, page + bit // 8, 1 << bit % 8)
                judge(disk, sound, f"bit {bit} of page {page} of {name}")
                disk.corrupt(name, page + bit // 8, 1 << bit % 8)


def test_after_any_damage_the_journal_recovers_keeps_the_bytes_and_goes_on(disk: SimDisk) -> None:
    sound = contents(disk)
    for name in (FIRST, SECOND, SPARE):
        for position in (*range(0, SEGMENT_BYTES, PAGE_BYTES), *range(60, SEGMENT_BYTES, PAGE_BYTES)):
            broken = copy.deepcopy(disk)
            broken.corrupt(name, position, 0xFF)
            journal = opened(broken, seed=3)
            next_sequence = journal.append([Record(5, b"new")])
            journal.sync()
            places = [place for damage in journal.damage for place in damage.places]
            kept = [file for file in broken.files() if file.startswith("quarantine/")]
            assert len(kept) == len(set(places))
            broken.crash()
            after = contents(broken)
            assert after.pop(next_sequence) == [(5, b"new")]
            assert after.items() <= sound.items()
            assert len(after) >= 4


def test_the_bytes_in_quarantine_are_those_that_were_damaged(disk: SimDisk) -> None:
    disk.corrupt(FIRST, 2 * PAGE_BYTES + 70, 0xFF)
    damaged = disk.files()[FIRST][2 * PAGE_BYTES : 3 * PAGE_BYTES]
    journal = opened(disk, seed=3)
    assert [(each.kind, each.first, each.last) for each in journal.damage] == [("corrupt", 1, 1)]
    assert disk.files()[f"quarantine/{FIRST}-{2 * PAGE_BYTES}-{3 * PAGE_BYTES}.corrupt"] == damaged


def test_corruption_is_reported_at_every_start_until_it_is_trimmed(disk: SimDisk) -> None:
    disk.corrupt(SECOND, PAGE_BYTES + 70, 0xFF)  # batch 3, followed by 4: copied into a fresh segment
    for seed in range(3, 6):
        journal = opened(disk, seed)
        assert [(each.kind, each.first, each.last) for each in journal.damage] == [("corrupt", 3, 3)]
        disk.crash()
    journal = opened(disk, seed=6)
    for _ in range(4):
        journal.append([Record(1, b"x" * 3_000)])
        journal.sync()
    journal.trim(journal.next_sequence)
    disk.crash()
    assert opened(disk, seed=7).damage == []


def test_the_loss_of_the_very_first_batch_is_not_forgotten_when_its_segment_is_copied() -> None:
    disk = SimDisk()
    journal = opened(disk)
    for _ in range(2):
        journal.append([Record(1, b"x")])
        journal.sync()
    disk.crash()
    disk.corrupt(FIRST, PAGE_BYTES + 70, 0xFF)
    for seed in range(3):
        journal = opened(disk, seed)
        assert [(each.kind, each.first, each.last) for each in journal.damage] == [("corrupt", 0, 0)]
        disk.crash()


def pages_in_one_segment(*groups: int) -> SimDisk:
    """Batches of a page each, in groups that were synced together; nothing else is left to tell of them."""
    disk = SimDisk()
    journal = opened(disk, segment_bytes=2 * SEGMENT_BYTES)
    for size in groups:
        for _ in range(size):
            journal.append([Record(1, b"batch %d" % journal.next_sequence)])
        journal.sync()
    disk.crash()
    for name in disk.files().keys() - {FIRST}:
        disk.remove(name)
    return disk


def test_a_batch_that_the_next_but_one_knows_to_be_synced_is_corrupt_and_the_next_is_delivered() -> None:
    disk = pages_in_one_segment(1, 2, 1)
    disk.corrupt(FIRST, 2 * PAGE_BYTES + 70, 0xFF)
    found, damage = look(disk)
    assert list(found) == [0, 2, 3]
    assert [(each.kind, each.first, each.last) for each in damage] == [("corrupt", 1, 1)]


def test_the_word_of_a_header_counts_although_its_body_is_damaged() -> None:
    disk = pages_in_one_segment(1, 1, 1)
    disk.corrupt(FIRST, 2 * PAGE_BYTES, 0xFF)  # batch 1 is gone
    disk.corrupt(FIRST, 3 * PAGE_BYTES + 70, 0xFF)  # batch 2 cannot be delivered, but knew that 1 was synced
    found, damage = look(disk)
    assert list(found) == [0]
    assert [(each.kind, each.first) for each in damage] == [("corrupt", 1)]


def test_a_segment_and_its_copy_deliver_once_even_if_the_copy_cannot_say_what_it_is(disk: SimDisk) -> None:
    sound = contents(disk)
    both = 0
    for cut in range(1, 40):
        broken = copy.deepcopy(disk)
        broken.cut_at(cut)
        with contextlib.suppress(PowerCut):
            opened(broken, seed=cut)
        broken.crash()
        names = [name for name, data in broken.files().items() if data[PAGE_BYTES:].startswith(b"jjqb")]
        copies = [name for name in names if name.endswith(".seg") and name > SECOND]
        if copies and SECOND in names:
            both += 1
            broken.corrupt(copies[0], 0, 0xFF)
        assert look(broken) == (sound, [])
        journal = opened(broken, seed=cut + 1)
        assert journal.append([Record(1, b"new")]) == 5
        journal.sync()
        broken.crash()
        assert look(broken) == (sound | {5: [(1, b"new")]}, [])
    assert both


def test_a_batch_of_a_group_that_was_synced_by_rolling_is_corrupt_when_it_is_damaged() -> None:
    disk = SimDisk()
    journal = opened(disk)
    for _ in range(4):
        journal.append([Record(1, b"x")])  # no sync but that of going on in the second segment
    disk.crash()
    for name in disk.files().keys() - {FIRST, SECOND}:
        disk.remove(name)  # no other word of what was synced
    disk.corrupt(FIRST, 2 * PAGE_BYTES + 70, 0xFF)
    found, damage = look(disk)
    assert list(found) == [0, 2, 3]
    assert [(each.kind, each.first, each.last) for each in damage] == [("corrupt", 1, 1)]


@pytest.mark.parametrize(("clean", "kind"), [(False, "torn"), (True, "corrupt")])
def test_the_last_batch_alone_may_be_cut_but_not_after_a_clean_close(clean: bool, kind: str) -> None:
    disk = SimDisk()
    journal = opened(disk)
    for sequence in range(2):
        journal.append([Record(1, b"batch %d" % sequence)])
        journal.sync()
    journal.close(clean)
    disk.corrupt(FIRST, 2 * PAGE_BYTES + 70, 0xFF)
    found, damage = look(disk)
    assert list(found) == [0]
    assert [(report.kind, report.first) for report in damage] == [(kind, 1)]
    # A number that was promised to someone is not used again; one that never was, is.
    for seed in (1, 2):
        assert opened(disk, seed).next_sequence == (2 if clean else 1)
        disk.crash()


def test_a_clean_close_with_something_behind_its_end_is_not_believed() -> None:
    disk = SimDisk()
    journal = opened(disk)
    journal.append([Record(1, b"x")])
    journal.close()
    disk.corrupt(FIRST, 2 * PAGE_BYTES + 9, 0x01)
    journal = opened(disk, seed=2)
    assert [(report.kind, report.first) for report in journal.damage] == [("torn", 1)]
    assert FIRST not in disk.files(), "the journal writes on where it does not know what lies"


def test_of_a_group_at_the_start_of_a_segment_too_nothing_after_the_torn_batch_is_delivered() -> None:
    disk = SimDisk()
    journal = opened(disk)
    for sequence in range(5):
        journal.append([Record(1, b"%d" % sequence)])  # 3 and 4 in the second segment, not synced
    disk.crash()
    for position in range(PAGE_BYTES, 2 * PAGE_BYTES):
        disk.corrupt(SECOND, position, disk.files()[SECOND][position])  # 3 never reached the disk
    for seed in (1, 2):
        journal = opened(disk, seed)
        assert journal.next_sequence == 3
        assert [damage.kind for damage in journal.damage] == (["torn"] if seed == 1 else [])
        disk.crash()


def test_of_a_group_that_was_not_synced_nothing_after_its_torn_batch_is_delivered() -> None:
    # Given a batch that was synced, and two that were not, of which the first did not reach the disk
    disk = SimDisk()
    journal = opened(disk)
    journal.append([Record(1, b"synced")])
    journal.sync()
    for data in (b"torn", b"whole"):
        journal.append([Record(1, data)])
    disk.crash()
    disk.corrupt(FIRST, 2 * PAGE_BYTES + 70, 0xFF)
    # When the machine stops at any step of the recovery from this, and of the recovery after that
    for cut in range(1, 40):  # a recovery makes fewer changes than that
        broken = copy.deepcopy(disk)
        broken.cut_at(cut)
        try:
            journal = opened(broken, seed=cut)
            broken.cut_at(None)
        except PowerCut:
            broken.crash()
            journal = opened(broken, seed=cut + 1)
        # Then both are cut, which is no corruption, and their numbers are used again
        assert journal.next_sequence == 1
        assert not any(report.kind == "corrupt" for report in journal.damage)
        kept = [data for name, data in broken.files().items() if name.startswith("quarantine/")]
        assert kept == [disk.files()[FIRST][2 * PAGE_BYTES : 4 * PAGE_BYTES]]
        journal.append([Record(1, b"new")])
        journal.sync()
        broken.power_cut(SeededChance(cut))
        assert contents(broken) == {0: [(1, b"synced")], 1: [(1, b"new")]}


def test_a_damaged_batch_in_a_full_segment_is_corrupt_although_the_next_is_torn(disk: SimDisk) -> None:
    disk.corrupt(FIRST, 3 * PAGE_BYTES, 0xFF)  # batch 2
    for page in (1, 2):
        disk.corrupt(SECOND, page * PAGE_BYTES, 0xFF)  # batches 3 and 4: no sound header is left there
    found, damage = look(disk)
    assert list(found) == [0, 1]
    assert [(each.kind, each.first, each.last) for each in damage] == [("corrupt", 2, None)]
    disk.remove(SPARE)  # without its word that batch 2 was synced, the segment begun after it has to do
    found, damage = look(disk)
    assert list(found) == [0, 1]
    assert [each.kind for each in damage] == ["corrupt", "torn"]


def test_a_lost_segment_is_corruption_and_the_later_ones_are_delivered() -> None:
    disk = SimDisk()
    journal = opened(disk)
    for _ in range(9):
        journal.append([Record(1, b"x")])
        journal.sync()
    journal.close()
    files = [name for name, content in disk.files().items() if content[PAGE_BYTES:].startswith(b"jjqb")]
    disk.remove(files[1])
    found, damage = look(disk)
    assert list(found) == [0, 1, 2, 6, 7, 8]
    assert [(each.kind, each.first, each.last, each.places) for each in damage] == [("corrupt", 3, 5, ())]


def test_the_loss_of_the_very_first_batch_shows(disk: SimDisk) -> None:
    disk.corrupt(FIRST, PAGE_BYTES + 70, 0xFF)
    found, damage = look(disk)
    assert list(found) == [1, 2, 3, 4]
    assert [(each.kind, each.first, each.last) for each in damage] == [("corrupt", 0, 0)]


@pytest.mark.parametrize("size", [0, 100, PAGE_BYTES, 2 * PAGE_BYTES, 2 * PAGE_BYTES + 50])
def test_a_segment_cut_short_is_reported(disk: SimDisk, size: int) -> None:
    sound = contents(disk)
    for name in (FIRST, SECOND):
        broken = copy.deepcopy(disk)
        broken.truncate(name, size)
        found, damage = look(broken)
        assert found.items() <= sound.items()
        assert sound.keys() - found.keys() <= lost(damage)
        assert damage
        opened(broken, seed=3).append([Record(1, b"goes on")])


def test_pages_that_cannot_be_read_count_as_damaged(disk: SimDisk) -> None:
    sound = contents(disk)
    reads = 0
    while True:
        reads += 1
        broken = copy.deepcopy(disk)
        for nth in range(2):  # the large read, and then one of the pages
            broken.fail("read", reads + nth)
        found, damage = look(broken)
        assert found.items() <= sound.items()
        assert sound.keys() - found.keys() <= lost(damage)
        if not broken.pending_faults:
            continue
        break
    assert reads > 4


def test_a_batch_copied_elsewhere_is_not_delivered_from_there(disk: SimDisk) -> None:
    inode = disk.files()[FIRST]
    batch = inode[PAGE_BYTES : 2 * PAGE_BYTES]
    file = disk.open(SECOND)
    file.write(3 * PAGE_BYTES, [batch])
    found, damage = look(disk)
    assert list(found) == [0, 1, 2, 3, 4]
    assert [each.kind for each in damage] == ["torn"]


def test_a_payload_that_holds_a_whole_segment_is_not_taken_for_batches() -> None:
    disk = SimDisk()
    journal = opened(disk)
    journal.append([Record(1, b"x" * 10)])
    journal.sync()
    # 4024 bytes of fill bring the copy to the start of a page.
    image = disk.files()[FIRST][: 2 * PAGE_BYTES]
    journal.append([Record(1, bytes(PAGE_BYTES - 72) + image[PAGE_BYTES:])])
    journal.sync()
    disk.crash()
    disk.corrupt(FIRST, 2 * PAGE_BYTES, 0xFF)  # the header of the outer batch: now the scan looks inside
    found, damage = look(disk)
    assert list(found) == [0]
    assert [each.kind for each in damage] == ["torn"]


def test_a_damaged_length_never_asks_for_much_memory(disk: SimDisk) -> None:
    disk.corrupt(SECOND, PAGE_BYTES + 47, 0x7F)  # the high byte of the body length
    tracemalloc.start()
    look(disk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * SCAN_BYTES


def test_a_segment_with_a_damaged_header_still_yields_its_batches(disk: SimDisk) -> None:
    sound = contents(disk)
    for name in (FIRST, SECOND):
        disk.corrupt(name, 0, 0xFF)
    assert look(disk) == (sound, [])
    assert len(contents(disk)) == 5
    assert journal_on(disk).next_sequence == 0
    assert opened(disk, seed=4).next_sequence == 5
