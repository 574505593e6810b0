"""How nodes talk about pushes: frames on a plain connection.

    greeting   "jjq-peer/1", filled up to 16 bytes, from the one who connects; and back from the one who is asked,
               with 16 bytes more that stand for its name: an address may have been another node's before
    key        the same frame, number 2^32 - 1: what nodes of a store with keys show each other; it has no result
    push       length u32 · number u32 · PushRequest · zeros
    result     length u32 · number u32 · PushResult · zeros

Integers are little endian. A length counts the message alone; zeros fill up a frame to a multiple of 8 bytes, so
that each message lies where its Arrow buffers can be used as they lie (frame.py). Results come as they are ready;
the number tells to which push each belongs. Whoever sees a wrong greeting or too long a frame hangs up.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from hashlib import blake2b
from struct import Struct
from typing import Final, cast

from jjq.limits import PEER_FRAME_BYTES_MAX, WIRE_NUMBER_MAX
from jjq.wire.arrow_field import Span, part

GREETING: Final = b"jjq-peer/1\n\n\n\n\n\n"
KEY_NUMBER: Final = WIRE_NUMBER_MAX + 1  # of a frame
_HEAD: Final = Struct("<II")
_ZEROS: Final = [bytes(-size % 8) for size in range(8)]  # after a message of this size, modulo 8
_KEEP_ALIVE: Final = getattr(socket, "TCP_KEEPIDLE", None) or socket.TCP_KEEPALIVE  # type: ignore[attr-defined]
_KEEP_ALIVE_SECONDS: Final = 60


def greeting_of(node: str) -> bytes:
    """What the node of this name answers to a greeting."""
    return GREETING + blake2b(node.encode(), digest_size=16).digest()


class Frames(asyncio.Protocol, ABC):
    """One side of a connection."""

    transport: asyncio.Transport

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting  # of the other side
        self._parts: list[bytes] = []  # received and not used yet
        self._size = 0  # of all of them
        self._needed = len(greeting)  # before there is anything to do
        self._greeted = False

    @abstractmethod
    def greeted(self) -> None:
        """The other side speaks as we do."""

    @abstractmethod
    def heard(self, number: int, message: Span) -> None:
        """A frame has come."""

    @abstractmethod
    def spoilt(self, why: str) -> None:
        """The other side does not speak as we do; the connection is being ended."""

    def say(self, number: int, message: bytes) -> None:
        size = len(message)
        self.transport.writelines((_HEAD.pack(size, number), message, _ZEROS[size % 8]))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        plain = transport.get_extra_info("socket")
        if plain is not None:  # a machine that is gone says nothing, and its connection would stay for ever
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            plain.setsockopt(socket.IPPROTO_TCP, _KEEP_ALIVE, _KEEP_ALIVE_SECONDS)

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._needed or self.transport.is_closing():
            return
        whole = data if len(self._parts) == 1 else b"".join(self._parts)
        rest = whole[self._used(whole) :]
        self._parts = [rest] if rest else []
        self._size = len(rest)

    def _used(self, whole: bytes) -> int:
        """How much of it was used; the rest is the beginning of a frame."""
        at = 0
        if not self._greeted:
            if not whole.startswith(self._greeting):
                begins = whole[: len(self._greeting)]
                return self._end(whole, f"it begins with {begins!r}, not with {self._greeting!r}")
            self._greeted, at = True, len(self._greeting)
            self.greeted()
        while len(whole) - at >= _HEAD.size:
            size, number = _HEAD.unpack_from(whole, at)
            if size > PEER_FRAME_BYTES_MAX:
                return self._end(
                    whole, f"a frame of {size} bytes; at most {PEER_FRAME_BYTES_MAX} are allowed"
                )
            begin = at + _HEAD.size
            after = begin + size + -size % 8
            if after > len(whole):
                self._needed = after - at
                return at
            self.heard(number, part(whole, begin, begin + size))
            at = after
        self._needed = _HEAD.size
        return at

    def _end(self, whole: bytes, why: str) -> int:
        self.transport.abort()
        self.spoilt(why)
        return len(whole)
