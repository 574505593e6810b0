"""The side that is asked: pushes of other nodes, to the queues of this one.

Pushes begin in the order in which they come, as on a PushStream, and each is answered when it is done. They
are for this node or refused with `Fenced`, never forwarded. A connection is not read further while it has too
much under way, so the other node is held back. What has begun is finished even if its connection is gone.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

import structlog

from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput, JjqError
from hotstore.port import Store
from jjq.access.keyring import Keyring
from jjq.limits import HANDSHAKE_SECONDS, STREAM_BYTES_MAX, STREAM_PUSHES_MAX, WIRES_MAX
from jjq.server.loop_steps import Turns
from jjq.server.meter import Meter
from jjq.server.shutdown import Drain
from jjq.server.unary import decode_push, push
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.arrow_field import Span
from jjq.wire.convert import receipt_out
from jjq.wire.peer_protocol import GREETING, KEY_NUMBER, Frames, greeting_of
from jjq.wire.status import error_out

_LAST_SECONDS: Final = 1.0  # to send what was answered, when stopping


class PeerListener:
    """Listens, from `start` to `close`."""

    def __init__(
        self,
        node: str,
        store: Store,
        drain: Drain,
        turns: Turns,
        meter: Meter,
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
        keys: Keyring | None = None,
    ) -> None:
        self.keys = keys
        self.greeting = greeting_of(node)
        self.store = store
        self.drain = drain
        self.turns = turns
        self.meter = meter
        self.clock = clock
        self.log = log
        self.wires: set[Asked] = set()
        self.paused = False
        self._listening: asyncio.Server | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """The port, which is any free one if `port` is 0."""
        loop = asyncio.get_running_loop()
        seconds = None if tls is None else HANDSHAKE_SECONDS
        try:
            self._listening = await loop.create_server(
                lambda: Asked(self), host, port, ssl=tls, ssl_handshake_timeout=seconds, reuse_port=False
            )
        except OSError as error:
            raise InvalidInput(
                f"cannot listen for other nodes on {host}:{port}: {error.strerror}; choose another peer_port"
            ) from None
        return int(self._listening.sockets[0].getsockname()[1])

    def pause(self) -> None:
        """Take no more; what is under way is still answered."""
        self.paused = True
        if self._listening is not None:
            self._listening.close()
        for wire in self.wires:
            wire.pause()

    async def close(self) -> None:
        """Hang up, once what was answered is sent; on those that do not take it, at once."""
        self.pause()
        wires = list(self.wires)
        for wire in wires:
            wire.transport.close()
        if wires:
            await asyncio.wait([wire.lost for wire in wires], timeout=_LAST_SECONDS)
        for wire in wires:
            wire.transport.abort()


class Asked(Frames):
    """One connection of another node."""

    def __init__(self, listener: PeerListener) -> None:
        super().__init__(GREETING)
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._bytes = 0  # under way
        self._pushes = 0
        self._stuck = False
        self._key: str | None = None  # that the other node shows
        self._order = asyncio.Lock()  # a large push is decoded in steps, and none that came later may pass it
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._listener.paused:  # while this one was being made
            self.transport.abort()
            return
        if len(self._listener.wires) >= WIRES_MAX:
            self.transport.abort()
            self._listener.log.warning("too many connections of other nodes", most=WIRES_MAX)
            return
        self._listener.wires.add(self)
        self._listener.meter.open += 1
        self._late = self._loop.call_later(HANDSHAKE_SECONDS, self.transport.abort)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        if self in self._listener.wires:
            self._listener.wires.discard(self)
            self._listener.meter.open -= 1
        if self._late is not None:
            self._late.cancel()

    def greeted(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self.transport.write(self._listener.greeting)

    def spoilt(self, why: str) -> None:
        who = self.transport.get_extra_info("peername")
        self._listener.log.warning("a connection for other nodes was ended", peer=who, why=why)

    def heard(self, number: int, message: Span) -> None:
        if number == KEY_NUMBER:
            self._key = message.bytes.decode("latin-1")
            return
        self._listener.meter.received(message.size)
        self._bytes += message.size
        self._pushes += 1
        if self._bytes > STREAM_BYTES_MAX or self._pushes >= STREAM_PUSHES_MAX:
            self._read(False)
        self._listener.drain.keep(self._loop.create_task(self._push(number, message)))

    async def _push(self, number: int, message: Span) -> None:
        """A cancelled one is of unknown outcome, so it has no answer: the connection ends instead."""
        meter, clock = self._listener.meter, self._listener.clock
        began = clock.monotonic()
        try:
            if self._listener.keys is not None:
                self._listener.keys.require_peer(self._key)
            async with self._order:
                request, payload = await decode_push(message, self._listener.turns)
            receipt = await push(self._listener.store, request, payload, request.queue)
            meter.moved(receipt.count)
            result = pb.PushResult(receipt=receipt_out(receipt))
        except Exception as error:
            if not isinstance(error, JjqError):
                self._listener.log.error("unforeseen", method=meter.method, exc_info=error)
            result = pb.PushResult(error=error_out(error))
        finally:
            self._bytes -= message.size
            self._pushes -= 1
        meter.took(clock.monotonic() - began)
        if not self.transport.is_closing():
            raw = result.SerializeToString()
            meter.sent(len(raw))
            self.say(number, raw)
            self._read_on()

    def pause_writing(self) -> None:
        """It does not take its results: no more pushes until it does."""
        self._stuck = True
        self._read(False)

    def resume_writing(self) -> None:
        self._stuck = False
        self._read_on()

    def _read_on(self) -> None:
        held = self._stuck or self._listener.paused
        if not held and self._bytes <= STREAM_BYTES_MAX // 2 and self._pushes < STREAM_PUSHES_MAX:
            self._read(True)

    def pause(self) -> None:
        """Read no more: the listener is paused, so nothing resumes it."""
        self._read(False)

    def _read(self, on: bool) -> None:
        if self.transport.is_closing() or on == self.transport.is_reading():
            return
        if on:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()
