"""The binary form of requests and replies: bincode 1, little-endian, with numbers of fixed width.

    frame       u32 0 (version of the protocol), u32 number of the kind, then the fields in their order, without names
    u64 …       as they are; i16, u32 and f32 likewise
    text, bytes u64 length, then the bytes
    list        u64 length, then the items
    option      u8 0, or u8 1 and the value
    flag        u8 0 or 1
    name        u32: which of a list of names

A length is compared with what is there before anything is made of it. Bytes after the last field are passed over, as
bincode 1 does. A tag or a name that is not known, and text that is not UTF-8, is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, get_args

from coldstore.shared.errors import InvalidInput
from jjq.http.priority_socket import frames
from jjq.limits import CONNECT_NOTICES_MAX

Read = Callable[[bytes, int], tuple[Any, int]]  # from a place in a frame: the value, and the place after it
Write = Callable[[Any], bytes]


class _Field(NamedTuple):
    """How a type is read and written; `least` is the fewest bytes that it has."""

    read: Read
    write: Write
    least: int


def _number(layout: str) -> _Field:
    form = struct.Struct(layout)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        if len(data) - at < form.size:
            raise InvalidInput(f"the frame ends at byte {len(data)}, within a field that begins at {at}")
        return form.unpack_from(data, at)[0], at + form.size

    return _Field(read, form.pack, form.size)


_U8, _U32, _U64, _I16, _F32 = (_number(layout) for layout in ("<B", "<I", "<Q", "<h", "<f"))


def _read_length(data: bytes, at: int, least: int) -> tuple[int, int]:
    """A length, of which it is certain that so many items can be there."""
    length, after = _U64.read(data, at)
    if length * least > len(data) - after:
        raise InvalidInput(
            f"byte {at} of the frame says {length} items, and {len(data) - after} bytes follow"
        )
    return length, after


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, start = _read_length(data, at, 1)
    return data[start : start + length], start + length


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    found, after = _read_bytes(data, at)
    try:
        return found.decode(), after
    except UnicodeDecodeError:
        raise InvalidInput(f"the text at byte {at} of the frame is not UTF-8") from None


def _read_flag(data: bytes, at: int) -> tuple[bool, int]:
    tag, after = _U8.read(data, at)
    if tag > 1:
        raise InvalidInput(f"byte {at} of the frame is {tag}: only 0 and 1 are allowed there")
    return tag == 1, after


_BYTES: Final = _Field(_read_bytes, lambda value: _U64.write(len(value)) + value, 8)
_TEXT: Final = _Field(_read_text, lambda value: _BYTES.write(value.encode()), 8)
_FLAG: Final = _Field(_read_flag, _U8.write, 1)


def _option(field: _Field) -> _Field:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        present, after = _read_flag(data, at)
        return field.read(data, after) if present else (None, after)

    return _Field(read, lambda value: b"\0" if value is None else b"\1" + field.write(value), 1)


def _list(field: _Field) -> _Field:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        length, after = _read_length(data, at, field.least)
        if length > CONNECT_NOTICES_MAX:
            raise InvalidInput(f"byte {at} of the frame says {length} items: at most {CONNECT_NOTICES_MAX}")
        items, at = [], after
        for _ in range(length):
            item, at = field.read(data, at)
            items.append(item)
        return tuple(items), at

    return _Field(read, lambda items: _U64.write(len(items)) + b"".join(map(field.write, items)), 8)


def _name(names: tuple[str, ...]) -> _Field:
    def read(data: bytes, at: int) -> tuple[str, int]:
        number, after = _U32.read(data, at)
        if number >= len(names):
            raise InvalidInput(f"byte {at} of the frame is {number}: known are 0 to {len(names) - 1}")
        return names[number], after

    return _Field(read, lambda name: _U32.write(names.index(name)), 4)


_FIRMNESS, _NOTICE, _CODE = (
    _name(get_args(names)) for names in (frames.Firmness, frames.NoticeName, frames.ErrorCode)
)
Kinds = tuple[tuple[Callable[..., Any], tuple[_Field, ...]], ...]

REQUESTS: Final[Kinds] = (
    (frames.PostRequest, (_TEXT, _BYTES, _I16, _U64, _list(_NOTICE))),
    (frames.FetchRequest, (_TEXT, _option(_F32), _F32, _FIRMNESS, _U64)),
    (frames.FinishRequest, (_TEXT, _U64, _U32, _option(_U64), _option(_FIRMNESS))),
    (frames.PopRequest, (_TEXT, _FIRMNESS, _option(_F32), _U64)),
    (frames.CreateRequest, (_TEXT, _U64, _option(_U32), _option(_U64), _option(_U64))),
)
REPLIES: Final[Kinds] = (
    (frames.MessageReply, (_U64, _U32, _U64, _BYTES, _FLAG)),
    (frames.NoticeReply, (_U64, _NOTICE)),
    (frames.HelloReply, (_U64,)),
    (frames.NoMessageReply, (_U64,)),
    (frames.ErrorReply, (_U64, _CODE, _TEXT)),
)


def decode(data: bytes, kinds: Kinds) -> Any:
    """The value in a binary frame, of one of these kinds; or `InvalidInput`."""
    version, at = _U32.read(data, 0)
    if version != 0:
        raise InvalidInput(f"the frame is of version {version} of the protocol: only 0 is known")
    number, at = _U32.read(data, at)
    if number >= len(kinds):
        raise InvalidInput(f"the frame is of kind {number}: known are 0 to {len(kinds) - 1}")
    make, fields = kinds[number]
    values = []
    for field in fields:
        value, at = field.read(data, at)
        values.append(value)
    return make(*values)


def encode(value: Any, kinds: Kinds) -> bytes:
    """A value of one of these kinds as a binary frame."""
    number = next(number for number, (kind, _) in enumerate(kinds) if kind is type(value))
    parts = [field.write(part) for field, part in zip(kinds[number][1], value, strict=True)]
    return _U32.write(0) + _U32.write(number) + b"".join(parts)
