"""A listener for other nodes, the store under it, and other nodes made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from coldstore.shared.errors import JjqError
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt
from jjq.server.loop_steps import Turns
from jjq.server.meter import Meter
from jjq.server.peer_listener import Asked, PeerListener
from jjq.server.shutdown import Drain
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import encode
from jjq.wire.peer_protocol import GREETING, greeting_of
from jjq.wire.status import error_in
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import said, until, values
from tests.jjq.wire.test_peer_protocol import frame as framed


class Store(FakeStore):
    """Tells what has begun, holds some pushes until they are let go, and fails others."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[bytes] = []
        self.held: dict[bytes, asyncio.Event] = {}
        self.failing: dict[bytes, Exception] = {}

    def has_begun(self, item: bytes) -> bool:
        return item in self.begun

    def hold(self, *items: bytes) -> None:
        self.held |= {item: asyncio.Event() for item in items}

    def release(self, *items: bytes) -> None:
        for item in items:
            self.held[item].set()

    async def append(self, push: Push) -> Receipt:
        first = said(push.payload)[0]
        self.begun.append(first)
        if first in self.held:
            await self.held[first].wait()
        if first in self.failing:
            raise self.failing[first]
        return await super().append(push)


class Peer:
    """Another node, made by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def greet(self) -> None:
        self.writer.write(GREETING)
        async with asyncio.timeout(10):
            assert await self._reader.readexactly(32) == greeting_of("here")

    def say(self, number: int, message: bytes) -> None:
        self.writer.write(framed(number, message))

    def push(self, number: int, *items: bytes) -> None:
        self.say(number, message(*items))

    async def answer(self) -> tuple[int, int | JjqError]:
        """The number of a push, and its first offset or what is wrong with it."""
        async with asyncio.timeout(10):
            head = await self._reader.readexactly(8)
            size = int.from_bytes(head[:4], "little")
            raw = await self._reader.readexactly(size + -size % 8)
        result = pb.PushResult.FromString(raw[:size])
        done = result.WhichOneof("result") == "receipt"
        return int.from_bytes(head[4:], "little"), (
            result.receipt.first_offset if done else error_in(result.error)
        )

    async def answers(self, count: int) -> dict[int, int | JjqError]:
        return dict([await self.answer() for _ in range(count)])

    async def ended(self) -> bytes:
        """What still comes before the other side hangs up."""
        async with asyncio.timeout(10):
            found = b""
            with suppress(ConnectionResetError):  # as much an end as any
                found = await self._reader.read()
            return found

    async def leave(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


class Listening:
    """A listener, the store under it, and whoever connects to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.log: Any = CapturingLogger()
        self.drain = Drain()
        self.meter = Meter("PeerPush")
        # Any store will do, but for its exact type: a fake has plain keyword arguments.
        self.listener = PeerListener(
            "here", _any(store), self.drain, Turns(), self.meter, store.clock, self.log
        )
        self.port = 0
        self._peers: list[Peer] = []

    async def connect(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self._peers.append(peer)
        return peer

    async def peer(self) -> Peer:
        """One that has greeted."""
        peer = await self.connect()
        await peer.greet()
        return peer

    def only(self) -> Asked:
        """Our side of the only connection."""
        (wire,) = self.listener.wires
        return wire

    def logged(self, level: str) -> list[str]:
        return [str(call.args[0]) for call in self.log.calls if call.method_name == level]

    async def close(self) -> None:
        await self.drain.finish(0)
        await self.listener.close()
        for peer in self._peers:
            await peer.leave()
        await until(lambda: not self.listener.wires)


class LoopTime:
    """Lets the time of the running loop leap, so that timers need not be waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real = loop.time
        self._ahead = 0.0
        monkeypatch.setattr(loop, "time", lambda: real() + self._ahead)

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


def _any(thing: object) -> Any:
    return thing


@asynccontextmanager
async def listening() -> AsyncIterator[Listening]:
    """On a free port, over a store with a queue."""
    store = Store()
    await store.create_queue("orders")
    found = Listening(store)
    found.port = await found.listener.start("127.0.0.1", 0, None)
    try:
        yield found
    finally:
        await found.close()


def message(*items: bytes, queue: str = "orders") -> bytes:
    return encode(pb.PushRequest(queue=queue), values(*items), "arrow")
