"""Columns of nulls that take no memory: the keys and headers of most elements.

`pyarrow.nulls` fills every buffer of such a column, and those of its children: 28 bytes of new memory for
each element. A third of that goes through the journal and over the wire; of a slice, all of it. Here all
buffers are one shared buffer of zeros, and children are empty.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import pyarrow as pa

_FEW: Final = 16  # below this, pyarrow is quicker
_SHARED_ROWS: Final = 1 << 16
_SHARED: Final = pa.py_buffer(bytes(4 * (_SHARED_ROWS + 1)))
_NOTHING: Final = pa.py_buffer(b"")


def null_column(count: int, kind: pa.DataType) -> pa.Array:
    """`count` nulls of type `kind`."""
    if count < _FEW:
        return pa.nulls(count, kind)
    zeros = _SHARED if count <= _SHARED_ROWS else pa.py_buffer(bytes(4 * (count + 1)))
    if pa.types.is_binary(kind):
        return pa.Array.from_buffers(kind, count, [zeros, zeros, _NOTHING], count)
    if pa.types.is_map(kind):
        return pa.Array.from_buffers(kind, count, [zeros, zeros], count, children=[_no_entries(kind)])
    return pa.nulls(count, kind)


@cache
def _no_entries(kind: pa.MapType) -> pa.Array:
    return pa.nulls(0, pa.struct([kind.key_field, kind.item_field]))
