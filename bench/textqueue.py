"""Text queues: reading a file of a gigabyte, and appending to it. Needs a gigabyte of free disk.

The targets are for processor time: both are the work of one thread, and on a busy machine the clock measures the
others. The target of an append is a ratio: it must not matter how long the file is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.row import Row, at_least, at_most
from jjq.textqueue import MUTEX, TextQueue

LINES = {
    "queued": b"-" + b"x" * 98 + b"\n",
    "done": b"=" + b"x" * 98 + b"\n",
    "queued with a mutex": b"-" + b"x" * 74 + b"\n\\" + MUTEX.encode() + b"\n",
}


def run(quick: bool) -> list[Row]:
    size = 100_000_000 if quick else 1_000_000_000
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.tq"
        for name, line in LINES.items():
            _fill(path, line, size)
            busy, clock = map(min, zip(*(_timed(lambda: _read(path)) for _ in range(3)), strict=True))
            rows.append(
                at_least(
                    f"read {size / 1e9:g} GB of 100 B, {name}: processor", size / busy / 1e6, "MB/s", 150
                )
            )
            rows.append(Row("… by the clock", size / clock / 1e6, "MB/s"))
        large = _append(path)
        small = _append(Path(folder) / "small.tq")
        rows.append(Row("append to an empty file", small, "µs"))
        rows.append(Row(f"append to one of {size / 1e9:g} GB", large, "µs"))
        rows.append(at_most("… ratio", large / small, "times", 1.5))
    rows.append(at_most("import jjq.textqueue", min(_import() for _ in range(5)), "ms", 30))
    return rows


def _fill(path: Path, line: bytes, size: int) -> None:
    part = line * (1_000_000 // len(line))
    with path.open("wb") as file:
        for _ in range(size // len(part)):
            file.write(part)
    os.utime(path, (1, 1))


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor, and by the clock."""
    busy, began = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - busy, time.perf_counter() - began


def _read(path: Path) -> int:
    count = 0
    with TextQueue(path) as queue:
        for _ in queue:
            count += 1
    return count


def _append(path: Path, count: int = 2_000) -> float:
    """Microseconds of the processor for one append."""
    with TextQueue(path) as queue:
        queue.append("first")
        return _timed(lambda: [queue.append("x" * 98) for _ in range(count)])[0] / count * 1e6


def _import() -> float:
    """Milliseconds of the processor, as after an installation: compiled. The first of several runs compiles."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    program = (
        "import time; t = time.process_time(); import jjq.textqueue; print((time.process_time() - t) * 1e3)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
    return float(done.stdout)
