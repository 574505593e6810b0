r"""A block of a text queue: whole items as bytes. Its faults, and its items.

Most blocks are plain: they have nothing but queued messages, with their variables. Then two passes of C code over the
block are all that is needed: a regular expression looks for other lines and finds none, and the block is split. Another
expression looks for what is unusual in all other blocks; only where it finds something are lines looked at one by one.

Queued messages are cut out by splitting at `\n-`: what lies between two of them, such as a million messages that
are done, costs one search for these two bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import accumulate, count, repeat
from operator import add
from typing import Final, NamedTuple

from jjq.textqueue.format import STATUSES, TextStatus
from jjq.textqueue.item import ItemFile, TextItem

Make = Callable[[ItemFile, int, bytes], TextItem]

# A line that is unknown, a continuation or variable after an empty line, a continuation after a variable.
_UNUSUAL: Final = re.compile(rb"\n(?:[^-=!# \\\n\r]|\r[^\n]|\r?\n[ \\]|\\[^\n]*\n )")
# The same for a block that is to have nothing but queued messages.
_NOT_PLAIN: Final = re.compile(rb"\n(?:[^- \\]|\\[^\n]*\n )")
_ITEM_END: Final = re.compile(rb"\n(?![ \\])")
_ITEM: Final = re.compile(rb"^([-=!#])([^\n]*(?:\n[ \\][^\n]*)*)(\n?)", re.MULTILINE)
# Bytes that no text begins a line with: this is no text queue of a newer version but something else.
_BINARY: Final = frozenset({*range(0x20), 0x7F} - {0x09, 0x0A, 0x0D})

QUEUED_ONLY: Final = frozenset({TextStatus.QUEUED})


class TextFault(NamedTuple):
    """Where a block breaks the format, relative to its beginning, and what to say of it."""

    start: int  # of the item that is at fault: all before it is sound
    offset: int
    problem: str


class Finding(NamedTuple):
    """What a look at a block has found."""

    fault: TextFault | None = None
    unknown: tuple[tuple[int, str], ...] = ()  # offset and first character of lines to be skipped


_SOUND: Final = Finding()


class TextBlock(NamedTuple):
    """Whole items of a file, from `base` on. Not `ended`: the file ends without a newline."""

    base: int
    data: bytes
    ended: bool
    plain: list[bytes] | None = None  # its messages, where it has nothing but queued ones

    @property
    def end(self) -> int:
        return self.base + len(self.data)


def split_plain(data: bytes) -> list[bytes] | None:
    """The messages of a block, if it has nothing but queued ones, and is sound."""
    if not data.startswith(b"-") or not data.endswith(b"\n") or _NOT_PLAIN.search(data) is not None:
        return None
    return data[1:-1].split(b"\n-") if data.isascii() or _is_text(data) else None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def last_item_start(data: bytes) -> int:
    """Where the last item of `data` begins; 0 if it is the only one."""
    at = len(data)
    while (at := data.rfind(b"\n", 0, at)) >= 0:
        if at + 1 < len(data) and data[at + 1] not in b" \\":
            return at + 1
    return 0


def examine(data: bytes, *, strict: bool) -> Finding:
    """The first fault of a block that begins where an item does, and lines to skip."""
    try:
        if not data.isascii():
            data.decode()
    except UnicodeDecodeError as error:
        return _examine_lines(data, strict, error.start)
    if data[:1] not in (b" ", b"\\") and _UNUSUAL.search(b"\n" + data) is None:
        return _SOUND
    return _examine_lines(data, strict, None)


def _examine_lines(data: bytes, strict: bool, undecodable: int | None) -> Finding:
    """Line by line: what may follow a line depends on the lines before."""
    unknown: list[tuple[int, str]] = []
    start = offset = 0
    before = "nothing"
    for line in data.split(b"\n"):
        end = offset + len(line)
        first = line[:1]
        problem = None
        if first not in (b" ", b"\\"):
            start = offset
        if not line or line == b"\r":
            before = "nothing"
        elif first in STATUSES:
            before = "item"
        elif first in (b" ", b"\\"):
            problem = _misplaced(first, before)
            before = "variable" if first == b"\\" and before != "unknown" else before
        else:
            problem = _strange(line, strict)
            before = "unknown"
            unknown.append((offset, line.decode(errors="replace")[:1]))
        if undecodable is not None and undecodable <= end:
            return Finding(TextFault(start, undecodable, "this is not UTF-8, so the file is no text queue"))
        if problem is not None:
            return Finding(TextFault(start, offset, problem), tuple(unknown[:-1]))
        offset = end + 1
    return Finding(None, tuple(unknown))


def _misplaced(first: bytes, before: str) -> str | None:
    """What is wrong with a continuation or variable after such a line, if anything is."""
    if before == "nothing":
        kind = "continues no message" if first == b" " else "is a variable of no message"
        return f"this line {kind}: put it below one, or begin it with '#' to make a comment of it"
    if before == "variable" and first == b" ":
        return "this line continues a variable: put it before the variables, or begin it with '\\'"
    return None


def _strange(line: bytes, strict: bool) -> str | None:
    if line[0] in _BINARY:
        return f"a line begins with the byte 0x{line[0]:02x}, so the file is no text queue"
    if strict:
        character = line.decode(errors="replace")[:1]
        return (
            f"the control character {character!r} is unknown: correct it, or read the file without `strict`"
        )
    return None


def cut_items(file: ItemFile, block: TextBlock, wanted: frozenset[TextStatus]) -> Iterator[TextItem]:
    """The items of a sound block that are `wanted`, in order."""
    if block.plain is not None and wanted == QUEUED_ONLY:
        offsets = map(add, accumulate(map(len, block.plain), initial=block.base), count(0, 2))
        return map(TextItem, repeat(file), offsets, block.plain)
    if wanted == QUEUED_ONLY and block.ended:
        return _cut_queued(file, block)
    return _cut_any(file, block, wanted)


def _cut_queued(file: ItemFile, block: TextBlock) -> Iterator[TextItem]:
    """Each piece begins with a queued message; what follows the message is for others."""
    framed = b"\n" + block.data[:-1]
    pieces = framed.split(b"\n-")
    head = pieces.pop(0)
    offsets = map(add, accumulate(map(len, pieces), initial=block.base + len(head)), count(0, 2))
    search = _ITEM_END.search
    for offset, piece in zip(offsets, pieces, strict=False):
        if b"\n" in piece:
            end = search(piece)
            if end is not None:
                piece = piece[: end.start()]
        yield TextItem(file, offset, piece)


def _cut_any(file: ItemFile, block: TextBlock, wanted: frozenset[TextStatus]) -> Iterator[TextItem]:
    controls = {control for control, status in STATUSES.items() if status in wanted}
    for match in _ITEM.finditer(block.data):
        control, raw, newline = match.groups()
        if control in controls:
            yield TextItem(file, block.base + match.start(), raw, control, bool(newline))
