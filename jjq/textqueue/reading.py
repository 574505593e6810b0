"""One file of a text queue, opened and read: blocks of whole items, faults with line numbers, a file that was replaced.

A path is looked at again and again, since editors replace files: they write a new one and rename it, or truncate the
old one and fill it again. `generation` counts how often that was noticed. The file before stays open, so that readers
can tell which of its items they had handed out.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Denied, Exhausted, InvalidInput, JjqError, NotFound, Unavailable
from jjq.limits import TEXT_BLOCK_BYTES, TEXT_EDIT_SECONDS, TEXT_POLL_SECONDS
from jjq.textqueue.format import BYTE_ORDER_MARK, MalformedText, TextStatus
from jjq.textqueue.grammar import TextBlock, TextFault, cut_items, examine, last_item_start
from jjq.textqueue.item import ItemFile, TextItem

EVERYTHING = frozenset(TextStatus)


class OpenedText:
    """The file at a path, or the one that has replaced it."""

    def __init__(self, path: str | os.PathLike[str], clock: Clock) -> None:
        self.path = os.fspath(path)
        # Two names of one file must lead to one sidecar, and an editor must not replace a link by a file.
        self.real_path = os.path.realpath(self.path)
        self.generation = 0
        self._clock = clock
        self._descriptor: int | None = None
        self._writable = False
        self._before: tuple[int, int] | None = None  # generation and descriptor of the file before

    @property
    def descriptor(self) -> int:
        """The open file."""
        return self._open() if self._descriptor is None else self._descriptor

    @property
    def is_open(self) -> bool:
        return self._descriptor is not None

    def writable(self) -> int:
        """The open file, for changes in place."""
        descriptor = self.descriptor
        if not self._writable:
            raise Denied(f"{self.path} may not be written: give this user the right to, or do not change it")
        return descriptor

    def _open(self) -> int:
        flags = os.O_CLOEXEC | os.O_NONBLOCK  # a named pipe must not hold us up
        try:
            try:
                descriptor, self._writable = os.open(self.real_path, os.O_RDWR | flags), True
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY):
                    raise
                descriptor, self._writable = os.open(self.real_path, os.O_RDONLY | flags), False
        except OSError as error:
            raise self.failure("opened", error) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InvalidInput(f"{self.path} is not a regular file: a text queue is one")
        self._descriptor = descriptor
        return descriptor

    def failure(self, done: str, error: OSError) -> JjqError:
        """Our error for an error of the system."""
        said = f"{self.path} cannot be {done}: {error.strerror}"
        match error.errno:
            case errno.ENOENT:
                return NotFound(f"there is no file {self.path}: correct the path, or append to create it")
            case errno.EISDIR:
                return InvalidInput(f"{self.path} is a directory: give the path of a file")
            case errno.EACCES | errno.EPERM | errno.EROFS:
                return Denied(f"{said}; give this user the right")
            case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
                return Exhausted(f"{said}; nothing was written: make room, then try again")
            case errno.ENOTDIR | errno.ENAMETOOLONG | errno.ELOOP:
                return InvalidInput(f"{said}; correct the path")
        return Unavailable(f"{said}; try again")

    def stat(self) -> os.stat_result:
        return os.fstat(self.descriptor)

    def look_again(self) -> bool:
        """Open the file that is at the path now, if it is another one; whether it is."""
        if self._descriptor is None:
            self._open()
            return False
        try:
            there = self.look_at_path()
        except OSError as error:
            raise self.failure("read", error) from None
        if os.path.samestat(there, os.fstat(self._descriptor)):
            return False
        old, self._descriptor = self._descriptor, None
        self._keep_before(old)
        self._open()
        return True

    def look_at_path(self) -> os.stat_result:
        """The file at the path. Some editors rename the old one first: for a moment there is none, so wait."""
        deadline = self._clock.monotonic() + TEXT_EDIT_SECONDS
        while True:
            try:
                return os.stat(self.real_path)  # noqa: PTH116 - a Path would cost as much as the call
            except FileNotFoundError:
                if self._clock.monotonic() >= deadline:
                    raise
                self._clock.sleep(TEXT_POLL_SECONDS)

    def _keep_before(self, descriptor: int) -> None:
        if self._before is not None:
            os.close(self._before[1])
        self._before = (self.generation, descriptor)
        self.generation += 1

    def rewritten(self) -> None:
        """The file was noticed to have been rewritten in place: what it was before is gone."""
        self.generation += 1

    def before(self, generation: int) -> int | None:
        """The file as it was in that generation, if it was the last one before this."""
        return self._before[1] if self._before is not None and self._before[0] == generation else None

    # Reading ----------------------------------------------------------------------------------------

    def read_items(self, position: int, descriptor: int | None = None) -> tuple[bytes, bool]:
        """Whole items from `position` on, and whether they reach the end of the file, where the last may be half."""
        source = self.descriptor if descriptor is None else descriptor
        wanted = TEXT_BLOCK_BYTES
        try:
            data = os.pread(source, wanted, position)
            while len(data) == wanted:
                cut = last_item_start(data)
                if cut:
                    return data[:cut], False
                data += os.pread(source, wanted, position + len(data))
                wanted *= 2  # one item is longer than that
        except OSError as error:
            raise self.failure("read", error) from None
        return data, True

    def scan(
        self,
        file: ItemFile,
        wanted: frozenset[TextStatus] = EVERYTHING,
        *,
        descriptor: int | None = None,
        until: int | None = None,
    ) -> Iterator[TextItem]:
        """The items of the file as it is now, up to a position; the last one may be unfinished."""
        position, at_end = 0, False
        while not at_end and (until is None or position < until):
            data, at_end = self.read_items(position, descriptor)
            if not position and data.startswith(BYTE_ORDER_MARK):
                position, data = len(BYTE_ORDER_MARK), data[len(BYTE_ORDER_MARK) :]
            fault = examine(data, strict=False).fault
            if fault is not None:
                raise self.malformed(position, fault)
            for item in cut_items(file, TextBlock(position, data, data.endswith(b"\n")), wanted):
                if until is None or item.offset < until:
                    yield item
            position += len(data)

    def malformed(self, base: int, fault: TextFault) -> MalformedText:
        """The error for a fault of the block at `base`."""
        offset = base + fault.offset
        line = self.line_of(offset)
        return MalformedText(
            f"{self.path}, line {line}, byte {offset}: {fault.problem}",
            path=self.path,
            line=line,
            offset=offset,
        )

    def line_of(self, offset: int) -> int:
        """The number of a line, from 1."""
        lines, position = 1, 0
        while position < offset:
            part = os.pread(self.descriptor, min(TEXT_BLOCK_BYTES, offset - position), position)
            if not part:
                break
            lines += part.count(b"\n")
            position += len(part)
        return lines

    def close(self) -> None:
        """Close what is open. The next use opens it again."""
        for descriptor in (self._descriptor, None if self._before is None else self._before[1]):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._before = None
