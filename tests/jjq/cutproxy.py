"""A TCP proxy between client and server that loses replies and cuts connections when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import grpc

from jjq.addresses import split_address
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.server.server import Server
from tests.jjq.serving import until, with_http


class CutProxy:
    """Forwards bytes both ways. `target` may change: new connections go to the new one."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.address = ""
        self.swallow = False  # replies vanish; requests still arrive
        self.swallow_requests = False  # requests vanish; replies still arrive
        self.refuse = False  # new connections are closed at once
        self.connections = 0
        self.passed = 0  # bytes from server to client
        self.cut_after: int | None = None  # cut when so many more bytes have passed to the client …
        self.cut_again = 0  # … and so many times again, after as many
        self._size = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.target.rpartition(":")
        try:
            if self.refuse:
                raise OSError
            inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        self.connections += 1
        self._writers |= {writer, inner_writer}
        await asyncio.gather(
            self._pump(reader, inner_writer, replies=False), self._pump(inner_reader, writer, replies=True)
        )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, replies: bool
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while data := await reader.read(65_536):
                if self._lose(len(data)) if replies else self.swallow_requests:
                    continue
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()

    def _lose(self, size: int) -> bool:
        self.passed += size
        if self.cut_after is not None:
            self._size = max(self._size, self.cut_after)
            self.cut_after -= size
            if self.cut_after <= 0:
                self.cut_after = self._size if self.cut_again else None
                self.cut_again = max(0, self.cut_again - 1)
                self.cut()
        return self.swallow

    def cut_swallowed(self) -> None:
        """Cut, so that what was swallowed is lost for good; what comes later is heard again."""
        self.swallow = False
        self.cut()

    def cut(self) -> None:
        """Drop every connection, as a dying network does."""
        for writer in list(self._writers):
            writer.transport.abort()
        self._writers.clear()


async def cut_off(proxy: CutProxy, remote: RemoteStore, is_over: Callable[[], bool]) -> None:
    """Cut, and wait until the client knows: of what it still sends on the old connection the outcome is unknown."""
    ready, connections = grpc.ChannelConnectivity.READY, proxy.connections
    lanes = [lane for known in remote._link._lanes.values() for lane in known]
    proxy.cut_swallowed()
    await until(is_over)
    await until(
        lambda: proxy.connections > connections or ready not in {lane._channel.get_state() for lane in lanes}
    )


@asynccontextmanager
async def proxied(target: str) -> AsyncIterator[CutProxy]:
    proxy = CutProxy(target)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await server.wait_closed()


@asynccontextmanager
async def through_proxy(
    server: Server, transport: str, settings: RemoteSettings
) -> AsyncIterator[tuple[CutProxy, RemoteStore]]:
    """A client whose single calls and subscriptions go through a proxy, by this transport."""
    if transport == "grpc":
        async with proxied(server.address) as proxy, RemoteStore(proxy.address, settings) as remote:
            yield proxy, remote
        return
    async with (
        with_http(server) as http,
        proxied(f"127.0.0.1:{http.port}") as proxy,
        RemoteStore(server.address, replace(settings, transport=transport)) as remote,
    ):
        server.transports = server.transports._replace(
            websocket_port=split_address(proxy.address, "proxy")[1]
        )
        yield proxy, remote
