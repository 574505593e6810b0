"""Connections: how many streams share one."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from coldstore.shared.clock import SystemClock
from jjq.limits import CHANNEL_STREAMS_MAX
from jjq.remote.channels import Link
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from tests.jjq.serving import Served, numbers


async def test_so_many_streams_share_a_connection_and_the_next_one_gets_another() -> None:
    link = Link("127.0.0.1:1", RemoteSettings(), SystemClock())
    with ExitStack() as streams:
        lanes = [streams.enter_context(link.stream()) for _ in range(2 * CHANNEL_STREAMS_MAX)]
        assert len({id(lane) for lane in lanes[:CHANNEL_STREAMS_MAX]}) == 1
        assert len({id(lane) for lane in lanes[CHANNEL_STREAMS_MAX:]}) == 1
        assert lanes[0] is not lanes[-1]
        # Calls stay with the first one
        assert link.lane() is lanes[0]
    # What has ended makes room
    with link.stream() as again:
        assert again is lanes[0]
        assert again.streams == 1
    await link.close()


async def test_streams_over_several_connections_all_deliver(
    fake: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jjq.remote.channels.CHANNEL_STREAMS_MAX", 2)
    async with RemoteStore(fake.server.address, RemoteSettings(timeout_seconds=20.0)) as remote:
        await remote.create_queue("orders")
        await remote.push("orders", numbers(0, 3))
        subscriptions = []
        for n in range(5):
            made = await remote.create_subscriber("orders", f"s{n}", "beginning")
            subscriptions.append(remote.subscribe(made.id))
            assert (await anext(subscriptions[-1])).batch.num_rows == 3
        assert len(remote._link._lanes[fake.server.address]) == 3
        for subscription in subscriptions:
            await subscription.close()
