"""Messages on their way in: how many of one connection are received at a time.

gRPC gives us a message when all of it is here, and joins its pieces on the event loop: 9 MiB take ten milliseconds,
and are in memory twice, before anything of ours can refuse them. A message that nobody has asked for stays with its
client: HTTP/2 sends `LOOKAHEAD_BYTES` of it ahead and no more. So a call asks for its message when it is its turn:

    a new connection            has `RECEIVES_FIRST` of its messages received at a time
    a small message came        one more at a time, up to `RECEIVES_MAX`
    a large message came        `RECEIVES_FIRST` again; and the connection also waits while too much waits to be
                                decoded (`Turns.bytes`), until it has sent small ones for a while

So nobody who sends small requests waits for those who send large ones, and a client that stalls in the middle of a
message holds up its own connection only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import grpc

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import InvalidInput
from jjq.limits import LARGE_BYTES, RECEIVES_FIRST, RECEIVES_MAX, SENDERS_MAX
from jjq.server.loop_steps import Turns

Context = grpc.aio.ServicerContext[bytes, bytes]


class Sender:
    """One connection: what it has sent of late, and its calls whose message is not asked for yet."""

    __slots__ = ("allowed", "heavy", "line", "reading")

    def __init__(self) -> None:
        self.allowed = RECEIVES_FIRST  # messages of calls at a time …
        self.reading = 0  # … and now
        self.heavy = False  # it sent a large one, and not enough small ones since
        self.line: deque[asyncio.Future[None]] = deque()

    def came(self, size: int) -> None:
        """A message of `size` bytes is here."""
        if size >= LARGE_BYTES:
            self.allowed, self.heavy = RECEIVES_FIRST, True
        elif self.allowed < RECEIVES_MAX:
            self.allowed += 1
        else:
            self.heavy = False


class Incoming:
    """All connections of a server."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._senders: BoundedDict[str, Sender] = BoundedDict(SENDERS_MAX)
        self._held_back: dict[Sender, None] = {}  # those whose calls wait until more is decoded
        self._streams: list[asyncio.Future[None]] = []  # that wait for the same
        turns.on_room = self._go_on

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
        if sender.line or not self._may_read(sender):
            await self._wait(sender)
        else:
            sender.reading += 1
        try:
            raw: Any = await context.read()
            if raw is grpc.aio.EOF:
                raise InvalidInput("the call has no request: send one message")
            sender.came(len(raw))
        finally:
            sender.reading -= 1
            if sender.line:
                self._let_in(sender)
        return raw  # type: ignore[no-any-return]

    async def stream_turn(self, sender: Sender) -> None:
        """Return when a stream of this connection may ask for its next message."""
        while sender.heavy and self._turns.full:
            more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._streams.append(more)
            await more

    def _may_read(self, sender: Sender) -> bool:
        return sender.reading < sender.allowed and not (sender.heavy and self._turns.full)

    async def _wait(self, sender: Sender) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sender.line.append(turn)
        self._let_in(sender)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let in at the very moment
                sender.reading -= 1
                self._let_in(sender)
            raise

    def _let_in(self, sender: Sender) -> None:
        while sender.line and (sender.line[0].done() or self._may_read(sender)):
            turn = sender.line.popleft()
            if not turn.done():
                sender.reading += 1
                turn.set_result(None)
        if sender.line and sender.heavy and self._turns.full:
            self._held_back[sender] = None

    def _go_on(self) -> None:
        """Less waits to be decoded than there was."""
        streams, self._streams = self._streams, []
        for more in streams:
            if not more.done():
                more.set_result(None)
        senders, self._held_back = self._held_back, {}
        for sender in senders:
            self._let_in(sender)
