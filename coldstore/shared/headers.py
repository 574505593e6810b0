"""The headers of a batch: names and values beside the elements, as one column of maps.

The keys and items of a map column are its children whole, whatever slice of it this is and whichever maps are
null. So a look at a child may find what no element has: it is quick, and only where it finds something are the
elements looked at. Nothing here loops over elements in Python.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared import limits, lists
from coldstore.shared.errors import InvalidInput

RESERVED: Final = "jjq-"  # how names begin that only jjq itself gives …
# … but for the options of a task in worker groups. Their values are decimal numbers in ASCII: seconds, such as b"1.5",
# and for the priority a whole number. All groups of the queue see them, and history keeps them.
TASK_OPTIONS: Final = {
    "delay": "jjq-delay", "ttl": "jjq-ttl", "ttr": "jjq-ttr", "priority": "jjq-priority",
}  # fmt: skip
_ALLOWED: Final = frozenset(TASK_OPTIONS.values())


def has_reserved(headers: pa.MapArray) -> bool:
    """Whether there may be a header whose name is reserved: a quick look, which may also find what no element has."""
    return bool(pc.any(pc.starts_with(headers.keys, RESERVED)).as_py())


def refuse_reserved(headers: pa.MapArray) -> None:
    """Refuse headers that only jjq may set: readers rely on what they say."""
    if not has_reserved(headers):
        return
    allowed = pc.is_in(headers.keys, lists.array(sorted(_ALLOWED), pa.string()))
    named = pc.and_not(pc.starts_with(headers.keys, RESERVED), allowed)
    position = _first(headers, named)
    if position is not None:
        names = (name for name, _ in headers[position].as_py() if name not in _ALLOWED)
        name = next(name for name in names if name.startswith(RESERVED))
        raise InvalidInput(f"element {position}: {is_reserved(name)}", position=position)


def is_reserved(name: str) -> str:
    """The error message for a reserved name."""
    return (
        f"the name of its header {name[:60]!r} is reserved, as are all that begin with {RESERVED!r}: "
        "choose another one, or leave the header out"
    )


def refuse_null_headers(headers: pa.MapArray) -> None:
    """Refuse a header that lacks its name or its value."""
    if not headers.keys.null_count and not headers.items.null_count:
        return
    position = _first(headers, pc.or_(headers.keys.is_null(), headers.items.is_null()))
    if position is not None:
        raise InvalidInput(
            f"element {position}: a header's name or value is null; leave it out", position=position
        )


def _first(headers: pa.MapArray, marked: pa.BooleanArray) -> int | None:
    """The position of the first element that has a header which is `marked`."""
    found = _sums(headers, lists.numbers(marked)) > 0
    return int(found.argmax()) if found.any() else None


def check_header_counts(headers: pa.MapArray) -> None:
    """Refuse an element with more headers than are allowed."""
    if headers.null_count == len(headers):
        return
    counts = lists.numbers(_list_lengths(headers))
    most = int(counts.argmax())
    if counts[most] > limits.HEADERS_MAX:
        raise InvalidInput(
            f"element {most}: it has {counts[most]} headers; at most {limits.HEADERS_MAX} are allowed",
            position=most,
        )


def _list_lengths(headers: pa.MapArray) -> pa.Array:
    return pc.list_value_length(
        headers.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    )


def header_bytes(headers: pa.MapArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes of each element's headers, names and values."""
    names = lists.byte_lengths(headers.keys)
    values = lists.byte_lengths(headers.items)
    return _sums(headers, names + values)


def _sums(
    headers: pa.MapArray, figures: np.ndarray[Any, np.dtype[np.int64]]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each element the sum of `figures`, one of which belongs to each entry of the children."""
    ends = np.concatenate([[0], np.cumsum(figures)])
    # `offsets` is that of the slice, unlike the children.
    offsets = lists.numbers(headers.offsets)
    offsets = offsets - (0 if len(ends) > offsets.max(initial=0) else offsets.min(initial=0))
    sums = np.diff(ends[offsets])
    return sums if not headers.null_count else sums * lists.numbers(headers.is_valid())
