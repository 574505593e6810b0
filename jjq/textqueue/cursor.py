"""A reader's place in one file of a text queue.

The last item of a file is handed out only when it is known to be whole: another item or an empty line follows, or the
sidecar says that a writer finished it, or nobody wrote to the file for a while.

If an editor replaced the file, the cursor begins again and leaves out what it had handed out: of each value as many
queued messages as it had handed out and nobody has marked since. So messages that the editor inserted before the place
are found, and none is handed out twice. If the file was rewritten in place, what it was before is gone; then the
cursor remembers the block that it read last.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from coldstore.shared.limits import OFFSET_MAX
from jjq.limits import TEXT_ANCHOR_BYTES, TEXT_BLOCK_BYTES, TEXT_TICK_SECONDS
from jjq.textqueue.file import TextFile
from jjq.textqueue.format import BYTE_ORDER_MARK, TextStatus
from jjq.textqueue.grammar import (
    QUEUED_ONLY,
    TextBlock,
    TextFault,
    cut_items,
    examine,
    last_item_start,
    split_plain,
)
from jjq.textqueue.item import TextItem

Report = Callable[[str, str], None]  # what it is about, and what to say, once

_T = TypeVar("_T")
_MARK: Final = re.compile(rb"\n[-=!]")
_NOTHING: Final = TextBlock(0, b"", True)


class _Unfinished(Exception):
    """The last item of a file of this size may be unfinished."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class TextCursor:
    """Hands out the items of one file in order, each once. For one thread at a time."""

    def __init__(self, file: TextFile, report: Report, *, strict: bool, quiet_seconds: float) -> None:
        self._file = file
        self._report = report
        self._strict = strict
        self._quiet = quiet_seconds
        self._generation = file.generation
        self._position = 0
        self._block = _NOTHING
        self._anchor = b""  # bytes up to `_anchor_end` that must stay, but for marks and variables
        self._anchor_end = 0
        self._waited = -1
        self._modified = 0  # when the file was modified last, as of the last look at the anchor
        self._items: Iterator[TextItem] = iter(())
        self._wanted = QUEUED_ONLY
        self._handed = 0  # items of the block that begin before this were handed out by `next_item`
        self._skip: Counter[str] = Counter()
        self._skip_until = 0

    def next_items(self, wanted: frozenset[TextStatus]) -> Iterator[TextItem] | None:
        """The items of the next block; None at the end of what is there now."""
        return self._steady(lambda: self._next_items(wanted))

    def next_item(self, wanted: frozenset[TextStatus]) -> TextItem | None:
        """The next item, as it is in the file now; None at the end of what is there now."""
        return self._steady(lambda: self._next_item(wanted))

    def _steady(self, step: Callable[[], _T]) -> _T:
        """Run a step while nobody changes the file under the lock; wait outside of it for the last item to be whole."""
        while True:
            try:
                with self._file.steady():
                    return step()
            except _Unfinished as unfinished:
                self._file.wait_quiet(unfinished.size, self._quiet)

    def _next_items(self, wanted: frozenset[TextStatus]) -> Iterator[TextItem] | None:
        self._notice_edits(self._position)
        block = self._next_block(split=wanted == QUEUED_ONLY)
        if block is None:
            self._forget_skipped()
            return None
        items = cut_items(self._file, block, wanted)
        return self._unskipped(items) if self._skip or self._file.has_dropped else items

    def _next_item(self, wanted: frozenset[TextStatus]) -> TextItem | None:
        while True:
            if self._notice_edits(self._handed):
                self._items = iter(())
            elif wanted != self._wanted:
                left = self._handed - self._block.base if self._block.data else 0
                rest = self._block._replace(
                    base=self._block.base + left, data=self._block.data[left:], plain=None
                )
                self._items = self._unskipped(cut_items(self._file, rest, wanted))
            self._wanted = wanted
            for item in self._items:
                place = self._file.at_place(item)
                if place is None:  # the file was edited this very moment
                    if self._notice_edits(self._handed):
                        self._items = iter(())
                    else:
                        self._file.rewritten()
                    break
                self._handed = place.end
                if place.status in wanted:
                    return place
            else:
                items = self._next_items(wanted)
                if items is None:
                    return None
                self._items = items
                self._handed = self._block.base

    # Blocks -----------------------------------------------------------------------------------------

    def _next_block(self, *, split: bool) -> TextBlock | None:
        while True:
            data, at_end = self._file.read_items(self._position)
            if self._notice_edits(self._position):
                continue  # the file was rewritten while it was read
            data = self._without_head(data)
            if not data:
                return None
            if at_end:
                cut = last_item_start(data) or len(data)
                size = self._position + cut
                if cut == len(data) and self._waited != size and not self._file.is_whole(size, self._quiet):
                    self._waited = size  # if it is as long then, nobody is writing
                    raise _Unfinished(size)
                data = data[:cut]
            plain = split_plain(data) if split else None
            if plain is None:
                data = self._sound(data)
            self._block = TextBlock(self._position, data, data.endswith(b"\n"), plain)
            self._position = self._block.end
            self._set_anchor(data, self._position)
            return self._block

    def _sound(self, data: bytes) -> bytes:
        """The items before the first fault; an error if that is at the beginning."""
        finding = examine(data, strict=self._strict)
        for offset, character in finding.unknown:
            self._report(
                f"control {character}",
                f"{self._file.path}, byte {self._position + offset}: lines that begin with {character!r} are unknown "
                "to this version and are skipped, with what belongs to them",
            )
        if finding.fault is None:
            return data
        if not finding.fault.start:
            raise self._file.malformed(self._position, finding.fault)
        return data[: finding.fault.start]

    def _without_head(self, data: bytes) -> bytes:
        """Data without a byte order mark, or lines that were added to an item which was handed out before."""
        if not self._position:
            if data.startswith(BYTE_ORDER_MARK):
                if self._strict:
                    fault = TextFault(
                        0, 0, "a byte order mark is no control character: save the file without it"
                    )
                    raise self._file.malformed(0, fault)
                self._position = len(BYTE_ORDER_MARK)
            return data[self._position :]
        cut = 0
        if not self._block.data or self._block.end != self._position:
            return data
        if not self._block.ended and data[:1] not in (b"", b"\n"):
            cut = data.find(b"\n") + 1 or len(data)
            if data[:cut] == b"\r\n":
                cut = 0
        while data[cut : cut + 1] in (b" ", b"\\"):
            cut = data.find(b"\n", cut) + 1 or len(data)
        if cut:
            self._report(
                f"grown {self._position}",
                f"{self._file.path}, byte {self._position}: an item was continued after it had been read; "
                "what was added is skipped",
            )
            self._position += cut
        return data[cut:]

    # Edits ------------------------------------------------------------------------------------------

    def _notice_edits(self, handed: int) -> bool:
        """Begin again if the file was replaced or rewritten; items before `handed` were handed out."""
        self._file.refresh()
        if self._generation == self._file.generation:
            if not self._is_rewritten():
                return False
            self._file.rewritten()
        before = self._file.before(self._generation)
        if before is not None and not self._as_read(before):
            before = None  # it was rewritten in place before it was replaced
        self._generation = self._file.generation
        block, self._block = self._block, _NOTHING
        if before is not None and self._same_until(handed, before):
            self._position = self._handed = handed
            start = max(0, handed - TEXT_ANCHOR_BYTES - 1)
            self._set_anchor(os.pread(before, handed - start, start), handed)
            return True
        # What was to be left out, and was not met yet, still is.
        self._skip = Counter(item.value for item in self._handed_out(before, block, handed)) + self._skip
        self._skip_until = OFFSET_MAX if before is None else self._file.stat().st_size
        self._position = self._handed = 0
        self._set_anchor(b"", 0)
        return True

    def _set_anchor(self, data: bytes, end: int) -> None:
        """Remember the last lines of what was read; `data` ends there."""
        anchor = data[-TEXT_ANCHOR_BYTES:]
        if len(anchor) < len(data):
            anchor = anchor[anchor.find(b"\n") + 1 :]  # from the beginning of a line on
        self._anchor, self._anchor_end = anchor, end

    def _is_rewritten(self) -> bool:
        """Whether the bytes before our place are others than those we read, but for marks and variables."""
        found = self._file.stat()
        if found.st_size < self._position:
            return True
        known = found.st_mtime_ns == self._modified and self._file.is_quiet(TEXT_TICK_SECONDS)
        if known or not self._anchor:
            return False
        start = self._anchor_end - len(self._anchor)
        there = os.pread(self._file.descriptor, len(self._anchor), start)
        self._modified = found.st_mtime_ns
        return _unmarked(self._anchor) != _unmarked(there)

    def _as_read(self, descriptor: int) -> bool:
        """Whether a file still has what we read last where we read it, but for marks and variables."""
        start, known = self._anchor_end - len(self._anchor), self._anchor
        if self._block.data:
            start, known = self._block.base, self._block.data
        return _unmarked(known) == _unmarked(os.pread(descriptor, len(known), start))

    def _same_until(self, position: int, before: int) -> bool:
        """Whether both files are the same up to there, but for variables and messages that are done meanwhile."""
        for at in range(0, position, TEXT_BLOCK_BYTES):
            length = min(TEXT_BLOCK_BYTES, position - at)
            old = os.pread(before, length, at)
            new = os.pread(self._file.descriptor, length, at)
            if old != new and (_unmarked(old) != _unmarked(new) or _queued_again(old, new)):
                return False
        return True

    def _handed_out(self, before: int | None, block: TextBlock, until: int) -> Iterator[TextItem]:
        """Queued messages that were handed out and that nobody has marked, as far as they are known."""
        if before is not None:
            return self._file.scan(self._file, QUEUED_ONLY, descriptor=before, until=until)
        return (item for item in cut_items(self._file, block, QUEUED_ONLY) if item.offset < until)

    def _unskipped(self, items: Iterator[TextItem]) -> Iterator[TextItem]:
        return (item for item in items if not self._was_handed(item))

    def _forget_skipped(self) -> None:
        """At the end of the file, unless it may still be about to be rewritten: what is appended now is new."""
        if self._skip and self._file.is_quiet(self._quiet):
            self._skip.clear()

    def _was_handed(self, item: TextItem) -> bool:
        """Whether a message was handed out before the file was replaced; it is forgotten then."""
        if item.status is not TextStatus.QUEUED:
            return False
        dropped = self._file.has_dropped and self._file.mark_again(item)
        return self._is_skipped(item) or dropped

    def _is_skipped(self, item: TextItem) -> bool:
        if not self._skip:
            return False
        if item.offset >= self._skip_until:
            self._skip.clear()
            return False
        if not self._skip[item.value]:
            return False
        self._skip[item.value] -= 1
        return True


def _queued_again(old: bytes, new: bytes) -> bool:
    """Whether a person has queued a message again; but for marks and variables both are the same."""
    then, now = (_MARK.findall(b"\n" + data) for data in (old, new))
    return any(b == b"\n-" != a for a, b in zip(then, now, strict=False))


def _unmarked(data: bytes) -> list[bytes]:
    """Lines with marks and the content of variables left out."""
    lines = (b"\n" + data).replace(b"\n=", b"\n-").replace(b"\n!", b"\n-").split(b"\n")
    return [b"\\%d" % len(line) if line[:1] == b"\\" else line for line in lines[1:]]
