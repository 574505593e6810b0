"""POST /v1/queues/{queue}/verify: the report of `jjq verify`, with progress, also of a store that is damaged."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import MIB
from coldstore.store import ColdStore
from hotstore.opening import open_store
from hotstore.settings import HotSettings
from tests.jjq.http.asking import Web, web_over

VERIFY = "/v1/queues/orders/verify"
EVENTS = "text/event-stream"
SETTINGS = HotSettings(segment_bytes=32 * MIB, journal_bytes_max=256 * MIB)


@asynccontextmanager
async def sealed(folder: Path, objects: MemoryObjects) -> AsyncIterator[Web]:
    """A server whose cold store can be reached, with two blocks in a queue."""
    clock, chance = SystemClock(), SystemChance()
    cold = ColdStore(objects, clock, chance)
    store = await open_store(folder, cold, settings=SETTINGS, clock=clock, chance=chance)
    try:
        async with web_over(store, cold=cold) as web:
            await web.send("PUT", "/v1/queues/orders", {"content": "json"})
            for line in (b"1\n2", b"3"):
                await web.ask("POST", "/v1/queues/orders/elements", line, Content_Type="application/x-ndjson")
                await web.send("POST", "/v1/queues/orders/seal")
            yield web
    finally:
        await store.close()


async def test_a_sound_queue_a_damaged_one_and_one_that_is_not_there(tmp_path: Path) -> None:
    objects = MemoryObjects()
    async with sealed(tmp_path, objects) as web:
        sound = (await web.send("POST", VERIFY)).json
        assert (sound["verdict"], sound["blocks"], sound["elements"], sound["defects"]) == ("ok", 2, 3, [])
        told = (await web.ask("POST", VERIFY, Accept=EVENTS)).body.decode()
        last = told.rpartition("event: ")[2]
        assert last.startswith("report\n")
        assert json.loads(last.partition("data: ")[2]) == sound
        key = next(info.key for info in objects.list("queues/orders/") if info.key.endswith(".parquet"))
        objects.put(key, b"not this")
        broken = (await web.send("POST", VERIFY)).json
        assert broken["verdict"] == "damaged"
        assert [defect["key"] for defect in broken["defects"]] == [key]
        assert (await web.send("POST", "/v1/queues/nothing/verify")).status == 404


async def test_one_runs_at_a_time_and_ends_when_its_client_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    verify = ColdStore.verify

    def slow(self: ColdStore, name: str, progress: object = None) -> object:
        begun.set()
        go.wait(20)
        return verify(self, name, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(ColdStore, "verify", slow)
    async with sealed(tmp_path, MemoryObjects()) as web:
        reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
        writer.write(
            f"POST {VERIFY} HTTP/1.1\r\nHost: localhost\r\nAccept: {EVENTS}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        async with asyncio.timeout(20):
            assert b"event: progress" in await reader.readuntil(b"event: progress")
        assert begun.is_set()
        second = await web.send("POST", VERIFY)
        assert (second.status, "another verification" in second.json["detail"]) == (429, True)
        writer.transport.abort()
        go.set()
        async with asyncio.timeout(20):
            while (await web.send("POST", VERIFY)).status == 429:
                pass  # until the first one has seen that nobody waits for it


async def test_a_server_without_history_of_its_own_says_so(orders: Web) -> None:
    said = await orders.send("POST", VERIFY)
    assert (said.status, "jjq verify" in said.json["detail"]) == (404, True)
