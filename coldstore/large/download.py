"""Reading an object: ranges of it, piece by piece, and whether what is there is what its name says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore, check_range
from coldstore.shared.errors import DataLoss, InvalidInput, NotFound
from coldstore.shared.limits import PART_BYTES


def check_part(start: int, end: int | None, size: int) -> tuple[int, int]:
    """The range `start`..`end` of an object of `size` bytes, which must lie within it."""
    check_range(start, end)
    stop = size if end is None else end
    if not start <= stop <= size:
        raise InvalidInput(f"bytes {start} to {stop} are not within the object, which has {size}")
    return start, stop


def steps(start: int, stop: int, step: int = PART_BYTES) -> Iterator[tuple[int, int]]:
    """The range in pieces that are read at a time."""
    while start < stop:
        yield start, min(start + step, stop)
        start += step


def read_part(objects: ObjectStore, queue: str, sha256: str, start: int, end: int) -> bytes:
    """Bytes `start`..`end`; `DataLoss` if the object is gone or too short."""
    key = paths.large(queue, sha256)
    try:
        data = objects.get(key, start, end).data
    except NotFound:
        raise gone(key) from None
    if len(data) != end - start:
        raise DataLoss(f"object {key} is damaged: it ends before byte {end}; restore it", key=key)
    return data


def gone(key: str) -> DataLoss:
    return DataLoss(f"object {key} is gone, and elements name it: restore it from a backup", key=key)


def damaged(key: str) -> DataLoss:
    return DataLoss(f"object {key} is damaged: its bytes do not have this sha256; restore it", key=key)


def check_object(objects: ObjectStore, queue: str, sha256: str, size: int, *, read: bool = True) -> None:
    """Return if the object is there and whole, else `DataLoss`; `read`: all of its bytes are hashed."""
    key = paths.large(queue, sha256)
    try:
        found = objects.head(key).size
    except NotFound:
        raise gone(key) from None
    if found != size:
        raise DataLoss(f"object {key} is damaged: it has {found} bytes and not {size}; restore it", key=key)
    if not read:
        return
    digest = hashlib.sha256()
    for start, end in steps(0, size):
        digest.update(read_part(objects, queue, sha256, start, end))
    if digest.hexdigest() != sha256:
        raise damaged(key)
