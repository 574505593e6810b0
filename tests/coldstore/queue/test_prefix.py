"""`data/` is an exact, gapless prefix at every instant, also while writers are killed.

A reader that knows nothing of jjq lists and reads the folder with plain pyarrow, over and over, while
processes write, merge and sweep, and are killed at every point that the code names.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from coldstore.shared import failpoint
from tests.coldstore.killed import due, opened
from tests.coldstore.making import read_all

POINTS = [name for name in failpoint.NAMES if name.split(".")[0] in ("block", "rollup", "merge", "sweep")]


class Reader(threading.Thread):
    """Reads `data/` until told to stop; `wrong` says what it should never have seen."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="reader")
        self._folder = folder
        self._stop_asked = threading.Event()
        self.reads = 0
        self.seen = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.wrong and not self._stop_asked.is_set():
            try:
                self._read()
            except Exception as error:  # noqa: BLE001 whatever it is, the test must hear of it
                self.wrong.append(repr(error))

    def _read(self) -> None:
        if not self._folder.exists():
            return
        table = ds.dataset(self._folder, format="parquet").to_table()
        offsets = table.column("offset").to_pylist() if table.num_columns else []
        if offsets != list(range(len(offsets))):
            self.wrong.append(f"a gap or a double: {offsets}")
        elif offsets and not table.select(["value"]).equals(due(0, len(offsets)).select(["value"])):
            self.wrong.append("other elements")
        self.reads += 1
        self.seen = max(self.seen, len(offsets))

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


def run_writer(root: Path, seed: int, steps: int, points: str = "") -> tuple[int, int]:
    """Run a writer; returns how it ended and up to where it had stored elements."""
    command = [sys.executable, "-m", "tests.coldstore.killed", str(root), str(seed), str(steps)]
    environment = {**os.environ, "JJQ_FAILPOINTS": points, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    told = done.stdout.split()
    return done.returncode, int(told[-1]) if told else 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    opened(str(tmp_path))
    return tmp_path


def test_a_plain_reader_never_sees_a_gap_or_a_double_while_writers_are_killed(root: Path) -> None:
    reader = Reader(root / "queues" / "orders" / "data")
    reader.start()
    killed: set[str] = set()
    try:
        for nth in (1, 2):
            for number, point in enumerate(POINTS):
                ended, stored = run_writer(root, 100 * nth + number, 40, f"{point}:{nth}:kill")
                if ended:
                    killed.add(point)
                queue = opened(str(root))
                assert queue.next_offset >= stored
                report = queue.verify()
                assert report.ok, report.defects
    finally:
        reader.stop()
    assert reader.wrong == []
    assert killed == set(POINTS)
    assert reader.reads > len(POINTS)
    assert reader.seen > 0
    queue = opened(str(root))
    expected = due(0, queue.next_offset)
    assert read_all(queue) == list(
        zip(expected["offset"].to_pylist(), expected["value"].to_pylist(), strict=True)
    )


def test_two_writers_at_once_leave_a_queue_that_verifies(root: Path) -> None:
    """No owner should have a rival; if there is one, the queue is none the worse."""
    reader = Reader(root / "queues" / "orders" / "data")
    reader.start()
    command = [sys.executable, "-m", "tests.coldstore.killed", str(root)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    writers = [
        subprocess.Popen(
            [*command, str(seed), "40"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    complaints = [writer.communicate(timeout=60)[1] for writer in writers]
    reader.stop()
    assert reader.wrong == []
    # A writer may end by being fenced off, and by nothing else.
    for writer, complaint in zip(writers, complaints, strict=True):
        assert writer.returncode == 0 or "Conflict" in complaint or "Fenced" in complaint, complaint
    queue = opened(str(root))
    report = queue.verify()
    assert report.ok, report.defects
    expected = due(0, queue.next_offset)
    assert [value for _, value in read_all(queue)] == expected["value"].to_pylist()
