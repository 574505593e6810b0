"""Files and folders the careful way: never through a symbolic link, durable where it is promised,
and every error of the operating system told in one line.

What another process or a dead machine may see of a write is decided here: data is written to a
temporary file and synced, then it gets its name, then the folder that holds the name is synced. A
folder's own name is synced by whoever first uses it in a process, not only by whoever made it: the
maker may have died in between.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from coldstore.objects.direct_io import write_buffered, write_past_cache
from coldstore.objects.port import Body, pieces
from coldstore.shared.errors import Denied, Exhausted, InvalidInput, JjqError, Unavailable

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO must not hold us up

_LARGE_BYTES: Final = 1 << 20

ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENAMETOOLONG)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_WRONG: Final = (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)


@contextmanager
def told(doing: str) -> Iterator[None]:
    """Turn the operating system's errors into ours. Only around steps that leave nothing visible."""
    try:
        yield
    except OSError as error:
        raise _translated(error, doing) from error


def _translated(error: OSError, doing: str) -> JjqError:
    why = error.strerror or str(error)
    if error.errno in _FULL:
        return Exhausted(f"cannot {doing}: {why}; free some space, then retry", retry_after=5.0)
    if error.errno in _DENIED:
        return Denied(f"cannot {doing}: {why}; give this user the right, or use another folder")
    if error.errno in _WRONG:
        return InvalidInput(
            f"cannot {doing}: {why}; no key may lead through an object, a link or a name over 255"
        )
    return Unavailable(f"cannot {doing}: {why}; retry, and look at the disk if it stays")


def sync_name(folder: int, doing: str) -> None:
    """Make a name that is visible already durable. If that fails, nobody knows what a crash would leave."""
    try:
        os.fsync(folder)
    except OSError as error:
        raise Unavailable(
            f"cannot {doing}: {error.strerror}; written, but perhaps not durable: retry"
        ) from error


def make_root(root: Path) -> None:
    """Create the store's folder, private to this user, and whatever leads to it, durably."""
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700 if folder == root else 0o777, exist_ok=True)
    for folder in missing or [root]:
        # Of a folder that was there before, an operator may not let us read the parent.
        with suppress(PermissionError), opened(os.open(folder.parent, _FOLDER)) as parent:
            os.fsync(parent)


@contextmanager
def opened(fd: int) -> Iterator[int]:
    """Close `fd` in the end."""
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_folder(root: Path, names: list[str], settled: set[str] | None = None) -> Iterator[int]:
    """The folder `names` under `root`, step by step, so that no link can lead outside.

    With `settled`, the folders known to be durable, missing ones are made and new ones are settled.
    """
    fd = os.open(root, _FOLDER)  # the root itself may be a link: that is the operator's choice
    try:
        for depth, name in enumerate(names):
            below, made = _step(fd, name, make=settled is not None)
            path = "/".join(names[: depth + 1])
            try:
                if settled is not None and (made or path not in settled):
                    os.fsync(fd)
                    settled.add(path)
            finally:
                fd, above = below, fd
                os.close(above)
        yield fd
    finally:
        os.close(fd)


def _step(fd: int, name: str, *, make: bool) -> tuple[int, bool]:
    made = False
    while True:
        try:
            return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd), made
        except FileNotFoundError:
            if not make or made:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=fd)
        made = True


@contextmanager
def open_object(folder: int, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """A file to read and its status; whatever is no regular file is no object."""
    with opened(os.open(name, _FILE, dir_fd=folder)) as fd:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "no regular file")
        yield fd, status


def status_of(folder: int, name: str) -> os.stat_result | None:
    """The status of an object, None if there is none."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise
    return status if stat.S_ISREG(status.st_mode) else None


def names_in(folder: int) -> Iterator[str]:
    """The names in a folder in no order, those of subfolders ending in '/'; links and devices are none."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.name + "/"
            elif entry.is_file(follow_symlinks=False):
                yield entry.name


def read_fully(fd: int, start: int, count: int) -> bytes:
    """Exactly `count` bytes from `start`, without copying them where the system reads them in one go."""
    data = os.pread(fd, count, start)
    if len(data) == count:
        return data
    parts = [data]
    while missing := count - sum(map(len, parts)):
        part = os.pread(fd, missing, start + count - missing)
        if not part:
            raise OSError(errno.EIO, f"the file ends {missing} bytes early")
        parts.append(part)
    return b"".join(parts)


def write_fully(fd: int, body: Body) -> None:
    """All of `body`, whatever the system takes at a time; anything with a buffer will do."""
    parts = pieces(body)
    if parts is body or any(part.nbytes >= _LARGE_BYTES for part in parts):
        write_past_cache(fd, parts)
    else:
        for part in parts:
            write_buffered(fd, part.cast("B"))


@contextmanager
def temporary(folder: Path, name: str) -> Iterator[int]:
    """A new file, locked while its maker lives, and gone in the end unless it was renamed."""
    path = folder / name
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)
        with suppress(OSError):
            path.unlink()


def remove_abandoned(path: Path) -> bool:
    """Remove a temporary file if its maker is dead; False if it lives, or nothing can be said."""
    with suppress(OSError), opened(os.open(path, _FILE)) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False


def sweep_temporary(folder: Path, before_us: int) -> None:
    """Remove temporary files whose makers are dead and that were last written before `before_us`.

    The age covers the instant between creating and locking. Whatever fails here only leaves litter.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime_ns < before_us * 1_000:
                remove_abandoned(Path(entry.path))
