"""Power is lost at every single step, also while recovering from the last loss."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from coldstore.shared.chance import SeededChance
from hotstore.journal.recovery import Recovery
from hotstore.testing.simulated_disk import PowerCut, SimDisk, SimFile
from tests.hotstore.journal.model import Model, contents, day_in_the_life, each_cut, journal_on, opened, sweep


def test_the_day_that_is_swept_rolls_trims_and_recycles() -> None:
    disk, model = SimDisk(), Model()
    day_in_the_life(disk, model)
    assert disk.changes > 100
    left = contents(disk)
    assert min(left) > 3, "the oldest segments were not trimmed"
    assert max(left) - min(left) > 3
    stale = [name for name, data in disk.files().items() if b"jjqb" in data and name.endswith(".free")]
    assert stale, "no file is to have another life"
    assert max(int(name[:20]) for name in disk.files() if name[0] == "0") > 2 * len(disk.files())


@pytest.mark.parametrize("seed", range(12))
def test_whatever_step_the_power_is_cut_at_everything_synced_is_there(seed: int) -> None:
    sweep(seed)


def test_whatever_step_the_process_is_killed_at_everything_written_is_there() -> None:
    for nth, disk, model in each_cut(day_in_the_life):
        disk.crash()
        model.synced_upto = max([*model.appended, -1]) + 1  # the page cache has it
        model.check(journal_on(disk, seed=nth))


def recover_with_cuts(broken: SimDisk, model: Model, stop: Callable[[SimDisk, int], None]) -> None:
    """Stop the machine at every step of a recovery, then recover."""
    again = 0
    while True:
        again += 1
        disk, judge = copy.deepcopy((broken, model))
        disk.cut_at(again)
        try:
            opened(disk, seed=again)
        except PowerCut:
            stop(disk, again)
            judge.check(journal_on(disk, seed=again + 7))
        else:
            return


def test_power_cut_at_every_step_of_the_recovery_from_a_power_cut() -> None:
    for nth, disk, model in each_cut(day_in_the_life):
        disk.power_cut(SeededChance(nth))
        recover_with_cuts(disk, model, lambda disk, again, nth=nth: disk.power_cut(SeededChance(nth + again)))  # type: ignore[misc]


def test_killed_at_every_step_of_recovery_the_same_batches_are_delivered_once() -> None:
    for _, disk, model in each_cut(day_in_the_life):
        disk.crash()
        model.synced_upto = max([*model.appended, -1]) + 1
        recover_with_cuts(disk, model, lambda disk, again: disk.crash())


def test_killed_in_recovery_and_then_the_power_goes() -> None:
    for _, disk, model in each_cut(day_in_the_life):
        disk.crash()
        recover_with_cuts(disk, model, lambda disk, again: disk.power_cut(SeededChance(again)))


# The checker is worth something only if it catches the mistakes that it is made for.


class ForgetsDirectories(SimDisk):
    def sync_directory(self, name: str = "") -> None:
        self.strike("sync_directory", change=True)


class ForgetsFiles(SimDisk):
    def open(self, name: str, *, create: bool = False) -> SimFile:
        file = super().open(name, create=create)
        file.sync = lambda: None  # type: ignore[method-assign]
        return file


@pytest.mark.parametrize("make", [ForgetsDirectories, ForgetsFiles])
def test_the_sweep_catches_a_journal_that_does_not_sync(make: Callable[[], SimDisk]) -> None:
    with pytest.raises(AssertionError, match="lost"):
        sweep(0, make)


def lost_after_failed_fsync_and_restart(seed: int) -> None:
    """The fsync fails, the process restarts, reads the batch from the page cache, serves it; power goes."""
    disk, model = SimDisk(), Model()
    journal = journal_on(disk, seed)
    model.check(journal)
    model.append(journal, 5_000)
    model.sync(journal)
    model.append(journal, 5_000)
    disk.fail("sync")
    with pytest.raises(Exception, match="restart the process"):
        journal.sync()
    disk.crash()
    model.check(journal_on(disk, seed + 1))  # counts everything that it delivered as promised
    disk.power_cut(SeededChance(seed))
    model.check(journal_on(disk, seed + 2))


def test_what_a_recovery_delivered_survives_although_the_fsync_had_failed() -> None:
    for seed in range(20):
        lost_after_failed_fsync_and_restart(seed)


def test_this_test_catches_a_recovery_that_does_not_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recovery, "_is_clean", lambda *_: True)
    with pytest.raises(AssertionError, match="lost"):
        lost_after_failed_fsync_and_restart(0)
