"""Broken connections, lost replies and other servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from coldstore.shared.errors import Unavailable
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.server.server import serve
from jjq.server.settings import ServerSettings
from tests.jjq.cutproxy import CutProxy, proxied, through_proxy
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, hurry, said, served, until, values

PATIENT = RemoteSettings(timeout_seconds=20.0)


@dataclass
class Far:
    """A client whose connection goes through a proxy."""

    near: Served
    proxy: CutProxy
    remote: RemoteStore

    async def lost(self, verb: Any, done: Callable[[], bool] = lambda: True) -> Any:
        """Run `verb` so that its first reply is lost with the connection, once it is `done`."""
        self.proxy.swallow = True
        before = self.proxy.passed
        task = asyncio.ensure_future(verb)
        await until(lambda: self.proxy.passed > before and done())
        self.proxy.cut_swallowed()
        return await task


@pytest.fixture(params=["grpc", "websocket"])
async def far(fake: Served, request: pytest.FixtureRequest) -> AsyncIterator[Far]:
    async with through_proxy(fake.server, request.param, PATIENT) as (proxy, remote):
        await remote.create_queue("orders")
        yield Far(fake, proxy, remote)


async def test_questions_survive_a_cut(far: Far) -> None:
    for _ in range(3):
        far.proxy.cut()
        assert [q.name for q in await far.remote.list_queues()] == ["orders"]
    assert far.proxy.connections > 1


async def test_a_lost_reply_of_a_verb_that_may_happen_twice_is_asked_for_again(far: Far) -> None:
    made = await far.lost(far.remote.create_subscriber("orders", None, "beginning"))
    assert [s.id for s in await far.near.store.list_subscribers()] == [made.id]
    assert (await far.lost(far.remote.seek(made.id, "beginning"))).offset == 0


async def test_a_deletion_whose_reply_is_lost_succeeds(far: Far) -> None:
    made = await far.remote.create_subscriber("orders", "x")
    await far.lost(far.remote.delete_subscriber(made.id))
    assert await far.near.store.list_subscribers() == []


async def test_a_plain_push_whose_reply_is_lost_is_not_repeated(far: Far) -> None:
    orders = far.near.store.queues["orders"]
    with pytest.raises(Unavailable):
        await far.lost(far.remote.push("orders", values(b"a")), lambda: orders.next_offset == 1)
    assert (await far.near.store.get_queue("orders")).next_offset == 1


async def test_a_pop_that_names_its_position_gets_the_lost_elements(far: Far) -> None:
    await far.remote.create_subscriber("orders", "x", "beginning")
    await far.remote.push("orders", values(b"a", b"b", b"c"))
    assert said((await far.lost(far.remote.pop("orders/x", 2, position=0))).batch) == [b"a", b"b"]
    assert said((await far.remote.pop("orders/x", 2, position=2)).batch) == [b"c"]


async def test_a_pop_that_does_not_is_of_unknown_outcome(far: Far) -> None:
    await far.remote.create_subscriber("orders", "x", "beginning")
    await far.remote.push("orders", values(b"a", b"b"))
    with pytest.raises(Unavailable):
        await far.lost(far.remote.pop("orders/x"))
    assert (await far.near.store.get_subscriber("orders/x")).offset == 1


async def test_a_plain_push_waits_for_a_server_that_is_not_there_yet(far: Far) -> None:
    far.proxy.refuse = True
    far.proxy.cut()
    with pytest.raises(Unavailable):
        async with RemoteStore(far.proxy.address, RemoteSettings(timeout_seconds=0.3)) as hasty:
            await hasty.push("orders", values(b"a"))
    push = asyncio.ensure_future(far.remote.push("orders", values(b"a")))
    await asyncio.sleep(0)
    far.proxy.refuse = False
    assert (await push).first_offset == 0


async def test_a_server_that_never_answers_costs_the_timeout_and_no_more(fake: Served) -> None:
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, RemoteSettings()) as remote:
        await remote.list_queues()
        proxy.swallow = True
        hurry(remote)
        with pytest.raises(Unavailable, match=r"^the server did not answer in time \(DEADLINE_EXCEEDED\)$"):
            await remote.list_queues()


async def test_another_server_is_asked_when_one_is_gone() -> None:
    store = FakeStore()
    async with served(store) as one, served(store) as other:
        addresses = f"127.0.0.1:1,{one.server.address},{other.server.address}"
        async with RemoteStore(addresses, PATIENT) as remote:
            await remote.create_queue("orders")
            await remote.push("orders", values(b"a"))
            await one.server.stop(0)
            assert [q.next_offset for q in await remote.list_queues()] == [1]
            assert (await remote.push("orders", values(b"b"))).first_offset == 1
            assert remote._link.lane().target == other.server.address


async def test_a_server_may_come_back_at_the_same_address() -> None:
    store = FakeStore()
    first = await serve(store, ServerSettings(listen="127.0.0.1:0"))
    async with RemoteStore(first.address, PATIENT) as remote:
        await remote.create_queue("orders")
        await first.stop(0)
        listing = asyncio.ensure_future(remote.list_queues())
        second = await serve(store, ServerSettings(listen=first.address))
        assert [q.name for q in await listing] == ["orders"]
        await second.stop(0)
