"""Pushes with an identity: pipelined, in order, written once, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import Conflict, Exhausted, InvalidInput, Unavailable
from hotstore.port import Push, Receipt
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.server.server import serve
from jjq.server.settings import ServerSettings
from tests.jjq.cutproxy import proxied
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, hurry, numbers, said, served, until, values

PATIENT = RemoteSettings(timeout_seconds=20.0)


def push_all(remote: RemoteStore, count: int, producer: str = "p", first: int = 0) -> Any:
    """`count` pushes at once, numbered."""
    pushes = [
        remote.push("orders", numbers(n, 1), producer=producer, sequence=n)
        for n in range(first, first + count)
    ]
    return asyncio.gather(*pushes)


async def stored(store: Any) -> list[bytes]:
    return [value async for batch in store.read("orders") for value in said(batch)]


async def test_many_pushes_at_once_keep_their_order(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    receipts = await push_all(jjq.remote, 500)
    assert [r.first_offset for r in receipts] == list(range(500))
    assert await stored(jjq.store) == [b"%d" % n for n in range(500)]


@pytest.mark.parametrize("cuts", [200, 1_000, 5_000])
async def test_a_broken_connection_loses_and_doubles_nothing(jjq: Served, cuts: int) -> None:
    """Cut again and again, at places that depend on how many bytes have passed."""
    async with proxied(jjq.server.address) as proxy, RemoteStore(proxy.address, PATIENT) as remote:
        await remote.create_queue("orders")
        for round_ in range(5):
            proxy.cut_after = cuts
            receipts = await push_all(remote, 100, first=100 * round_)
            assert [r.first_offset for r in receipts] == list(range(100 * round_, 100 * round_ + 100))
            proxy.cut()
        assert await stored(jjq.store) == [b"%d" % n for n in range(500)]
        assert proxy.connections > 1


async def test_lost_receipts_are_asked_for_again_and_nothing_is_written_twice(fake: Served) -> None:
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, PATIENT) as remote:
        await remote.create_queue("orders")
        await push_all(remote, 1)
        proxy.swallow = True
        before = proxy.passed
        rest = asyncio.ensure_future(push_all(remote, 10, first=1))
        await until(lambda: proxy.passed > before)
        proxy.cut_swallowed()
        receipts = await rest
        assert [r.first_offset for r in receipts] == list(range(1, 11))
        assert any(r.duplicate for r in receipts)
        assert (await fake.store.get_queue("orders")).next_offset == 11


async def test_pushes_go_on_when_the_server_is_replaced() -> None:
    store = FakeStore()
    first = await serve(store, ServerSettings(listen="127.0.0.1:0"))
    async with RemoteStore(first.address, PATIENT) as remote:
        await remote.create_queue("orders")
        await push_all(remote, 5)
        await first.stop()
        later = asyncio.ensure_future(push_all(remote, 5, first=5))
        second = await serve(store, ServerSettings(listen=first.address))
        assert [r.first_offset for r in await later] == [5, 6, 7, 8, 9]
        await second.stop(0)


class Refusing(FakeStore):
    """Refuses a push now and then, as a full journal does."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.seen = 0

    async def append(self, push: Push) -> Receipt:
        self.seen += 1
        if self.seen % self.every == 0:
            raise Exhausted("full for a moment", retry_after=0.01)
        return await super().append(push)


@pytest.mark.parametrize("every", [5, 9, 30])
async def test_refusals_that_pass_are_waited_out_in_order(every: int) -> None:
    async with served(Refusing(every)) as jjq:
        await jjq.remote.create_queue("orders")
        one, other = await asyncio.gather(push_all(jjq.remote, 20, "p"), push_all(jjq.remote, 20, "q"))
        for receipts in (one, other):
            offsets = [r.first_offset for r in receipts]
            assert offsets == sorted(offsets)
        assert (await jjq.store.get_queue("orders")).next_offset == 40


async def test_a_push_that_is_wrong_fails_and_those_behind_it_fail_cleanly(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    empty = payload("bytes", [])
    outcomes = await asyncio.gather(
        jjq.remote.push("orders", values(b"0"), producer="p", sequence=0),
        jjq.remote.push("orders", empty, producer="p", sequence=1),
        jjq.remote.push("orders", values(b"2"), producer="p", sequence=2),
        jjq.remote.push("orders", values(b"x"), producer="q", sequence=9),
        return_exceptions=True,
    )
    assert [type(o) for o in outcomes] == [Receipt, InvalidInput, Conflict, Receipt]
    await jjq.remote.push("orders", values(b"1"), producer="p", sequence=1)
    await jjq.remote.push("orders", values(b"2"), producer="p", sequence=2)
    assert await stored(jjq.store) == [b"0", b"x", b"1", b"2"]


async def test_other_elements_under_the_same_identity_are_refused(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    first = await jjq.remote.push("orders", values(b"a"), producer="p", sequence=0)
    with pytest.raises(Conflict, match="pushed other elements as sequence 0 before"):
        await jjq.remote.push("orders", values(b"b"), producer="p", sequence=0)
    again = await jjq.remote.push("orders", values(b"a"), producer="p", sequence=0)
    assert again == replace(first, duplicate=True)
    assert await stored(jjq.store) == [b"a"]


async def test_an_unknown_queue_fails_every_push_to_it(jjq: Served) -> None:
    outcomes = await asyncio.gather(
        *(jjq.remote.push("nowhere", values(b"a"), producer="p", sequence=n) for n in range(3)),
        return_exceptions=True,
    )
    assert all(isinstance(o, Exception) for o in outcomes)


async def test_bytes_in_flight_are_bounded_and_order_is_kept(fake: Served) -> None:
    small = RemoteSettings(timeout_seconds=20.0, in_flight_bytes_max=3_000)
    async with RemoteStore(fake.server.address, small) as remote:
        await remote.create_queue("orders")
        pushes = asyncio.ensure_future(push_all(remote, 200))
        most = 0
        while not pushes.done():
            await asyncio.sleep(0)
            most = max(most, remote._pipelines["orders"]._bytes if remote._pipelines else 0)
        assert [r.first_offset for r in await pushes] == list(range(200))
        assert most < 3_000 + 1_000  # one push may pass the limit


async def test_no_receipt_in_time_is_of_unknown_outcome_and_a_retry_is_safe(fake: Served) -> None:
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, RemoteSettings()) as remote:
        await remote.create_queue("orders")
        proxy.swallow = True
        hurry(remote)
        with pytest.raises(Unavailable, match="same sequence"):
            await remote.push("orders", values(b"a"), producer="p", sequence=0)
        proxy.cut_swallowed()
    again = await fake.remote.push("orders", values(b"a"), producer="p", sequence=0)
    assert (again.first_offset, (await fake.store.get_queue("orders")).next_offset) == (0, 1)


async def test_closing_tells_those_who_wait(fake: Served) -> None:
    async with proxied(fake.server.address) as proxy:
        remote = RemoteStore(proxy.address, PATIENT)
        await remote.create_queue("orders")
        proxy.swallow = True
        push = asyncio.ensure_future(remote.push("orders", values(b"a"), producer="p", sequence=0))
        await until(lambda: remote._pipelines)
        await remote.close()
        with pytest.raises(Unavailable, match="closed"):
            await push


class Gated(FakeStore):
    """Takes pushes when a gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.begun = 0

    async def append(self, push: Push) -> Receipt:
        self.begun += 1
        await self.gate.wait()
        return await super().append(push)


async def test_a_push_that_was_withdrawn_before_it_was_sent_is_not_sent_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jjq.remote.ordered_pushes.PRODUCER_RECEIPTS_MAX", 1)  # so that the second one waits
    store = Gated()
    async with served(store) as jjq:
        await jjq.remote.create_queue("orders")
        first = asyncio.ensure_future(push_all(jjq.remote, 1))
        await until(lambda: store.begun == 1)
        second = asyncio.ensure_future(jjq.remote.push("orders", values(b"gone"), producer="p", sequence=1))
        await until(lambda: len(jjq.remote._pipelines["orders"]._pending) == 2)
        second.cancel()
        await asyncio.wait([second])
        store.gate.set()
        await first
        await jjq.remote.push("orders", values(b"new"), producer="p", sequence=1)
        assert await stored(store) == [b"0", b"new"]
