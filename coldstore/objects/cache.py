"""A local cache of cold data files, for stores that are far away.

There are two tiers: verified bytes in memory, and files named by their sha256 in a folder that any number of
processes share. Bytes from disk or from the store are hashed before they are handed out. Bytes in memory were
hashed already and are not hashed again, which would take 30 ms per block. The folder:

    <directory>/<sha256>        a file, renamed into place when whole; its mtime is its last use
    <directory>/<pid>-<token>   a file being written, already of its full size, locked by its writer
    <directory>/.lock           held while room is made, and while a file gets its name

Room is made before a file is written. Under the lock, the least recently used files are removed until the new
one fits, and the new one is created at its full size before the lock is released. So the files of all
processes together never exceed the bound, although no process waits while another writes. A cache must never
be the reason that a read fails: if the disk fails, the bytes come from the store.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from coldstore.objects import local_files
from coldstore.objects.port import ObjectStore
from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss, InvalidInput
from coldstore.shared.single_flight import ThreadSingleFlight

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
        self._memory: BoundedDict[str, bytes] = BoundedDict(memory_bytes, weigh=len)
        self._memory_bytes = memory_bytes
        self._disk = _Disk(directory, disk_bytes, clock, chance)
        self._lock = threading.Lock()
        self._loads: ThreadSingleFlight[str, bytes] = ThreadSingleFlight()

    def get(self, key: str, sha256: str, size: int) -> bytes:
        """The object's bytes, proven to be those of `sha256`; else `DataLoss`, and nothing is cached."""
        if not _SHA256.fullmatch(sha256):
            raise InvalidInput(f"{sha256[:80]!r} is no sha256 of {key}: use 64 lower-case hexadecimal digits")
        held = self._recall(sha256)
        if held is not None:
            self._disk.touch(sha256)
            return held
        return self._loads.run(sha256, lambda: self._load(key, sha256, size), f"reading {key}")

    def _recall(self, sha256: str) -> bytes | None:
        with self._lock:
            return self._memory.use(sha256)

    def _load(self, key: str, sha256: str, size: int) -> bytes:
        held = self._recall(sha256)  # another thread may have loaded it between our look and our load
        if held is not None:
            return held
        data = self._disk.get(sha256, size)
        if data is None:
            data = self._objects.get(key).data
            if not _is(data, sha256, size):
                raise DataLoss(f"object {key} is damaged: its sha256 is not {sha256}", key=key)
            self._disk.put(sha256, data)
        if len(data) <= self._memory_bytes:  # a larger one would only drive all others out
            with self._lock:
                self._memory[sha256] = data
        return data


def _is(data: bytes, sha256: str, size: int) -> bool:
    return len(data) == size and hashlib.sha256(data).hexdigest() == sha256


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
            with local_files.closing_fd(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as fd:
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
            with self._locked():  # without it, a process that counts meanwhile may see neither name
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
                fd = stack.enter_context(local_files.create_temporary(self._directory, name))
                os.truncate(fd, size)  # from here on it counts
            yield fd, self._directory / name

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with local_files.closing_fd(lock):
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
