"""The few facts of an Arrow message's metadata that pyarrow does not tell, read from its flatbuffer.

    Message          version 0 · kind of header 1 · header 2 · length of body 3
    RecordBatch      length 0 · nodes 1 · buffers 2 · compression 3
    DictionaryBatch  id 0 · data (a RecordBatch) 1

Wrong offsets lead to `struct.error` or to wrong facts, never out of the bytes; Arrow verifies the
same bytes by itself before it uses them.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

DICTIONARY_BATCH: Final = 2
RECORD_BATCH: Final = 3

_U32, _I32, _I64 = (struct.Struct(form) for form in ("<I", "<i", "<q"))
_VTABLE: Final = struct.Struct("<6H")  # its own length and that of the table, then the slots
_SLOTS_AT: Final = 4


class Facts(NamedTuple):
    """What kind of message it is, how long its body is and whether that is compressed."""

    kind: int
    body_bytes: int
    compressed: bool


def message(data: memoryview) -> Facts:
    """The facts of one message, given its metadata."""
    kind_at, header_at, length_at = _fields(data, _U32.unpack_from(data)[0])
    kind = data[kind_at] if kind_at else 0
    length = _I64.unpack_from(data, length_at)[0] if length_at else 0
    if length < 0:
        raise ValueError("negative length of body")
    table = _follow(data, header_at)
    if kind == DICTIONARY_BATCH:
        table = _follow(data, _fields(data, table)[0])
    compressed = kind in (RECORD_BATCH, DICTIONARY_BATCH) and _fields(data, table)[2] != 0
    return Facts(kind, length, compressed)


def _follow(data: memoryview, at: int) -> int:
    return at + int(_U32.unpack_from(data, at)[0])


def _fields(data: memoryview, table: int) -> tuple[int, int, int]:
    """Where a table keeps the fields in slots 1, 2 and 3; 0 for one that is absent."""
    vtable = table - _I32.unpack_from(data, table)[0]
    if vtable < 0:
        raise ValueError("metadata points before its beginning")
    if len(data) - vtable < _VTABLE.size:  # a short one that ends with the data
        size, _, _, one, two, three = _VTABLE.unpack(bytes(data[vtable:]).ljust(_VTABLE.size, b"\0"))
    else:
        size, _, _, one, two, three = _VTABLE.unpack_from(data, vtable)
    if size < _VTABLE.size:  # trailing absent ones are left out: what was read for them is something else
        slots = (size - _SLOTS_AT) // 2
        one, two, three = one if slots > 1 else 0, two if slots > 2 else 0, 0
    return (table + one if one else 0, table + two if two else 0, table + three if three else 0)
