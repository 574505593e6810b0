"""One process per data directory: a lock that the kernel gives back when its holder dies.

`flock` rather than `fcntl` locks: those belong to the process, so a second open in the same process
would succeed and its close would release the first.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path
from types import TracebackType
from typing import Final

from coldstore.shared.errors import Conflict
from hotstore.journal.disk import RealDisk

LOCK_NAME: Final = "lock"

_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


class DirectoryLock:
    """Holds a directory until `release`, the end of the `with` block, or the death of the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        _held.add(self)

    def release(self) -> None:
        """Give the directory back. The file stays: removing it would let two processes lock two files."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_in_place(self) -> bool:
        """Whether the file that is locked is still the one in the directory; else another process can lock that."""
        try:
            return self._descriptor is not None and os.path.samestat(
                os.fstat(self._descriptor), os.lstat(self.path / LOCK_NAME)
            )
        except FileNotFoundError:
            return False

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock_directory(path: Path) -> DirectoryLock:
    """Create `path` if need be and hold it; raises Conflict, naming the holder, if someone else does."""
    RealDisk(path).make_directory()
    # A symbolic link here could make us write our number into a file of somebody else.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path / LOCK_NAME, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise Conflict(
            f"{path} is in use by process {holder}: stop it, or choose another data directory"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return DirectoryLock(path, descriptor)


def _release_in_child() -> None:
    """A forked child shares the lock with its parent and would hold it beyond the parent's death."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
