"""One object on its way in: hashed while it passes, put in parts, given its name only when it is whole and right.

`add` is called for one part after the other, `put` for any of them at the same time. Every part but the last has
`limits.PART_BYTES`; an object that fits into one part is put as a whole. What is wrong, by size or by digest, is never
visible. Uploads of the same bytes do not disturb each other: whichever is last leaves what the first one left.

The digest that the bytes must have is announced before the first one, or, of an object in parts that the store can
name in the end, told after the last one.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from coldstore.large.download import damaged, read_part, steps
from coldstore.layout import paths
from coldstore.objects.parts import parts_of
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound, check
from coldstore.shared.limits import PART_BYTES


class LargeUpload:
    """An upload of `size` bytes; `sha256` is empty if it is told in the end. Used by threads; nothing is written before
    the first part."""

    def __init__(self, objects: ObjectStore, queue: str, sha256: str, size: int) -> None:
        self._objects = objects
        self._store = parts_of(objects)
        self._queue = queue
        self._key = paths.large(queue, sha256) if sha256 else paths.unnamed(queue)
        self._size = size
        self._hash = hashlib.sha256()
        self._hashed = 0
        self._whole: bytes | None = b"" if size == 0 else None
        self._upload: str | None = None
        self._tags: dict[int, str] = {}

    def begin(self) -> None:
        """Get ready for parts, if there will be several."""
        if self._size > PART_BYTES:
            self._upload = self._store.begin_parts(self._key)

    def add(self, data: bytes) -> None:
        """Hash the next part. Parts are added in their order."""
        self._hash.update(data)
        self._hashed += len(data)

    def put(self, number: int, data: bytes) -> None:
        """Store a part. It is not looked at again, and must not be changed."""
        if self._upload is None:
            self._whole = data
        else:
            self._tags[number] = self._store.put_part(self._key, self._upload, number, data)
        failpoint.reach("object.part_put")

    def check(self, sha256: str) -> None:
        """Return if what came is what it should be, else `InvalidInput`."""
        if self._hashed != self._size:
            self.abort()
            raise InvalidInput(f"{self._hashed} bytes came, {self._size} were announced: correct the size")
        if self._hash.hexdigest() != sha256:
            self.abort()
            raise InvalidInput(
                f"the bytes have the sha256 {self._hash.hexdigest()}, not {sha256}: read the source again"
            )
        self._key = paths.large(self._queue, sha256)

    def complete(self) -> None:
        """Make the object visible, durably. It was checked."""
        failpoint.reach("object.complete")
        if self._upload is None:
            self._put_whole()
        else:
            check(sorted(self._tags) == list(range(len(self._tags))), "a part is missing")
            tags = [self._tags[number] for number in range(len(self._tags))]
            self._store.complete_parts(self._key, self._upload, tags)
        failpoint.reach("object.completed")

    def _put_whole(self) -> None:
        data = bytes(self._whole or b"")
        try:
            self._objects.put_if_absent(self._key, data)
        except Conflict:
            if self._objects.head(self._key).size != self._size:  # damaged: these bytes are right
                self._objects.put(self._key, data)

    def abort(self) -> None:
        """Forget what was stored; best effort, as a sweep finds what is left."""
        self._whole = None
        if self._upload is not None:
            with suppress(JjqError):
                self._store.abort_parts(self._key, self._upload)


def copy_object(source: ObjectStore, target: ObjectStore, queue: str, sha256: str, size: int) -> None:
    """Copy an object to another store, unless it is there; `DataLoss` if the source does not have it as it was."""
    key = paths.large(queue, sha256)
    with suppress(NotFound):
        if target.head(key).size == size:
            return
    one = LargeUpload(target, queue, sha256, size)
    one.begin()
    try:
        for number, (start, end) in enumerate(steps(0, size)):
            part = read_part(source, queue, sha256, start, end)
            one.add(part)
            one.put(number, part)
        if size == 0:
            read_part(source, queue, sha256, 0, 0)
        one.check(sha256)
        one.complete()
    except InvalidInput:
        raise damaged(key) from None
    except JjqError:
        one.abort()
        raise
