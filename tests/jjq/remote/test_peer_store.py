"""The store of another node: pushes change from gRPC to the wire and back, and none overtakes another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import structlog

from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock, SystemClock
from coldstore.shared.errors import Unavailable
from hotstore.port import Push, Receipt
from jjq.remote.peer_connection import PeerAddress
from jjq.remote.peer_store import PeerStore
from jjq.remote.settings import RemoteSettings
from jjq.server.loop_steps import Turns
from jjq.server.meter import Meter
from jjq.server.peer_listener import PeerListener
from jjq.server.shutdown import Drain
from tests.jjq.serving import Served, numbers, said, until

SETTINGS = RemoteSettings(timeout_seconds=5.0, direct=False, patient=False)


@dataclass
class Far:
    """A node with a wire, and the store of another one that asks it."""

    node: Served
    listener: PeerListener
    peer: PeerStore
    clock: ManualClock
    address: str = ""  # of the wire, once that is known

    async def stands(self) -> None:
        """Have the wire made."""
        self.clock.advance(60)
        await until(lambda: self.peer._wire.at_hand() is not None)

    def push(self, n: int) -> asyncio.Task[Receipt]:
        return asyncio.create_task(self.peer.push("q", numbers(n, 1), producer="p", sequence=n))

    async def stored(self) -> list[bytes]:
        return [value async for batch in self.node.store.read("q") for value in said(batch)]


@pytest.fixture
async def far(fake: Served) -> AsyncIterator[Far]:
    quiet = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
    drain = Drain()
    listener = PeerListener("b", fake.store, drain, Turns(), Meter("PeerPush"), SystemClock(), quiet)
    port = await listener.start("127.0.0.1", 0, None)
    await fake.store.create_queue("q")
    clock = ManualClock()
    made = Far(fake, listener, None, clock)  # type: ignore[arg-type]
    made.peer = PeerStore(
        fake.server.address,
        lambda: PeerAddress(made.address, "b") if made.address else None,
        SETTINGS,
        clock,
        SystemChance(),
    )
    made.address = f"127.0.0.1:{port}"
    yield made
    await made.peer.close()
    await listener.close()


async def test_pushes_go_over_grpc_until_the_wire_stands(far: Far) -> None:
    address, far.address = far.address, ""
    await far.push(0)
    assert far.listener.meter.elements == 0
    far.address = address
    await far.stands()
    await far.push(1)
    await far.peer.push("q", numbers(2, 1))
    assert far.listener.meter.elements == 2
    assert await far.stored() == [b"0", b"1", b"2"]


def held(far: Far, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The node writes nothing until this is set."""
    free, write = asyncio.Event(), far.node.store.append

    async def append(push: Push) -> Receipt:
        await free.wait()
        return await write(push)

    monkeypatch.setattr(far.node.store, "append", append)
    return free


async def test_what_is_to_go_by_the_wire_waits_for_what_grpc_has_not_answered(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, far.address = far.address, ""
    await far.push(0)
    free = held(far, monkeypatch)
    early = [far.push(n) for n in range(1, 5)]
    await until(lambda: far.peer.under_way("q"))
    far.address = address
    await far.stands()
    late = [far.push(n) for n in range(5, 10)]
    plain = asyncio.create_task(far.peer.push("q", numbers(99, 1)))
    await until(lambda: far.listener.meter.received_bytes > 0)
    assert not far.peer.relay("q", True, b"", lambda _: None), "it would overtake them"
    assert far.listener.meter.elements == 0
    free.set()
    receipts = await asyncio.gather(*early, *late)
    await plain
    assert [r.first_offset for r in receipts] == sorted(r.first_offset for r in receipts)
    assert [value for value in await far.stored() if value != b"99"] == [b"%d" % n for n in range(10)]
    assert far.listener.meter.elements == 6, "the late ones and the plain one"


async def test_when_the_wire_breaks_pushes_are_of_unknown_outcome_and_grpc_takes_them_again(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    await far.stands()
    await far.push(0)
    free = held(far, monkeypatch)
    broken = [far.push(n) for n in range(1, 4)]
    await until(lambda: far.listener.meter.received_bytes > 0 and len(far.listener.wires) == 1)
    await until(lambda: next(iter(far.listener.wires))._pushes == 3)
    for wire in list(far.listener.wires):
        wire.transport.abort()
    for error in await asyncio.gather(*broken, return_exceptions=True):
        assert isinstance(error, Unavailable)
        assert "outcome is unknown" in str(error)
    far.address = ""
    free.set()
    again = [far.push(n) for n in range(1, 4)]
    assert [r.first_offset for r in await asyncio.gather(*again)] == [1, 2, 3]
    assert await far.stored() == [b"0", b"1", b"2", b"3"]


async def test_a_store_that_is_closed_ends_what_is_under_way(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    await far.stands()
    free = held(far, monkeypatch)
    push = far.push(0)
    await until(lambda: far.listener.meter.received_bytes > 0)
    await far.peer.close()
    with pytest.raises(Unavailable, match="outcome is unknown"):
        await push
    with pytest.raises(Unavailable, match="closed"):
        await far.push(1)
    free.set()
