"""The few facts of an Arrow message's metadata that pyarrow does not tell, read from its flatbuffer.

    Message          version 0 · kind of header 1 · header 2 · length of body 3
    RecordBatch      length 0 · nodes 1 · buffers 2 · compression 3
    DictionaryBatch  id 0 · data (a RecordBatch) 1

Wrong offsets lead to `struct.error` or to wrong facts, never out of the bytes; Arrow verifies the
same bytes by itself before it uses them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

DICTIONARY_BATCH: Final = 2
RECORD_BATCH: Final = 3

_U16, _U32, _I32, _I64 = (struct.Struct(form) for form in ("<H", "<I", "<i", "<q"))
_SLOTS: Final = struct.Struct("<4H")
_VTABLE_BYTES: Final = 4  # its own length and that of the table, before the slots


@dataclass(frozen=True, slots=True)
class Facts:
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
    slots = (_U16.unpack_from(data, vtable)[0] - _VTABLE_BYTES) // 2  # trailing absent ones are left out
    if slots > 3:
        _, one, two, three = _SLOTS.unpack_from(data, vtable + _VTABLE_BYTES)
    else:
        known = [_U16.unpack_from(data, vtable + _VTABLE_BYTES + 2 * slot)[0] for slot in range(slots)]
        _, one, two, three = known + [0] * (4 - len(known))
    return (table + one if one else 0, table + two if two else 0, table + three if three else 0)
