"""The doors of a server: gRPC, and the same messages over the WebSocket transport; `http_door` has REST.

All are asked alike, with the messages of gRPC. A call that gives no reply raises `CallFailed`, which says whether it
certainly did nothing.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import grpc
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from jjq.v1 import jjq_pb2 as pb
from jjq.v1 import jjq_pb2_grpc
from jjq.wire.call_frames import HEAD_BYTES, PATH, FrameKind, encode_call, split_frame
from jjq.wire.status import status_message_in
from tests.faults.history import Type, type_of_call, type_of_error

OPTIONS = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200),
           ("grpc.min_reconnect_backoff_ms", 1_000), ("grpc.use_local_subchannel_pool", 1)]  # fmt: skip


class CallFailed(Exception):
    """A call without a reply."""

    def __init__(self, type: Type, code: str, why: str = "", *, away: bool = False) -> None:
        super().__init__(f"{code}: {why}")
        self.type: Type = type
        self.code = code
        self.why = why[:200]
        self.away = away  # the server may not be there


class Door(ABC):
    """One way to one server; it opens by itself, again and again."""

    @abstractmethod
    async def ask(self, method: str, request: Any, seconds: float) -> Any:
        """The reply."""


class GrpcDoor(Door):
    def __init__(self, address: str) -> None:
        self.stub: Any = jjq_pb2_grpc.JjqStub(grpc.aio.insecure_channel(address, OPTIONS))

    async def ask(self, method: str, request: Any, seconds: float) -> Any:
        try:
            return await getattr(self.stub, method)(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            away = error.code() is grpc.StatusCode.UNAVAILABLE
            raise CallFailed(
                type_of_call(error), error.code().name, error.details() or "", away=away
            ) from error


class SocketDoor(Door):
    """The WebSocket transport, one call at a time."""

    def __init__(self, address: str) -> None:
        self._url = f"ws://{address}{PATH}"
        self._socket: ClientConnection | None = None
        self._number = 0

    async def ask(self, method: str, request: Any, seconds: float) -> Any:
        sent = False
        try:
            async with asyncio.timeout(seconds):
                socket = await self._open()
                self._number += 1
                sent = True
                await socket.send(encode_call(self._number, method, request.SerializeToString()))
                while True:
                    kind, raw = await self._reply(socket)
                    if kind is FrameKind.REPLY:
                        return getattr(pb, f"{method}Response").FromString(raw)
                    if kind is FrameKind.ERROR:
                        error = status_message_in(raw)
                        raise CallFailed(type_of_error(error), error.code, str(error))
        except (OSError, TimeoutError, WebSocketException) as error:
            await self._close()
            raise CallFailed("info" if sent else "fail", "BROKEN", repr(error), away=True) from error

    async def _open(self) -> ClientConnection:
        if self._socket is None:
            self._socket = await connect(self._url, max_size=None, compression=None, ping_interval=None)
        return self._socket

    async def _reply(self, socket: ClientConnection) -> tuple[FrameKind, bytes]:
        """The next frame of the call under way; a server that stops says so, and still answers it."""
        while True:
            data = await socket.recv()
            assert isinstance(data, bytes)
            kind, number = split_frame(data)
            if number == self._number:
                return kind, data[HEAD_BYTES:]

    async def _close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            with suppress(OSError, WebSocketException):
                socket.transport.abort()
