"""Options of tasks at a push: delay, ttl, ttr and priority, as headers of the elements.

An option is one number for all elements, or a list with one for each, None where an element has none. All groups of
the queue see the headers, and history keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from coldstore.shared.batch import HEADERS
from coldstore.shared.errors import InvalidInput
from hotstore.groups.values import TASK_OPTIONS
from jjq.arguments import number, whole

Seconds = float | Sequence[float | None] | None
Priority = int | Sequence[int | None] | None

_NO_VALUE: Final[list[tuple[str, bytes]]] = []


def option_headers(options: Mapping[str, Any]) -> dict[str, bytes]:
    """The headers of a single element with these options; None: not given."""
    return {TASK_OPTIONS[name]: _encoded(name, value) for name, value in options.items() if value is not None}


def with_options(payload: pa.RecordBatch, options: Mapping[str, Any]) -> pa.RecordBatch:
    """The payload with the options as headers."""
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        return payload
    rows = payload.num_rows
    headers = payload.column("headers") if "headers" in payload.schema.names else None
    single = all(not _is_list(value) for value in given.values())
    if single and (headers is None or headers.null_count == rows):
        column = _repeated(option_headers(given), rows)
    else:
        column = _merged(headers, given, rows)
    columns = {name: payload.column(name) for name in payload.schema.names} | {"headers": column}
    return pa.RecordBatch.from_pydict(columns)


def _repeated(headers: dict[str, bytes], rows: int) -> pa.MapArray:
    """The same headers for all elements, without a loop over them."""
    count = len(headers)
    at = pa.array(np.tile(np.arange(count, dtype=np.int64), rows))
    names = pa.array(list(headers), pa.string()).take(at)
    values = pa.array(list(headers.values()), pa.binary()).take(at)
    ends = pa.array(np.arange(0, count * rows + 1, count, dtype=np.int32))
    return pa.MapArray.from_arrays(ends, names, values).cast(HEADERS)


def _merged(headers: pa.Array | None, given: Mapping[str, Any], rows: int) -> pa.Array:
    before = [None] * rows if headers is None else headers.to_pylist()
    columns = {name: _listed(name, value, rows) for name, value in given.items()}
    merged = []
    for row, pairs in enumerate(before):
        added = option_headers({name: values[row] for name, values in columns.items()})
        merged.append([*(pairs or _NO_VALUE), *added.items()] or None)
    return pa.array(merged, HEADERS)


def _listed(name: str, value: Any, rows: int) -> Sequence[Any]:
    if not _is_list(value):
        return [value] * rows
    if len(value) != rows:
        raise InvalidInput(
            f"{rows} values but {len(value)} of {name}: give one number for all, or one for each"
        )
    return value  # type: ignore[no-any-return]


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _encoded(name: str, value: object) -> bytes:
    """A number as the header has it: decimal, in ASCII."""
    if name == "priority":
        return b"%d" % whole(name, value)
    seconds = number(name, value)
    if seconds < 0:
        raise InvalidInput(f"{name} is {seconds:g}: give seconds from 0 on")
    return f"{seconds:.6f}".rstrip("0").rstrip(".").encode()
