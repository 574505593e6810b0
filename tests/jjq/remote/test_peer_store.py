"""The store of another node: pushes change from gRPC to a WebSocket and back, and none overtakes another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Unavailable
from hotstore.port import Push, Receipt
from jjq.http.listener import HttpListener
from jjq.remote.peer_store import PeerStore
from jjq.remote.settings import RemoteSettings
from jjq.server.unary import Transports
from tests.jjq.cutproxy import through_proxy
from tests.jjq.serving import Served, numbers, said, until, with_http

SETTINGS = RemoteSettings(timeout_seconds=5.0, direct=False, patient=False, transport="auto")


@dataclass
class Far:
    """A node that other nodes reach by WebSocket, and the store of another one that asks it."""

    node: Served
    http: HttpListener
    peer: PeerStore
    open: Transports

    def hide(self) -> None:
        """As if it had no WebSockets."""
        self.node.server.transports = Transports()

    async def stands(self) -> None:
        """Have the connection made."""
        self.node.server.transports = self.open
        await until(lambda: self.peer._socket() is not None)

    def push(self, n: int) -> asyncio.Task[Receipt]:
        return asyncio.create_task(self.peer.push("q", numbers(n, 1), producer="p", sequence=n))

    @property
    def frames(self) -> int:
        """That have come over the WebSocket."""
        return self.http.sockets.frames_in

    async def stored(self) -> list[bytes]:
        return [value async for batch in self.node.store.read("q") for value in said(batch)]


@pytest.fixture
async def far(fake: Served) -> AsyncIterator[Far]:
    await fake.store.create_queue("q")
    async with with_http(fake.server) as http:
        peer = PeerStore(fake.server.address, SETTINGS, SystemClock(), SystemChance())
        yield Far(fake, http, peer, fake.server.transports)
        await peer.close()


async def test_pushes_go_over_grpc_until_the_connection_stands(far: Far) -> None:
    far.hide()
    await far.push(0)
    assert far.frames == 0
    await far.stands()
    await far.push(1)
    await far.peer.push("q", numbers(2, 1))
    assert far.frames == 2
    assert await far.stored() == [b"0", b"1", b"2"]


def held(far: Far, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The node writes nothing until this is set."""
    free, write = asyncio.Event(), far.node.store.append

    async def append(push: Push) -> Receipt:
        await free.wait()
        return await write(push)

    monkeypatch.setattr(far.node.store, "append", append)
    return free


async def test_what_is_to_go_by_the_socket_waits_for_what_grpc_has_not_answered(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    far.hide()
    await far.push(0)
    free = held(far, monkeypatch)
    early = [far.push(n) for n in range(1, 5)]
    await until(lambda: far.peer.under_way("q"))
    await far.stands()
    late = [far.push(n) for n in range(5, 10)]
    plain = asyncio.create_task(far.peer.push("q", numbers(99, 1)))
    await until(lambda: far.frames == 1)
    assert not far.peer.relay("q", True, b"", lambda _: None), "it would overtake them"
    free.set()
    receipts = await asyncio.gather(*early, *late)
    await plain
    assert [r.first_offset for r in receipts] == sorted(r.first_offset for r in receipts)
    assert [value for value in await far.stored() if value != b"99"] == [b"%d" % n for n in range(10)]
    assert far.frames == 6, "the late ones and the plain one"


async def test_when_it_breaks_pushes_are_of_unknown_outcome_and_grpc_takes_them_again(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    await far.stands()
    await far.push(0)
    free = held(far, monkeypatch)
    broken = [far.push(n) for n in range(1, 4)]
    await until(lambda: far.frames == 4)
    far.hide()
    for each in list(far.http.sockets.open):
        each.abort()
    for error in await asyncio.gather(*broken, return_exceptions=True):
        assert isinstance(error, Unavailable)
        assert "outcome is unknown" in str(error)
    free.set()
    again = [far.push(n) for n in range(1, 4)]
    assert [r.first_offset for r in await asyncio.gather(*again)] == [1, 2, 3]
    assert await far.stored() == [b"0", b"1", b"2", b"3"]


async def test_while_a_node_stops_nothing_overtakes_what_it_still_answers(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    await far.stands()
    await far.push(0)
    free = held(far, monkeypatch)
    first = far.push(1)
    await until(lambda: far.frames == 2)
    far.hide()
    for each in list(far.http.sockets.open):
        each.drain()
    await until(lambda: far.peer._socket() is None)
    assert not far.peer.relay("q", True, b"", lambda _: None)
    with pytest.raises(Unavailable, match="stops; push the same sequence again"):
        await far.push(2)
    free.set()
    assert (await first).first_offset == 1
    assert (await far.push(2)).first_offset == 2
    assert await far.stored() == [b"0", b"1", b"2"]


async def test_a_connection_from_which_nothing_comes_is_given_up(
    fake: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jjq.remote.call_socket.WEBSOCKET_SILENCE_SECONDS", 0.01)
    await fake.store.create_queue("q")
    settings = RemoteSettings(timeout_seconds=0.3, direct=False, patient=False)
    async with through_proxy(fake.server, "websocket", settings) as (proxy, remote):
        await until(lambda: remote.link.lane().socket() is not None)
        dead = remote.link.lane().socket()
        proxy.swallow = True
        with pytest.raises(Unavailable, match=r"no answer within 0\.\d+ s"):
            await remote.peek("q/s")
        assert dead is not None
        assert not dead.usable
        proxy.swallow = False
        await until(lambda: remote.link.lane().socket() not in (None, dead))


async def test_a_store_that_is_closed_ends_what_is_under_way(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    await far.stands()
    free = held(far, monkeypatch)
    push = far.push(0)
    await until(lambda: far.frames == 1)
    await far.peer.close()
    with pytest.raises(Unavailable, match="outcome is unknown"):
        await push
    with pytest.raises(Unavailable, match="closed"):
        await far.push(1)
    free.set()
