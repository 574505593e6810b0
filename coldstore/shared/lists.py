"""Arrow columns of Python lists, and numbers of Arrow columns, without pandas.

`pa.array` and `pa.scalar` import pandas, where it is installed, at the first value that is not Arrow's own, to see
whether that is a series: up to half a second in a process that perhaps never uses it. Nothing can tell pyarrow
to do without that does not hold for the whole process, in which users may want pandas later. So, as long as
pandas is installed and not loaded, the usual columns are made of their buffers here. Everything else, and every other
process, takes `pa.array`, which is quicker by some 30 ns an element.

Columns of nulls, the keys and headers of most elements, take no memory here. `pyarrow.nulls` fills every buffer of such
a column, and those of its children: 28 bytes of new memory for each element. A third of that goes through the journal
and over the wire; of a slice, all of it. Here all buffers are one shared buffer of zeros, and children are empty.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared.limits import BATCH_ELEMENTS_MAX, COLUMN_BYTES_MAX

_NONE: Final = type(None)
_PLAIN: Final = frozenset({bytes, bytearray, memoryview, str, _NONE})
_FEW: Final = 16  # below this, pyarrow is quicker
_SHARED_ROWS: Final = 1 << 16
_SHARED: Final = pa.py_buffer(bytes(4 * (_SHARED_ROWS + 1)))
_NOTHING: Final = pa.py_buffer(b"")


def array(items: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """What `pa.array(items, kind)` makes."""
    if "pandas" not in sys.modules and _pandas_is_installed():
        found = _build_array(items, kind)
        if found is not None:
            return found
    return pa.array(items, kind)


def scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """What `pa.scalar(value, kind)` makes."""
    return array([value], kind)[0]


def table(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """What `pa.table(columns, schema)` makes."""
    return pa.Table.from_arrays([array(columns[field.name], field.type) for field in schema], schema=schema)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without elements."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def numbers(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The whole numbers or truths of a column, 0 where there is none; not to be written to.

    Unlike `to_numpy`, which imports pandas too.
    """
    if column.null_count:
        column = pc.fill_null(column, scalar(False if pa.types.is_boolean(column.type) else 0, column.type))
    first, count, data = column.offset, len(column), column.buffers()[1]
    if data is None:
        return np.zeros(count, dtype=np.int64)
    if pa.types.is_boolean(column.type):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=first + count, bitorder="little")
        return bits[first:].astype(np.int64)
    width = column.type.bit_width // 8
    return np.frombuffer(data, f"i{width}", count, first * width).astype(np.int64, copy=False)


def byte_lengths(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes of each value of a column of bytes or text, 0 where there is none; not to be written to."""
    offsets = column.buffers()[1]
    if column.null_count or offsets is None:
        return numbers(pc.binary_length(column))
    kind = (
        np.int64
        if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
        else np.int32
    )
    found = np.frombuffer(offsets, kind, len(column) + 1, column.offset * np.dtype(kind).itemsize)
    return np.diff(found).astype(np.int64, copy=False)


@cache
def _pandas_is_installed() -> bool:
    try:
        return find_spec("pandas") is not None
    except ModuleNotFoundError:  # a process that does without it says so (jjq/cli/__init__.py)
        return False


def _build_array(items: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """None for what is not usual, sound or not: pyarrow judges it."""
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return _texts(items, kind)
    if pa.types.is_map(kind):
        return _maps(items, kind)
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return _numbers(items, kind)
    if set(map(type, items)) <= {bool} and pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, len(items), [None, _bits(items)])
    if set(map(type, items)) <= {float} and pa.types.is_float64(kind):
        return pa.Array.from_buffers(kind, len(items), [None, pa.py_buffer(np.array(items, np.float64))])
    return None


def _texts(items: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    types = set(map(type, items))
    validity = None
    if types != {bytes}:
        if not types <= _PLAIN or (pa.types.is_string(kind) and not types <= {str, _NONE}):
            return None
        if _NONE in types:
            validity = _validity(items)
        items = [_as_bytes(item) for item in items]
    elif pa.types.is_string(kind):
        return None  # pyarrow sees whether they are UTF-8
    count = len(items)
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, items), np.int64, count), out=offsets[1:])
    if offsets[-1] > COLUMN_BYTES_MAX:
        return None
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(items))]
    return pa.Array.from_buffers(kind, count, buffers)


def _as_bytes(item: Any) -> bytes:
    if type(item) is bytes:
        return item
    if item is None:
        return b""
    return item.encode() if isinstance(item, str) else bytes(item)


def _maps(items: Sequence[Any], kind: pa.MapType) -> pa.Array | None:
    """Each item a list of pairs, or None."""
    if not set(map(type, items)) <= {list, _NONE}:
        return None
    pairs = [pair for item in items if item is not None for pair in item]
    if not all(type(pair) is tuple and len(pair) == 2 and pair[0] is not None for pair in pairs):
        return None
    names = _build_array([name for name, _ in pairs], kind.key_type)
    values = _build_array([value for _, value in pairs], kind.item_type)
    if names is None or values is None or (values.null_count and not kind.item_field.nullable):
        return None
    offsets = np.zeros(len(items) + 1, dtype=np.int32)
    np.cumsum([0 if item is None else len(item) for item in items], out=offsets[1:])
    entries = pa.StructArray.from_arrays([names, values], fields=[kind.key_field, kind.item_field])
    buffers = [_validity(items) if None in items else None, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(items), buffers, children=[entries])


def _numbers(items: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """Whole numbers, those of times included, or None."""
    types = set(map(type, items))
    if not types <= {int, _NONE}:
        return None
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    width = np.dtype(f"{sign}{kind.bit_width // 8}")
    limits = np.iinfo(width)
    numbers = [item or 0 for item in items]
    if numbers and not (limits.min <= min(numbers) and max(numbers) <= limits.max):
        return None
    validity = _validity(items) if _NONE in types else None
    return pa.Array.from_buffers(kind, len(items), [validity, pa.py_buffer(np.array(numbers, dtype=width))])


def _validity(items: Sequence[Any]) -> pa.Buffer:
    """A bit for each item that is not None."""
    return _bits([item is not None for item in items])


def _bits(items: Sequence[bool]) -> pa.Buffer:
    there = np.fromiter(items, np.bool_, len(items))
    return pa.py_buffer(np.packbits(there, bitorder="little"))


def null_column(count: int, kind: pa.DataType) -> pa.Array:
    """`count` nulls of type `kind`."""
    if count < _FEW:
        return pa.nulls(count, kind)
    zeros = _SHARED if count <= _SHARED_ROWS else _zeros(max(count, BATCH_ELEMENTS_MAX))
    if pa.types.is_binary(kind):
        return pa.Array.from_buffers(kind, count, [zeros, zeros, _NOTHING], count)
    if pa.types.is_map(kind):
        return pa.Array.from_buffers(kind, count, [zeros, zeros], count, children=[_no_entries(kind)])
    return pa.nulls(count, kind)


@lru_cache(1)
def _zeros(count: int) -> pa.Buffer:
    """Also large columns share theirs: 24 pushes of 640,000 elements without keys kept 120 MB of zeros."""
    return pa.py_buffer(bytes(4 * (count + 1)))


@cache
def _no_entries(kind: pa.MapType) -> pa.Array:
    return pa.nulls(0, pa.struct([kind.key_field, kind.item_field]))
