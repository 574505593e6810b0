"""What Prometheus sees."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest

from coldstore.shared.errors import InvalidInput, NotFound, Unavailable
from hotstore.read.listing import Lag
from hotstore.read.status import installed_version
from jjq.limits import COLLECT_AFTER
from jjq.server import stalls
from jjq.server.metrics import Gauges, Lags
from jjq.server.settings import ServerSettings
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, hot_store, numbers, served, values

WITH_METRICS = ServerSettings(listen="127.0.0.1:0", metrics="127.0.0.1:0")


class Measured(FakeStore):
    """A fake with figures."""

    def gauges(self) -> Mapping[str, float]:
        return {"journal_bytes": 12.0, "journal_syncs_total": 7.0}

    async def lags(self) -> list[Lag]:
        return [Lag("orders", "x", 5, 2.5), Lag("orders", "y", 0, 0.0)]


async def page(jjq: Served) -> dict[str, float]:
    """Every sample by its name and labels."""

    def fetch() -> str:
        with urlopen(f"http://127.0.0.1:{jjq.server.metrics_port}/metrics", timeout=10) as reply:
            text: str = reply.read().decode()
            return text

    lines = (await asyncio.to_thread(fetch)).splitlines()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if line and line[0] != "#")
    }


async def test_the_version_is_among_the_figures() -> None:
    async with served(FakeStore(), WITH_METRICS) as jjq:
        [build] = [name for name in await page(jjq) if name.startswith("jjq_build_info{")]
    assert f'version="{installed_version()}"' in build


async def test_calls_bytes_elements_and_latencies_are_counted() -> None:
    async with served(FakeStore(), WITH_METRICS) as jjq:
        await jjq.remote.create_queue("orders")
        await jjq.remote.create_subscriber("orders", "x", "beginning")
        await jjq.remote.push("orders", numbers(0, 5))
        await jjq.remote.push("orders", values(b"a"), producer="p", sequence=0)
        await jjq.remote.pop("orders/x", 4)
        with pytest.raises(NotFound):
            await jjq.remote.get_queue("nowhere")
        found = await page(jjq)
    assert found['jjq_calls_total{code="OK",method="Push"}'] == 1
    assert found['jjq_calls_total{code="NOT_FOUND",method="GetQueue"}'] == 1
    assert found['jjq_elements_total{method="Push"}'] == 5
    assert found['jjq_elements_total{method="PushStream"}'] == 1
    assert found['jjq_elements_total{method="Pop"}'] == 4
    assert found['jjq_received_bytes_total{method="Push"}'] > 100
    assert found['jjq_sent_bytes_total{method="Pop"}'] > 100
    assert found['jjq_seconds_count{method="Push"}'] == 1
    assert found['jjq_seconds_count{method="PushStream"}'] == 1
    assert found['jjq_open_streams{method="PushStream"}'] == 1


async def test_the_stores_figures_and_every_subscribers_lag_are_shown() -> None:
    store = Measured()
    assert isinstance(store, Gauges)
    assert isinstance(store, Lags)
    async with served(store, WITH_METRICS) as jjq:
        found = await page(jjq)
    assert found["jjq_journal_bytes"] == 12.0
    assert found["jjq_journal_syncs_total"] == 7.0
    assert found['jjq_subscriber_lag_elements{queue="orders",subscriber="x"}'] == 5
    assert found['jjq_subscriber_lag_seconds{queue="orders",subscriber="x"}'] == 2.5
    assert found['jjq_subscriber_lag_seconds{queue="orders",subscriber="y"}'] == 0


async def test_the_real_store_has_figures(tmp_path: Path) -> None:
    async with hot_store(tmp_path) as store, served(store, WITH_METRICS) as jjq:
        assert isinstance(store, Gauges)
        await jjq.remote.create_queue("orders")
        await jjq.remote.push("orders", numbers(0, 5))
        await jjq.remote.create_subscriber("orders", "behind", "last:3")
        await jjq.remote.create_subscriber("orders", "ahead", "end")
        found = await page(jjq)
    assert found['jjq_subscriber_lag_elements{queue="orders",subscriber="behind"}'] == 3
    assert 0 < found['jjq_subscriber_lag_seconds{queue="orders",subscriber="behind"}'] < 60
    assert found['jjq_subscriber_lag_seconds{queue="orders",subscriber="ahead"}'] == 0
    for name in (
        "journal_bytes",
        "exposed_bytes",
        "exposed_seconds",
        "hot_bytes",
        "journal_sync_seconds_total",
    ):
        assert found[f"jjq_{name}"] >= 0, name


async def test_a_store_that_does_not_answer_hides_nothing_else() -> None:
    class Mute(FakeStore):
        """Cannot tell."""

        async def lags(self) -> list[Lag]:
            raise Unavailable("not now")

    async with served(Mute(), WITH_METRICS) as jjq:
        await jjq.remote.list_queues()
        assert (await page(jjq))['jjq_calls_total{code="OK",method="ListQueues"}'] == 1


async def test_servers_of_one_process_do_not_add_up() -> None:
    async with served(FakeStore(), WITH_METRICS) as one, served(FakeStore(), WITH_METRICS) as other:
        await one.remote.list_queues()
        assert 'jjq_calls_total{code="OK",method="ListQueues"}' in await page(one)
        assert (await page(other)).get('jjq_calls_total{code="OK",method="ListQueues"}', 0) == 0


async def test_a_port_in_use_is_told_at_the_start() -> None:
    async with served(FakeStore(), WITH_METRICS) as jjq:
        taken = ServerSettings(listen="127.0.0.1:0", metrics=f"127.0.0.1:{jjq.server.metrics_port}")
        with pytest.raises(InvalidInput, match="metrics"):
            async with served(FakeStore(), taken):
                pass


async def test_a_loop_that_is_held_up_is_seen() -> None:
    async with served(FakeStore(), WITH_METRICS) as jjq:
        before = await page(jjq)
        threading.Event().wait(0.25)  # on the event loop
        after = await page(jjq)

    def late(found: dict[str, float]) -> float:
        name = "jjq_loop_stall_seconds"
        return found[f"{name}_count"] - found[f'{name}_bucket{{le="0.1"}}']

    assert late(after) > late(before)
    assert after["jjq_loop_stall_seconds_sum"] - before["jjq_loop_stall_seconds_sum"] > 0.1


def test_garbage_of_a_server_is_what_was_made_since_its_start() -> None:
    thresholds = gc.get_threshold()
    try:
        with stalls.frozen():
            assert gc.get_freeze_count() > len(gc.get_objects())
            assert gc.get_threshold() == COLLECT_AFTER
        assert gc.get_freeze_count() == 0
    finally:
        gc.set_threshold(*thresholds)
