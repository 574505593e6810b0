"""GET /v1/live: samples of rates, nodes and queues, for whoever may see them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jjq.http.backend import Backend
from jjq.http.v1.live import LiveFigures, _Totals
from jjq.server.meter import Meter
from tests.jjq.http.asking import Web


@asynccontextmanager
async def samples(web: Web, query: str = "") -> AsyncIterator[AsyncIterator[Any]]:
    """The samples of a stream of events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
    writer.write(
        f"GET /v1/live{query} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
    )

    async def each() -> AsyncIterator[Any]:
        while line := await reader.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    try:
        async with asyncio.timeout(20):
            yield each()
    finally:
        writer.transport.abort()


async def test_a_sample_tells_of_nodes_rates_and_the_queues_that_were_named(orders: Web) -> None:
    await orders.send("POST", "/v1/queues/orders/elements", {"elements": [{"value": 1}, {"value": 2}]})
    await orders.send("POST", "/v1/queues/orders/subscribers", {"name": "s", "start": "beginning"})
    await orders.send("POST", "/v1/queues/orders/groups", {"name": "g"})
    said = await orders.ask("GET", "/v1/live?queues=raw,nothing&details=orders", Accept="application/json")
    assert said.status == 200
    found = said.json
    assert [node["error"] for node in found["nodes"]] == [""]
    assert found["rates"]["calls"] >= 0
    queues = {queue["name"]: queue for queue in found["queues"]}
    assert set(queues) == {"raw", "orders"}  # one that is not there is left out
    assert queues["raw"]["subscribers"] is None
    assert (queues["orders"]["next_offset"], queues["orders"]["first_offset"]) == (2, 0)
    (subscriber,) = queues["orders"]["subscribers"]
    assert (subscriber["name"], subscriber["offset"], subscriber["lag"]) == ("s", 0, 2)
    assert subscriber["lag_seconds"] > 0
    assert [group["name"] for group in queues["orders"]["groups"]] == ["g"]


async def test_a_stream_shows_a_push_and_listeners_do_not_see_each_others_queues(orders: Web) -> None:
    async with samples(orders, "?queues=orders") as mine, samples(orders, "?queues=raw") as others:
        assert [queue["name"] for queue in (await anext(mine))["queues"]] in (["orders"], [])
        await orders.send("POST", "/v1/queues/orders/elements", {"elements": [{"value": 1}]})
        seen = [await anext(mine)]
        while not any((each["rates"] or {}).get("pushed") for each in seen):
            seen.append(await anext(mine))
        async for each in mine:
            if each["queues"][0]["next_offset"] == 1:
                break
        pushed = next(each for each in seen if each["rates"] and each["rates"]["pushed"])
        assert 0 < pushed["latency"]["push_p50"] <= pushed["latency"]["push_p99"]
        async for each in others:
            assert "orders" not in [queue["name"] for queue in each["queues"]]
            if each["queues"]:
                break


async def test_bad_names_and_too_many_are_refused(web: Web) -> None:
    assert (await web.ask("GET", "/v1/live?queues=a/b")).status == 400
    many = ",".join(f"q{n}" for n in range(101))
    said = await web.ask("GET", f"/v1/live?queues={many}")
    assert said.status == 400
    assert "at most 100" in said.json["detail"]


async def test_nothing_is_sampled_when_nobody_listens(web: Web) -> None:
    figures = LiveFigures()
    with figures.listening(Backend.over(web.store), frozenset(), frozenset()):
        working = figures._working
        assert working is not None
        assert (await figures.sample()).rates is None  # a first one has nothing to compare with
    await asyncio.wait((working,), timeout=5)
    assert working.cancelled()
    assert figures._working is None


def test_a_histogram_gives_the_time_of_a_share_of_calls() -> None:
    meter = Meter("Push")
    before = _Totals(0.0, [meter])
    for _ in range(98):
        meter.took(0.002)
    meter.took(0.3)
    meter.took(40.0)
    found = _Totals(2.0, [meter]).latency_since(before)
    assert 0.001 < (found.push_p50 or 0) <= 0.0025
    assert 0.25 < (found.push_p99 or 0) <= 0.5
    assert found.pop_p50 is None
