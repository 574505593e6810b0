"""A journal under test and the list that it must agree with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from coldstore.shared.chance import SeededChance
from hotstore.journal.bounds import JournalBounds
from hotstore.journal.disk import Disk
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import JournalBatch, Record
from hotstore.journal.recovery import Recovery
from hotstore.journal.spares import Inline, Spares
from hotstore.limits import SEGMENT_BYTES_MIN
from hotstore.testing.simulated_disk import PowerCut, SimDisk

SEGMENT_BYTES = SEGMENT_BYTES_MIN  # header and three batches of a page: rolls all the time
Content = list[tuple[int, bytes]]


def journal_on(disk: Disk, seed: int = 0, segment_bytes: int = SEGMENT_BYTES) -> DiskJournal:
    """A journal whose background work is done inline, so that a run repeats itself."""
    return DiskJournal(disk, SeededChance(seed), segment_bytes=segment_bytes, background=Inline())


def opened(disk: Disk, seed: int = 0, segment_bytes: int = SEGMENT_BYTES) -> DiskJournal:
    """A journal after recovery."""
    journal = journal_on(disk, seed, segment_bytes)
    for _ in journal.recover():
        pass
    return journal


def content_of(batch: JournalBatch) -> Content:
    return [(record.kind, bytes(record.payload)) for record in batch.records]


def contents(disk: Disk) -> dict[int, Content]:
    """Every batch that a recovery delivers. Reads only: the disk stays as it is."""
    return {batch.sequence: content_of(batch) for batch in peek(disk).batches()}


def peek(disk: Disk) -> Recovery:
    """A recovery that will not be finished."""
    chance, bounds = SeededChance(0), JournalBounds(None)
    return Recovery(
        disk, Spares(disk, chance, SEGMENT_BYTES, Inline(), bounds), bounds, None, {}, chance, None
    )


def payload(sequence: int, size: int, salt: int = 0) -> bytes:
    """Bytes that tell which batch they belong to, and differ from page to page."""
    stamp = b"<%d.%d>" % (sequence, salt)
    return (stamp * (size // len(stamp) + 1))[:size]


class Model:
    """What was appended, what was promised, what may be gone; checks a recovery against it."""

    def __init__(self) -> None:
        self.appended: dict[int, Content] = {}
        self.attempted: Content | None = None  # an append that did not return
        self.synced_upto = 0
        self.needed_from = 0
        self._salt = 0

    def append(self, journal: DiskJournal, size: int = 100, records: int = 1) -> int:
        self._salt += 1
        data = [payload(journal.next_sequence, size, self._salt + record) for record in range(records)]
        content = [(1 + record, each) for record, each in enumerate(data)]
        self.attempted = content
        sequence = journal.append([Record(kind, (each[:7], each[7:])) for kind, each in content])
        assert sequence not in self.appended
        self.appended[sequence], self.attempted = content, None
        return sequence

    def sync(self, journal: DiskJournal) -> None:
        journal.sync()
        self.synced_upto = journal.next_sequence

    def trim(self, journal: DiskJournal, before: int) -> None:
        self.needed_from = max(self.needed_from, before)
        journal.trim(before)

    def check(self, journal: DiskJournal) -> None:
        """Recover and compare: everything promised is there, in order, and nothing was invented."""
        found: list[int] = []
        for batch in journal.recover():
            allowed = self.appended.get(batch.sequence, self.attempted)
            assert content_of(batch) == allowed, f"batch {batch.sequence} has bytes that nobody appended"
            self.appended[batch.sequence] = content_of(batch)
            found.append(batch.sequence)
        assert found == list(range(found[0], found[-1] + 1) if found else []), "a gap, or out of order"
        promised = set(range(self.needed_from, self.synced_upto))
        assert promised <= set(found), f"lost {sorted(promised - set(found))}"
        assert [damage for damage in journal.damage if damage.kind == "corrupt"] == []
        assert journal.next_sequence == (found[-1] + 1 if found else 0)
        # What survived is durable from now on, and what did not is forgotten: its numbers are used again.
        self.attempted, self.synced_upto = None, journal.next_sequence
        self.appended = {sequence: self.appended[sequence] for sequence in found}


def each_cut(
    script: Callable[[SimDisk, Model], None], make: Callable[[], SimDisk] = SimDisk
) -> Iterator[tuple[int, SimDisk, Model]]:
    """Run the script again and again, stopping the machine one change later each time."""
    nth = 0
    while True:
        nth += 1
        disk, model = make(), Model()
        disk.cut_at(nth)
        try:
            script(disk, model)
        except PowerCut:
            yield nth, disk, model
        else:
            return


def day_in_the_life(disk: SimDisk, model: Model) -> None:
    """Appends small and large, alone and in groups, rolls, trims, a clean restart, an unclean one."""
    journal = journal_on(disk, seed=1)
    model.check(journal)
    for size in (100, 5_000, 300):
        model.append(journal, size)
        model.sync(journal)
    model.append(journal, 9_000)
    model.append(journal, 200, records=3)
    model.sync(journal)
    model.trim(journal, 3)
    journal.close()
    journal = journal_on(disk, seed=2)
    model.check(journal)
    for size in (4_000, 4_100, 100):
        model.append(journal, size)
        model.sync(journal)
    model.append(journal, 50)
    disk.crash()
    journal = journal_on(disk, seed=3)
    model.check(journal)
    model.append(journal, 6_000)
    model.sync(journal)
    model.trim(journal, 7)
    for size in (3_000, 3_000, 8_000, 100):
        model.append(journal, size)
    model.sync(journal)


def sweep(seed: int, make: Callable[[], SimDisk] = SimDisk) -> None:
    """Cut the power at every step of a day; all that was promised must be there, and the journal go on."""
    for nth, disk, model in each_cut(day_in_the_life, make):
        disk.power_cut(SeededChance(1_000 * seed + nth))
        journal = journal_on(disk, seed=nth)
        model.check(journal)
        model.append(journal, 5_000)
        model.sync(journal)
        disk.power_cut(SeededChance(nth))
        model.check(journal_on(disk, seed=nth + 1))
