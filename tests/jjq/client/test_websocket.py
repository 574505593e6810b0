"""Clients find the WebSocket of a server by themselves, and do without it where it cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

import jjq
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Denied, InvalidInput, Unavailable
from jjq.access.keyring import Keyring
from jjq.http.listener import HttpListener
from jjq.http.serving import serve_http
from jjq.http.settings import HttpSettings
from jjq.remote.channels import Lane
from jjq.server.server import serve
from jjq.server.settings import ServerSettings, Tls
from jjq.server.unary import Transports
from tests.jjq.fakestore import FakeStore
from tests.jjq.server.test_tls import Authority
from tests.jjq.serving import Served, served, until, with_http
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import free_ports


@pytest.fixture
async def near() -> AsyncIterator[Served]:
    async with served(FakeStore()) as made:
        await made.store.create_queue("orders")
        yield made


def lane_of(client: Any) -> Lane:
    lane: Lane = client._store.link.lane()
    return lane


def frames_in(http: HttpListener) -> int:
    return http.sockets.frames_in


async def test_auto_uses_grpc_first_and_websocket_as_soon_as_it_stands(near: Served) -> None:
    async with with_http(near.server) as http, jjq.aio.connect(near.server.address) as client:
        await client.push("orders", [b"a"])
        await until(lambda: lane_of(client).socket() is not None)
        before = frames_in(http)
        assert (await client.push("orders", [b"b"])).first_offset == 1
        assert frames_in(http) == before + 1
        large = await client.push("orders", [bytes(1_000_000)] * 2)
        assert (large.first_offset, frames_in(http)) == (2, before + 1), "a large push goes over gRPC"
        assert len(await client.list_queues()) == 1
        assert frames_in(http) == before + 2


async def _wrong_port(near: Served) -> None:
    near.server.transports = Transports(free_ports(1)[0], "x")


async def _another_server(near: Served) -> None:
    near.server.transports = near.server.transports._replace(instance="somebody else")


@pytest.mark.parametrize("obstacle", [_wrong_port, _another_server])
async def test_auto_does_without_it_and_websocket_says_why(
    near: Served, obstacle: Callable[[Served], Any]
) -> None:
    async with with_http(near.server):
        await obstacle(near)
        async with jjq.aio.connect(near.server.address, transport="auto") as client:
            for _ in range(3):
                await client.push("orders", [b"a"])
                await until(lambda: lane_of(client)._sockets._trying is None)  # type: ignore[union-attr]
            assert lane_of(client).socket() is None
        async with jjq.aio.connect(near.server.address, transport="websocket", timeout=0.5) as strict:
            with pytest.raises(Unavailable, match="no WebSocket to 127"):
                await strict.push("orders", [b"a"])
    assert near.store.queues["orders"].next_offset == 3


async def test_a_server_without_http_or_of_an_earlier_release_is_asked_over_grpc(near: Served) -> None:
    async with jjq.aio.connect(near.server.address) as client:
        await client.push("orders", [b"a"])
        await until(lambda: "HTTP" in lane_of(client)._sockets.why)  # type: ignore[union-attr]
        await client.push("orders", [b"b"])
    old = grpc.aio.server()
    port = old.add_insecure_port("127.0.0.1:0")
    await old.start()
    async with jjq.aio.connect(f"127.0.0.1:{port}") as client:
        with suppress(InvalidInput):
            await client.get_queue("orders")
        await until(lambda: "earlier release" in lane_of(client)._sockets.why)  # type: ignore[union-attr]
    await old.stop(0)


async def test_it_connects_again_after_a_broken_connection(near: Served) -> None:
    async with with_http(near.server) as http, jjq.aio.connect(near.server.address) as client:
        await client.push("orders", [b"a"])
        await until(lambda: lane_of(client).socket() is not None)
        for each in list(http.sockets.open):
            each.abort()
        await until(lambda: not http.sockets.open)
        for n in range(3):
            assert (await client.push("orders", [b"b"])).first_offset == n + 1
        await until(lambda: lane_of(client).socket() is not None)


async def test_a_caller_that_goes_away_takes_nothing(near: Served) -> None:
    async with (
        with_http(near.server) as http,
        jjq.aio.connect(near.server.address, transport="websocket") as client,
    ):
        subscriber = await client.create_subscriber("orders", "s", "beginning")
        waiting = asyncio.create_task(client.pop(subscriber, wait=600.0))
        await until(lambda: near.server.metrics.meter("Pop").received_bytes > 0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: near.server.metrics.meter("Pop").calls.get(grpc.StatusCode.CANCELLED) == 1)
        await client.push("orders", [b"a"])
        assert [e.value for e in await client.pop(subscriber, wait=5.0)] == [b"a"]
        assert len(http.sockets.open) == 1


async def test_with_tls_and_a_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    tls = Tls(*authority.issue("server"))
    chance = SystemChance()
    ring = Keyring(MemoryObjects(), SystemClock(), chance)
    key = (await ring.create("all", ["admin"])).text
    server = await serve(FakeStore(), ServerSettings(listen="127.0.0.1:0", tls=tls), keys=ring)
    http = await serve_http(server, HttpSettings("127.0.0.1:0", tls=tls), chance, keys=ring)
    trusted: dict[str, Any] = {"tls": jjq.ClientTls(authority.path), "transport": "websocket", "timeout": 5.0}
    async with jjq.aio.connect(server.address, key=key, **trusted) as client:
        await client.create_queue("orders")
        subscriber = await client.create_subscriber("orders", "s", "beginning")
        await client.push("orders", [b"a", bytes(200_000)])
        async with client.subscribe(subscriber) as subscription:
            first = await anext(aiter(subscription))
        assert first.value == b"a"
        assert frames_in(http) >= 4
    async with jjq.aio.connect(server.address, **trusted) as stranger:
        with pytest.raises((Denied, Unavailable), match="wants a key"):
            await stranger.push("orders", [b"a"])
    await asyncio.gather(http.stop(0.1), server.stop(0))


def test_a_name_that_is_no_transport_is_refused() -> None:
    with pytest.raises(InvalidInput, match="use one of auto, websocket, grpc"):
        jjq.connect("127.0.0.1:1", transport="carrier pigeon")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[JjqServer]:
    """A process that listens for HTTP as well."""
    port = free_ports(1)[0]
    with JjqServer(tmp_path, environment={"JJQ_HTTP_LISTEN": f"127.0.0.1:{port}"}) as made:
        yield made


def test_a_server_that_stops_and_one_that_is_killed(server: JjqServer) -> None:
    """A server that stops refuses for certain what it does not do: its pushes are all known."""
    with jjq.connect(server.address, transport="websocket", timeout=60.0) as client:
        client.create_queue("orders")
        subscriber = client.create_subscriber("orders", "s", "beginning")
        values: list[bytes | str] = []
        with client.subscribe(subscriber) as subscription:
            elements = iter(subscription)
            for n in range(30):
                if n == 10:
                    assert server.stop() == 0
                    server.start()
                if n == 20:
                    server.restart()
                client.push("orders", [b"%d" % n])
                values.append(next(elements).value)
        assert values == [b"%d" % n for n in range(30)]
