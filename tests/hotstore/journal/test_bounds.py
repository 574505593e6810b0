"""What is kept beside the journal is never ahead of the truth: power cuts and damage to it raise no false alarm."""

from __future__ import annotations

import copy

import pytest

from coldstore.shared.chance import SeededChance
from coldstore.shared.errors import Conflict
from hotstore.journal.bounds import NAME, JournalBounds
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Extent, Record
from hotstore.journal.spares import Inline
from hotstore.limits import BOUNDS_SEGMENTS_MAX
from hotstore.testing.simulated_disk import PowerCut, SimDisk
from tests.hotstore.journal.model import SEGMENT_BYTES


class Machine:
    """A disk with the journal in a folder of its own, and its bounds beside it. One machine, one power cut."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.beside = SimDisk()
        self.acked = 0

    def start(self) -> DiskJournal:
        journal = DiskJournal(
            self.disk,
            SeededChance(0),
            segment_bytes=SEGMENT_BYTES,
            background=Inline(),
            beside=self.beside,
        )
        self.found = [batch.sequence for batch in journal.recover()]
        return journal

    def live(self, journal: DiskJournal, rounds: int = 6) -> None:
        for number in range(rounds):
            journal.append([Record(1, b"x" * 5_000)])
            journal.sync()
            self.acked = journal.next_sequence
            if number % 2:
                journal.note(durable=True)
            if number % 3 == 2:
                journal.trim(journal.next_sequence - 2)

    def crash(self) -> None:
        self.disk.crash()
        self.beside.crash()

    def cut(self, seed: int) -> None:
        self.disk.power_cut(SeededChance(seed))
        self.beside.power_cut(SeededChance(seed + 1_000))


@pytest.mark.parametrize("which", ["disk", "beside"])
def test_a_power_cut_at_any_change_raises_no_alarm_and_loses_nothing(which: str) -> None:
    at, stopped = 0, True
    while stopped:
        at += 1
        machine = Machine()
        journal = machine.start()
        machine.live(journal)
        getattr(machine, which).cut_at(at)
        try:
            machine.live(journal)
            journal.close()
            machine.live(machine.start())
            stopped = False
        except PowerCut:
            pass
        machine.cut(at)
        again = machine.start()
        assert [damage for damage in again.damage if damage.kind == "corrupt"] == [], f"cut at {at}"
        assert machine.found[-1] + 1 >= machine.acked, f"cut at {at}"
    assert at > 40


def test_a_damaged_byte_of_the_bounds_raises_no_alarm() -> None:
    machine = Machine()
    machine.live(machine.start(), 12)
    size = len(machine.beside.files()[NAME])
    for position in [*range(120), *range(size // 2, size // 2 + 120), size - 1]:
        other = copy.deepcopy(machine)
        other.beside.corrupt(NAME, position, 0xFF)
        other.crash()
        assert other.start().damage == [], f"byte {position}"


def test_bounds_of_a_newer_version_are_refused_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    machine.start().close()
    monkeypatch.setattr("hotstore.journal.bounds._VERSION", 2)
    newer = Machine()
    newer.start().close()
    monkeypatch.undo()
    before = newer.disk.files(), newer.beside.files()
    with pytest.raises(Conflict, match="format 2"):
        newer.start()
    assert (newer.disk.files(), newer.beside.files()) == before
    machine.start()


def test_a_journal_of_an_earlier_version_starts_in_silence_and_is_known_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a journal without an identity and without bounds
    machine = Machine()
    with monkeypatch.context() as earlier:
        earlier.setattr("hotstore.journal.recovery.new_identity", lambda chance: 0)
        journal = machine.start()
        machine.live(journal)
        journal.close()
    machine.beside = SimDisk()
    # When
    journal = machine.start()
    # Then
    assert journal.damage == []
    assert journal.note(durable=True).journal != 0
    machine.live(journal)
    machine.disk.remove(next(name for name in machine.disk.list() if name.endswith(".seg")))
    machine.crash()
    assert [damage.kind for damage in machine.start().damage] == ["corrupt"]


def test_bounds_say_what_was_saved_last() -> None:
    disk = SimDisk()
    bounds = JournalBounds(disk)
    assert bounds.read() is None
    bounds.begin(Extent(7, 0, 0, frozenset({1})))
    for number in range(2, 6):
        bounds.given(number)
        bounds.note(number * 10, loss_stored=True)
    bounds.taken([1, 2], begin=25)
    assert JournalBounds(disk).read() == Extent(7, 25, 50, frozenset({3, 4, 5}))
    many = frozenset(range(BOUNDS_SEGMENTS_MAX + 100))
    bounds.begin(Extent(7, 25, 50, many))
    found = JournalBounds(disk).read()
    assert found is not None
    assert found.segments == frozenset(range(100, BOUNDS_SEGMENTS_MAX + 100))


def test_on_a_full_disk_the_journal_goes_on_without_bounds_and_writes_them_once_there_is_room() -> None:
    disk = SimDisk(capacity_bytes=1_000)
    bounds = JournalBounds(disk)
    bounds.begin(Extent(7, 0, 0))
    assert disk.list() == []
    disk.capacity_bytes = 1 << 20
    bounds.note(5, loss_stored=True)
    assert JournalBounds(disk).read() == Extent(7, 0, 5)
    disk.capacity_bytes = 1_000  # and then they are written in place
    bounds.note(6, loss_stored=True)
    assert JournalBounds(disk).read() == Extent(7, 0, 6)


def test_a_loss_is_told_again_until_the_journal_says_whose_it_is() -> None:
    machine = Machine()
    machine.live(machine.start(), 4)
    gone = [name for name in machine.disk.list() if name.endswith(".seg")][-1]
    machine.disk.remove(gone)
    machine.crash()
    assert any(damage.kind == "corrupt" for damage in machine.start().damage)
    machine.crash()
    journal = machine.start()
    assert any(damage.kind == "corrupt" for damage in journal.damage)
    assert gone not in machine.disk.list(), "a number is never used twice"
    journal.append([Record(1, b"whose it is")])
    journal.sync()
    journal.note(durable=True)
    journal.close()
    assert machine.start().damage == []
