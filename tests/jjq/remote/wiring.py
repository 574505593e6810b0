"""A node made by hand, and wires to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import JjqError
from coldstore.shared.results import Receipt
from jjq.remote.peer_connection import PeerAddress, PeerConnection, PeerConnector
from jjq.remote.settings import ClientTls
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.convert import receipt_out
from jjq.wire.peer_protocol import GREETING, greeting_of
from jjq.wire.status import error_out
from tests.jjq.serving import until
from tests.jjq.wire.test_peer_protocol import frame

LONG = 1_000.0  # the loop's time leaps so far only where a test says so
SILENT = b""
ANSWER = greeting_of("here")


class Node:
    """The other side, made by hand: keeps what came and answers when told to."""

    def __init__(self, greeting: bytes = ANSWER) -> None:
        self.greeting = greeting
        self.address = ""
        self.connections = 0
        self.heard: list[tuple[int, bytes]] = []
        self._came: set[tuple[str, int]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._came.add(writer.get_extra_info("peername"))
        with suppress(asyncio.IncompleteReadError, OSError):
            assert await reader.readexactly(len(GREETING)) == GREETING
            self.connections += 1
            writer.write(self.greeting)
            while True:
                head = await reader.readexactly(8)
                size = int.from_bytes(head[:4], "little")
                raw = await reader.readexactly(size + -size % 8)
                self.heard.append((int.from_bytes(head[4:], "little"), raw[:size]))
        self._writers.remove(writer)
        writer.close()

    @property
    def alone(self) -> bool:
        """Nobody is connected."""
        return not self._writers

    def say(self, number: int, raw: bytes) -> None:
        """Over the connection that was made last."""
        self._writers[-1].write(frame(number, raw))

    def answer(self, number: int, offset: int) -> None:
        result = pb.PushResult(receipt=receipt_out(Receipt(offset, 1, 0, "synced")))
        self.say(number, result.SerializeToString())

    def refuse(self, number: int, error: JjqError) -> None:
        self.say(number, pb.PushResult(error=error_out(error)).SerializeToString())

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def settled(self) -> None:
        """Return when all who have connected by now have been let in: they come in order."""
        host, _, port = self.address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        name = writer.get_extra_info("sockname")
        await until(lambda: name in self._came)
        writer.close()
        await writer.wait_closed()

    async def close(self) -> None:
        await self.settled()
        self.cut()
        await until(lambda: self.alone)
        if self._server is not None:
            self._server.close()


@asynccontextmanager
async def started(greeting: bytes = ANSWER) -> AsyncIterator[Node]:
    node = Node(greeting)
    await node.start()
    try:
        yield node
    finally:
        await node.close()


class Caller:
    """A wire to some address, under a clock that is moved by hand."""

    def __init__(self, address: str, seconds: float, tls: ClientTls | None) -> None:
        self.address = address
        self.asked = 0  # for the address
        self.clock = ManualClock()
        self.wire = PeerConnector(self._where, None if tls is None else tls.context, seconds, self.clock)

    def _where(self) -> PeerAddress | None:
        self.asked += 1
        return PeerAddress(self.address, "here") if self.address else None

    @property
    def trying(self) -> bool:
        return self.wire._trying is not None

    async def connected(self) -> PeerConnection:
        await until(self.wire.at_hand)
        asking = self.wire.at_hand()
        assert asking is not None
        return asking

    async def in_vain(self) -> None:
        """Try once, which gives nothing."""
        assert self.wire.at_hand() is None
        await until(lambda: not self.trying)
        assert self.wire.at_hand() is None


@asynccontextmanager
async def calling(address: str, seconds: float = LONG, tls: ClientTls | None = None) -> AsyncIterator[Caller]:
    caller = Caller(address, seconds, tls)
    try:
        yield caller
    finally:
        await caller.wire.close()


@asynccontextmanager
async def together(seconds: float = LONG) -> AsyncIterator[tuple[Node, Caller, PeerConnection]]:
    """A node by hand and a connection to it."""
    async with started() as node, calling(node.address, seconds) as caller:
        yield node, caller, await caller.connected()


def unknown(why: str) -> str:
    return f"127.0.0.1:[0-9]+: .*{why}.*; the outcome is unknown"
