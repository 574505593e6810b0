"""Files and folders the careful way: never through a symbolic link, and durable where that is promised.

What another process, or this machine after a crash, may see of a write is decided here. Data is written to a
temporary file and synced. Then the file gets its name. Then the folder that holds the name is synced. Every
process syncs the name of a folder when it first uses the folder, even if it did not create it: the process
that did may have died before its own sync.

A large file is written past the page cache, by direct I/O. A block is written once and rarely read back soon:
its readers have it in memory already. Through the page cache, a block of 43 MB cost 80 ms of processor time
and pushed out pages that are worth caching; direct I/O with the copy below costs 2 ms. The kernel wants
direct writes aligned in memory, in the file and in length, so pieces are gathered in an aligned buffer. The
rest that does not fill the buffer is written the ordinary way, and so is everything on file systems without
direct I/O.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from coldstore.objects.port import Body, pieces
from coldstore.shared.errors import Denied, Exhausted, InvalidInput, JjqError, Unavailable

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a FIFO must not block

_LARGE_BYTES: Final = 1 << 20  # from this size on a file is written past the page cache
_STAGE_BYTES: Final = 4 << 20  # a multiple of every alignment there is
_DIRECT: Final = getattr(os, "O_DIRECT", 0)

ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENAMETOOLONG)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_WRONG: Final = (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)


@contextmanager
def translate_os_errors(doing: str) -> Iterator[None]:
    """Turn the operating system's errors into ours. Only around steps that leave nothing visible."""
    try:
        yield
    except OSError as error:
        raise _translate(error, doing) from error


def _translate(error: OSError, doing: str) -> JjqError:
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
        # If the folder was there before, we may lack the right to read its parent.
        with suppress(PermissionError), closing_fd(os.open(folder.parent, _FOLDER)) as parent:
            os.fsync(parent)


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Close `fd` in the end."""
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_folder(root: Path, names: list[str], settled: set[str] | None = None) -> Iterator[int]:
    """The folder `names` under `root`, step by step, so that no link can lead outside.

    With `settled`, the folders known to be durable, missing ones are created and new ones are settled.
    """
    fd = os.open(root, _FOLDER)  # the root itself may be a link: that is the operator's choice
    try:
        for depth, name in enumerate(names):
            below, created = _step(fd, name, make=settled is not None)
            path = "/".join(names[: depth + 1])
            try:
                if settled is not None and (created or path not in settled):
                    os.fsync(fd)
                    settled.add(path)
            finally:
                fd, above = below, fd
                os.close(above)
        yield fd
    finally:
        os.close(fd)


def _step(fd: int, name: str, *, make: bool) -> tuple[int, bool]:
    created = False
    while True:
        try:
            return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd), created
        except FileNotFoundError:
            if not make or created:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=fd)
        created = True


@contextmanager
def open_object(folder: int, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """A file to read and its status; anything but a regular file is no object."""
    with closing_fd(os.open(name, _FILE, dir_fd=folder)) as fd:
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
    """The names in a folder, in no order. Names of subfolders end in '/'. Links and devices are left out."""
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
def create_temporary(folder: Path, name: str) -> Iterator[int]:
    """Create a file that is locked while this process lives, and removed in the end unless it was renamed."""
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
    """Remove a temporary file if the process that created it is dead; False if it lives, or that is unknown."""
    with suppress(OSError), closing_fd(os.open(path, _FILE)) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False


def sweep_temporary(folder: Path, before_us: int) -> None:
    """Remove temporary files of dead processes that were last written before `before_us`.

    The age protects a file between its creation and its lock. A failure here only leaves files behind.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime_ns < before_us * 1_000:
                remove_abandoned(Path(entry.path))


def write_past_cache(fd: int, parts: Iterable[memoryview]) -> None:
    """Write all parts at the file's position, which must be its start. Not durable before fsync."""
    _set_direct(fd, True)
    with ThreadPoolExecutor(1, "jjq-disk") as disk:  # writes one buffer while the next is filled
        stage, spare = (memoryview(mmap.mmap(-1, _STAGE_BYTES)) for _ in range(2))  # page-aligned
        writing: Future[None] | None = None
        filled = 0
        for part in parts:
            rest = memoryview(part).cast("B")
            while rest:
                count = min(len(rest), _STAGE_BYTES - filled)
                stage[filled : filled + count] = rest[:count]
                filled += count
                rest = rest[count:]
                if filled == _STAGE_BYTES:
                    if writing is not None:
                        writing.result()
                    writing = disk.submit(_write, fd, stage)
                    stage, spare = spare, stage
                    filled = 0
        if writing is not None:
            writing.result()
    _set_direct(fd, False)
    write_buffered(fd, stage[:filled])


def write_buffered(fd: int, data: memoryview) -> None:
    """All of `data`, whatever the system takes at a time."""
    while data:
        data = data[os.write(fd, data) :]


def write_at(fd: int, data: memoryview, at: int) -> None:
    """All of `data` from `at` on; the kernel begins to write it out at once, so that a later sync is short."""
    start = at
    while data:
        written = os.pwrite(fd, data, at)
        data, at = data[written:], at + written
    if hasattr(os, "posix_fadvise"):  # of pages that are clean by then: nobody reads them back soon
        os.posix_fadvise(fd, 0, start, os.POSIX_FADV_DONTNEED)


def _write(fd: int, stage: memoryview) -> None:
    """Write one full buffer, directly if the file system allows it."""
    try:
        written = os.write(fd, stage)
    except OSError:
        # Refused here although allowed before: if it is not the alignment, it is refused again below.
        written = 0
    if written < len(stage):
        _set_direct(fd, False)
        write_buffered(fd, stage[written:])


def _set_direct(fd: int, direct: bool) -> None:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    wanted = flags | _DIRECT if direct else flags & ~_DIRECT
    if wanted != flags:
        try:
            fcntl.fcntl(fd, fcntl.F_SETFL, wanted)
        except OSError:
            if not direct:
                raise
