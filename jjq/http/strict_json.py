"""Strict JSON (RFC 8259, with unique keys): a text is accepted as it is, or refused with the place of the fault.

Refused are: bytes that are not UTF-8, a byte order mark, duplicate keys, NaN and Infinity, more than one value, and
objects and arrays more than `JSON_DEPTH_MAX` deep. Numbers may have any size: nobody changes them, because the bytes
of a value are kept as they came.

Nearly every text is right, and is found right without Python code for each value: orjson parses it and writes it again,
and both texts have the same number of colons unless a key occurred twice. Only a text that fails this is read again,
slowly, to find out what is wrong and where.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, NoReturn

import msgspec
import numpy as np
import orjson

from coldstore.shared.errors import InvalidInput
from jjq.limits import JSON_DEPTH_MAX

_LINES: Final = msgspec.json.Decoder(msgspec.Raw)
_BOM: Final = b"\xef\xbb\xbf"
_ESCAPED_COLON: Final = b"\\u003"  # \u003a: it would be a colon in the second text only
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CASE: Final = 0x20
_SMALL_BYTES: Final = 4_096  # of a text whose brackets are quickly counted
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Suspect(NamedTuple):
    """A text that may be wrong: `explain` finds out."""

    text: bytes
    where: str = ""
    position: int | None = None


def suspect_document(text: bytes) -> list[Suspect]:
    """Nothing if the text is certainly one strict JSON value."""
    return [] if _is_surely_valid(text) else [Suspect(text)]


def suspect_lines(text: bytes, first: int) -> list[Suspect]:
    """The lines that may not be one strict JSON value each; `first` is the number of the first one.

    Two parsers must accept them: one as values with white space between them, one as a list, with commas in place of
    line breaks. A value that goes over several lines is refused by the second, as is a line with two values or none,
    unless these have a comma between them: then the first refuses them.
    """
    try:
        _LINES.decode_lines(text)
        values = orjson.loads(b"[" + text.replace(b"\n", b",") + b"]")
    except (orjson.JSONDecodeError, msgspec.DecodeError):
        values = []  # as of a line of nothing but spaces
    if values and not _is_deep(text) and _has_unique_keys(text, values):
        return []
    return [
        Suspect(line, f"line {number}, ", number - 1)
        for number, line in enumerate(text.split(b"\n"), first)
        if not _is_surely_valid(line)
    ]


def _is_surely_valid(text: bytes) -> bool:
    """Whether the text is certainly right; of a few right ones that is not certain here."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return not _is_deep(text) and _has_unique_keys(text, value)


def _has_unique_keys(text: bytes, value: Any) -> bool:
    colons = _count_colons(text)
    if not colons:
        return True
    if b"\\" in text and _ESCAPED_COLON in text:  # a single byte is found much sooner
        return False
    try:
        return colons == _count_colons(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return False


def _count_colons(text: bytes) -> int:
    if len(text) < _SMALL_BYTES:
        return text.count(b":")
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(":")))  # in less than half the time


def _is_deep(text: bytes) -> bool:
    """Whether a line of the text is too deep. Most have fewer brackets than that, wherever these are."""
    if len(text) < _SMALL_BYTES and text.count(b"{") + text.count(b"[") <= JSON_DEPTH_MAX:
        return False
    symbols = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(symbols == ord("\n"))
    if np.diff(ends, prepend=-1, append=len(text)).max() <= 2 * JSON_DEPTH_MAX:
        return False  # each level takes two brackets
    opening = np.flatnonzero((symbols | _CASE) == ord("{"))  # that bit makes { of [
    counts = np.diff(np.searchsorted(opening, ends), prepend=0, append=len(opening))
    suspects = np.flatnonzero(counts > JSON_DEPTH_MAX)
    if not len(suspects):
        return False
    lines = text.split(b"\n")
    return any(_too_deep_at(_STRING.sub(b"", lines[at])) >= 0 for at in suspects)


def _too_deep_at(text: bytes) -> int:
    """Where a text without strings is too deep; -1: nowhere."""
    symbols = np.frombuffer(text, np.uint8)
    opening = (symbols == ord("[")) | (symbols == ord("{"))
    closing = (symbols == ord("]")) | (symbols == ord("}"))
    deep = np.cumsum(opening.astype(np.int32) - closing) > JSON_DEPTH_MAX
    return int(deep.argmax()) if deep.any() else -1


def explain(suspect: Suspect) -> None:
    """Raise what is wrong with a text, and where; return if nothing is."""
    text, where, position = suspect
    if text.startswith(_BOM):
        _refuse(f"{where}byte 0: it begins with a byte order mark: leave it out", position)
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        _refuse(f"{where}byte {error.start}: it is not UTF-8", position)
    at = _too_deep_at(_STRING.sub(lambda match: b" " * len(match[0]), text))
    if at >= 0:
        _refuse(f"{where}byte {at}: objects and arrays are more than {JSON_DEPTH_MAX} deep", position)
    try:
        _DECODER.decode(decoded)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if "\n" in decoded else f"column {error.colno}"
        _refuse(f"{where}{place}: {error.msg}", position)
    except _Fault as fault:
        _refuse(f"{where}{fault.place(decoded)}", position)


class _Fault(Exception):
    """What the decoder accepts and we do not; `word` is at the place of it."""

    def __init__(self, what: str, word: str) -> None:
        super().__init__(what)
        self.what = what
        self.word = word

    def place(self, text: str) -> str:
        at = text.rfind(self.word) if self.word else -1
        return f"column {at - text.rfind(chr(10), 0, at)}: {self.what}" if at >= 0 else self.what


def _unique(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _Fault(
                f"the key {key[:60]!a} occurs twice in one object", json.dumps(key, ensure_ascii=False)
            )
        if _LONE_SURROGATE.search(key):
            raise _Fault(f"the key {key[:60]!a} has half of a surrogate pair", "")
        seen.add(key)


def _refuse_constant(name: str) -> NoReturn:
    raise _Fault(f"{name} is no JSON number", name)


def _keep(number: str) -> int:
    return 0  # whatever its size: the value is not used


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_keep, parse_float=_keep, parse_constant=_refuse_constant
)


def _refuse(why: str, position: int | None) -> NoReturn:
    raise InvalidInput(f"the JSON is wrong: {why}", position=position)
