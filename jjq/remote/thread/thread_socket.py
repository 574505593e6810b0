"""One connection to /v1/ws for one thread: a call is a send and a receive (jjq/wire/call_frames.py has the frames).

Between two calls nobody reads from it. So it is not used again when something has come meanwhile, or might have: a ping
of the server, which asks after some time of silence, or its goodbye.
"""

from __future__ import annotations

import base64
import select
import socket
import threading
from contextlib import suppress
from typing import Final

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import JjqError, Unavailable
from jjq.limits import CONNECT_SECONDS, HTTP_HEADER_BYTES_MAX, QUICK_IDLE_SECONDS, WEBSOCKET_REPLY_BYTES_MAX
from jjq.remote.settings import SocketPlace
from jjq.wire.call_frames import HEAD_BYTES, INSTANCE, PATH, FrameKind, encode_call, head, split_frame
from jjq.wire.services import READING
from jjq.wire.status import status_message_in

_CONTINUATION, _BINARY, _CLOSE, _PING, _PONG = 0, 2, 8, 9, 10
_FIN: Final = 0x80
_MASKED: Final = 0x80
_READ_BYTES: Final = 64 * 1024
_GONE: Final = "the connection to the server broke"


class ThreadSocket:
    """See the module's docstring. The thread that uses it holds `lock`."""

    def __init__(self, place: SocketPlace, clock: Clock, chance: Chance) -> None:
        """Connect, or raise OSError: nothing was sent."""
        self.place = place
        # Ctrl-C may come before it is let go, and must not lock out its own thread.
        self.lock = threading.RLock()
        self.closed = False
        self._clock = clock
        self._number = 0
        self._mask = int(chance.token()[:8], 16)
        self._read = b""
        raw = socket.create_connection((place.host, place.port), CONNECT_SECONDS)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tls = place.tls
            self._socket = raw if tls is None else tls.wrap_socket(raw, server_hostname=place.host)
            self._shake_hands(base64.b64encode(bytes.fromhex(chance.token())).decode())
        except BaseException:
            raw.close()
            raise
        self._readable = select.poll()
        self._readable.register(self._socket.fileno(), select.POLLIN)
        self._used = clock.monotonic()

    def is_fresh(self) -> bool:
        """Whether a call may be made on it: nothing has come since the last one, and nothing was to come."""
        if self.closed or self._read or self._clock.monotonic() - self._used > QUICK_IDLE_SECONDS:
            return False
        return not self._readable.poll(0)

    def call(self, method: str, request: bytes, seconds: float) -> bytes:
        """The reply. Without one the connection is closed, and the outcome is unknown."""
        deadline = self._clock.monotonic() + seconds
        self._number += 1
        try:
            self._socket.settimeout(seconds)
            self._send(_BINARY, encode_call(self._number, method, request))
            outcome = self._answer(deadline, method)
        except TimeoutError:
            self.close()
            raise _unknown(f"no answer within {seconds:g} s", method) from None
        except OSError:  # ssl.SSLError is one
            self.close()
            raise _unknown(_GONE, method) from None
        except BaseException:  # Ctrl-C, in the middle
            self.close()
            raise
        self._used = self._clock.monotonic()
        if isinstance(outcome, JjqError):
            raise outcome
        return outcome

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        self._socket.close()

    def __del__(self) -> None:
        """Its thread has ended."""
        with suppress(AttributeError):  # it was never connected
            self._socket.close()

    def _shake_hands(self, key: str) -> None:
        place = self.place
        host = f"[{place.host}]" if ":" in place.host else place.host
        lines = [
            f"GET {PATH} HTTP/1.1",
            f"Host: {host}:{place.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        ]
        if place.key is not None:
            lines.append(f"Authorization: Bearer {place.key}")
        self._socket.sendall("\r\n".join([*lines, "\r\n"]).encode())
        while b"\r\n\r\n" not in self._read:
            if len(self._read) > HTTP_HEADER_BYTES_MAX:
                raise OSError("the answer to the handshake has no end")
            self._read += self._receive()
        answer, _, self._read = self._read.partition(b"\r\n\r\n")
        status, *headers = answer.decode("latin-1").split("\r\n")
        reply_headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in headers)
        }
        if status.split(" ")[1:2] != ["101"] or reply_headers.get(INSTANCE) != place.instance:
            raise OSError(f"another server answers, or none: {status[:100]}")

    def _answer(self, deadline: float, method: str) -> bytes | JjqError:
        """What comes of the present call."""
        while True:
            kind, number, data = self._next_frame(deadline)
            if number != self._number:
                if kind is FrameKind.GOAWAY:  # it stops when it has answered; nothing more is asked here
                    self._send(_BINARY, head(FrameKind.GOAWAY, 0))
                    self._used = float("-inf")
                continue
            if kind is FrameKind.REPLY:
                return data
            if kind is FrameKind.ERROR:
                return status_message_in(data, writes=method not in READING)

    def _next_frame(self, deadline: float) -> tuple[FrameKind, int, bytes]:
        parts: list[bytes] = []
        while True:
            opcode, is_last, data = self._next_part(deadline)
            if opcode == _PING:
                self._send(_PONG, data)
            elif opcode == _CLOSE:
                raise OSError(_GONE)
            elif opcode in (_BINARY, _CONTINUATION):
                parts.append(data)
                if is_last:
                    whole = data if len(parts) == 1 else b"".join(parts)
                    return *split_frame(whole), whole[HEAD_BYTES:]

    def _next_part(self, deadline: float) -> tuple[int, bool, bytes]:
        """A frame of the WebSocket: opcode, whether it ends a message, payload."""
        self._need(2, deadline)
        first, size = self._read[0], self._read[1]
        begin = 2
        if size >= 126:
            begin = 4 if size == 126 else 10
            self._need(begin, deadline)
            size = int.from_bytes(self._read[2:begin])
        if size > WEBSOCKET_REPLY_BYTES_MAX:
            raise OSError(f"a frame of {size} bytes")
        self._need(begin + size, deadline)
        data, self._read = self._read[begin : begin + size], self._read[begin + size :]
        return first & 0x0F, bool(first & _FIN), data

    def _need(self, size: int, deadline: float) -> None:
        """Have so many bytes."""
        if len(self._read) >= size:
            return
        parts, found = [self._read], len(self._read)
        while found < size:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            parts.append(self._receive())
            found += len(parts[-1])
        self._read = b"".join(parts)

    def _receive(self) -> bytes:
        came = self._socket.recv(_READ_BYTES)
        if not came:
            raise OSError(_GONE)
        return came

    def _send(self, opcode: int, payload: bytes | bytearray) -> None:
        size = len(payload)
        self._mask = (self._mask * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        mask = self._mask.to_bytes(4)
        if size < 126:
            length = bytes((_FIN | opcode, _MASKED | size))
        elif size < 65_536:
            length = bytes((_FIN | opcode, _MASKED | 126)) + size.to_bytes(2)
        else:
            length = bytes((_FIN | opcode, _MASKED | 127)) + size.to_bytes(8)
        pattern = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload) ^ int.from_bytes(pattern)).to_bytes(size)
        self._socket.sendall(length + mask + masked)


def _unknown(text: str, method: str) -> Unavailable:
    return Unavailable(text if method in READING else f"{text}; the outcome is unknown")
