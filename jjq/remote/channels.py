"""The way to the servers: several addresses, one of which is in use, and connections to them.

Lane     One connection. Long streams get further lanes once one carries enough of them: a server limits the
         calls of a connection, and those above the limit would silently wait.
Link     All addresses of a client, and its lanes. Any node of a cluster answers any request, so if one cannot
         be reached the next one is asked.
Hints    Which server owns a queue, as servers have said. A hint is used once a connection to that server
         stands. Until then, requests go through the servers that the user named, which forward them. So an
         address that is only valid inside of a cluster does no harm.

Patience begins with the first contact. A client that has reached no server yet hears within two seconds that all
its addresses refuse it, and why (contact.py): most likely its settings are wrong. One that has reached a server
goes on trying for as long as its verbs may take.

`await_call` and `read_message` await gRPC: every failure becomes one of our own errors, and a cancellation stays one.
grpc.aio loses a cancellation that comes while a call fails: it raises the failure instead, and a caller that
tries again after failures would do so for ever. The other way round, a call whose connection we closed raises
`CancelledError` in a task that nobody cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import grpc

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Unavailable
from jjq.limits import (
    CHANNEL_STREAMS_MAX,
    CONNECT_SECONDS,
    HINT_SECONDS,
    HINTS_MAX,
    MEET_SECONDS,
    WEBSOCKET_REQUEST_BYTES_MAX,
)
from jjq.remote.contact import describe, obstacle
from jjq.remote.settings import RemoteSettings, SocketPlace, split_targets
from jjq.wire.services import READING, SOCKET_SERVICES
from jjq.wire.status import status_in

if TYPE_CHECKING:
    from jjq.remote.call_socket import ClientSocket, SocketStream
    from jjq.remote.socket_finder import SocketFinder

Unary = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
ServerStream = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
BothStreams = grpc.aio.StreamStreamMultiCallable[bytes, bytes]
Call = grpc.aio.StreamStreamCall[bytes, bytes]
Readable: TypeAlias = "grpc.aio.UnaryStreamCall[bytes, bytes] | Call | SocketStream"
T = TypeVar("T")


async def await_call(work: Awaitable[T], *, writes: bool = True) -> T:
    """What a call, or a stream's next message, comes to; after an error, what `writes` may have been done."""
    before = _cancellations()
    try:
        return await work
    except grpc.aio.AioRpcError as error:
        if _cancellations() > before:
            raise asyncio.CancelledError from None
        raise status_in(error, writes=writes) from None
    except asyncio.CancelledError:
        if _cancellations() > before:
            raise
        closed = "the client was closed while it waited"
        raise Unavailable(f"{closed}; the outcome is unknown" if writes else closed) from None


async def read_message(call: Readable, *, writes: bool = True) -> bytes | None:
    """A stream's next message, None at a good end."""
    before = _cancellations()
    raw = await await_call(call.read(), writes=writes)
    if isinstance(raw, bytes):
        return raw
    if _cancellations() > before:
        raise asyncio.CancelledError
    return None


def _cancellations() -> int:
    """How often the present task was asked to stop. Those it lived through, to clean up, count as well."""
    return cast("asyncio.Task[object]", asyncio.current_task()).cancelling()


class Lane:
    """One connection to one server. Messages are bytes here; jjq.wire knows what they say."""

    def __init__(self, target: str, settings: RemoteSettings, clock: Clock) -> None:
        self.target = target
        self.strict = settings.transport == "websocket"
        self._sockets: SocketFinder | None = None
        if settings.transport != "grpc" and settings.service in SOCKET_SERVICES:
            from jjq.remote.socket_finder import SocketFinder  # with the library of WebSockets

            self._sockets = SocketFinder(target, settings, self._ask, clock)
        self.streams = 0
        self._service = settings.service
        options = settings.options()
        if settings.tls is None:
            self._channel = grpc.aio.insecure_channel(target, options)
        else:
            self._channel = grpc.aio.secure_channel(target, settings.tls.credentials(), options)
        self._unary: dict[str, Unary] = {}
        self._key = None if settings.key is None else (("authorization", f"Bearer {settings.key}"),)

    def socket(self) -> ClientSocket | None:
        """The WebSocket beside this connection, for single calls and subscriptions; None: there is none now."""
        return None if self._sockets is None else self._sockets.find()

    def socket_place(self, left: Callable[[], None]) -> SocketPlace | None:
        """Where it leads, if it stands, for those who make one of their own; `left` is called when it ends."""
        return None if self._sockets is None else self._sockets.place(left)

    async def http_place(self, seconds: float) -> SocketPlace | None:
        """Where the same server listens for HTTP, if it is to be used and can be reached."""
        return None if self._sockets is None else await self._sockets.http_place(seconds)

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        """A call with one reply, over the socket if there is one; large requests go over gRPC."""
        socket = self.socket()
        if socket is not None and len(request) <= WEBSOCKET_REQUEST_BYTES_MAX:
            return await socket.call(method, request, seconds)
        if socket is not None:
            await self._connected(seconds)  # nobody has looked yet, and an error must be certain
        return await self._ask(method, request, seconds)

    async def _ask(self, method: str, request: bytes, seconds: float) -> bytes:
        return await await_call(self.unary(method)(request, timeout=seconds), writes=method not in READING)

    def subscription(self) -> Call | SocketStream:
        """A Subscribe stream that is about to begin."""
        socket = self.socket()
        return self.both_streams("Subscribe")() if socket is None else socket.stream("Subscribe")

    def unary(self, method: str) -> Unary:
        found = self._unary.get(method)
        if found is None:
            found = self._unary[method] = self._show_key(
                self._channel.unary_unary(f"/{self._service}/{method}")
            )
        return found

    def server_stream(self, method: str) -> ServerStream:
        return self._show_key(self._channel.unary_stream(f"/{self._service}/{method}"))

    def both_streams(self, method: str) -> BothStreams:
        return self._show_key(self._channel.stream_stream(f"/{self._service}/{method}"))

    def _show_key(self, call: T) -> T:
        """The same method, called with our key."""
        return call if self._key is None else cast("T", partial(cast("Any", call), metadata=self._key))

    async def ready(self, seconds: float) -> None:
        """Connect, or raise `Unavailable`: then nothing was sent, for certain."""
        if self.socket() is None:
            await self._connected(seconds)
            if self.strict and self._sockets is not None:
                await self._sockets.wait(seconds)

    async def _connected(self, seconds: float) -> None:
        ready = grpc.ChannelConnectivity.READY
        state = self._channel.get_state(try_to_connect=True)
        if state is ready:
            return
        try:
            async with asyncio.timeout(min(seconds, CONNECT_SECONDS)):
                while state is not ready:
                    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        raise Unavailable(f"cannot connect to {self.target}", sent=False)
                    await self._channel.wait_for_state_change(state)
                    state = self._channel.get_state(try_to_connect=True)
        except TimeoutError:
            slow = f"cannot connect to {self.target} within {min(seconds, CONNECT_SECONDS):g} s"
            raise Unavailable(slow, sent=False) from None

    async def close(self) -> None:
        if self._sockets is not None:
            await self._sockets.close()
        await self._channel.close()


class Hints:
    """Owners of queues, by address."""

    def __init__(self, connect: Callable[[str], Awaitable[None]], clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._owners: BoundedDict[str, str] = BoundedDict(HINTS_MAX)  # by queue: reached
        self._unreached: BoundedDict[str, str] = BoundedDict(HINTS_MAX)  # by queue: not reached yet
        self._reached: set[str] = set()
        self._trying: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, float] = {}  # when an address may be tried again

    def owner(self, queue: str) -> str | None:
        """The server to ask directly, if one is known and reached."""
        return self._owners.get(queue)

    def learn(self, queue: str, owner: str) -> None:
        """A server said that `owner` has the queue."""
        if self._owners.get(queue) == owner:
            return
        if self.reach(owner):
            self._owners[queue] = owner
        else:
            self._unreached[queue] = owner

    def reach(self, address: str) -> bool:
        """Whether a connection to `address` stands; if not, one is begun, unless that failed just now."""
        if address in self._reached:
            return True
        if address not in self._trying and self._clock.monotonic() >= self._again.get(address, 0.0):
            self._trying[address] = asyncio.create_task(self._try(address), name=f"jjq-hint-{address}")
        return False

    async def _try(self, address: str) -> None:
        try:
            await self._connect(address)
        except Unavailable:
            self._again[address] = self._clock.monotonic() + HINT_SECONDS
        else:
            self._reached.add(address)
        finally:
            del self._trying[address]
            for queue in [queue for queue, owner in self._unreached.items() if owner == address]:
                self._unreached.pop(queue)
                if address in self._reached:
                    self._owners[queue] = address

    def failed(self, address: str) -> None:
        """It did not answer: forget all that leads there."""
        if address in self._reached:
            self._reached.discard(address)
            for queue in [queue for queue, owner in self._owners.items() if owner == address]:
                self._owners.pop(queue)

    async def close(self) -> None:
        trying = list(self._trying.values())
        for task in trying:
            task.cancel()
        await asyncio.gather(*trying, return_exceptions=True)


class Link:
    """All addresses, and the lanes to them."""

    def __init__(self, targets: str, settings: RemoteSettings, clock: Clock) -> None:
        self.targets = split_targets(targets)
        self.clock = clock
        self.closed = False
        self.follows = settings.direct
        self.patient = settings.patient
        self._settings = settings
        self._current = 0
        self._lanes: dict[str, list[Lane]] = {}
        self._hints = Hints(self._connect, clock)
        # Nodes among themselves know where the others are, and leave it to clients to be patient.
        self._met = settings.patient_at_first or not settings.patient
        self._meeting: asyncio.Task[None] | None = None

    async def meet(self) -> None:
        """Return if a server was ever reached, or may be; else raise why none can be, and that nothing was sent.

        A client that has reached a server is patient from then on: the server restarts, or another takes over.
        """
        if self._met:
            return
        if self._meeting is None or self._meeting.done():
            self._meeting = asyncio.create_task(self._meet(), name="jjq-meet")
            self._meeting.add_done_callback(lambda done: done.cancelled() or done.exception())
        await await_call(asyncio.shield(self._meeting), writes=False)

    async def _meet(self) -> None:
        for _ in self.targets:
            lane = self.lane()
            try:
                await lane.ready(MEET_SECONDS)
            except Unavailable:
                self.failed(lane)
            else:
                self._met = True
                return
        looks = await asyncio.gather(*(obstacle(target, self._settings.tls) for target in self.targets))
        found = [look for look in looks if look is not None]
        if len(found) == len(looks):
            raise Unavailable(describe(found), reached=False)

    def target(self, queue: str = "") -> str:
        """The address to ask for a queue."""
        return self._hints.owner(queue) or self.targets[self._current]

    def lane(self, queue: str = "") -> Lane:
        """The connection for calls."""
        target = self.target(queue)
        lanes = self._lanes.get(target)
        return lanes[0] if lanes else self._add(target)

    def socket_place(self, queue: str, left: Callable[[], None]) -> SocketPlace | None:
        """Where the WebSocket for a queue leads, if one stands; from any thread."""
        lanes = self._lanes.get(self.target(queue))
        return lanes[0].socket_place(left) if lanes and not self.closed else None

    @contextmanager
    def stream(self, queue: str = "", target: str | None = None) -> Iterator[Lane]:
        """A connection with room for one more long stream."""
        target = target or self.target(queue)
        free = [lane for lane in self._lanes.get(target, ()) if lane.streams < CHANNEL_STREAMS_MAX]
        lane = free[0] if free else self._add(target)
        lane.streams += 1
        try:
            yield lane
        finally:
            lane.streams -= 1

    def _add(self, target: str) -> Lane:
        if self.closed:
            raise Unavailable("the client is closed", sent=False)
        lane = Lane(target, self._settings, self.clock)
        self._lanes.setdefault(target, []).append(lane)
        return lane

    async def _connect(self, target: str) -> None:
        lanes = self._lanes.get(target)
        await (lanes[0] if lanes else self._add(target)).ready(CONNECT_SECONDS)

    def learn(self, queue: str, owner: str | None) -> None:
        """A server said who owns the queue: ask there, as soon as it can be reached."""
        if owner and queue and self._settings.direct and not self.closed:
            self._hints.learn(queue, owner)

    def reach(self, target: str) -> bool:
        """Whether a connection to `target`, which a server named, stands; if not, one is begun."""
        return self._settings.direct and not self.closed and self._hints.reach(target)

    def failed(self, lane: Lane) -> None:
        """`lane` did not answer: use the next address from now on, unless someone has moved on already."""
        self._hints.failed(lane.target)
        if self.targets[self._current] == lane.target:
            self._current = (self._current + 1) % len(self.targets)

    async def close(self) -> None:
        self.closed = True
        if self._meeting is not None:
            self._meeting.cancel()
        await self._hints.close()
        lanes = [lane for lanes in self._lanes.values() for lane in lanes]
        for known in self._lanes.values():
            known.clear()
        await asyncio.gather(*(lane.close() for lane in lanes))
