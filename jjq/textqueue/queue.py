"""`TextQueue`: one or several files as one queue, in order.

readers  writers
0-1      0-1      no locks are needed: the reader leaves an unfinished last item alone
any      2+       writers lock the sidecar file (they do unless `locking` is False)
2+       any      each message has a mutex variable, and readers claim it before they handle the message
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import InvalidInput, NotFound
from jjq.limits import TEXT_POLL_SECONDS, TEXT_QUIET_SECONDS
from jjq.textqueue.cursor import TextCursor
from jjq.textqueue.file import TextFile
from jjq.textqueue.format import TextStatus
from jjq.textqueue.grammar import QUEUED_ONLY
from jjq.textqueue.item import TextItem
from jjq.textqueue.mutex import find_mutex

StrPath = str | os.PathLike[str]


class TextQueue:
    """Messages in files that a person can read and edit. Close it, or use it as a context manager.

    `strict` makes an error of control characters that this version does not know; otherwise their lines are skipped
    and reported once, to `report` or as a warning. `sync` makes every change survive a power cut. `locking=False`
    leaves the sidecar file out, where one process alone writes. The last item of a file that others write to without
    a lock counts as whole when nobody wrote for `quiet_seconds`.
    """

    def __init__(
        self,
        *paths: StrPath,
        strict: bool = False,
        locking: bool = True,
        sync: bool = False,
        quiet_seconds: float = TEXT_QUIET_SECONDS,
        report: Callable[[str], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._strict = strict
        self._locking = locking
        self._sync = sync
        self._quiet = quiet_seconds
        self._tell = report
        self._reported: set[str] = set()
        self._files: list[TextFile] = []
        self._cursors: list[TextCursor] = []
        self._held: list[TextItem] = []  # messages that other workers had when this one came by
        self._alone = False
        for path in paths:
            self._add(path)

    @property
    def paths(self) -> list[str]:
        """The files, in the order in which they are read."""
        return [file.path for file in self._files]

    def append(self, value: str | bytes, variables: Sequence[str | bytes] = ()) -> TextItem:
        """Add a message at the end of the last file, which is created if need be. One write; all of it or nothing.

        A variable keeps the length that it has here: pad it with spaces if it may become longer later.
        """
        if not self._files:
            raise InvalidInput("this text queue has no file: give it a path, or call add_input")
        return self._files[-1].append(value, variables)

    def __iter__(self) -> Iterator[TextItem]:
        return self.items()

    def items(
        self, *, queued: bool = True, done: bool = False, critical: bool = False, comments: bool = False
    ) -> Iterator[TextItem]:
        """The items that are in the files now, from the beginning: queued messages, and others on request."""
        wanted = _wanted(queued, done, critical, comments)
        for file in list(self._files):
            cursor = self._cursor(file)
            while (items := cursor.next_items(wanted)) is not None:
                yield from items

    def get_next(self) -> TextItem | None:
        """The next queued message that was not handed out by this object: of the first file that has one."""
        for index in range(len(self._files)):
            item = self.get_next_in_file(index)
            if item is not None:
                return item
        return None

    def claim_next(self, owner: str | None = None) -> TextItem | None:
        """As `get_next`, for one of several workers: the next queued message that it could claim.

        Messages of other workers are looked at again when there is nothing else, in case these have died or released
        them. A message without a mutex variable is handed out if no other process works on the files.
        """
        while (item := self.get_next()) is not None:
            if self._claim(item, owner):
                return item
        for _ in range(len(self._held)):
            item = self._held.pop(0)
            if self._claim(item, owner):
                return item
        return None

    def _claim(self, item: TextItem, owner: str | None) -> bool:
        if find_mutex(item.variables) is None:
            self.become_sole_reader()
            return True
        try:
            if item.claim(owner):
                return True
        except NotFound:
            return False  # somebody has removed the message
        if item.status is TextStatus.QUEUED:
            self._held.append(item)
        return False

    def follow(
        self, *, claim: bool = False, owner: str | None = None, until: Callable[[], bool] | None = None
    ) -> Iterator[TextItem]:
        """As `get_next`, or `claim_next`, again and again; waits for more at the end, until `until` says so."""
        while True:
            item = self.claim_next(owner) if claim else self.get_next()
            if item is not None:
                yield item
            elif until is not None and until():
                return
            else:
                self._clock.sleep(TEXT_POLL_SECONDS)

    def find(self, offset: int, index: int = 0) -> TextItem:
        """The item whose control character is at `offset` of a file; an error where none begins there."""
        for item in self._file(index).scan(self._files[index], until=offset + 1):
            if item.offset == offset:
                return item
        raise InvalidInput(
            f"no item begins at byte {offset} of {self._files[index].path}: `jjq text list` shows where they begin"
        )

    def become_sole_reader(self) -> None:
        """No other process may become it until this queue is closed: a lock for workers without mutex variables."""
        if not self._alone:
            for file in self._files:
                file.sidecar.become_sole_reader()
            self._alone = True

    def close(self) -> None:
        """Close the files. The next use opens them again."""
        self._alone = False
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The names of the reference implementation.

    def add_input(self, filename: StrPath) -> None:
        """Read this file too, after those before; an error if it cannot be read."""
        file = self._add(filename)
        file.refresh()

    def get_next_in_file(
        self,
        file_index: int,
        include_cleared_items: bool = False,
        include_comment_items: bool = False,
        include_critical_items: bool = False,
    ) -> TextItem | None:
        """The next item of one file that was not handed out by this object."""
        self._file(file_index)
        wanted = _wanted(True, include_cleared_items, include_critical_items, include_comment_items)
        return self._cursors[file_index].next_item(wanted)

    # ------------------------------------------------------------------------------------------------

    def _add(self, path: StrPath) -> TextFile:
        file = TextFile(path, self._clock, locking=self._locking, sync=self._sync)
        self._files.append(file)
        self._cursors.append(self._cursor(file))
        return file

    def _file(self, index: int) -> TextFile:
        if not 0 <= index < len(self._files):
            raise InvalidInput(
                f"there is no file number {index}: this text queue has {len(self._files)}, from 0 on"
            )
        return self._files[index]

    def _cursor(self, file: TextFile) -> TextCursor:
        return TextCursor(file, self._report, strict=self._strict, quiet_seconds=self._quiet)

    def _report(self, about: str, text: str) -> None:
        if about in self._reported:
            return
        self._reported.add(about)
        if self._tell is not None:
            self._tell(text)
        else:
            warnings.warn(text, UserWarning, stacklevel=4)


def _wanted(queued: bool, done: bool, critical: bool, comments: bool) -> frozenset[TextStatus]:
    if queued and not (done or critical or comments):
        return QUEUED_ONLY
    asked = {
        TextStatus.QUEUED: queued,
        TextStatus.DONE: done,
        TextStatus.CRITICAL: critical,
        TextStatus.COMMENT: comments,
    }
    return frozenset(status for status, wanted in asked.items() if wanted)
