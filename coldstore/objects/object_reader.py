"""An object as a file for libraries that want one: of a large object only the ranges that are read are fetched."""

from __future__ import annotations

import io

from coldstore.objects.port import ObjectStore


class ObjectReader(io.RawIOBase):
    """One object of a known size, by ranges. Each read is one request to the store."""

    def __init__(self, objects: ObjectStore, key: str, size: int) -> None:
        super().__init__()
        self._objects = objects
        self._key = key
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        data = self._objects.get(self._key, self._at, end).data
        self._at += len(data)
        return data

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(room))
        room[: len(data)] = data
        return len(data)
