"""What text queues cost, in processor time: reading by the byte, appending whatever the size of the file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jjq.textqueue import TextQueue

LINES = {
    "queued": b"-" + b"x" * 98 + b"\n",
    "done": b"=" + b"x" * 98 + b"\n",
    "variable": b"-" + b"x" * 80 + b"\n\\mutex=          \n",
}


@pytest.mark.parametrize("kind", LINES)
def test_a_large_file_is_read_whole(tmp_path: Path, kind: str) -> None:
    """How fast it is read depends on the machine: `python -m bench textqueue` wants 150 MB/s."""
    path = tmp_path / "large.tq"
    path.write_bytes(LINES[kind] * 200_000)
    os.utime(path, (1, 1))
    with TextQueue(path) as queue:
        assert sum(1 for _ in queue) == (0 if kind == "done" else 200_000)


def test_an_append_costs_the_same_whatever_the_size_of_the_file(tmp_path: Path) -> None:
    small, large = tmp_path / "small.tq", tmp_path / "large.tq"
    small.write_bytes(b"# " + b"x" * 1_000 + b"\n")
    with large.open("wb") as file:
        file.truncate(1_000_000_000)  # a gigabyte that takes no room
        file.seek(0, os.SEEK_END)
        file.write(b"\n")

    def seconds(path: Path) -> float:
        with TextQueue(path) as queue:
            queue.append("first")
            began = time.process_time()
            for _ in range(300):
                queue.append("x" * 98)
            return time.process_time() - began

    ratios = []
    for _ in range(5):
        ratios.append(seconds(large) / seconds(small))
        if ratios[-1] < 1.5:
            break
    assert min(ratios) < 1.5, ratios


def test_the_next_item_does_not_cost_a_block(tmp_path: Path) -> None:
    """A reader that takes items one by one reads each block once."""
    path = tmp_path / "large.tq"
    path.write_bytes(LINES["queued"] * 20_000)
    os.utime(path, (1, 1))
    with TextQueue(path) as queue:
        began = time.process_time()
        assert sum(1 for _ in iter(queue.get_next, None)) == 20_000
        assert time.process_time() - began < 2.0  # 100 µs each; a block each would take minutes
