"""The journal against the bare disk: the same bytes by pwrite + fdatasync into a file written before.

Journal and bare disk take turns within one run, so that a busy machine slows both sides alike.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.row import Row, at_least, at_most
from coldstore.shared.chance import SystemChance
from coldstore.shared.limits import KIB, MIB
from hotstore.journal.disk import RealDisk
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Record
from hotstore.limits import PAGE_BYTES, SEGMENT_BYTES_DEFAULT


def run(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-journal-") as name:
        path = Path(name)
        rows = [*small(path / "small", 1_000 if quick else 5_000)]
        for size, count, most in ((100_000, 1_000, 1.10), (1 * MIB, 300, None), (16 * MIB, 12, None)):
            rows += large(path / str(size), size, count // 4 if quick else count, most)
        rows += rolling(path / "rolling", 12 if quick else 24)
        rows += recovering(path / "recovering", (256 if quick else 1_024) * MIB)
    return rows


def small(path: Path, count: int) -> list[Row]:
    bare, journal = in_turns(path, os.urandom(300), count)
    over = (journal - bare) * 1e6
    return [
        Row("append + sync 300 B, p50", journal * 1e6, "µs"),
        at_most("… above pwrite + fdatasync", over, "µs", 25),
    ]


def large(path: Path, size: int, count: int, most: float | None) -> list[Row]:
    bare, journal = in_turns(path, os.urandom(size), count)
    label = f"{size // MIB} MiB" if size >= MIB else f"{size // 1_000} KB"
    ratio = journal / bare
    against = "… ÷ pwrite + fdatasync"
    return [
        Row(f"append + sync {label}, p50", journal * 1e6, "µs"),
        # Above some 100 KB the checksum, which the bare disk does without, is most of the difference.
        Row(against, ratio, "×") if most is None else at_most(against, ratio, "×", most),
    ]


def in_turns(path: Path, data: bytes, count: int) -> tuple[float, float]:
    """Medians of the bare disk and of the journal. The journal is trimmed, so that its files go round."""
    journal = opened(path)
    bare = Bare(path / "bare")
    record = [Record(1, (data[:50], memoryview(data)[50:]))]

    def append() -> None:
        journal.append(record)
        journal.sync()

    # Until every file has been written once: the first writes into new files allocate.
    while journal.used_bytes < 2 * SEGMENT_BYTES_DEFAULT and len(data) > KIB:
        append()
    journal.trim(journal.next_sequence)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(count):
        times[0].append(timed(lambda: bare.write(data)))
        times[1].append(timed(append))
        journal.trim(journal.next_sequence)
    journal.close()
    bare.close()
    return statistics.median(times[0]), statistics.median(times[1])


class Bare:
    """A file of the size of a segment, written again and again from the start."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._position = 0
        for position in range(0, SEGMENT_BYTES_DEFAULT, MIB):
            os.pwrite(self._file, bytes(MIB), position)
        os.fsync(self._file)

    def write(self, data: bytes) -> None:
        if self._position + len(data) > SEGMENT_BYTES_DEFAULT:
            self._position = 0
        os.pwrite(self._file, data, self._position)
        os.fdatasync(self._file)
        self._position += -(-len(data) // PAGE_BYTES) * PAGE_BYTES

    def close(self) -> None:
        os.close(self._file)


def rolling(path: Path, segments: int) -> list[Row]:
    """What an append costs that goes on in the next segment, as against one that does not."""
    journal = opened(path)
    data = [Record(1, os.urandom(256 * KIB))]
    per_segment = (SEGMENT_BYTES_DEFAULT - PAGE_BYTES) // (256 * KIB + PAGE_BYTES)
    plain: list[float] = []
    rolls: list[float] = []

    def append() -> None:
        journal.append(data)
        journal.sync()

    for count in range(per_segment * segments + 1):
        (plain if count % per_segment else rolls).append(timed(append))
        if journal.used_bytes > 3 * SEGMENT_BYTES_DEFAULT:
            journal.trim(journal.next_sequence)
    journal.close()
    # The first was no roll; the next few waited for files that had never been written before.
    rolled = statistics.median(rolls[6:])
    ratio = rolled / statistics.median(plain)
    return [
        Row("append + sync 256 KiB that rolls, p50", rolled * 1e6, "µs"),
        at_most("… ÷ one that does not", ratio, "×", 2),
    ]


def recovering(path: Path, size: int) -> list[Row]:
    journal = opened(path)
    data = [Record(1, os.urandom(100_000))]
    while journal.used_bytes < size:
        journal.append(data)
    journal.close(clean=False)
    speeds = []
    for _ in range(3):
        journal = DiskJournal(RealDisk(path), SystemChance())
        read = 0
        start = time.perf_counter()
        for batch in journal.recover():
            read += sum(len(record.payload) for record in batch.records)
        speeds.append(read / (time.perf_counter() - start) / 1e9)
        journal.close(clean=False)
    speed = max(speeds)
    return [at_least("recovery, from the page cache", speed, "GB/s", 1)]


def opened(path: Path) -> DiskJournal:
    journal = DiskJournal(RealDisk(path), SystemChance())
    for _ in journal.recover():
        pass
    return journal


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
