"""Fetch a data file in parallel ranges, and take its sha256 while they arrive.

One stream from S3 is slow, and a processor that waits for it is idle. On a local disk, reading and digesting
take about equally long. So a few threads read a large file in ranges, and the calling thread digests the
ranges in order. All ranges go into one buffer, since Parquet is read from its end.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from coldstore.objects.port import ObjectStore
from coldstore.shared import limits

_PART_BYTES: Final = 4 * limits.MIB
_THREADS: Final = 4


class Fetched(NamedTuple):
    """The bytes of an object, and their sha256."""

    data: pa.Buffer
    sha256: str


def fetch(objects: ObjectStore, key: str, size: int) -> Fetched:
    """An object of about `size` bytes. If it is longer, so is the result, but not by more than one byte."""
    if size <= _PART_BYTES:
        data = objects.get(key, 0, size + 1).data
        return Fetched(pa.py_buffer(data), hashlib.sha256(data).hexdigest())
    starts = range(0, size, _PART_BYTES)
    room = pa.allocate_buffer(size + 1)
    view = memoryview(room).cast("B")
    target = np.frombuffer(view, dtype=np.uint8)

    def read(start: int) -> int:
        end = start + _PART_BYTES if start != starts[-1] else size + 1
        part = objects.get(key, start, end).data
        # Copied by numpy, which releases the interpreter's lock meanwhile, so that other threads can serve.
        target[start : start + len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)

    digest = hashlib.sha256()
    read_bytes = 0
    with ThreadPoolExecutor(min(_THREADS, len(starts)), "jjq-fetch") as pool:
        for start, count in zip(starts, pool.map(read, starts), strict=True):
            digest.update(view[start : start + count])
            read_bytes += count
    return Fetched(room.slice(0, read_bytes), digest.hexdigest())
