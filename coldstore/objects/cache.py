"""A local cache of cold data files, for stores that are far away.

Two tiers: verified bytes in memory, and files named by their sha256 in a folder that any number of
processes share. Whatever comes from disk or from the store is hashed before it is handed out; bytes
in memory were, and are not hashed again (30 ms per block). The folder:

    <directory>/<sha256>        a file, renamed into place when whole; its mtime is its last use
    <directory>/<pid>-<token>   a file being written, already of its full size, locked by its writer
    <directory>/.lock           held while room is made, and while a file gets its name

Room is made before a file is written: under the lock the least recently used files go until the new
one fits, and it is created at full size before the lock is released. So the files of all processes
together never exceed the bound, although none waits while another writes. A cache must never be the
reason that a read fails: trouble with the disk only means that the store is asked.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from coldstore.objects import local_files
from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss, InvalidInput, Unavailable

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_WRITING: Final = re.compile(r"[0-9]+-[0-9a-f]{32}")


class BlockCache:
    """Whole data files by key and digest, each fetched once per process however many ask at a time."""

    def __init__(
        self,
        objects: ObjectStore,
        directory: Path,
        disk_bytes: int,
        memory_bytes: int,
        clock: Clock,
        chance: Chance,
    ) -> None:
        self._objects = objects
        self._memory = _Memory(memory_bytes)
        self._disk = _Disk(directory, disk_bytes, clock, chance)
        self._lock = threading.Lock()
        self._loading: dict[str, Future[bytes]] = {}

    def get(self, key: str, sha256: str, size: int) -> bytes:
        """The object's bytes, proven to be those of `sha256`; else `DataLoss`, and nothing is cached."""
        if not _SHA256.fullmatch(sha256):
            raise InvalidInput(f"{sha256[:80]!r} is no sha256 of {key}: use 64 lower-case hexadecimal digits")
        mine: Future[bytes] = Future()
        with self._lock:
            held = self._memory.get(sha256)
            loading = mine if held is not None else self._loading.setdefault(sha256, mine)
        if held is not None:
            self._disk.touch(sha256)
            return held
        if loading is mine:
            self._load(key, sha256, size, mine)
        return loading.result()

    def _load(self, key: str, sha256: str, size: int, loading: Future[bytes]) -> None:
        try:
            data = self._disk.get(sha256, size)
            if data is None:
                data = self._objects.get(key).data
                if not _is(data, sha256, size):
                    raise DataLoss(f"object {key} is damaged: its sha256 is not {sha256}", key=key)
                self._disk.put(sha256, data)
        except BaseException as error:
            self._finish(sha256)
            interrupted = Unavailable(f"reading {key} was interrupted; retry")
            loading.set_exception(error if isinstance(error, Exception) else interrupted)
            raise
        self._finish(sha256, data)
        loading.set_result(data)

    def _finish(self, sha256: str, data: bytes | None = None) -> None:
        with self._lock:
            if data is not None:
                self._memory.put(sha256, data)
            del self._loading[sha256]


def _is(data: bytes, sha256: str, size: int) -> bool:
    return len(data) == size and hashlib.sha256(data).hexdigest() == sha256


class _Memory:
    """Verified bytes, least recently used first; its owner holds a lock."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._bytes = 0
        self._held: OrderedDict[str, bytes] = OrderedDict()

    def get(self, sha256: str) -> bytes | None:
        if sha256 in self._held:
            self._held.move_to_end(sha256)
            return self._held[sha256]
        return None

    def put(self, sha256: str, data: bytes) -> None:
        if sha256 in self._held or len(data) > self._bound:
            return
        self._held[sha256] = data
        self._bytes += len(data)
        while self._bytes > self._bound:
            self._bytes -= len(self._held.popitem(last=False)[1])


class _Disk:
    """Files named by their digest, shared with other processes."""

    def __init__(self, directory: Path, bound: int, clock: Clock, chance: Chance) -> None:
        self._directory = directory
        self._bound = bound
        self._clock = clock
        self._chance = chance

    def get(self, sha256: str, size: int) -> bytes | None:
        """The bytes if they are here and whole. A damaged file is dropped."""
        path = self._directory / sha256
        with suppress(OSError):
            with local_files.opened(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as fd:
                if os.fstat(fd).st_size == size and _is(
                    data := local_files.read_fully(fd, 0, size), sha256, size
                ):
                    self._used(fd)
                    return data
            path.unlink()
        return None

    def put(self, sha256: str, data: bytes) -> None:
        if len(data) > self._bound:
            return
        with suppress(OSError), self._room_for(len(data)) as (fd, temporary):
            local_files.write_fully(fd, data)
            self._used(fd)
            with self._locked():  # or who counts meanwhile may see neither name
                temporary.rename(self._directory / sha256)

    def touch(self, sha256: str) -> None:
        """Say that the file was used, if it is still here."""
        with suppress(OSError):
            self._used(self._directory / sha256)

    def _used(self, file: int | Path) -> None:
        now_ns = self._clock.now_us() * 1_000
        os.utime(file, ns=(now_ns, now_ns))

    @contextmanager
    def _room_for(self, size: int) -> Iterator[tuple[int, Path]]:
        """A new file for `size` bytes, after others have made room for it."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{os.getpid()}-{self._chance.token()}"
        with ExitStack() as stack:
            with self._locked():
                self._evict(self._bound - size)
                fd = stack.enter_context(local_files.temporary(self._directory, name))
                os.truncate(fd, size)  # from here on it counts
            yield fd, self._directory / name

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with local_files.opened(lock):
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _evict(self, allowed: int) -> None:
        """Remove the least recently used files until `allowed` bytes are left. Foreign files stay."""
        total, found = 0, []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if _WRITING.fullmatch(entry.name) and local_files.remove_abandoned(Path(entry.path)):
                    continue
                if _SHA256.fullmatch(entry.name) or _WRITING.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        total += status.st_size
                        found.append((status.st_mtime_ns, status.st_size, entry.path))
        for _, size, path in sorted(found):
            if total > allowed and _SHA256.fullmatch(Path(path).name):
                Path(path).unlink(missing_ok=True)
                total -= size
        if total > allowed:
            raise OSError(errno.ENOSPC, "others are writing as much as the cache may hold")
