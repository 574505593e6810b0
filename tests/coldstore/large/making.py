"""Bytes of objects, and uploads of them."""

from __future__ import annotations

import hashlib

from coldstore.large.upload import LargeUpload
from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared.limits import PART_BYTES

SMALL = b"a small object"
LARGE = b"x" * PART_BYTES + b"y" * PART_BYTES + b"rest"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def upload(
    objects: ObjectStore, data: bytes, sha256: str | None = None, size: int | None = None, queue: str = "q"
) -> str:
    """Upload `data`, announced as `sha256` and `size`; its key."""
    sha256 = sha256 or digest(data)
    key = paths.large(queue, sha256)
    one = LargeUpload(objects, queue, sha256, len(data) if size is None else size)
    one.begin()
    for number, at in enumerate(range(0, len(data), PART_BYTES)):
        part = data[at : at + PART_BYTES]
        one.add(part)
        one.put(number, part)
    one.check(sha256)
    one.complete()
    return key
