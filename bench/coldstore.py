"""The cold store: blocks against plain Parquet files, opening a long queue, look-ups, memory.

Ratios are taken within one run and in turns, so that a busy machine slows both sides.
"""

from __future__ import annotations

import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from bench.row import Row, at_least, at_most
from coldstore.block import encode
from coldstore.history import rollups
from coldstore.history.block_list import BlockList
from coldstore.history.columns import BlockColumns
from coldstore.history.rollups import Run
from coldstore.layout import metadata, paths
from coldstore.layout.metadata import BlockMetadata, genesis, link
from coldstore.objects.local import LocalObjects
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared import batch
from coldstore.shared.chance import SeededChance, SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore

ELEMENTS = 500_000
VALUE_BYTES = 100
LONG_QUEUE_BLOCKS = 100_000


def run(quick: bool) -> list[Row]:
    """All figures of the cold store."""
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
        root = Path(folder)
        rounds = 5 if quick else 15
        rows = _blocks(root / "text", elements(), "random text", rounds)
        rows += _blocks(root / "json", json_elements(), "JSON", rounds)
        rows += _memory_of_a_write(root / "memory")
        rows += _long_queue(root / "long")
    return rows


def elements(count: int = ELEMENTS) -> pa.Table:
    """Random printable values: nothing for a dictionary, little for a compressor. The worst case."""
    values = np.random.default_rng(count).integers(33, 127, size=count * VALUE_BYTES, dtype=np.uint8)
    ends = np.arange(0, count * VALUE_BYTES + 1, VALUE_BYTES, dtype=np.int32)
    return _table(pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(values)]))


def json_elements(count: int = ELEMENTS) -> pa.Table:
    """Values as an application has them."""
    chance = np.random.default_rng(count)
    users, cents = chance.integers(0, 10_000, count).tolist(), chance.integers(0, 100_000, count).tolist()
    texts = [
        b'{"id":%d,"user":"user%d","amount":%d.%02d,"status":"open","when":"2026-01-01T00:00:%02dZ"}'
        % (at, user, price // 100, price % 100, at % 60)
        for at, (user, price) in enumerate(zip(users, cents, strict=True))
    ]
    return _table(pa.array(texts, pa.binary()))


def _table(values: pa.Array) -> pa.Table:
    count = len(values)
    columns = [pa.nulls(count, pa.binary()), values, pa.nulls(count, batch.HEADERS)]
    payload = pa.RecordBatch.from_arrays(columns, schema=batch.payload_schema("bytes"))
    return pa.Table.from_batches([batch.stamp(payload, 0, 1_767_225_600_000_000)])


def _queue(root: Path) -> ColdQueue:
    store = ColdStore(LocalObjects(root), SystemClock(), SystemChance())
    return store.create_queue("bench")


def _blocks(root: Path, table: pa.Table, what: str, rounds: int) -> list[Row]:
    root.mkdir()
    queue = _queue(root / "store")
    fresh = (root / f"plain-{number}.parquet" for number in itertools.count())  # like ours, never overwritten
    writes: dict[str, Callable[[], Any]] = {
        "plain": lambda: pq.write_table(table, next(fresh)),
        "alike": lambda: _write_alike(table, next(fresh)),
        "block": lambda: queue.write_block(_moved(table, queue.next_offset)),
    }
    written = _in_turns(writes, rounds)
    plain = root / "plain-0.parquet"
    reads: dict[str, Callable[[], Any]] = {
        "plain": lambda: pq.read_table(plain),
        "block": lambda: queue.read_block(0),
    }
    read = _in_turns(reads, rounds)
    megabytes = table.nbytes / 1e6
    return [
        Row(f"write a block, 500,000 × 100 B of {what}", megabytes / written["block"], "MB/s"),
        at_least("… of write_table", written["plain"] / written["block"], "×", 0.6),
        Row("… of write_table with our options", written["alike"] / written["block"], "×"),
        Row("… stored, of write_table's", queue.list_blocks()[0].stored_bytes / plain.stat().st_size, "×"),
        Row("read it back", megabytes / read["block"], "MB/s"),
        at_least("… of read_table", read["plain"] / read["block"], "×", 0.6),
    ]


def _moved(table: pa.Table, first: int) -> pa.Table:
    """The same elements as those that come next in a queue."""
    offsets = pa.array(np.arange(first, first + table.num_rows, dtype=np.int64))
    return table.set_column(0, table.schema.field("offset"), offsets)


def _write_alike(table: pa.Table, path: Path) -> None:
    with encode.open_writer(str(path), table.schema) as writer:
        writer.write_table(table, row_group_size=67_650)


def _in_turns(sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each side; one round runs each once, the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds + 1):
        for name, side in sides.items():
            os.sync()  # what one side left to the disk must not slow the next
            start = time.perf_counter()
            side()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def _memory_of_a_write(root: Path) -> list[Row]:
    (times,) = _alone("measure_write", root)
    return [at_most("peak memory of a write, the table included", times, "× raw", 3.0)]


def measure_write(root: str) -> None:
    """Run in a process of its own: its peak, over what it had before there was a table."""
    queue = _queue(Path(root))
    queue.write_block(elements(1_000))
    before = psutil.Process().memory_info().rss
    table = elements(4 * ELEMENTS)
    queue.write_block(_moved(table, queue.next_offset))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print((peak - before) / table.nbytes)


def _alone(measure: str, root: Path) -> list[float]:
    """What a function of this module prints when it runs in a process of its own."""
    code = f"import bench.coldstore as b, sys; b.{measure}(sys.argv[1])"
    said = subprocess.run([sys.executable, "-c", code, str(root)], check=True, capture_output=True, text=True)
    return [float(word) for word in said.stdout.split()]


def _long_queue(root: Path) -> list[Row]:
    _make_long_queue(root, LONG_QUEUE_BLOCKS)
    seconds, grown, objects, offset_us, time_us = _alone("measure_long_queue", root)
    return [
        at_most("open 100,000 blocks", seconds, "s", 2.0),
        at_most("… memory", grown, "MB", 300.0),
        Row("… objects read", objects, ""),
        at_most("look up an offset among them", offset_us, "µs", 20.0),
        at_most("look up a time among them", time_us, "µs", 20.0),
    ]


def synthetic_blocks(queue: str, count: int) -> BlockList:
    """A list of final blocks that were never written; their chain is right."""
    chance = SeededChance(1)
    put_id, sha256 = chance.token(), 2 * chance.token()
    chain = genesis(queue)
    made = []
    for i in range(count):
        first, last = 1_000 * i, 1_000 * i + 999
        chain = link(chain, first, last, sha256)
        made.append(
            BlockMetadata(
                queue=queue, kind="final", first=first, last=last, min_timestamp_us=first, max_timestamp_us=last,
                stored_bytes=40_000, raw_bytes=100_000, sha256=sha256, path=paths.data_path(first),
                previous=first - 1_000 if i else None, epoch=1, put_id=put_id, chain=chain,
            )
        )  # fmt: skip
    return BlockList(queue, BlockColumns().extended(0, made), count)


def _make_long_queue(root: Path, count: int) -> None:
    """The roll-ups and the later metadata of a queue with `count` blocks, without their data."""
    objects = LocalObjects(root)
    queue = ColdStore(objects, SystemClock(), SystemChance()).create_queue("long")
    blocks = synthetic_blocks(queue.settings.id, count)
    rolled = 0
    for run_ in rollups.runs(count):
        rollups.write(objects, queue.settings, blocks, run_)
        rolled = Run(*run_).stop
    for made in blocks[rolled:]:
        objects.put(paths.meta("long", made.first, "final"), metadata.encode(made))


def measure_long_queue(root: str) -> None:
    """Run in a process of its own: open, look up, print the figures."""
    counted = _Counting(LocalObjects(root))
    store = ColdStore(counted, SystemClock(), SystemChance())
    before = psutil.Process().memory_info().rss
    start = time.perf_counter()
    queue = store.open_queue("long")
    seconds = time.perf_counter() - start
    grown = (psutil.Process().memory_info().rss - before) / 1e6
    offsets = np.random.default_rng(1).integers(0, queue.next_offset, 10_000).tolist()
    print(seconds, grown, counted.gets, _each_us(queue.block_for, offsets), _each_us(queue.block_at, offsets))


def _each_us(look_up: Callable[[int], object], asked: list[int]) -> float:
    start = time.perf_counter()
    for value in asked:
        look_up(value)
    return (time.perf_counter() - start) / len(asked) * 1e6


class _Counting:
    """An ObjectStore that counts what is read."""

    def __init__(self, objects: LocalObjects) -> None:
        self._objects = objects
        self.gets = 0

    def __getattr__(self, name: str) -> Any:
        if name == "get":
            self.gets += 1
        return getattr(self._objects, name)
