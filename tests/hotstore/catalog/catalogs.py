"""Rows for tests of the catalog, and a process that writes them until it is killed.

`python -m tests.hotstore.catalog.catalogs DIR FIRST [SECONDS]` writes checkpoint FIRST, FIRST + 1, … and
says so line by line. It dies at an armed fail point, or after SECONDS of processor time, wherever
it then is: the signal of an interval timer ends a process as abruptly as SIGKILL does.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

import pyarrow as pa

from coldstore.shared import failpoint
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock, SystemClock
from hotstore.catalog.catalog import QUEUES, SUBSCRIBERS, Catalog, Event

ROOT = Path(__file__).resolve().parents[3]
CREATED_US = 1_767_225_600_000_000


def catalog(folder: Path, **options) -> Catalog:
    """As a process that has just started sees it."""
    clock = ManualClock(CREATED_US + 5)
    return Catalog(folder / "catalog.duckdb", folder / "quarantine", clock, SystemChance(), **options)


def queues(*names: str, next_offset: int = 1_000) -> pa.Table:
    rows = [
        (f"id-{name}", name, "json", 65_536, 1.5, CREATED_US, 0, next_offset, next_offset - 10)
        for name in names
    ]
    return _table(rows, QUEUES)


def subscribers(queue: str, names: list[str], offset: int = 0) -> pa.Table:
    rows = []
    for at, name in enumerate(names, offset):
        place = (at // 100 * 100, at, offset)
        rows.append((f"{queue}/{name}", name, f"id-{queue}", *place, "end", CREATED_US + at, at % 2 == 1))
    return _table(rows, SUBSCRIBERS)


def many(sequence: int) -> pa.Table:
    """What checkpoint number `sequence` of the process below holds."""
    return subscribers("orders", [f"s{i:03}" for i in range(300)], offset=sequence * 1_000)


def rebuild(path: Path, sequence: int = 2) -> tuple[Event, ...]:
    """Write everything, as after a restart; it must succeed and be exactly that."""
    restarted = catalog(path.parent)
    outcome = restarted.write(queues("orders"), many(sequence), sequence=sequence, everything=True)
    assert outcome.stored, outcome
    assert holds(restarted) == sequence
    return outcome.events


def holds(of: Catalog) -> int:
    """The checkpoint in the file, having compared every row of it."""
    read = of.read()
    assert read.subscribers.equals(many(read.sequence))
    return read.sequence


def _table(rows: list[tuple], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def main(folder: str, first: str, seconds: str = "0") -> None:
    failpoint.arm_from(os.environ)
    written = Catalog(
        Path(folder) / "catalog.duckdb", Path(folder) / "quarantine", SystemClock(), SystemChance()
    )
    signal.setitimer(signal.ITIMER_PROF, float(seconds))
    for sequence in count(int(first)):
        rows = queues("orders", next_offset=sequence)
        outcome = written.write(rows, many(sequence), sequence=sequence, everything=written.behind)
        print(sequence, outcome.stored, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
