"""Read and write the part of Thrift's compact protocol that Parquet footers use.

    varint      7 bits per byte, low ones first; the top bit says that more follow
    i16 i32 i64 zigzag (0, -1, 1, -2 … as 0, 1, 2, 3 …), then varint
    i8          one byte · double  8 bytes · binary  varint of its length, bytes
    bool        in a struct: the field's type, 1 for true and 2 for false; in a list: such a byte
    struct      fields, then a zero byte. A field is (step to its id from the last one << 4 | type), or
                type and the id as i16 if the step is not 1 to 15; then its value
    list, set   (size << 4 | type), or (0xf0 | type) and the size as varint from 15 on; then its items
    map         size as varint, then unless it is empty (key type << 4 | value type) and its items

A struct is a dictionary from id to (type, value), in the order of the file, so that whatever was read
is written back byte for byte. Nothing here knows what a field means: see parquet_stitch.py.
"""

from __future__ import annotations

from typing import Any, Final

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

Struct = dict[int, tuple[int, Any]]

_INTEGERS: Final = (I16, I32, I64)


def read(data: memoryview, at: int = 0) -> tuple[Struct, int]:
    """The struct that starts at `at`, and where it ends. `ValueError` or `IndexError` if it is none."""
    struct: Struct = {}
    last = 0
    while data[at]:
        kind, step = data[at] & 0x0F, data[at] >> 4
        at += 1
        if step:
            last += step
        else:
            last, at = _read_integer(data, at)
        value, at = (kind == TRUE, at) if kind in (TRUE, FALSE) else _read_value(data, at, kind)
        struct[last] = (kind, value)
    return struct, at + 1


def _read_value(data: memoryview, at: int, kind: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _read_integer(data, at)
    if kind in (I8, TRUE, FALSE):
        return data[at], at + 1
    if kind == DOUBLE:
        return bytes(data[at : at + 8]), at + 8
    if kind == BINARY:
        size, at = _read_varint(data, at)
        return bytes(data[at : at + size]), at + size
    if kind == STRUCT:
        return read(data, at)
    if kind in (LIST, SET):
        return _read_list(data, at)
    if kind == MAP:
        return _read_map(data, at)
    raise ValueError(f"no Thrift type {kind}")


def _read_list(data: memoryview, at: int) -> tuple[tuple[int, list[Any]], int]:
    kind, size = data[at] & 0x0F, data[at] >> 4
    at += 1
    if size == 15:
        size, at = _read_varint(data, at)
    items = []
    for _ in range(size):
        item, at = _read_value(data, at, kind)
        items.append(item)
    return (kind, items), at


def _read_map(data: memoryview, at: int) -> tuple[tuple[int, int, list[tuple[Any, Any]]], int]:
    size, at = _read_varint(data, at)
    if not size:
        return (0, 0, []), at
    key_kind, value_kind = data[at] >> 4, data[at] & 0x0F
    at += 1
    items = []
    for _ in range(size):
        key, at = _read_value(data, at, key_kind)
        value, at = _read_value(data, at, value_kind)
        items.append((key, value))
    return (key_kind, value_kind, items), at


def _read_integer(data: memoryview, at: int) -> tuple[int, int]:
    coded, at = _read_varint(data, at)
    return (coded >> 1) ^ -(coded & 1), at


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def write(struct: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for field, (kind, value) in struct.items():
        step = field - last
        last = field
        if 0 < step < 16:
            out.append(step << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, field)
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_integer(out, value)
    elif kind in (I8, TRUE, FALSE):
        out.append(value)
    elif kind == DOUBLE:
        out += value
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in (LIST, SET):
        _write_list(out, *value)
    else:
        _write_map(out, *value)


def _write_list(out: bytearray, kind: int, items: list[Any]) -> None:
    if len(items) < 15:
        out.append(len(items) << 4 | kind)
    else:
        out.append(0xF0 | kind)
        _write_varint(out, len(items))
    for item in items:
        _write_value(out, kind, item)


def _write_map(out: bytearray, key_kind: int, value_kind: int, items: list[tuple[Any, Any]]) -> None:
    _write_varint(out, len(items))
    if items:
        out.append(key_kind << 4 | value_kind)
    for key, value in items:
        _write_value(out, key_kind, key)
        _write_value(out, value_kind, value)


def _write_integer(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
