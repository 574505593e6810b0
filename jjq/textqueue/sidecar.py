"""The sidecar of a text queue, `<file>.lock`: a lock for changes, and the intent of the change under way.

The lock is a `flock` on a file of its own, since an editor may replace the queue file itself at any time. The kernel
gives the lock back when its holder dies. The sidecar is never removed: two processes could then lock two files.

Before a change, its holder writes down what it is about to do; after it, where the file ended then. So the next
holder of the lock can tell a half-written item from a whole one:

    crc32, 8 hexadecimal digits ␠ kind ␠ device ␠ inode ␠ offset ␠ length ␠ size of the data \\n data

    append     `length` bytes are being written at `offset`; `data` is the beginning of them
    variable   `data` is being written at `offset`, over a variable
    end        the last change is complete, and the file ended at `offset`

A record whose checksum is wrong was never complete, so the change that it announces was not begun.
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from coldstore.shared.errors import Conflict, Denied

_HEAD_BYTES = 256  # longer than any first line of a record


class Intent(NamedTuple):
    """A change that was begun, or the end of the file after the last one."""

    kind: str
    device: int
    inode: int
    offset: int
    length: int = 0
    data: bytes = b""

    def encode(self) -> bytes:
        numbers = (self.device, self.inode, self.offset, self.length, len(self.data))
        body = " ".join((self.kind, *map(str, numbers))).encode() + b"\n" + self.data
        return b"%08x " % zlib.crc32(body) + body

    def of(self, found: os.stat_result) -> bool:
        """Whether it speaks of this very file, not of one that it replaced."""
        return (self.device, self.inode) == (found.st_dev, found.st_ino)


def decode_intent(record: bytes) -> Intent | None:
    """The record of a sidecar; None where there is none that is whole."""
    line, newline, rest = record.partition(b"\n")
    parts = line.split(b" ")
    if not newline or len(parts) != 7:
        return None
    try:
        kind = parts[1].decode("ascii")
        device, inode, offset, length, size = map(int, parts[2:])
        crc = int(parts[0], 16)
    except ValueError:
        return None
    if size < 0 or len(rest) < size or crc != zlib.crc32(line[9:] + b"\n" + rest[:size]):
        return None
    return Intent(kind, device, inode, offset, length, rest[:size])


class Sidecar:
    """The lock and the intent of one text queue. For any number of threads."""

    def __init__(self, path: str) -> None:
        self.path = f"{path}.lock"
        self._descriptor: int | None = None
        self._thread = threading.RLock()
        self._depth = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Nobody else changes the file meanwhile. The holder may hold it once more."""
        with self._thread:
            if not self._depth:
                self._lock()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth and self._descriptor is not None:
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _lock(self) -> None:
        while True:
            descriptor = self._open()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if self._in_place(descriptor):
                return
            self.close()  # someone removed or replaced the sidecar: others lock the new one

    def _open(self) -> int:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise Denied(
                    f"cannot open {self.path}, which writers lock: {error.strerror}; give this user the right to "
                    "write there, or use locking=False where one process alone writes"
                ) from None
        return self._descriptor

    def _in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def become_sole_reader(self) -> None:
        """Until `close` no other process may become it. For workers on messages that have no mutex variable."""
        with self._thread:
            try:
                fcntl.lockf(self._open(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except OSError:
                raise Conflict(
                    f"another process works on {self.path.removesuffix('.lock')}, and messages have no mutex variable: "
                    "run one worker, or append messages with a mutex variable"
                ) from None

    def read(self) -> Intent | None:
        """The intent that was written last. Hold the lock."""
        descriptor = self._open()
        record = os.pread(descriptor, _HEAD_BYTES, 0)
        line, _, rest = record.partition(b"\n")
        size = line.rsplit(b" ", 1)[-1]
        if size.isdigit() and int(size) > len(rest):
            record = os.pread(descriptor, len(line) + 1 + int(size), 0)
        return decode_intent(record)

    def write(self, intent: Intent) -> None:
        """Write an intent down, over the one before. Hold the lock."""
        os.pwrite(self._open(), intent.encode(), 0)

    def close(self) -> None:
        """Let go of all of it; the next use opens it again."""
        with self._thread:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)
