"""kill -9 at every named point of the journal, in a real process on a real disk; then the audit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coldstore.shared import failpoint
from coldstore.shared.chance import SystemChance
from hotstore.journal.disk import RealDisk
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Record
from hotstore.limits import SEGMENT_BYTES_MIN
from tests.hotstore.journal.victim import content

ROOT = Path(__file__).parents[3]
POINTS = [name for name in failpoint.NAMES if name.startswith(("journal.", "recovery."))]


def run(path: Path, batches: int, arm: str = "") -> tuple[int, int]:
    """Run the victim; returns how it ended and below which sequence everything was promised."""
    victim = subprocess.run(
        [sys.executable, "-m", "tests.hotstore.journal.victim", str(path), str(batches)],
        env={**os.environ, "JJQ_FAILPOINTS": arm},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    synced = [int(line.split()[1]) for line in victim.stdout.splitlines()]
    assert victim.returncode in (0, -signal.SIGKILL), victim.stderr
    return victim.returncode, max(synced, default=0)


def audit(path: Path, synced_upto: int) -> int:
    """Recover: dense, right bytes, nothing promised is missing. Returns the next sequence."""
    journal = DiskJournal(RealDisk(path), SystemChance(), segment_bytes=SEGMENT_BYTES_MIN)
    found = []
    for batch in journal.recover():
        assert bytes(batch.records[0].payload) == content(batch.sequence)
        found.append(batch.sequence)
    assert found == list(range(found[0], found[-1] + 1) if found else [])
    assert journal.next_sequence >= synced_upto
    assert journal.damage == []
    assert not found or found[0] <= max(0, synced_upto - 4)
    journal.close(clean=False)
    return journal.next_sequence


def left_behind(path: Path) -> int:
    """A journal whose process died with batches in the last segment; returns what it was promised."""
    journal = DiskJournal(RealDisk(path), SystemChance(), segment_bytes=SEGMENT_BYTES_MIN)
    assert list(journal.recover()) == []
    for sequence in range(7):
        journal.append([Record(1, content(sequence))])
    journal.sync()
    journal.close(clean=False)
    return 7


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_kill_nine_loses_nothing_that_was_synced(point: str, nth: int, tmp_path: Path) -> None:
    # Given
    promised = left_behind(tmp_path)
    # When the next process is killed at the point: in the course of its life, or at each of several starts
    starts, arm = (nth, f"{point}:1:kill") if point.startswith("recovery") else (1, f"{point}:{nth}:kill")
    for _ in range(starts):
        status, synced = run(tmp_path, 60, arm)
        assert status == -signal.SIGKILL, "the point was not reached"
        promised = max(promised, synced)
    # Then all is there, and the journal goes on
    next_sequence = audit(tmp_path, promised)
    assert run(tmp_path, 9) == (0, next_sequence + 9)
    audit(tmp_path, next_sequence + 9)
