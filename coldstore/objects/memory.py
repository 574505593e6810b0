"""Objects in memory: the store for tests and for trying things out. It ships with the product.

It passes the same contract suite as the real stores. Every version has its own etag, never reused,
so it is stricter than S3, whose etag is a digest of the content.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Final

from coldstore.layout.paths import check_key, check_prefix
from coldstore.objects.port import Body, Object, ObjectInfo, cut_range, whole
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import Conflict, NotFound


class MemoryObjects:
    """An ObjectStore that dies with the process."""

    names_at_end: Final = True  # of an object in parts

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, ObjectInfo]] = {}
        self._keys: list[str] = []  # sorted; by code points, which for UTF-8 is by bytes
        self._versions = 0
        self._uploads: dict[str, tuple[str, dict[int, bytes]]] = {}  # by name: the key it began with, parts

    def __repr__(self) -> str:
        return "memory:"

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        check_key(key)
        data, info = self._read(key)
        start, stop = cut_range(start, end, len(data))
        return Object(data[start:stop], info.etag)

    def put(self, key: str, data: Body) -> str:
        check_key(key)
        data = whole(data)
        with self._lock:
            return self._write(key, data)

    def put_if_absent(self, key: str, data: Body) -> str:
        check_key(key)
        data = whole(data)
        with self._lock:
            if key in self._objects:
                raise Conflict(f"object {key} exists already")
            return self._write(key, data)

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        check_key(key)
        data = whole(data)
        with self._lock:
            if key not in self._objects or self._objects[key][1].etag != etag:
                raise Conflict(f"object {key} is not the version {etag} any more")
            return self._write(key, data)

    def list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return self._list(prefix, after)

    def head(self, key: str) -> ObjectInfo:
        check_key(key)
        return self._read(key)[1]

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            if self._objects.pop(key, None) is not None:
                del self._keys[bisect_right(self._keys, key) - 1]

    # As `PartStore` ---------------------------------------------------------------------------------

    def begin_parts(self, key: str) -> str:
        check_key(key)
        with self._lock:
            self._versions += 1
            upload = f"u{self._versions}"
            self._uploads[upload] = key, {}
        return upload

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        with self._lock:
            self._parts(key, upload)[number] = bytes(data)
        return str(number)

    def complete_parts(self, key: str, upload: str, tags: Sequence[str]) -> None:
        with self._lock:
            parts = self._parts(key, upload)
            self._write(key, b"".join(parts[int(tag)] for tag in tags))
            del self._uploads[upload]

    def abort_parts(self, key: str, upload: str) -> None:
        with self._lock:
            self._uploads.pop(upload, None)

    def open_uploads(self, key: str) -> Sequence[str]:
        with self._lock:
            return [upload for upload, (of, _) in self._uploads.items() if of == key]

    def _parts(self, key: str, upload: str) -> dict[int, bytes]:
        if upload not in self._uploads:
            raise NotFound(f"no upload {upload} to {key}: begin again")
        return self._uploads[upload][1]

    def _read(self, key: str) -> tuple[bytes, ObjectInfo]:
        with self._lock:
            if key not in self._objects:
                raise NotFound(f"no object {key}")
            return self._objects[key]

    def _write(self, key: str, data: bytes) -> str:
        if key not in self._objects:
            insort(self._keys, key)
        self._versions += 1
        info = ObjectInfo(key, len(data), f"v{self._versions}", self._clock.now_us())
        self._objects[key] = (data, info)
        return info.etag

    def _list(self, prefix: str, after: str) -> Iterator[ObjectInfo]:
        # One step per object and no snapshot: like the real stores, a listing in progress may or may
        # not show what is written meanwhile, and never anything twice.
        step = bisect_right if after >= prefix else bisect_left
        last = max(after, prefix)
        while True:
            with self._lock:
                at = step(self._keys, last)
                if at == len(self._keys) or not self._keys[at].startswith(prefix):
                    return
                info = self._objects[self._keys[at]][1]
            yield info
            step, last = bisect_right, info.key
