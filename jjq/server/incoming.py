"""Messages on their way in: how many of one connection are received at a time, and how much of all together.

gRPC gives us a message when all of it has come, and joins its pieces on the event loop: 9 MiB take ten milliseconds,
and are in memory twice, before our code can refuse them. A message that no call has asked for stays at its client:
HTTP/2 sends at most `LOOKAHEAD_BYTES` of it ahead. So each call asks for its message when it is its turn:

    a new connection            has `RECEIVES_FIRST` of its messages received at a time
    a small message came        one more at a time, up to `RECEIVES_MAX`
    a large message came        `RECEIVES_FIRST` again; and for its next messages the connection waits for a place among
                                all large ones (`LargeMessages`), until it has sent small ones for a while

So clients with small requests do not wait for clients with large ones, and a client that stalls in the middle of a
message holds up its own connection only.

Bodies of HTTP wait for the same places before they are received; usually their size is known by then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Any

import grpc

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import InvalidInput
from jjq.limits import (
    HOLD_SECONDS,
    INCOMING_BYTES_MAX,
    LARGE_BYTES,
    RECEIVE_SECONDS,
    RECEIVES_FIRST,
    RECEIVES_MAX,
    SENDERS_MAX,
)

Context = grpc.aio.ServicerContext[bytes, bytes]


class LargePlace:
    """What one large message may take. It is given back once: by its user, or when its time is over."""

    __slots__ = ("_all", "_size", "_timer")

    def __init__(self, all_of_them: LargeMessages, size: int, seconds: float) -> None:
        self._all = all_of_them
        self._size = size
        self._timer = asyncio.get_running_loop().call_later(seconds, self.leave)
        all_of_them.bytes += size

    def leave(self) -> None:
        self._timer.cancel()
        size, self._size = self._size, 0
        if size:
            self._all.left(size)


class LargeMessages:
    """The large messages of all connections that are being received or worked on: one budget in bytes.

    A place is kept for a while only: a client may stall in the middle of a message, or send none, and a push may wait
    for what others do. Nobody else waits for that.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._line: dict[
            object, deque[tuple[int, asyncio.Future[LargePlace]]]
        ] = {}  # by connection, in turns
        self._looks = False

    async def enter(self, who: object, size: int) -> LargePlace:
        """Wait until a message of about `size` bytes may be received. Connections take turns."""
        if not self._line and self._fits(size):
            return LargePlace(self, size, RECEIVE_SECONDS)
        turn: asyncio.Future[LargePlace] = asyncio.get_running_loop().create_future()
        self._line.setdefault(who, deque()).append((size, turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let in at the very moment
                turn.result().leave()
            self._look_soon()
            raise

    def hold(self, size: int) -> LargePlace:
        """For a message that has already come, whether there is room for it or not: count it while it is worked on."""
        return LargePlace(self, size, HOLD_SECONDS)

    def left(self, size: int) -> None:
        self.bytes -= size
        self._look_soon()

    def _fits(self, size: int) -> bool:
        return not self.bytes or self.bytes + size <= INCOMING_BYTES_MAX

    def _look_soon(self) -> None:
        """Not at once: what was received is first counted as what is worked on."""
        if self._line and not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_soon(self._admit_waiting)

    def _admit_waiting(self) -> None:
        self._looks = False
        while self._line:
            who, waiting = next(iter(self._line.items()))
            size, turn = waiting[0]
            if not turn.done():
                if not self._fits(size):
                    return
                turn.set_result(LargePlace(self, size, RECEIVE_SECONDS))
            waiting.popleft()
            del self._line[who]
            if waiting:
                self._line[who] = waiting  # behind the others


class Sender:
    """One connection: what it sent recently, and its calls that have not asked for their message yet."""

    __slots__ = ("allowed", "expected", "line", "reading")

    def __init__(self) -> None:
        self.allowed = RECEIVES_FIRST  # messages of calls at a time …
        self.reading = 0  # … and now
        self.expected = 0  # bytes of its last large one; 0: none, or enough small ones since
        self.line: deque[asyncio.Future[None]] = deque()

    def came(self, size: int) -> None:
        """A message of `size` bytes is here."""
        if size >= LARGE_BYTES:
            self.allowed, self.expected = RECEIVES_FIRST, size
        elif self.allowed < RECEIVES_MAX:
            self.allowed += 1
        else:
            self.expected = 0


class Incoming:
    """All connections of a server."""

    def __init__(self) -> None:
        self.large = LargeMessages()
        self._senders: BoundedDict[str, Sender] = BoundedDict(SENDERS_MAX)

    def sender(self, context: Context) -> Sender:
        """The connection of a call."""
        peer = context.peer()
        found = self._senders.get(peer)
        if found is None:
            found = self._senders[peer] = Sender()
        return found

    async def receive(self, context: Context) -> bytes:
        """The only message of a call, when it is its turn."""
        sender = self.sender(context)
        if sender.line or sender.reading >= sender.allowed:
            await self._wait(sender)
        else:
            sender.reading += 1
        try:
            raw: Any = await self.reading(sender, context)
            if raw is grpc.aio.EOF:
                raise InvalidInput("the call has no request: send one message")
            sender.came(len(raw))
        finally:
            sender.reading -= 1
            if sender.line:
                self._admit_waiting(sender)
        return raw  # type: ignore[no-any-return]

    def reading(self, sender: Sender, context: Context) -> Awaitable[Any]:
        """The next message of a call, or of a stream. The caller then says what came (`Sender.came`)."""
        return self._read_large(sender, context) if sender.expected else context.read()

    async def _read_large(self, sender: Sender, context: Context) -> Any:
        place = await self.large.enter(sender, sender.expected)
        try:
            return await context.read()
        finally:
            place.leave()

    async def _wait(self, sender: Sender) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sender.line.append(turn)
        self._admit_waiting(sender)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let in at the very moment
                sender.reading -= 1
                self._admit_waiting(sender)
            raise

    def _admit_waiting(self, sender: Sender) -> None:
        while sender.line and (sender.line[0].done() or sender.reading < sender.allowed):
            turn = sender.line.popleft()
            if not turn.done():
                sender.reading += 1
                turn.set_result(None)
