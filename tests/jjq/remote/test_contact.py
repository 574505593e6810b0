"""First contact: a client that reaches nobody says so at once, and why; one that has reached a server is patient."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import jjq
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import InvalidInput, Unavailable
from jjq.remote.settings import ClientTls, RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.server.server import Server, serve
from jjq.server.settings import ServerSettings, Tls
from tests.jjq.fakestore import FakeStore
from tests.jjq.server.test_tls import Authority
from tests.jjq.serving import Served, numbers, until, values
from tests.servers.waiting import free_ports

PATIENT_SECONDS = 120.0  # whoever waits for that has not said it at once
SOON_SECONDS = 20.0  # a loaded machine may need that for what takes milliseconds


@dataclass
class Here:
    """Servers of every kind, and certificates of ours and of strangers."""

    plain: Server
    tls: Server
    mtls: Server
    authority: Authority
    stranger: Authority


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    authority, stranger = Authority(tmp_path, "ours"), Authority(tmp_path, "stranger")
    certificate, key = authority.issue("server")
    kinds = [None, Tls(certificate, key), Tls(certificate, key, client_ca=authority.path)]
    servers = [await serve(FakeStore(), ServerSettings(listen="127.0.0.1:0", tls=tls)) for tls in kinds]
    plain, tls, mtls = servers
    yield Here(plain, tls, mtls, authority, stranger)
    for server in servers:
        await server.stop(0)


async def why(address: str, tls: ClientTls | None = None) -> str:
    """What the client says, at once."""
    async with asyncio.timeout(SOON_SECONDS):
        async with RemoteStore(address, RemoteSettings(PATIENT_SECONDS, tls)) as store:
            with pytest.raises(Unavailable) as caught:
                await store.list_queues()
    assert not caught.value.sent
    assert not caught.value.reached
    assert "unknown" not in caught.value.message
    return caught.value.message


def nobody(count: int = 1) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in free_ports(count))


VERBS: dict[str, Callable[[RemoteStore], Awaitable[Any]]] = {
    "list": lambda r: r.list_queues(),
    "create": lambda r: r.create_queue("orders"),
    "push": lambda r: r.push("orders", values(b"a")),
    "push in order": lambda r: r.push("orders", values(b"a"), producer="p", sequence=0),
    "pop": lambda r: r.pop("orders/x"),
    "pop that waits": lambda r: r.pop("orders/x", wait=60.0),
    "read": lambda r: anext(aiter(r.read("orders"))),
    "subscribe": lambda r: anext(r.subscribe("orders/x")),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_every_verb_says_that_nobody_listens(verb: str) -> None:
    address = nobody()
    async with asyncio.timeout(SOON_SECONDS):
        async with RemoteStore(address, RemoteSettings(PATIENT_SECONDS)) as remote:
            with pytest.raises(Unavailable, match=rf"nobody listens on {address}: run `jjq serve`") as caught:
                await VERBS[verb](remote)
    assert not caught.value.sent


async def test_every_address_is_named(here: Here) -> None:
    one, other = nobody(2).split(",")
    message = await why(f"{one},{other}")
    assert f"nobody listens on {one}; nobody listens on {other}: run" in message


async def test_a_host_that_is_not_known_is_told_from_one_where_nobody_listens() -> None:
    assert "the host of no-such-host.invalid:1 is not known" in await why("no-such-host.invalid:1")


async def test_a_mismatch_of_tls_is_said_as_such(here: Here) -> None:
    ours, theirs = ClientTls(here.authority.path), ClientTls(here.stranger.path)
    assert "speaks TLS, and this client does not" in await why(here.tls.address)
    assert "speaks TLS, and this client does not" in await why(here.mtls.address)
    assert "does not speak TLS, and this client does" in await why(here.plain.address, ours)
    assert "is not trusted (unable to get local issuer" in await why(here.tls.address, theirs)
    named = here.tls.address.replace("127.0.0.1", "localhost")
    assert "Hostname mismatch" in await why(named, ours)
    assert "wants a certificate of its clients" in await why(here.mtls.address, ours)
    intruder = ClientTls(here.authority.path, *here.stranger.issue("intruder"))
    assert "does not accept the certificate" in await why(here.mtls.address, intruder)


async def test_tls_files_that_cannot_be_used_are_the_callers_mistake(here: Here, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    async with RemoteStore(here.tls.address, RemoteSettings(5.0, ClientTls(garbage))) as store:
        with pytest.raises(InvalidInput, match="TLS files"):
            await store.list_queues()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
async def test_whoever_is_no_server_of_ours_is_told_as_such(answer: bytes) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    assert f"{address} takes connections but does not answer as a jjq server does" in await why(address)
    listener.close()


async def test_one_server_of_several_is_enough(here: Here) -> None:
    async with RemoteStore(f"{nobody()},{here.plain.address}", RemoteSettings(SOON_SECONDS)) as remote:
        assert await remote.list_queues() == []


async def test_a_server_that_is_silent_is_given_the_time_that_the_verb_has() -> None:
    held: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with RemoteStore(address, RemoteSettings(3.0)) as remote:
        clock = SystemClock()
        began = clock.monotonic()
        with pytest.raises(Unavailable) as caught:
            await remote.list_queues()
        assert caught.value.reached
        assert clock.monotonic() - began > 2.0
    for writer in held:
        writer.close()
    listener.close()


async def test_who_has_reached_a_server_waits_for_its_return() -> None:
    store = FakeStore()
    first = await serve(store, ServerSettings(listen="127.0.0.1:0"))
    async with RemoteStore(first.address, RemoteSettings(SOON_SECONDS)) as remote:
        await remote.create_queue("orders")
        await first.stop(0)
        work = [
            asyncio.ensure_future(remote.list_queues()),
            asyncio.ensure_future(remote.push("orders", numbers(0, 1), producer="p", sequence=0)),
        ]
        await until(lambda: remote.under_way("orders"))
        second = await serve(store, ServerSettings(listen=first.address))
        await asyncio.gather(*work)
        await second.stop(0)


async def test_who_is_told_to_be_patient_waits_for_the_first_server() -> None:
    address = nobody()
    settings = RemoteSettings(SOON_SECONDS, patient_at_first=True)
    async with RemoteStore(address, settings) as remote:
        listing = asyncio.ensure_future(remote.list_queues())
        await until(lambda: remote._link._lanes)
        server = await serve(FakeStore(), ServerSettings(listen=address))
        assert await listing == []
        await server.stop(0)


async def test_a_client_that_reached_nobody_may_be_used_again_when_somebody_is_there() -> None:
    address = nobody()
    async with RemoteStore(address, RemoteSettings(SOON_SECONDS)) as remote:
        with pytest.raises(Unavailable, match="nobody listens"):
            await remote.list_queues()
        server = await serve(FakeStore(), ServerSettings(listen=address))
        assert await remote.list_queues() == []
        await server.stop(0)


async def test_closing_breaks_off_the_first_contact(fake: Served) -> None:
    remote = RemoteStore(fake.server.address, RemoteSettings(SOON_SECONDS))
    listing = asyncio.ensure_future(remote.list_queues())
    await until(lambda: remote._link._meeting)
    await remote.close()
    with pytest.raises(Unavailable, match="closed"):
        await listing


def test_a_blocking_client_and_its_producer_say_it_as_well(tmp_path: Path) -> None:
    address = nobody()
    clock = SystemClock()
    began = clock.monotonic()
    with jjq.connect(address, timeout=PATIENT_SECONDS) as client:
        with pytest.raises(jjq.Unavailable, match=f"nobody listens on {address}"):
            client.list_queues()
        producer = client.producer("orders", deadline=PATIENT_SECONDS)
        pushed = producer.push(b"a")
        with pytest.raises(jjq.Unavailable, match=f"nobody listens on {address}"):
            producer.flush()
        with pytest.raises(jjq.Unavailable):
            pushed.result()
        with pytest.raises(jjq.Unavailable, match="nobody listens"):
            next(client.subscribe("orders/x"))
        with pytest.raises(jjq.Unavailable, match="nobody listens"):
            client.pop("orders/x", wait=PATIENT_SECONDS)
    assert clock.monotonic() - began < SOON_SECONDS
