"""Roll-ups: the metadata of many final blocks in one object, so that opening a queue reads few of them.

    queues/<name>/index/<first:020d>-<next:020d>.arrow

    8 bytes    magic "jjq-idx1"
    32 bytes   sha256 of every byte after this one; checked before anything is parsed
    the rest   an Arrow IPC stream, one row per block, in order:
               first, last, min_timestamp, max_timestamp, stored_bytes, raw_bytes, epoch  int64
               sha256, chain  fixed 32 bytes · put_id  fixed 16 bytes
               and in its schema's key-values: queue (id), row (number of blocks before the first),
               before (chain digest of the block before the first)

A roll-up covers 256 blocks, or 1,024, or 4,096, … and begins at a multiple of its length, like the digits of
a number in base 4. So 100,000 blocks are six roll-ups and 160 single metadata files. A roll-up is written
from memory when its last block was committed. It holds nothing that the metadata files do not hold, so it may
be missing, damaged or overwritten at any time: then the queue is opened from smaller roll-ups, or from the
files themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from coldstore.history.block_list import BlockList
from coldstore.history.columns import FIELDS, Array
from coldstore.layout import paths
from coldstore.layout.metadata import genesis
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import NotFound, check

MAGIC: Final = b"jjq-idx1"

_HEAD_BYTES: Final = len(MAGIC) + 32
_TYPES: Final = {
    name: pa.int64() if kind == "<i8" else pa.binary(int(kind[1:])) for name, kind in FIELDS.items()
}


class Run(NamedTuple):
    """Rows `start`..`stop` (exclusive) of a queue's final blocks, counted from its first."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Rollup:
    """The content of a roll-up."""

    row: int
    before: str
    arrays: Mapping[str, Array]

    @property
    def count(self) -> int:
        return len(self.arrays["first"])


def runs(count: int) -> Iterator[Run]:
    """The roll-ups that a queue of `count` final blocks should have, the longest first."""
    start = 0
    length = limits.ROLLUP_BLOCKS
    while length * limits.ROLLUP_FANOUT <= count:
        length *= limits.ROLLUP_FANOUT
    while length >= limits.ROLLUP_BLOCKS:
        while start + length <= count:
            yield Run(start, start + length)
            start += length
        length //= limits.ROLLUP_FANOUT


def write(objects: ObjectStore, settings: QueueSettings, blocks: BlockList, run: Run) -> str:
    """Put the roll-up of these rows; returns its key. Overwrites: it can only be the same or damaged."""
    arrays = {name: blocks.columns.array(name, blocks.final_count)[run.start : run.stop] for name in FIELDS}
    before = blocks[run.start - 1].chain if run.start else genesis(settings.id)
    check(before is not None, f"the block before row {run.start} is not final")
    key = paths.rollup(settings.name, int(arrays["first"][0]), int(arrays["last"][-1]) + 1)
    objects.put(key, encode(Rollup(run.start, before or "", arrays), settings.id))
    failpoint.reach("rollup.put")
    return key


def encode(rollup: Rollup, queue: str) -> bytes:
    key_values = {"queue": queue, "row": str(rollup.row), "before": rollup.before}
    schema = pa.schema(list(_TYPES.items()), metadata=key_values)
    columns = [_to_arrow(rollup.arrays[name], kind) for name, kind in _TYPES.items()]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    body: bytes = sink.getvalue().to_pybytes()
    return MAGIC + hashlib.sha256(body).digest() + body


def _to_arrow(array: Array, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(
        kind, len(array), [None, pa.py_buffer(np.ascontiguousarray(array).tobytes())]
    )


def read(objects: ObjectStore, settings: QueueSettings, key: paths.RollupKey) -> Rollup | None:
    """The roll-up with this key if it is there, sound and of this queue, else None."""
    try:
        data = objects.get(paths.rollup(settings.name, key.first, key.next)).data
    except NotFound:
        return None
    rollup = decode(data, settings.id)
    return rollup if rollup is not None and _covers(rollup, key) else None


def decode(data: bytes, queue: str) -> Rollup | None:
    """The roll-up in these bytes; None if they are damaged, of a later format, or of another queue."""
    body = memoryview(data)[_HEAD_BYTES:]
    if not data.startswith(MAGIC) or hashlib.sha256(body).digest() != data[len(MAGIC) : _HEAD_BYTES]:
        return None
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            table = stream.read_all().combine_chunks()
        key_values = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
        if key_values["queue"] != queue or table.schema.names != list(FIELDS):
            return None
        return Rollup(
            int(key_values["row"]), key_values["before"], {name: _from_arrow(table, name) for name in FIELDS}
        )
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None


def _from_arrow(table: pa.Table, name: str) -> Array:
    column: Any = table.column(name).cast(_TYPES[name]).combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    kind = np.dtype(FIELDS[name])
    data = memoryview(column.buffers()[1])[column.offset * kind.itemsize :]
    return np.frombuffer(data, dtype=kind, count=len(column))


def _covers(rollup: Rollup, key: paths.RollupKey) -> bool:
    """Whether the rows are dense and are those that the key promises."""
    first, last = rollup.arrays["first"], rollup.arrays["last"]
    return (
        rollup.count > 0
        and (int(first[0]), int(last[-1]) + 1) == key
        and bool((first <= last).all())
        and bool((first[1:] == last[:-1] + 1).all())
    )
