"""Reads that are resumed: no gap, nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.errors import NotFound, Unavailable
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from tests.jjq.cutproxy import proxied
from tests.jjq.serving import Served, numbers, until

PATIENT = RemoteSettings(timeout_seconds=20.0)


async def filled(jjq: Served, batches: int = 20) -> None:
    await jjq.remote.create_queue("orders")
    for n in range(batches):
        await jjq.remote.push("orders", numbers(n * 2_000, 2_000))


@pytest.mark.parametrize("cut", [1_000, 20_000, 100_000, 300_000])
async def test_a_range_is_read_whole_over_broken_connections(fake: Served, cut: int) -> None:
    await filled(fake)
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, PATIENT) as remote:
        proxy.cut_again = 3
        proxy.cut_after = cut
        seen: list[int] = []
        async for batch in remote.read("orders", "offset:10"):
            seen += batch.column("offset").to_pylist()
        assert seen == list(range(10, 40_000))
        assert proxy.connections > 1


async def test_the_end_stays_where_it_was_when_the_read_began(fake: Served) -> None:
    await filled(fake, 2)
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, PATIENT) as remote:
        reading = remote.read("orders")
        seen = (await anext(reading)).num_rows
        await fake.remote.push("orders", numbers(0, 100))
        proxy.cut()
        async for batch in reading:
            seen += batch.num_rows
        assert seen == 4_000


async def test_a_read_that_follows_misses_nothing_pushed_while_it_was_cut_off(fake: Served) -> None:
    await filled(fake, 1)
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, PATIENT) as remote:
        # Not from "end": what that means is only settled once the server's answer has come through.
        follow = remote.read("orders", "offset:2000", follow=True)
        waiting = asyncio.ensure_future(anext(follow))
        await until(lambda: proxy.passed and fake.server.metrics.meter("Read").open)
        seen: list[int] = []
        for round_ in range(3):
            proxy.refuse = True
            proxy.cut()
            await fake.remote.push("orders", numbers(0, 10))
            proxy.refuse = False
            while len(seen) < 10 * (round_ + 1):
                seen += (await waiting).column("offset").to_pylist()
                waiting = asyncio.ensure_future(anext(follow))
        assert seen == list(range(2_000, 2_030))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_what_cannot_be_read_is_told_at_once(fake: Served) -> None:
    with pytest.raises(NotFound):
        await anext(fake.remote.read("nowhere"))


async def test_a_server_that_stays_away_ends_the_read(fake: Served) -> None:
    await filled(fake, 5)
    hasty = RemoteSettings(timeout_seconds=2.0)
    async with proxied(fake.server.address) as proxy, RemoteStore(proxy.address, hasty) as remote:
        reading = remote.read("orders")
        await anext(reading)
        proxy.refuse = True
        proxy.cut()
        with pytest.raises(Unavailable):
            async for _ in reading:
                pass


async def test_a_reader_that_stops_leaves_no_stream_behind(fake: Served) -> None:
    await filled(fake, 5)
    reading = fake.remote.read("orders")
    await anext(reading)
    await reading.aclose()  # type: ignore[attr-defined]
    meter = fake.server.metrics.meter("Read")
    await until(lambda: not meter.open)
