"""The bytes of large objects over HTTP, in threads: no byte is copied on the event loop, and none is in a message.

gRPC tells whether and where an upload goes on, and that it is durable. In between, one PATCH has all bytes that are
left; a download is a GET with a range. Both are what any client of HTTP may ask for (docs/http.md). Where that
cannot be had (no HTTP, TLS, an earlier release), and after anything that goes wrong, gRPC does the same, and says
what is wrong.
"""

from __future__ import annotations

import asyncio
import http.client
import select
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import Final, TypeVar, cast
from urllib.parse import quote

from coldstore.shared.errors import Unavailable
from jjq.limits import CONNECT_SECONDS, OBJECT_SECONDS
from jjq.remote.settings import SocketPlace

T = TypeVar("T")
_SLICE_BYTES: Final = 1 << 20  # goes within `OBJECT_SECONDS`


class NotDirectly(Exception):
    """The server has answered, but not with what was asked for: gRPC will tell why."""


class DirectCall:
    """One request on a connection of its own, and the thread that it blocks."""

    def __init__(self, place: SocketPlace, method: str, path: str, headers: dict[str, str]) -> None:
        self._http = http.client.HTTPConnection(place.host, place.port, timeout=CONNECT_SECONDS)
        self._line = method, path
        self._headers = headers if place.key is None else {**headers, "Authorization": f"Bearer {place.key}"}
        self._socket: socket.socket | None = None
        self._reply: http.client.HTTPResponse | None = None
        self._thread = ThreadPoolExecutor(1, "jjq-bytes")

    async def begin(self) -> None:
        """Connect, and send all but the body."""
        await self._run(self._begin)

    async def send(self, data: bytes) -> None:
        """Some of the body."""
        await self._run(lambda: self._send(memoryview(data)))

    async def answered(self, status: HTTPStatus) -> None:
        """Return when the server has answered as it should."""
        await self._run(lambda: self._answered(status))

    async def receive(self, size: int) -> bytes:
        """So many bytes of the answer."""
        return await self._run(lambda: self._receive(size))

    def close(self) -> None:
        """Hang up, which wakes the thread."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.submit(self._closed)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the connection for the bytes of an object broke: {error}") from None

    # In the thread ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._http.connect()
        self._socket = self._http.sock
        self._socket.settimeout(OBJECT_SECONDS)
        method, path = self._line
        self._http.putrequest(method, path, skip_accept_encoding=True)
        for name, value in self._headers.items():
            self._http.putheader(name, value)
        self._http.endheaders()

    def _send(self, data: memoryview) -> None:
        for at in range(0, len(data), _SLICE_BYTES):
            if self._socket is None or select.select([self._socket], [], [], 0)[0]:
                raise NotDirectly  # it answers before it has all: it refuses
            self._http.send(data[at : at + _SLICE_BYTES])

    def _answered(self, status: HTTPStatus) -> None:
        self._reply = self._http.getresponse()
        if self._reply.status != status:
            raise NotDirectly

    def _receive(self, size: int) -> bytes:
        buffer = bytearray(size)
        room, came = memoryview(buffer), 0
        while came < size:
            count = 0 if self._reply is None else self._reply.readinto(room[came:])
            if not count:
                raise ConnectionError("it ended early")
            came += count
        return cast("bytes", buffer)  # nobody changes it: a copy would cost

    def _closed(self) -> None:
        if self._reply is not None:
            self._reply.close()
        self._http.close()


def call_to_upload(place: SocketPlace, queue: str, upload: str, at: int, size: int) -> DirectCall:
    """The bytes of an upload from `at` on."""
    path = f"/v1/queues/{quote(queue, safe='')}/uploads/{quote(upload, safe='')}"
    headers = {"Upload-Offset": str(at), "Content-Length": str(size - at)}
    headers["Content-Type"] = "application/octet-stream"
    return DirectCall(place, "PATCH", path, headers)


def call_to_download(
    place: SocketPlace, queue: str, sha256: str, size: int, start: int, end: int
) -> DirectCall:
    """Bytes `start`..`end` of an object. As they are a range, the server leaves it to us to check them."""
    path = f"/v1/queues/{quote(queue, safe='')}/objects/{quote(sha256, safe='')}?size={size}"
    return DirectCall(place, "GET", path, {"Range": f"bytes={start}-{end - 1}"})
