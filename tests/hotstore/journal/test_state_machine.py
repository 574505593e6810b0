"""Any order of appends, syncs, trims, stops and faults, against a list."""

from __future__ import annotations

import errno
import re

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coldstore.shared.chance import SeededChance
from coldstore.shared.errors import Exhausted
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Poisoned
from hotstore.testing.simulated_disk import PowerCut, SimDisk, Verb
from tests.hotstore.journal.model import SEGMENT_BYTES, Model, journal_on

seeds = st.integers(0, 2**32)
verbs = st.sampled_from(["write", "sync", "rename", "remove", "sync_directory"])


class JournalMachine(RuleBasedStateMachine):
    """The model allows exactly what the port promises; see `Model.check`."""

    @initialize(segments=st.integers(5, 40))
    def start(self, segments: int) -> None:
        self.disk = SimDisk(capacity_bytes=segments * SEGMENT_BYTES)
        self.model = Model()
        self.lives = 0  # each has other identities to hand out
        self.restart()

    @precondition(lambda self: not self.dead)
    @rule(size=st.integers(0, 11_000), records=st.integers(1, 3))
    def append(self, size: int, records: int) -> None:
        before = self.journal.next_sequence
        with self.risk():
            try:
                self.model.append(self.journal, size // records, records)
            except Exhausted:
                self.model.attempted = None  # certainly not written
                assert self.journal.next_sequence == before

    @precondition(lambda self: not self.dead)
    @rule()
    def sync(self) -> None:
        with self.risk():
            self.model.sync(self.journal)

    @precondition(lambda self: not self.dead)
    @rule(keep=st.integers(0, 12))
    def trim(self, keep: int) -> None:
        with self.risk():
            self.model.trim(self.journal, min(self.journal.next_sequence - keep, self.model.synced_upto))

    @rule(verb=verbs, nth=st.integers(1, 12), full=st.booleans())
    def fault_ahead(self, verb: Verb, nth: int, full: bool) -> None:
        self.disk.fail(verb, nth, errno.ENOSPC if full and verb == "write" else errno.EIO)

    @rule(nth=st.integers(1, 40))
    def power_cut_ahead(self, nth: int) -> None:
        self.disk.cut_at(nth)

    @rule(nth=st.integers(1, 5), taken=st.integers(1, 5_000))
    def short_write_ahead(self, nth: int, taken: int) -> None:
        self.disk.shorten(nth, taken)

    @rule(seed=seeds)
    def power_cut(self, seed: int) -> None:
        self.disk.power_cut(SeededChance(seed))
        self.restart()

    @rule()
    def kill(self) -> None:
        self.disk.crash()
        self.restart()

    @precondition(lambda self: not self.dead)
    @rule()
    def close(self) -> None:
        with self.risk():
            self.journal.close()
            self.model.synced_upto = self.journal.next_sequence
        self.disk.crash()
        self.restart()

    @rule(seed=seeds, nth=st.integers(1, 30), verb=verbs, cut=st.booleans())
    def fault_in_recovery(self, seed: int, nth: int, verb: Verb, cut: bool) -> None:
        """Nested: the recovery from one stop is itself stopped, and its work may be lost."""
        self.disk.power_cut(SeededChance(seed))
        if cut:
            self.disk.cut_at(nth)
        else:
            self.disk.fail(verb, nth)
        self.dead = False
        self.lives += 1
        with self.risk():
            for _ in journal_on(self.disk, self.lives).recover():
                pass
        self.disk.power_cut(SeededChance(seed + 2))
        self.restart()

    def restart(self) -> None:
        self.lives += 1
        self.dead = False  # poisoned, or out of power: only a restart helps
        self.journal: DiskJournal = journal_on(self.disk, self.lives)
        try:
            self.model.check(self.journal)
        except Exhausted:
            # Only where a damaged segment had to be kept as a whole and took the place of the spare:
            # the operator makes room, and nothing is lost.
            assert any(re.fullmatch(r"quarantine/\d+\.seg", name) for name in self.disk.files())
            self.disk.capacity_bytes += SEGMENT_BYTES
            self.restart()

    @invariant()
    def used_bytes_are_those_of_the_segments_that_are_left(self) -> None:
        if not self.dead and self.journal.next_sequence:
            assert 0 < self.journal.used_bytes <= sum(map(len, self.disk.files().values()))

    def risk(self) -> Risk:
        return Risk(self)


class Risk:
    """A step that may end in poison or without power; both leave a machine that must be restarted."""

    def __init__(self, machine: JournalMachine) -> None:
        self._machine = machine

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, (PowerCut, Poisoned)):
            self._machine.dead = True
            return True
        return False


JournalMachine.TestCase.settings = settings(
    max_examples=250,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestJournalMachine = JournalMachine.TestCase
