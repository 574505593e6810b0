r"""Items of a text queue as elements of a queue, and back, byte for byte.

Each message becomes one element, whose value is the message. Everything else is in its headers:

    tq.0, tq.1 …   its variables, with the spaces that pad them
    tq.status      done or critical; a queued message has none
    tq.before      the bytes between the message before and this one: comments, empty lines, unknown lines
    tq.after       the bytes after it, if it was the last message of its import
    tq.form        "crlf" if its lines end with \r\n; "open" if the file ended without a newline
    tq.layout      there is no message here, only bytes: the element's value is empty
    tq.source      the name of the text queue that it came from
    tq.place       where the element ends in that file, and a checksum of the file up to there
    tq.batch       the number of the push that it came with

The checksum leaves out marks and variables, which may change in place. So a file that has grown since it was imported
is imported from there on, and one that was edited before that place is refused.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import ELEMENT_BYTES_MAX
from jjq.textqueue.format import MalformedText, TextStatus, join_lines, parse_item, print_item, split_lines
from jjq.textqueue.item import TextItem

PREFIX: Final = "tq."
_VARIABLE: Final = re.compile(r"tq\.(0|[1-9][0-9]*)")
_VARIABLE_LINE: Final = re.compile(rb"^\\[^\n]*", re.MULTILINE)
_LAYOUT_BYTES: Final = ELEMENT_BYTES_MAX // 2  # of one element; longer comments take several


class ImportedPrefix(NamedTuple):
    """How far a file was imported: the end of the last element, the checksum up to there, the number of its push."""

    end: int = 0
    checksum: int = 0
    batch: int = 0


class TextElement(NamedTuple):
    """An element to push."""

    value: str
    headers: dict[str, bytes | str]
    end: int  # where it ends in the file
    status: TextStatus | None  # None: there is no message, only layout


class FileWalk:
    """Makes elements of the items of a file, in order, and knows the checksum of what it has passed."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.end = 0
        self.checksum = 0
        self._in_line = False

    def pass_by(self, data: bytes) -> None:
        """These bytes follow; they were imported before, or belong to an element."""
        cut = (data.find(b"\n") + 1 or len(data)) if self._in_line else 0
        self.checksum = zlib.crc32(masked(data[cut:]), zlib.crc32(data[:cut], self.checksum))
        self.end += len(data)
        self._in_line = not data.endswith(b"\n") if data else self._in_line

    def message(self, before: bytes, item: TextItem, after: bytes = b"") -> Iterator[TextElement]:
        """A message with the bytes before it, and after it if it is the last one."""
        *long, before = _pieces(before)
        first, *more = _pieces(after)
        yield from map(self.layout, long)
        content = parse_item(item.raw, item.ended)
        headers: dict[str, bytes | str] = {
            f"{PREFIX}{index}": text for index, text in enumerate(content.variables)
        }
        if item.status is not TextStatus.QUEUED:
            headers["tq.status"] = item.status.value
        form = [name for name, holds in (("crlf", content.crlf), ("open", not item.ended)) if holds]
        if form:
            headers["tq.form"] = " ".join(form)
        if before:
            headers["tq.before"] = before
        if first:
            headers["tq.after"] = first
        whole = item.control + item.raw + (b"\n" if item.ended else b"")
        yield self._placed(content.value, headers, before + whole + first, item.status)
        yield from map(self.layout, more)

    def layouts(self, data: bytes) -> Iterator[TextElement]:
        """Bytes without a message."""
        return map(self.layout, filter(None, _pieces(data)))

    def layout(self, data: bytes) -> TextElement:
        """Such bytes as one element."""
        return self._placed("", {"tq.layout": "1", "tq.before": data}, data, None)

    def _placed(
        self, value: str, headers: dict[str, bytes | str], data: bytes, status: TextStatus | None
    ) -> TextElement:
        self.pass_by(data)
        headers["tq.source"] = self._source
        headers["tq.place"] = f"{self.end} {self.checksum:08x}"
        return TextElement(value, headers, self.end, status)


def _pieces(data: bytes) -> list[bytes]:
    """Bytes in pieces that fit into an element, cut between lines where that is possible; at least one."""
    found = []
    while len(data) > _LAYOUT_BYTES:
        cut = data.rfind(b"\n", 0, _LAYOUT_BYTES) + 1 or _LAYOUT_BYTES
        found.append(data[:cut])
        data = data[cut:]
    return [*found, data]


def masked(data: bytes) -> bytes:
    """Bytes of a file without what may change in place: marks, and the content of variables."""
    plain = (b"\n" + data).replace(b"\n=", b"\n-").replace(b"\n!", b"\n-")[1:]
    return _VARIABLE_LINE.sub(lambda line: b"\\" * len(line[0]), plain)


def imported_by(headers: Mapping[str, bytes], source: str) -> ImportedPrefix | None:
    """How far `source` was imported with this element; None if the element is none of it."""
    if headers.get("tq.source") != source.encode():
        return None
    try:
        end, checksum = headers["tq.place"].split()
        return ImportedPrefix(int(end), int(checksum, 16), int(headers.get("tq.batch", b"0")))
    except (KeyError, ValueError):
        raise InvalidInput(
            f"an element of the source {source!r} has no readable header tq.place: import with another --source"
        ) from None


class PrintedElement(NamedTuple):
    """An element as bytes of a file. Its message is from `mark` to `end`; `mark` is -1 where it has none."""

    data: bytes
    mark: int
    end: int


class ElementPrinter:
    """Prints elements of a queue one after the other; knows what they have in common with the one before."""

    def __init__(self) -> None:
        self._source: bytes | None = None
        self._ended = True

    def print(
        self, offset: int, value: bytes | str, headers: Mapping[str, bytes], status: TextStatus | None = None
    ) -> PrintedElement:
        """An element as it stands in a file; `status` is its state in a group, else what its header says."""
        source = headers.get("tq.source")
        lead = b"" if self._ended or (source is not None and source == self._source) else b"\n"
        before = headers.get("tq.before", b"") if source is not None else b""
        after = headers.get("tq.after", b"") if source is not None else b""
        item = b""
        if "tq.layout" not in headers:
            try:
                item = _print_message(value, headers, status or _status(headers), imported=source is not None)
            except (MalformedText, UnicodeError) as error:
                raise InvalidInput(f"element {offset} cannot be written as text: {error}") from None
        data = lead + before + item + after
        if data:
            self._ended = data.endswith(b"\n")
        self._source = source
        start = len(lead) + len(before)
        return PrintedElement(data, start if item else -1, start + len(item))


def _print_message(
    value: bytes | str, headers: Mapping[str, bytes], status: TextStatus, *, imported: bool
) -> bytes:
    variables = [text for _, text in sorted(_variables(headers))]
    if not imported:
        return print_item(status, value, variables)
    form = headers.get("tq.form", b"").split()
    lines = split_lines(status, value, [])
    lines += [b"\\" + text for text in variables]  # as they were, carriage returns included
    return join_lines(lines, crlf=b"crlf" in form, ended=b"open" not in form)


def _variables(headers: Mapping[str, bytes]) -> Iterable[tuple[int, bytes]]:
    for name, text in headers.items():
        match = _VARIABLE.fullmatch(name)
        if match is not None:
            yield int(match[1]), text


def _status(headers: Mapping[str, bytes]) -> TextStatus:
    try:
        return TextStatus(headers.get("tq.status", b"queued").decode())
    except ValueError:
        return TextStatus.QUEUED
