"""The catalog on a full disk, and when its writer is killed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coldstore.shared.chance import SeededChance
from tests.hotstore.catalog.catalogs import ROOT, catalog, holds, many, queues, rebuild


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound catalog at checkpoint 1."""
    assert catalog(tmp_path).write(queues("orders"), many(1), sequence=1, everything=True).stored
    return tmp_path / "catalog.duckdb"


@contextmanager
def file_size_limited(size: int) -> Iterator[None]:
    """The portable full disk: no file may grow past `size` (Python ignores the signal, so EFBIG)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 4_096, 12_288, 300_000])
def test_a_full_disk_begins_nothing_and_a_later_write_does(tmp_path: Path, size: int) -> None:
    starting = catalog(tmp_path)
    with file_size_limited(size):
        outcome = starting.write(queues("orders"), many(1), sequence=1, everything=True)
    assert (outcome.stored, [event.kind for event in outcome.events]) == (False, ["created", "failed"])
    assert list(tmp_path.iterdir()) == [], "no stub that would be taken for damage"
    assert starting.write(queues("orders"), many(1), sequence=1, everything=starting.behind).stored
    assert holds(starting) == 1


def test_a_full_disk_leaves_the_catalog_as_it_was(path: Path) -> None:
    full = catalog(path.parent)
    for _ in range(2):
        with file_size_limited(12_288):  # the headers of the file, and no block
            outcome = full.write(queues("orders"), many(2), sequence=2, everything=True)
        assert (outcome.stored, [event.kind for event in outcome.events]) == (False, ["failed"])
        assert holds(catalog(path.parent)) == 1
    assert rebuild(path) == ()


def write_until_death(path: Path, first: int, seconds: float, failpoints: str = "") -> tuple[int, int]:
    """Let a real process write until it dies; the last checkpoint it reported, and its exit status."""
    command = [
        sys.executable,
        "-m",
        "tests.hotstore.catalog.catalogs",
        str(path.parent),
        str(first),
        str(seconds),
    ]
    environment = os.environ | {"JJQ_FAILPOINTS": failpoints}
    child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    reported = [line.split() for line in child.stdout.splitlines()]
    assert all(stored == "True" for _, stored in reported), child.stdout
    return int(reported[-1][0]) if reported else first - 1, child.returncode


@pytest.mark.parametrize("nth", [1, 2])
def test_kill_nine_after_the_commit_keeps_the_commit(path: Path, nth: int) -> None:
    reported, status = write_until_death(path, 2, 60.0, f"catalog.written:{nth}:kill")
    assert (reported, status) == (nth, -signal.SIGKILL)
    assert holds(catalog(path.parent)) == nth + 1
    assert rebuild(path, 9) == ()


def test_a_sudden_end_at_any_moment_leaves_the_old_catalog_or_the_new_one(path: Path) -> None:
    chance = SeededChance(7)
    last, rounds = 1, 0
    while rounds < 8 or (last <= 3 and rounds < 40):
        rounds += 1
        slower = 1 + rounds // 8  # a slow machine needs more time to get anywhere
        reported, status = write_until_death(path, last + 1, (0.1 + 0.7 * chance.jitter()) * slower)
        assert status == -signal.SIGPROF
        now = holds(catalog(path.parent))
        assert now in (reported, reported + 1), "what was reported is there; the next may be"
        last = now
    assert last > 3, "the writer got some way"
    assert not (path.parent / "quarantine").exists()
