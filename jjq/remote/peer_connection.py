"""The connection over which this node hands pushes to another node; made when first needed, and again after a break."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias

from coldstore.shared.clock import Clock
from coldstore.shared.errors import JjqError, Unavailable
from coldstore.shared.results import Receipt
from jjq.addresses import split_address
from jjq.limits import CONNECT_SECONDS, WIRE_AGAIN_SECONDS, WIRE_NUMBER_MAX
from jjq.remote.multiplexer import settle
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.arrow_field import Span
from jjq.wire.batches import parse
from jjq.wire.convert import receipt_in
from jjq.wire.peer_protocol import GREETING, KEY_NUMBER, Frames, greeting_of
from jjq.wire.status import error_in

Outcome: TypeAlias = Receipt | JjqError
Settle: TypeAlias = Callable[[Outcome], None]


class PeerAddress(NamedTuple):
    """Where a node takes the pushes of others, and its name."""

    address: str
    node: str


class PeerConnection(Frames):
    """One connection. A push is sent once; if the connection breaks before its result, the outcome is unknown."""

    def __init__(self, place: PeerAddress, seconds: float, key: str | None = None) -> None:
        super().__init__(greeting_of(place.node))
        self._key = key
        self.closed = False
        self._name = place.address
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._asked: dict[int, tuple[Settle, float]] = {}  # in the order of sending
        self._number = 0
        self._heard = 0.0
        self._look: asyncio.TimerHandle | None = None
        self._why = "the connection broke"

    async def ready(self) -> None:
        """Return when the other side has greeted; until then nothing may be pushed."""
        await self._ready

    def push(self, message: bytes) -> asyncio.Future[Receipt]:
        """Sent at once; the future is the result."""
        result: asyncio.Future[Receipt] = self._loop.create_future()
        self.send(message, partial(settle, result))
        return result

    def send(self, message: bytes, tell: Settle) -> None:
        """Sent at once; `tell` is called with what comes of it."""
        self._number = self._number + 1 if self._number < WIRE_NUMBER_MAX else 1
        now = self._loop.time()
        if not self._asked:
            self._heard = now  # nothing was to be heard before
            if self._look is None:
                self._look = self._loop.call_later(self._seconds / 4, self._overdue)
        self._asked[self._number] = (tell, now)
        self.say(self._number, message)

    def close(self) -> None:
        self._why = "the client was closed"
        self.transport.close()
        self._lost()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(GREETING)

    def greeted(self) -> None:
        if self._key is not None:
            self.say(KEY_NUMBER, self._key.encode())
        if not self._ready.done():
            self._ready.set_result(None)

    def spoilt(self, why: str) -> None:
        self._why = f"it does not speak as nodes do: {why}"
        self._lost()

    def heard(self, number: int, message: Span) -> None:
        self._heard = self._loop.time()
        tell, _ = self._asked.pop(number, (None, 0.0))
        if tell is not None:  # else it took too long, and its caller was told so
            tell(_outcome(message.bytes))

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._why = f"the connection broke: {error}"
        self._lost()

    def _lost(self) -> None:
        self.closed = True
        if self._look is not None:
            self._look.cancel()
        if not self._ready.done():
            self._ready.set_exception(Unavailable(f"{self._name}: {self._why}"))
            self._ready.exception()  # nobody may wait for it any more
        asked, self._asked = self._asked, {}
        for tell, _ in asked.values():
            self._fail(tell, self._why)

    def _overdue(self) -> None:
        """Give up what has waited for too long; and the connection, if nothing at all comes from it."""
        self._look = None
        due = self._loop.time() - self._seconds
        if self._asked and self._heard <= due:
            self._why = f"nothing came within {self._seconds:g} s"
            self.transport.abort()
            self._lost()
            return
        while self._asked:
            number, (tell, sent) = next(iter(self._asked.items()))
            if sent > due:
                self._look = self._loop.call_later(self._seconds / 4, self._overdue)
                return
            del self._asked[number]
            self._fail(tell, f"no result within {self._seconds:g} s")

    def _fail(self, tell: Settle, why: str) -> None:
        tell(Unavailable(f"{self._name}: {why}; the outcome is unknown"))


def _outcome(message: bytes) -> Outcome:
    try:
        answer = parse(pb.PushResult, message)
        done = answer.WhichOneof("result") == "receipt"
        return receipt_in(answer.receipt) if done else error_in(answer.error)
    except JjqError as error:
        return Unavailable(f"{error}; the outcome is unknown")


class PeerConnector:
    """Makes and keeps the connection to one node. `where` gives the node's address, if it has one."""

    def __init__(
        self,
        where: Callable[[], PeerAddress | None],
        tls: Callable[[], ssl.SSLContext] | None,
        seconds: float,
        clock: Clock,
        key: str | None = None,
    ) -> None:
        self._key = key
        self._where = where
        self._tls = tls
        self._seconds = seconds
        self._clock = clock
        self._asking: PeerConnection | None = None
        self._trying: asyncio.Task[None] | None = None
        self._again = 0.0
        self._closed = False

    def at_hand(self) -> PeerConnection | None:
        """The connection, if it stands; if not, one is begun, unless that failed just now."""
        if self._asking is not None:
            if not self._asking.closed:
                return self._asking
            self._asking = None
        if self._trying is None and not self._closed and self._clock.monotonic() >= self._again:
            self._trying = asyncio.create_task(self._try(), name="jjq-wire")
        return None

    async def _try(self) -> None:
        self._again = self._clock.monotonic() + WIRE_AGAIN_SECONDS
        try:
            place = self._where()
            if place is not None:
                with suppress(OSError, TimeoutError, JjqError):  # ssl.SSLError is an OSError
                    async with asyncio.timeout(CONNECT_SECONDS):
                        self._asking = await self._connect(place)
        finally:
            self._trying = None

    async def _connect(self, place: PeerAddress) -> PeerConnection:
        host, port = split_address(place.address, "wire")
        tls = None if self._tls is None else self._tls()
        _, asking = await asyncio.get_running_loop().create_connection(
            lambda: PeerConnection(place, self._seconds, self._key),
            host,
            port,
            ssl=tls,
            server_hostname=None if tls is None else host,
        )
        try:
            await asking.ready()
        except BaseException:
            asking.close()
            raise
        return asking

    async def close(self) -> None:
        self._closed = True
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait([self._trying])
        if self._asking is not None:
            self._asking.close()
