"""Objects as files of a local folder: the embedded default.

    <root>/<key>      one file per object, seen only when it is whole and synced
    <root>/.tmp/      files being written; on the same file system, never listed
    <root>/.lock      held for the instants of compare-and-rename; holds the last stamp

A file never changes: an overwrite renames a new file over it, so a reader has one version or the other.
`put_if_absent` is link(2): the kernel decides who wins. `put_if_match` compares and renames under flock(2) on
`.lock`, so it holds between processes, too (all on one machine, not on a network file system).

The etag is inode, mtime and size. The mtime is a stamp of ours that only grows, by the clock or by one. The
kernel's own mtime would not do: inodes are reused within a clock tick, so a deleted and a new version could
look the same.

Nothing is created before the first write, so a store can be read by a user who may not write.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from coldstore.layout.paths import check_key, check_prefix
from coldstore.objects import local_files
from coldstore.objects.listing import FolderEntry, is_key, walk
from coldstore.objects.local_files import translate_os_errors
from coldstore.objects.port import Body, Object, ObjectInfo, check_range, cut_range
from coldstore.shared.chance import Chance, SystemChance
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import Conflict, InvalidInput, NotFound, Unavailable
from coldstore.shared.limits import PART_BYTES

_STALE_SECONDS: Final = 3_600  # a temporary file of a dead process is left alone for so long
_SETTLED_FOLDERS: Final = 10_000
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)

# (temporary file, folder of the object, its name): give the file its name, or raise Conflict
Publish = Callable[[Path, int, str], None]


def _etag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, _etag(status), status.st_mtime_ns // 1_000)


def _exists(key: str) -> Conflict:
    return Conflict(f"object {key} exists already")


def _changed(key: str, etag: str) -> Conflict:
    return Conflict(f"object {key} is not the version {etag} any more")


class LocalObjects:
    """An ObjectStore in a folder, shared by any number of threads and processes of one machine."""

    names_at_end: Final = True  # of an object in parts: it is a rename

    def __init__(self, root: Path | str, *, clock: Clock | None = None, chance: Chance | None = None) -> None:
        self._root = Path(root).absolute()
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()
        self._temporary = self._root / ".tmp"
        self._uploads: dict[
            str, tuple[ExitStack, int]
        ] = {}  # of this process: a file is gone with its writer
        self._settled: set[str] = set()  # folders whose names are known to be durable
        local_files.sweep_temporary(self._temporary, self._clock.now_us() - _STALE_SECONDS * 1_000_000)

    def __repr__(self) -> str:
        return self._root.as_uri()

    @property
    def root(self) -> Path:
        """The folder. Callers may read objects as files of it, and must not write."""
        return self._root

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        check_range(start, end)
        with self._reading(key) as (folder, name), local_files.open_object(folder, name) as (fd, status):
            start, stop = cut_range(start, end, status.st_size)
            return Object(local_files.read_fully(fd, start, stop - start), _etag(status))

    def put(self, key: str, data: Body) -> str:
        def replace(new: Path, folder: int, name: str) -> None:
            with self._locked():
                os.replace(new, name, dst_dir_fd=folder)

        return self._write(key, data, replace)

    def put_if_absent(self, key: str, data: Body) -> str:
        def link(new: Path, folder: int, name: str) -> None:
            try:
                os.link(new, name, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                self._refuse_existing(key, folder, name)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                with self._locked():
                    if os.access(name, os.F_OK, dir_fd=folder, follow_symlinks=False):
                        self._refuse_existing(key, folder, name)
                    os.replace(new, name, dst_dir_fd=folder)

        # An existing object is mostly found before anything is written; link(2) decides races.
        with suppress(NotFound), self._reading(key) as (folder, name):
            if local_files.status_of(folder, name) is not None:
                self._refuse_existing(key, folder, name)
        return self._write(key, data, link)

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        def swap(new: Path, folder: int, name: str) -> None:
            with self._locked():
                status = local_files.status_of(folder, name)
                if status is None or _etag(status) != etag:
                    raise _changed(key, etag)
                os.replace(new, name, dst_dir_fd=folder)

        # Another version is mostly found before anything is written; the lock decides races.
        with suppress(NotFound):
            if self.head(key).etag == etag:
                return self._write(key, data, swap)
        raise _changed(key, etag)

    def list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return walk(self._read_folder, prefix, after)

    def head(self, key: str) -> ObjectInfo:
        with self._reading(key) as (folder, name):
            if (status := local_files.status_of(folder, name)) is None:
                raise NotFound(f"no object {key}")
            return _info(key, status)

    def delete(self, key: str) -> None:
        with suppress(NotFound), self._reading(key, "delete") as (folder, name):
            if local_files.status_of(folder, name) is not None:
                with self._locked():
                    os.unlink(name, dir_fd=folder)
                local_files.sync_name(folder, f"delete {key}")

    # As `PartStore` ---------------------------------------------------------------------------------

    def begin_parts(self, key: str) -> str:
        check_key(key)
        with translate_os_errors(f"write {key}"), ExitStack() as stack:
            fd, temporary = stack.enter_context(self._new_file())
            self._uploads[temporary.name] = stack.pop_all(), fd
        return temporary.name

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        _, fd = self._upload(key, upload)
        with translate_os_errors(f"write {key}"):
            local_files.write_at(fd, memoryview(data), number * PART_BYTES)
        return str(number)

    def complete_parts(self, key: str, upload: str, tags: Sequence[str]) -> None:
        *folders, name = check_key(key).split("/")
        stack, fd = self._upload(key, upload)
        doing = f"write {key}"
        with translate_os_errors(doing), stack:
            del self._uploads[upload]
            self._stamped(fd)
            os.fsync(fd)
            with local_files.open_folder(self._root, folders, self._settled) as folder:
                with self._locked():
                    os.replace(self._temporary / upload, name, dst_dir_fd=folder)
                local_files.sync_name(folder, doing)

    def abort_parts(self, key: str, upload: str) -> None:
        with suppress(NotFound):
            stack, _ = self._upload(key, upload)
            del self._uploads[upload]
            stack.close()

    def open_uploads(self, key: str) -> Sequence[str]:
        return []  # what a dead process left is removed by `sweep_temporary`

    def _upload(self, key: str, upload: str) -> tuple[ExitStack, int]:
        found = self._uploads.get(upload)
        if found is None:
            raise NotFound(f"no upload {upload[:60]} to {key}: begin again")
        return found

    @contextmanager
    def _reading(self, key: str, verb: str = "read") -> Iterator[tuple[int, str]]:
        """The folder and name of an object that may exist."""
        *folders, name = check_key(key).split("/")
        with translate_os_errors(f"{verb} {key}"):
            try:
                with local_files.open_folder(self._root, folders) as folder:
                    yield folder, name
            except OSError as error:
                if error.errno in local_files.ABSENT:
                    raise NotFound(f"no object {key}") from error
                raise

    def _write(self, key: str, data: Body, publish: Publish) -> str:
        *folders, name = check_key(key).split("/")
        doing = f"write {key}"
        with translate_os_errors(doing), ExitStack() as stack:
            fd, temporary = stack.enter_context(self._new_file())
            local_files.write_fully(fd, data)
            status = self._stamped(fd)
            os.fsync(fd)
            folder = stack.enter_context(local_files.open_folder(self._root, folders, self._settled))
            publish(temporary, folder, name)
            local_files.sync_name(folder, doing)
        return _etag(status)

    @contextmanager
    def _new_file(self) -> Iterator[tuple[int, Path]]:
        if len(self._settled) > _SETTLED_FOLDERS:
            self._settled.clear()  # with millions of queues it only costs some syncs to forget
        if "" not in self._settled or not self._temporary.is_dir():
            local_files.make_root(self._root)
            self._temporary.mkdir(mode=0o700, exist_ok=True)
            self._settled.add("")
        name = f"{os.getpid()}-{self._chance.token()}"
        with local_files.create_temporary(self._temporary, name) as fd:
            yield fd, self._temporary / name

    def _stamped(self, fd: int) -> os.stat_result:
        """Give the file an mtime that no other of this store has or had."""
        with self._locked() as lock:
            last = int.from_bytes(os.pread(lock, 8, 0), "big")
            for step in (1, 1_000, 1_000_000, 2_000_000_000):  # the finest one that the file system keeps
                stamp = max(self._clock.now_us() * 1_000, last + step)
                os.utime(fd, ns=(stamp, stamp))
                status = os.fstat(fd)
                if status.st_mtime_ns > last:
                    os.pwrite(lock, status.st_mtime_ns.to_bytes(8, "big"), 0)
                    return status
        raise Unavailable(f"the file system of {self._root} keeps no times: use another one")

    @contextmanager
    def _locked(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with local_files.closing_fd(os.open(self._root / ".lock", flags, 0o600)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock

    def _refuse_existing(self, key: str, folder: int, name: str) -> None:
        if local_files.status_of(folder, name) is None:
            raise InvalidInput(f"cannot write {key}: a folder or a link has this name")
        # Its writer may not have come to this yet, and the caller will build on its being there.
        local_files.sync_name(folder, f"write {key}")
        raise _exists(key)

    def _read_folder(self, folder: str, stem: str, after: str) -> Iterator[FolderEntry]:
        with translate_os_errors(f"list {folder}"), ExitStack() as stack:
            try:
                fd = stack.enter_context(local_files.open_folder(self._root, folder.split("/")[:-1]))
            except OSError as error:
                if error.errno in local_files.ABSENT:
                    return
                raise
            for name in self._names(fd, folder, stem, after):
                if name.endswith("/"):
                    yield FolderEntry(name, None)
                elif (status := local_files.status_of(fd, name)) is not None:
                    yield FolderEntry(name, _info(folder + name, status))

    def _names(self, fd: int, folder: str, stem: str, after: str) -> Sequence[str]:
        with ExitStack() as stack:
            # A rename over a name that exists may hide it from readdir for an instant.
            with suppress(FileNotFoundError, PermissionError):
                lock = stack.enter_context(local_files.closing_fd(os.open(self._root / ".lock", os.O_RDONLY)))
                fcntl.flock(lock, fcntl.LOCK_SH)
            return sorted(
                name
                for name in local_files.names_in(fd)
                if name.startswith(stem)
                and (folder + name > after or after.startswith(folder + name))
                and is_key(name.removesuffix("/"))
            )
