r"""The format of a text queue, byte by byte: one item printed and parsed.

A file is lines that end with `\n`; the last one may lack it. The first byte of a line is its control character:

    -    a queued message          =    a done message           !    a message with a critical error
    #    a comment                 ' '  continues the message or comment of the line before
    \    a variable of the message or comment before; variables come after all continuations
    an empty line stands for nothing; any other first byte is unknown to this version

The value of an item is its first line without the control character, then a newline and the rest of the line for
each continuation. Nothing is escaped, since control characters stand in the first column only.

A carriage return is data, with one exception: if every line of an item that has a line end ends with `\r\n`, the
item was written with these line ends, and one `\r` of each is none of its content. So files of Windows read as
people expect, and every value can be written: where a value's own carriage returns would look like such line
ends, the item is written with `\r\n` throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from coldstore.shared.errors import InvalidInput


class TextStatus(StrEnum):
    """What an item is. Only queued messages are to be handled."""

    QUEUED = "queued"
    DONE = "done"
    CRITICAL = "critical"
    COMMENT = "comment"


CONTROLS: Final[dict[TextStatus, bytes]] = {
    TextStatus.QUEUED: b"-",
    TextStatus.DONE: b"=",
    TextStatus.CRITICAL: b"!",
    TextStatus.COMMENT: b"#",
}
STATUSES: Final[dict[bytes, TextStatus]] = {control: status for status, control in CONTROLS.items()}
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"  # some editors begin a file with it
MUTEX: Final = "mutex=" + 16 * " "  # a variable that workers can claim, with room for their names


class MalformedText(InvalidInput, ValueError):
    """A file, a value or a variable does not fit the format. `line` counts from 1, `offset` is in bytes."""

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, offset: int | None = None
    ) -> None:
        InvalidInput.__init__(self, message)
        self.path = path
        self.line = line
        self.offset = offset


MalformedText.__module__ = "jjq.textqueue"


class ItemContent(NamedTuple):
    """What an item says, and how its lines end."""

    value: str
    variables: tuple[str, ...]
    crlf: bool


def encode_text(what: str, text: str | bytes) -> bytes:
    """UTF-8 of a value or variable; an error where it has none."""
    try:
        if isinstance(text, bytes):
            text.decode()
            return text
        if isinstance(text, str):
            return text.encode()
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise MalformedText(
            f"{what} is not UTF-8 ({error.reason}): encode it, as base64 for instance"
        ) from None
    raise MalformedText(f"{what} is a {type(text).__name__}: give text")


def encode_variable(index: int, text: str | bytes) -> bytes:
    """A variable's bytes; it has one line only."""
    data = encode_text(f"variable {index}", text)
    if b"\n" in data or b"\r" in data:
        raise MalformedText(f"variable {index} has a line break: a variable is one line, so leave it out")
    return data


def print_item(
    status: TextStatus, value: str | bytes, variables: Iterable[str | bytes] = (), *, crlf: bool = False
) -> bytes:
    """An item as it stands in a file, with its last line end."""
    lines = split_lines(status, value, variables)
    return join_lines(lines, crlf=crlf or all(line.endswith(b"\r") for line in lines))


def split_lines(status: TextStatus, value: str | bytes, variables: Iterable[str | bytes]) -> list[bytes]:
    """The lines of an item, without line ends."""
    if isinstance(variables, str | bytes):
        raise MalformedText("variables is one text: give a list of them")
    first, *more = encode_text("the value", value).split(b"\n")
    return [
        CONTROLS[status] + first,
        *(b" " + line for line in more),
        *(b"\\" + encode_variable(index, text) for index, text in enumerate(variables)),
    ]


def join_lines(lines: Sequence[bytes], *, crlf: bool, ended: bool = True) -> bytes:
    """Lines with their ends; not `ended`: the last one lacks it, as at the end of some files."""
    end = b"\r\n" if crlf else b"\n"
    return end.join(lines) + (end if ended else b"")


def parse_item(raw: bytes, ended: bool = True) -> ItemContent:
    """What an item says; `raw` lacks its control character and, if it is `ended`, its last newline."""
    lines = raw.split(b"\n")
    complete = lines if ended else lines[:-1]
    crlf = bool(complete) and all(line.endswith(b"\r") for line in complete)
    if crlf:
        lines[: len(complete)] = [line[:-1] for line in complete]
    value, variables = [lines[0]], list[bytes]()
    for line in lines[1:]:
        (variables if line[:1] == b"\\" else value).append(line[1:])
    return ItemContent(b"\n".join(value).decode(), tuple(line.decode() for line in variables), crlf)


def find_variable(raw: bytes, ended: bool, index: int) -> tuple[int, int] | None:
    """Where the content of a variable begins and ends in `raw`; None where there are not as many."""
    content = parse_item(raw, ended)
    start, found = 0, -1
    lines = raw.split(b"\n")
    for number, line in enumerate(lines):
        if number and line[:1] == b"\\":
            found += 1
            if found == index:
                has_end = ended or number + 1 < len(lines)
                return start + 1, start + len(line) - (1 if content.crlf and has_end else 0)
        start += len(line) + 1
    return None
