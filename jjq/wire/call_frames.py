"""Calls of gRPC as messages of a WebSocket: one message is one frame of a call.

byte     0      kind
bytes    1..4   number of the call, unsigned, big endian; the client chooses it
rest            by kind:

kind            from     rest
1 CALL          client   length of the method's name (1 byte), the name; length of the metadata (2 bytes, big endian),
                         lines "name:value\\n" or empty ones; the request, a protobuf message
2 MESSAGE       both     the next message of a stream
3 END           both     nothing: no more messages of a stream follow
4 CANCEL        client   nothing: the answer is not wanted any more
5 REPLY         server   the reply of a call that has one; it is over
6 ERROR         server   google.rpc.Status, whose details are those of gRPC; the call is over
7 GOAWAY        both     nothing, number 0: no more calls, the server stops

Empty lines of metadata put the request at a multiple of 8 bytes: there the buffers of its Arrow batch can be used as
they lie, and a node that got 100 kB from another one need not copy them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from coldstore.shared.errors import InvalidInput

PATH: Final = "/v1/ws"
PEER_PATH: Final = "/v1/peer"  # the same for nodes among themselves: calls there are never forwarded
INSTANCE: Final = "jjq-instance"  # the header of the answer to an upgrade
HEAD_BYTES: Final = 5


class FrameKind(IntEnum):
    CALL = 1
    MESSAGE = 2
    END = 3
    CANCEL = 4
    REPLY = 5
    ERROR = 6
    GOAWAY = 7


_ALIGNMENT: Final = 8
_EMPTY_LINES: Final = [count.to_bytes(2) + b"\n" * count for count in range(_ALIGNMENT)]  # with their length
_NUMBERS: Final = {kind.value: kind for kind in FrameKind}


class CallStart(NamedTuple):
    """The rest of a CALL; its request lies from `begin` on."""

    method: str
    metadata: tuple[tuple[str, str], ...]
    begin: int


def head(kind: FrameKind, number: int) -> bytes:
    """The first bytes of a frame."""
    return kind.to_bytes(1) + number.to_bytes(4)


def encode_call(number: int, method: str, request: bytes, room: int = 0) -> bytearray:
    """A CALL without metadata, behind so many bytes of room."""
    name = method.encode()
    lines = -(HEAD_BYTES + 3 + len(name)) % _ALIGNMENT
    return bytearray().join(
        (bytes(room), b"\x01", number.to_bytes(4), len(name).to_bytes(1), name, _EMPTY_LINES[lines], request)
    )


def split_frame(data: bytes) -> tuple[FrameKind, int]:
    """Kind and number of a frame."""
    kind = _NUMBERS.get(data[0]) if len(data) >= HEAD_BYTES else None
    if kind is None:
        raise InvalidInput(
            f"a frame of {len(data)} bytes begins with {data[:1].hex() or 'nothing'}: it has a kind from 1 to 7, "
            f"and a number of 4 bytes"
        )
    return kind, int.from_bytes(data[1:HEAD_BYTES])


def decode_call(data: bytes) -> CallStart:
    """The rest of a CALL."""
    try:
        begin = HEAD_BYTES + 1
        end = begin + data[HEAD_BYTES]
        method = data[begin:end].decode("ascii")
        size = int.from_bytes(data[end : end + 2])
        rest = end + 2 + size
        if len(data) < rest or len(data) < end + 2:
            raise InvalidInput("a call ends within its metadata: send it whole")
        lines = data[end + 2 : rest].strip().decode("latin-1").splitlines()  # mostly none
        pairs = [line.partition(":") for line in lines]
        metadata = tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)
        return CallStart(method, metadata, rest)
    except (IndexError, UnicodeDecodeError):
        raise InvalidInput("a call names no method: send the length of its name, and the name") from None
