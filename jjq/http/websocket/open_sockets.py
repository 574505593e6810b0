"""All WebSockets of a server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from coldstore.shared.errors import Exhausted
from jjq.limits import (
    HTTP_LINGER_SECONDS,
    WEBSOCKET_FRAME_BYTES_MAX,
    WEBSOCKET_MESSAGE_BYTES_MAX,
    WEBSOCKET_PING_SECONDS,
    WEBSOCKET_PONG_SECONDS,
    WEBSOCKETS_MAX,
)
from jjq.server.outgoing import Outgoing

_LAST_SECONDS: Final = 1.0  # for the last frames to leave, when stopping
_CODES: Final = (1001, 1002, 1007, 1008, 1009, 1011, 1013)  # that are shown from the beginning
_BY: Final = ("direction",)


class OpenSocket(Protocol):
    """What is done to a connection when the server stops; see `WebSocket`."""

    def drain(self) -> None: ...

    def break_off(self) -> None: ...

    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """Of one connection, but for `most`; tests have smaller ones."""

    most: int = WEBSOCKETS_MAX
    frame_bytes: int = WEBSOCKET_FRAME_BYTES_MAX
    message_bytes: int = WEBSOCKET_MESSAGE_BYTES_MAX
    ping_seconds: float = WEBSOCKET_PING_SECONDS  # without a byte from the client, then it is asked …
    pong_seconds: float = WEBSOCKET_PONG_SECONDS  # … and has so long to answer
    close_seconds: float = HTTP_LINGER_SECONDS  # for the client's answer to a close


class OpenSockets:
    """See the module's docstring."""

    def __init__(
        self,
        outgoing: Outgoing,
        log: structlog.typing.FilteringBoundLogger,
        limits: SocketLimits | None = None,
    ) -> None:
        self.outgoing = outgoing
        self.log = log
        self.limits = limits or SocketLimits()
        self.open: set[OpenSocket] = set()
        self.refused = 0  # so far, as there was no room
        self.frames_in = self.frames_out = self.bytes_in = self.bytes_out = 0
        self.closes: Counter[int] = Counter(dict.fromkeys(_CODES, 0))  # by the code that we sent first
        self._gone: asyncio.Event | None = None

    def check_room(self) -> None:
        """Refuse one more if there are too many."""
        if len(self.open) >= self.limits.most:
            self.refused += 1
            raise Exhausted(
                f"the server has {self.limits.most} open WebSockets, and takes no more: close some, retry",
                retry_after=1.0,
            )

    def enter(self, socket: OpenSocket) -> None:
        self.open.add(socket)

    def leave(self, socket: OpenSocket) -> None:
        self.open.discard(socket)
        if self._gone is not None and not self.open:
            self._gone.set()

    async def stop(self, grace: float) -> None:
        """Finish what is under way for `grace` seconds, and close all with 1001."""
        for each in list(self.open):
            each.drain()
        if not await self._until_gone(grace):
            for each in list(self.open):
                each.break_off()
            if not await self._until_gone(_LAST_SECONDS):
                for each in list(self.open):
                    each.abort()
                await self._until_gone(_LAST_SECONDS)

    async def _until_gone(self, seconds: float) -> bool:
        if not self.open:
            return True
        self._gone = asyncio.Event()
        try:
            await asyncio.wait_for(self._gone.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def families(self) -> Iterable[Metric]:
        """The figures of all connections so far."""
        yield GaugeMetricFamily("jjq_websocket_connections", "WebSockets open now", len(self.open))
        yield CounterMetricFamily(
            "jjq_websocket_connections_refused", "WebSockets that found no room", self.refused
        )
        frames = CounterMetricFamily("jjq_websocket_frames", "Frames of WebSockets", labels=_BY)
        size = CounterMetricFamily("jjq_websocket_bytes", "Bytes of frames, without their heads", labels=_BY)
        for direction, count, nbytes in (
            ("in", self.frames_in, self.bytes_in),
            ("out", self.frames_out, self.bytes_out),
        ):
            frames.add_metric((direction,), count)
            size.add_metric((direction,), nbytes)
        closes = CounterMetricFamily(
            "jjq_websocket_closes", "WebSockets that the server closed, by code", labels=("code",)
        )
        for code, count in list(self.closes.items()):
            closes.add_metric((str(code),), count)
        yield from (frames, size, closes)
