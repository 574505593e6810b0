"""Putting an Arrow batch into a message, and taking it out, without copying it through protobuf.

Protobuf reads concatenated encodings as one message, and in every message with a batch these are

    6a · length · zeros                                   bytes padding = 13
    7a · length · ( 0a · length · Arrow IPC stream )      ArrowBatch arrow = 15, bytes ipc = 1

so a sender encodes the small fields as usual and appends this, and a receiver cuts it out and
decodes the rest as usual. The padding puts the stream at a multiple of 8 bytes, where its buffers can
be used as they lie. What does not have this plain shape is left to protobuf. As a message is walked
anyway, two batches in it are noticed: protobuf itself would silently keep the last one. Messages with
several such messages in them are made and read in results.py.

The friendly form (72 · length · Elements) is cut out as well, so that nothing parses it before its elements
are counted: two bytes can stand for one, and protobuf takes a hundred for each (repeated_elements.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa
from google.protobuf.message import DecodeError

from coldstore.shared.errors import InvalidInput
from jjq.limits import MESSAGE_FIELDS_MAX
from jjq.v1 import jjq_pb2 as pb

_ARROW_TAG: Final = 15 << 3 | 2
_ELEMENTS_TAG: Final = 14 << 3 | 2
PADDING_TAG: Final = 13 << 3 | 2
_IPC_TAG: Final = 1 << 3 | 2
_PART: Final = 8
_FIXED: Final = {1: 8, 5: 4}  # wire types of fixed width
_PADDING: Final = [bytes((PADDING_TAG, size)) + bytes(size) for size in range(8)]


class Span(NamedTuple):
    """Part of a message: `raw[begin:end]`."""

    raw: bytes
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def bytes(self) -> bytes:
        return self.raw if self.size == len(self.raw) else self.raw[self.begin : self.end]

    def buffer(self) -> pa.Buffer:
        return pa.py_buffer(self.raw).slice(self.begin, self.size)


class RepeatedElementsSpan(Span):
    """The content of a field `elements`: a batch in the friendly form."""

    __slots__ = ()


def part(raw: bytes, begin: int, end: int) -> Span:
    """A message that is a part of what was received.

    A push stays in memory until its block is sealed, and with it all that it came with. So one that is a small
    part of that gets memory of its own: else a few bytes could hold many.
    """
    if (end - begin) * _PART < len(raw):
        return Span(raw[begin:end], 0, end - begin)
    return Span(raw, begin, end)


def join(head: bytes, stream: Sequence[bytes | pa.Buffer]) -> bytes:
    """A message of encoded fields `head` and the Arrow stream given in parts."""
    arrow = lead(stream)
    return b"".join((head, padding(len(head) + len(arrow)), arrow, *stream))


def lead(stream: Sequence[bytes | pa.Buffer]) -> bytes:
    """What stands before an Arrow stream, given in parts, to make it the field `arrow`."""
    size = sum(map(len, stream))
    inner = bytes((_IPC_TAG,)) + varint(size)
    return bytes((_ARROW_TAG,)) + varint(len(inner) + size) + inner


def lead_elements(size: int) -> bytes:
    """What stands before the content of an Elements message of `size` bytes, to make it the field `elements`."""
    return bytes((_ELEMENTS_TAG,)) + varint(size)


def padding(place: int) -> bytes:
    """The padding that moves what lies at `place` to a multiple of 8."""
    return _PADDING[-(place + 2) % 8]


def split(message: bytes, begin: int = 0, end: int | None = None) -> tuple[bytes, Span | None]:
    """The other fields of what is encoded in `message[begin:end]`, and its batch if it has one.

    The batch is an Arrow stream, or a `RepeatedElementsSpan`; it is not looked into here.
    """
    end = len(message) if end is None else end
    found: tuple[int, int, int, int] | None = None
    forms = 0
    for tag, at, body, after in fields(message, begin, end):
        if tag in (_ARROW_TAG, _ELEMENTS_TAG):
            forms += 1
            found = tag, at, body, after
    if forms > 1:
        raise InvalidInput("the message has more than one batch: send either elements or arrow, once")
    if found is None:
        return message[begin:end], None
    tag, at, body, after = found
    batch = _ipc(message, body, after) if tag == _ARROW_TAG else RepeatedElementsSpan(message, body, after)
    return message[begin:at] + message[after:end], batch


def fields(
    message: bytes, at: int, end: int, most: int = MESSAGE_FIELDS_MAX
) -> Iterator[tuple[int, int, int, int]]:
    """The fields encoded in `message[at:end]`: tag, where it begins, where its content begins, and its end."""
    try:
        for _ in range(most):
            if at == end:
                return
            begin = at
            tag = message[at]
            if tag < 0x80:  # nearly always, and for the length often: a call costs more than the rest
                at += 1
            else:
                tag, at = read_varint(message, at)
            kind = tag & 7
            if kind == 2:
                size = message[at]
                if size < 0x80:
                    at += 1
                else:
                    size, at = read_varint(message, at)
                body, at = at, at + size
            elif kind == 0:
                body, (_, at) = at, read_varint(message, at)
            else:
                body, at = at, at + _FIXED[kind]
            if at > end:
                break
            yield tag, begin, body, at
    except (IndexError, KeyError):
        raise InvalidInput("the message is not a protobuf encoding of this request") from None
    if at != end:
        raise InvalidInput("the message is not a protobuf encoding of this request, or has too many fields")


def _ipc(message: bytes, begin: int, end: int) -> Span:
    """Field `ipc` of the ArrowBatch that is encoded in `message[begin:end]`."""
    if end - begin > 1 and message[begin] == _IPC_TAG:
        with suppress(IndexError):  # a length that is cut off: protobuf refuses it
            size, at = read_varint(message, begin + 1)
            if at + size == end:
                return Span(message, at, end)
    for _ in fields(message, begin, end):  # a swarm of them is refused before it is parsed
        pass
    try:
        ipc = pb.ArrowBatch.FromString(message[begin:end]).ipc
    except DecodeError:
        raise InvalidInput("the field arrow is not a protobuf encoding of ArrowBatch") from None
    return Span(ipc, 0, len(ipc))


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise IndexError
