"""The way to the servers: several addresses, one of which is in use, and connections to it.

Any node of a cluster answers any request, so where one cannot be reached the next one is asked. Once a
server has told who owns a queue, requests for that queue go there directly (hints.py). A lane is one
connection; long streams get further lanes once one carries enough of them, since a server limits the
calls of a connection and those above the limit would silently wait.

Patience begins with the first contact. A client that has reached no server yet hears within two seconds that all
its addresses refuse it, and why (contact.py): most likely its settings are wrong. One that has reached a server
goes on trying for as long as its verbs have time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Unavailable
from jjq.limits import CHANNEL_STREAMS_MAX, CONNECT_SECONDS, MEET_SECONDS
from jjq.remote.called import called
from jjq.remote.contact import obstacle, told
from jjq.remote.hints import Hints
from jjq.remote.settings import RemoteSettings, split_targets

Unary = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
ServerStream = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
BothStreams = grpc.aio.StreamStreamMultiCallable[bytes, bytes]


class Lane:
    """One connection to one server. Messages are bytes here; jjq.wire knows what they say."""

    def __init__(self, target: str, settings: RemoteSettings) -> None:
        self.target = target
        self.streams = 0
        self._service = settings.service
        options = settings.options()
        if settings.tls is None:
            self._channel = grpc.aio.insecure_channel(target, options)
        else:
            self._channel = grpc.aio.secure_channel(target, settings.tls.credentials(), options)
        self._unary: dict[str, Unary] = {}

    def unary(self, method: str) -> Unary:
        found = self._unary.get(method)
        if found is None:
            found = self._unary[method] = self._channel.unary_unary(f"/{self._service}/{method}")
        return found

    def server_stream(self, method: str) -> ServerStream:
        return self._channel.unary_stream(f"/{self._service}/{method}")

    def both_streams(self, method: str) -> BothStreams:
        return self._channel.stream_stream(f"/{self._service}/{method}")

    async def ready(self, seconds: float) -> None:
        """Connect, or raise `Unavailable`: then nothing was sent, for certain."""
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
        await self._channel.close()


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
        """Return if a server was ever reached, or may be; else say at once why none is, and that nothing was sent.

        Who has reached one is patient from then on: it restarts, or another one takes over.
        """
        if self._met:
            return
        if self._meeting is None or self._meeting.done():
            self._meeting = asyncio.create_task(self._meet(), name="jjq-meet")
            self._meeting.add_done_callback(lambda done: done.cancelled() or done.exception())
        await called(asyncio.shield(self._meeting), writes=False)

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
            raise Unavailable(told(found), reached=False)

    def target(self, queue: str = "") -> str:
        """The address to ask for a queue."""
        return self._hints.owner(queue) or self.targets[self._current]

    def lane(self, queue: str = "") -> Lane:
        """The connection for calls."""
        target = self.target(queue)
        lanes = self._lanes.get(target)
        return lanes[0] if lanes else self._add(target)

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
        lane = Lane(target, self._settings)
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
