"""One process per data directory."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from coldstore.shared.errors import Conflict
from hotstore.journal.directory_lock import LOCK_NAME, lock_directory

HOLD = """
import sys, pathlib
from hotstore.journal.directory_lock import lock_directory
lock = lock_directory(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process that holds the directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_who_holds_the_directory_until_that_dies(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        with pytest.raises(Conflict, match=f"process {other.pid}"):
            lock_directory(tmp_path)
        other.send_signal(signal.SIGKILL)
        other.wait()
    lock_directory(tmp_path).release()


def test_a_second_open_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with lock_directory(tmp_path) as lock:
        with pytest.raises(Conflict, match=f"process {os.getpid()}"):
            lock_directory(tmp_path)
        assert lock.path == tmp_path
    lock_directory(tmp_path).release()


def test_the_lock_outlives_a_refused_attempt(tmp_path: Path) -> None:
    with lock_directory(tmp_path):
        for _ in range(3):
            with pytest.raises(Conflict):
                lock_directory(tmp_path)


def test_a_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with lock_directory(path):
        for each in (path, path.parent):
            assert stat.S_IMODE(each.stat().st_mode) == 0o700
        assert stat.S_IMODE((path / LOCK_NAME).stat().st_mode) == 0o600


def test_a_symbolic_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / LOCK_NAME).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        lock_directory(tmp_path / "data")
    assert victim.read_text() == "precious"


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib; from hotstore.journal.directory_lock import lock_directory\n"
        "lock = lock_directory(pathlib.Path(sys.argv[1]))\n"
        "if os.fork() == 0:\n"
        "    os.close(1); sys.stdin.read(); os._exit(0)\n"
        "print('forked', flush=True)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:  # the child waits for the end of the input, so it lives on after its parent
        assert parent.stdout
        assert parent.stdout.read() == "forked\n"
        parent.wait()
        lock_directory(tmp_path).release()
