"""The file seam: the few verbs of a file system on which the journal rests, and the real one.

Names are relative to the disk's root, with `/` between directories; the root is "". `SimDisk` is the
other implementation: it can lose power.

The promises, which every caller must assume and no more: bytes are durable once `sync` returned; a
name created, renamed or removed is durable once `sync_directory` of its directory returned; a rename
is atomic; after a failed `sync` nothing is known, whatever a second one says.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from hotstore.journal.port import Buffer

# The kernel takes so many buffers in one call; the standard promises only 16.
_BUFFERS_AT_ONCE: Final = max(16, os.sysconf("SC_IOV_MAX"))


class File(Protocol):
    """An open file."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file, and whenever the system returns fewer."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write the buffers one after the other; returns how many bytes were taken, maybe not all."""
        ...

    def sync(self) -> None:
        """Make content and size durable."""
        ...

    def forget(self) -> None:
        """Hint: nobody will read the synced bytes soon, so the system need not keep them in memory."""
        ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree. Every verb raises OSError as the system does."""

    def open(self, name: str, *, create: bool = False) -> File:
        """Open for reading and writing; with `create` the name must be new."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def list(self, directory: str = "") -> list[str]:
        """The names in a directory, sorted; none if the directory does not exist."""
        ...

    def make_directory(self, name: str = "") -> None:
        """Create it, durably and for its owner only, unless it exists."""
        ...

    def sync_directory(self, name: str = "") -> None: ...

    def leads_to(self, name: str, file: File) -> bool:
        """Whether `name` is the very file that is open as `file`: not another one, and not gone."""
        ...

    def adopt(self, made: Path, name: str) -> None:
        """Take a file of this machine, which another program made, in as `name`, which must be new; not synced."""
        ...

    def stamp(self, name: str) -> tuple[int, ...]:
        """Changes when another file takes the name, or the content is changed by way of the file system."""
        ...

    def free_bytes(self) -> int: ...


def write_all(file: File, position: int, buffers: Sequence[Buffer], length: int) -> None:
    """Write every byte, `length` in all: a short write goes on where it stopped, an interrupted one again."""
    left = buffers
    while True:
        try:
            taken = file.write(position, left if len(left) <= _BUFFERS_AT_ONCE else left[:_BUFFERS_AT_ONCE])
        except InterruptedError:
            continue
        if taken == length:
            return
        if taken == 0:
            raise OSError(errno.EIO, "the system takes no more bytes and does not say why")
        position += taken
        length -= taken
        left = _after(left, taken)


def _after(buffers: Sequence[Buffer], taken: int) -> list[Buffer]:
    """The buffers without their first `taken` bytes."""
    left: list[Buffer] = []
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        left.append(view[min(taken, len(view)) :])
        taken -= min(taken, len(view))
    return [view for view in left if view]


def read_all(file: File, position: int, length: int) -> bytes:
    """Read until `length` bytes or the end of the file."""
    data = _read(file, position, length)
    if len(data) == length:
        return data
    parts = [data]
    while data and (missing := length - sum(map(len, parts))):
        data = _read(file, position + length - missing, missing)
        parts.append(data)
    return b"".join(parts)


def _read(file: File, position: int, length: int) -> bytes:
    while True:
        try:
            return file.read(position, length)
        except InterruptedError:
            continue


class RealDisk:
    """A directory of the machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, name: str, *, create: bool = False) -> RealFile:
        # A symbolic link in our own directory is not ours: never follow it.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if create else 0)
        return RealFile(os.open(self._root / name, flags, 0o600))

    def rename(self, old: str, new: str) -> None:
        (self._root / old).rename(self._root / new)

    def remove(self, name: str) -> None:
        (self._root / name).unlink()

    def list(self, directory: str = "") -> list[str]:
        try:
            return sorted(entry.name for entry in (self._root / directory).iterdir())
        except FileNotFoundError:
            return []

    def make_directory(self, name: str = "") -> None:
        path = self._root / name
        if path.is_dir():
            return
        if not path.parent.is_dir():
            RealDisk(path.parent).make_directory()
        path.mkdir(mode=0o700, exist_ok=True)
        _sync_directory(path.parent)

    def sync_directory(self, name: str = "") -> None:
        _sync_directory(self._root / name)

    def leads_to(self, name: str, file: File) -> bool:
        try:
            return isinstance(file, RealFile) and file.is_at(self._root / name)
        except FileNotFoundError:
            return False

    def adopt(self, made: Path, name: str) -> None:
        made.rename(self._root / name)

    def stamp(self, name: str) -> tuple[int, ...]:
        found = os.lstat(self._root / name)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def free_bytes(self) -> int:
        state = os.statvfs(self._root)
        return state.f_bavail * state.f_frsize


class RealFile:
    """A file descriptor. Buffered: see docs/journal.md for what O_DIRECT and O_DSYNC measured."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        return os.pwritev(self._descriptor, buffers, position)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def forget(self) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def is_at(self, path: Path) -> bool:
        return os.path.samestat(os.fstat(self._descriptor), os.lstat(path))

    def close(self) -> None:
        os.close(self._descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
