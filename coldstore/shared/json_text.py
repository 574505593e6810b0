"""Values of JSON queues: each is exactly one JSON text.

The parser makes Python objects of what it reads, with the interpreter's lock in its hand: a million values in one
call held up everybody for half a second. So a batch is checked a few values at a time. Whoever serves others
meanwhile lets them work between two steps (`HotStore.push`); everybody else runs through them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import orjson
import pyarrow as pa

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import KIB

_STEP_VALUES: Final = 1_000  # take less than a millisecond …
_STEP_BYTES: Final = 64 * KIB  # … as do so many bytes, whatever is in them; a value is never cut


def check_json(values: pa.Array) -> Iterator[None]:
    """Refuse values that are not JSON; between two steps it yields, and a small batch has one step only."""
    rows = len(values)
    step = min(_STEP_VALUES, rows * _STEP_BYTES // max(1, values.nbytes)) or 1
    for first in range(0, rows, step):
        if first:
            yield
        _check(values.slice(first, step).to_pylist(), first)


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
            raise InvalidInput(
                f"element {position}: its value {shown(text)} is not JSON ({error})", position=position
            ) from None
    # Each value parses alone but the whole does not: nesting too deep for the parser when joined.


def shown(item: object) -> str:
    """The beginning of a value, for an error."""
    text = repr(item)
    return text if len(text) <= 60 else f"{text[:57]}..."
