"""Values of JSON queues: each is exactly one JSON text.

The parser makes Python objects of what it reads, and holds the interpreter's lock meanwhile: a million values in one
call held up everybody for half a second. So a batch is checked a few values at a time, and a value that is long by
itself is walked in steps (`walk_json`). A caller that serves others lets them work between two steps (`HotStore.push`);
every other caller has the parser read each value at once (`at_once`), which is quicker.

The parser (orjson) takes a text of 8 MiB in one call of up to 0.25 s; in a thread it would hold up everybody just the
same. The walk accepts a text if and only if orjson does. It has no code for each character or token: a step takes
`_WALK_BYTES` of the text and asks numpy, which lets go of the lock meanwhile,

    which bytes are in strings      a quote that is not escaped begins or ends one; escapes and surrogates are looked at
    which scalars there are         all of a step are put into one array, and that is given to orjson
    which container each comma is in, and which bracket each one closes    tokens sorted by their depth
    whether each token may follow the one before it                        a table of pairs
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import JSON_DEPTH_MAX, KIB

_STEP_VALUES: Final = 1_000  # take less than a millisecond …
_STEP_BYTES: Final = 64 * KIB  # … as do so many bytes, whatever is in them
_LONG_BYTES: Final = 128 * KIB  # a value that has more takes the parser more than three milliseconds


def check_json(values: pa.Array, *, at_once: bool = False) -> Iterator[None]:
    """Refuse values that are not JSON; between two steps it yields, and a small batch has one step only."""
    rows = len(values)
    step = min(_STEP_VALUES, rows * _STEP_BYTES // max(1, values.nbytes)) or 1
    for first in range(0, rows, step):
        if first:
            yield
        few = values.slice(first, step)
        if at_once or few.nbytes <= _LONG_BYTES:
            _check(few.to_pylist(), first)
        else:
            yield from _walk(few, first)


def _walk(values: pa.Array, first: int) -> Iterator[None]:
    """The same for values of which at least one is long."""
    for position, value in enumerate(values, first):
        text = value.as_buffer()
        if text.size <= _LONG_BYTES:
            _check([value.as_py()], position)
            yield
            continue
        try:
            yield from walk_json(text)
        except NotJson as error:
            start = bytes(text[:_SHOWN_BYTES]).decode(errors="ignore")
            raise _not_json(position, start, error) from None


def _check(texts: list[str], first: int) -> None:
    """Refuse a value that is not JSON, by one call of the parser for all of them.

    The values are joined by a separator element that no value can contain, as it is a digest of all
    of them: the joined text parses with the separator at every odd place if and only if each value
    is exactly one JSON text.
    """
    joined = "\x00".join(texts)
    token = hashlib.sha256(joined.encode()).hexdigest()
    try:
        parsed = orjson.loads("[" + f',"{token}",'.join(texts) + "]")
    except orjson.JSONDecodeError:
        parsed = []
    if len(parsed) == 2 * len(texts) - 1 and parsed[1::2] == [token] * (len(texts) - 1):
        return
    for position, text in enumerate(texts, first):
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise _not_json(position, text, error) from None
    # Each value parses alone but the whole does not: nesting too deep for the parser when joined.


def _not_json(position: int, text: str, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"element {position}: its value {shown(text)} is not JSON ({error})", position=position
    )


def shown(item: object) -> str:
    """The beginning of a value, for an error."""
    text = repr(item[:60] if isinstance(item, str | bytes) else item)
    return text if len(text) <= 60 else f"{text[:57]}..."


# The walk over a long text -----------------------------------------------------------------------

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_WALK_BYTES: Final = 16 * KIB  # that are passed at once: less than a millisecond
_SHOWN_BYTES: Final = 400

# What a byte is outside of strings, and what a token is. A closing bracket is one more than the opening one.
_SCALAR, _START, _OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END, _OBJECT_COMMA, _COMMA, _COLON, _STRING, _NAME = (
    range(11)
)
_NOTHING: Final = _START  # white space, and the inside of strings
_KINDS: Final = 16
_QUOTE, _BACKSLASH = ord('"'), ord("\\")


def _table(kinds: dict[Any, int], other: int = 0) -> bytes:
    found = bytearray([other]) * 256
    for keys, kind in kinds.items():
        for key in keys:
            found[key] = kind
    return bytes(found)


def _look_up(table: bytes, keys: Bytes) -> Bytes:
    """What the table has for each key: ten times as quick as an array as index."""
    return np.frombuffer(bytearray(keys.tobytes()).translate(table), np.uint8)


_BYTE: Final = _table(
    {
        b" \t\n\r": _NOTHING, b"{": _OBJECT, b"}": _OBJECT_END, b"[": _ARRAY, b"]": _ARRAY_END, b",": _COMMA,
        b":": _COLON, b'"': _STRING,
    },
)  # fmt: skip
_DEEPER: Final = _table({(_OBJECT, _ARRAY): 1, (_OBJECT_END, _ARRAY_END): 255})  # that is -1
_NESTS: Final = _table({(_OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END, _COMMA): 1})
_HEX: Final = _table({(c,): int(chr(c), 16) for c in b"0123456789abcdefABCDEF"}, 16)
_UNKNOWN_ESCAPE: Final = _table({b'"\\/bfnrtu': 0}, 1)

_A_VALUE: Final = (_SCALAR, _OBJECT, _ARRAY, _STRING)
_AFTER_VALUE: Final = (_OBJECT_COMMA, _COMMA, _OBJECT_END, _ARRAY_END)
_ENDS: Final = (_SCALAR, _STRING, _OBJECT_END, _ARRAY_END)
_FOLLOWS: Final = {
    (_START, _COMMA, _COLON): _A_VALUE,
    (_OBJECT,): (_NAME, _OBJECT_END),
    (_ARRAY,): (*_A_VALUE, _ARRAY_END),
    (_OBJECT_COMMA,): (_NAME,),
    (_NAME,): (_COLON,),
    _ENDS: _AFTER_VALUE,
}
_WRONG: Final = _table(  # by the token before and the token, see `_check_order`
    {tuple(_KINDS * a + b for a in before for b in after): 0 for before, after in _FOLLOWS.items()}, 1
)


class NotJson(ValueError):
    """The text is not JSON; where, and why."""


def walk_json(text: pa.Buffer | bytes) -> Generator[None, None, None]:
    """Pass over all of `text`, valid UTF-8, yielding between two steps; `NotJson` if it is not exactly one JSON
    text."""
    walk = _JsonWalk(np.frombuffer(text, np.uint8))
    while walk.at < len(walk.text):
        walk.step()
        yield
    walk.finish()


class _JsonWalk:
    """Where a walk is: between two tokens, or in a string."""

    def __init__(self, text: Bytes) -> None:
        self.text = text
        self.at = 0
        self._in_string = False
        self._escaping = False  # the last byte was the backslash of an escape
        self._low_at = -1  # where the second half of a surrogate pair must be
        self._open = np.zeros(0, np.uint8)  # the containers that we are in
        self._last = _START  # token

    def step(self) -> None:
        """Pass over `_WALK_BYTES`, or to the end of a longer scalar."""
        chunk = self.text[self.at : self.at + _WALK_BYTES]
        escaping = self._escaping
        quotes = self._quotes(chunk)
        if not len(quotes) and self._in_string:
            self._check_controls(chunk)
            self.at += len(chunk)
            return
        kinds = _look_up(_BYTE, chunk)
        if len(quotes) or escaping:
            self._pass_strings(chunk, kinds, quotes)
        kinds = kinds[: self._whole(kinds)]
        if len(kinds):
            self._check_tokens(kinds)
            self.at += len(kinds)
        else:
            self._pass_long_scalar()

    def finish(self) -> None:
        if self._in_string or len(self._open) or self._last not in _ENDS:
            raise NotJson("unexpected end of data")

    # Strings ------------------------------------------------------------------------------------

    def _quotes(self, chunk: Bytes) -> Any:
        """Where strings begin or end. All escapes in the chunk are checked."""
        quotes = np.flatnonzero(chunk == _QUOTE)
        slashes = np.flatnonzero(chunk == _BACKSLASH)
        escaped = self._escaping  # the first byte
        if not len(slashes) and not escaped and self._low_at < 0:
            return quotes
        if escaped and len(slashes) and slashes[0] == 0:
            slashes = slashes[1:]
        # Of backslashes in a row, the first, third … begin an escape.
        first = np.maximum.accumulate(np.where(np.diff(slashes, prepend=-2) != 1, slashes, 0))
        slashes = slashes[(slashes - first) & 1 == 0]
        self._escaping = bool(len(slashes) and slashes[-1] == len(chunk) - 1)
        self._check_escapes(slashes + self.at, self.at + len(chunk))
        if escaped and len(quotes) and quotes[0] == 0:
            quotes = quotes[1:]
        return quotes[~np.isin(quotes, slashes + 1, assume_unique=True)]

    def _check_escapes(self, at: Any, end: int) -> None:
        """Those that begin at these places of the text."""
        text = self.text
        if len(at) and at[-1] + 1 >= len(text):
            raise NotJson("unexpected end of data")
        kinds = text[at + 1]
        self._refuse(_look_up(_UNKNOWN_ESCAPE, kinds), at)
        at = at[kinds == ord("u")]
        if len(at) and at[-1] + 5 >= len(text):
            raise NotJson("unexpected end of data")
        code: Any = np.zeros(len(at), np.uint16)
        for digit in range(2, 6):
            value = _look_up(_HEX, text[at + digit])
            self._refuse(value > 15, at)
            code = code << 4 | value
        lows = at[(code >= 0xDC00) & (code < 0xE000)]
        wanted = at[(code >= 0xD800) & (code < 0xDC00)] + 6
        if self._low_at >= 0:
            wanted = np.concatenate(([self._low_at], wanted))
        here = wanted[wanted < end]
        self._low_at = int(wanted[-1]) if len(here) < len(wanted) else -1
        if not np.array_equal(here, lows):
            raise _unexpected(text, int(np.setxor1d(here, lows)[0]))

    def _check_controls(self, chunk: Bytes, inside: Any = True) -> None:
        if chunk.min() < 0x20:
            self._refuse((chunk < 0x20) & inside, self.at)

    def _pass_strings(self, chunk: Bytes, kinds: Bytes, quotes: Any) -> None:
        """Make each string one token, at its first quote."""
        marks = np.zeros(len(chunk), np.uint8)
        marks[quotes] = 1
        inside = np.bitwise_xor.accumulate(marks)
        if self._in_string:
            inside ^= 1
        inside = inside.astype(bool)
        self._check_controls(chunk, inside)
        kinds[inside] = _NOTHING
        kinds[quotes] = np.where(inside[quotes], _STRING, _NOTHING)
        self._in_string = bool(inside[-1])

    # Scalars ------------------------------------------------------------------------------------

    def _whole(self, kinds: Bytes) -> int:
        """How many bytes there are before a scalar that goes on behind the chunk."""
        if kinds[-1] != _SCALAR or self.at + len(kinds) == len(self.text):
            return len(kinds)
        self._escaping, self._low_at = False, -1  # a backslash is in none, as will be seen
        others = np.flatnonzero(kinds)
        return int(others[-1]) + 1 if len(others) else 0

    def _pass_long_scalar(self) -> None:
        end = self.at
        while end < len(self.text):
            others = np.flatnonzero(_look_up(_BYTE, self.text[end : end + _WALK_BYTES]))
            if len(others):
                end += int(others[0])
                break
            end = min(len(self.text), end + _WALK_BYTES)
        self._check_scalar(self.at, end)
        self._check_order(np.array([_SCALAR], np.uint8), np.array([self.at]))
        self.at = end

    def _check_scalar(self, begin: int, end: int) -> None:
        try:
            orjson.loads(self.text[begin:end].tobytes())
        except orjson.JSONDecodeError as error:
            raise NotJson(f"{error.msg}: in {_shown_at(self.text, begin)} at byte {begin}") from None

    def _check_scalars(self, scalar: Any, begins: Any) -> None:
        """All of a step in one array. A scalar has no space, bracket, comma or quote: that is how it was found."""
        behind = np.zeros_like(scalar)
        behind[1:] = scalar[:-1] & ~scalar[1:]
        text = np.where(scalar, self.text[self.at : self.at + len(scalar)], ord(","))[scalar | behind]
        try:
            orjson.loads(b"[" + text.tobytes() + (b"]" if scalar[-1] else b"0]"))
        except orjson.JSONDecodeError:
            ends = np.flatnonzero(behind)
            for begin, end in zip(begins, [*ends, len(scalar)], strict=False):
                self._check_scalar(self.at + int(begin), self.at + int(end))
            raise

    # Tokens -------------------------------------------------------------------------------------

    def _check_tokens(self, kinds: Bytes) -> None:
        scalar = kinds == _SCALAR
        tokens = kinds > _NOTHING
        if scalar.any():
            begins = scalar.copy()
            begins[1:] &= ~scalar[:-1]
            self._check_scalars(scalar, np.flatnonzero(begins))
            tokens |= begins
        places = np.flatnonzero(tokens)
        if len(places):
            self._check_order(kinds[places], places + self.at)

    def _check_order(self, kinds: Bytes, places: Any) -> None:
        """Whether these tokens may follow each other."""
        self._nest(kinds, places)
        before = np.empty_like(kinds)
        before[0], before[1:] = self._last, kinds[:-1]
        names = (kinds == _STRING) & ((before == _OBJECT) | (before == _OBJECT_COMMA))
        kinds[names] = _NAME
        before[1:] = kinds[:-1]
        self._refuse(_look_up(_WRONG, _KINDS * before + kinds), places)
        self._last = int(kinds[-1])

    def _nest(self, kinds: Bytes, places: Any) -> None:
        """Find the container of each comma and closing bracket: the last one that was opened at the same depth."""
        deeper = _look_up(_DEEPER, kinds).view(np.int8)
        if not deeper.any():
            self._place_commas(kinds, places)
            return
        outer = len(self._open)
        depth = np.cumsum(deeper, dtype=np.int16)
        depth += np.int16(outer)
        self._refuse(depth < 0, places)
        if depth.max() > JSON_DEPTH_MAX:
            at = places[int((depth > JSON_DEPTH_MAX).argmax())]
            raise NotJson(f"nested deeper than {JSON_DEPTH_MAX}: byte {at}")
        which = np.flatnonzero(_look_up(_NESTS, kinds))
        nested = np.concatenate((self._open, kinds[which]))
        deeper = np.concatenate((np.ones(outer, np.int8), deeper[which]))
        level = np.concatenate((np.arange(1, outer + 1, dtype=np.int16), depth[which]))
        level += deeper < 0
        self._refuse(level[outer:] == 0, places[which])  # a comma outside of everything
        order = np.argsort(level, kind="stable")
        nested, level, deeper = nested[order], level[order], deeper[order]
        opening = deeper > 0
        container = nested[np.maximum.accumulate(np.where(opening, np.arange(len(nested)), 0))]
        wrong = (deeper < 0) & (nested != container + 1)
        if wrong.any():
            raise _unexpected(self.text, int(places[which[order[wrong].min() - outer]]))
        commas = (nested == _COMMA) & (container == _OBJECT)
        kinds[which[order[commas] - outer]] = _OBJECT_COMMA
        last = np.searchsorted(level[opening], np.arange(1, int(depth[-1]) + 1), side="right") - 1
        self._open = nested[opening][last]

    def _place_commas(self, kinds: Bytes, places: Any) -> None:
        """As `_nest`, where no container begins or ends."""
        commas = kinds == _COMMA
        if not len(self._open):
            self._refuse(commas, places)
        elif self._open[-1] == _OBJECT:
            kinds[commas] = _OBJECT_COMMA

    def _refuse(self, wrong: Any, places: Any) -> None:
        """Refuse the first of these places that is wrong; a number is the place of the first."""
        if wrong.any():
            at = int(wrong.argmax())
            raise _unexpected(self.text, places + at if isinstance(places, int) else int(places[at]))


def _shown_at(text: Bytes, at: int) -> str:
    return repr(text[at : at + 40].tobytes().decode(errors="ignore")[:10])


def _unexpected(text: Bytes, at: int) -> NotJson:
    if at >= len(text):
        return NotJson("unexpected end of data")
    return NotJson(f"unexpected {_shown_at(text, at)} at byte {at}")
