"""Replay over HTTP: four forms, ranges, and events that go on where they were."""

from __future__ import annotations

import asyncio
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.jjq.http.asking import Web
from tests.jjq.serving import until

ELEMENTS = "/v1/queues/orders/elements"
NDJSON, ARROW, EVENTS = "application/x-ndjson", "application/vnd.apache.arrow.stream", "text/event-stream"


@pytest.fixture
async def filled(orders: Web) -> Web:
    """Ten elements."""
    lines = b"\n".join(b'{"n":%d}' % n for n in range(10))
    assert (await orders.ask("POST", ELEMENTS, lines, Content_Type=NDJSON)).status == 200
    return orders


class Events:
    """A stream of events, as a browser reads it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, web: Web, query: str = "", last: str = "") -> Events:
        reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
        more = f"Last-Event-ID: {last}\r\n" if last else ""
        writer.write(
            f"GET {ELEMENTS}{query} HTTP/1.1\r\nHost: localhost\r\nAccept: {EVENTS}\r\n{more}\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        assert b"text/event-stream" in head
        return cls(reader, writer)

    async def next(self) -> tuple[int, dict[str, object]]:
        """The next event: its id and its data."""
        found: dict[str, str] = {}
        async with asyncio.timeout(20):
            while True:
                line = (await self._reader.readuntil(b"\n")).decode().strip()
                if line.startswith(("id: ", "data: ")):
                    name, _, text = line.partition(": ")
                    found[name] = text
                elif not line and "data" in found:
                    return int(found["id"]), json.loads(found["data"])

    def close(self) -> None:
        self._writer.transport.abort()


async def test_lines_are_the_default_and_ranges_are_cut(filled: Web) -> None:
    every = await filled.ask("GET", ELEMENTS)
    assert every.headers["content-type"] == NDJSON
    assert [line["value"]["n"] for line in every.lines] == list(range(10))
    some = await filled.ask("GET", f"{ELEMENTS}?start=offset:3&end=offset:7&limit=3")
    assert [line["offset"] for line in some.lines] == [3, 4, 5]
    assert (await filled.ask("GET", f"{ELEMENTS}?start=end")).body == b""
    beyond = await filled.ask("GET", f"{ELEMENTS}?start=offset:99")
    assert (beyond.status, beyond.json["code"], beyond.json["next"]) == (400, "OUT_OF_RANGE", 10)


async def test_a_json_page_says_where_the_next_begins(filled: Web) -> None:
    page = (await filled.ask("GET", f"{ELEMENTS}?limit=4", Accept="application/json")).json
    assert [element["offset"] for element in page["elements"]] == [0, 1, 2, 3]
    assert (page["position"], page["next"]) == (0, 4)
    rest = (await filled.ask("GET", f"{ELEMENTS}?start=offset:4", Accept="application/json")).json
    assert (len(rest["elements"]), rest["next"]) == (6, 10)


async def test_arrow_batches(filled: Web) -> None:
    said = await filled.ask("GET", ELEMENTS, Accept=ARROW)
    table = pa.ipc.open_stream(said.body).read_all()
    assert table.column("offset").to_pylist() == list(range(10))
    assert table.column("value")[9].as_py() == '{"n":9}'
    empty = await filled.ask("GET", f"{ELEMENTS}?start=end", Accept=ARROW)
    assert pa.ipc.open_stream(empty.body).read_all().num_rows == 0


async def test_events_follow_and_resume_after_the_last_one_seen(filled: Web) -> None:
    events = await Events.open(filled, "?start=offset:8")
    seen = [await events.next() for _ in range(2)]
    assert [(number, data["value"]) for number, data in seen] == [(8, {"n": 8}), (9, {"n": 9})]
    await filled.ask("POST", ELEMENTS, b'{"n":10}\n{"n":11}', Content_Type=NDJSON)
    assert (await events.next())[0] == 10
    events.close()
    again = await Events.open(filled, last="10")
    assert (await again.next())[0] == 11
    again.close()


async def test_a_client_that_hangs_up_ends_its_stream(filled: Web) -> None:
    events = await Events.open(filled)
    await events.next()
    meter = filled.server.metrics.meter("http_replay")
    assert meter.open == 1
    events.close()
    await until(lambda: meter.open == 0)


async def test_a_line_break_in_a_value_does_not_break_a_line(orders: Web) -> None:
    sent = b'{"elements":[{"value":{\n"a":\r\n1}}]}'
    assert (await orders.ask("POST", ELEMENTS, sent, Content_Type="application/json")).status == 200
    assert [line["value"] for line in (await orders.ask("GET", ELEMENTS)).lines] == [{"a": 1}]
    events = await Events.open(orders)
    assert (await events.next())[1]["value"] == {"a": 1}
    events.close()


async def test_what_cannot_be_asked_for(filled: Web) -> None:
    assert (await filled.ask("GET", ELEMENTS, Accept="image/png")).status == 406
    for query in (
        "follow=maybe",
        "limit=-1",
        "limit=x",
        "colour=red",
        "start=nowhere",
        "start=%ff",
        "limit=1&limit=2",
    ):
        said = await filled.ask("GET", f"{ELEMENTS}?{query}")
        assert said.status == 400, (query, said.body)
    both = await filled.ask("GET", f"{ELEMENTS}?follow=true&end=offset:3")
    assert both.status == 400
    assert (await filled.ask("GET", f"{ELEMENTS}?follow=true", Accept="application/json")).status == 400


async def test_head_has_headers_alone(filled: Web) -> None:
    said = await filled.ask("HEAD", ELEMENTS)
    assert (said.status, said.body, said.headers["content-type"]) == (200, b"", NDJSON)
    assert (await filled.ask("HEAD", "/healthz")).status == 200


async def test_long_values_are_cut_where_that_is_asked_for(orders: Web) -> None:
    long = json.dumps({"text": "ä" * 600}, ensure_ascii=False)
    await orders.ask("POST", ELEMENTS, f'{{"n":1}}\n{long}\n'.encode(), Content_Type=NDJSON)
    await orders.ask("POST", "/v1/queues/raw/elements", b"\xff" * 50, Content_Type="application/octet-stream")
    for accept in (NDJSON, "application/json"):
        said = await orders.ask("GET", f"{ELEMENTS}?cut=100", Accept=accept)
        short, cut = said.lines if accept == NDJSON else said.json["elements"]
        assert short["value"] == {"n": 1}
        assert (cut["value_cut"], cut["value_bytes"]) == (long[:100], len(long.encode()))
        assert "value" not in cut
    (raw,) = (await orders.ask("GET", "/v1/queues/raw/elements?cut=4")).lines
    assert (raw["value_cut"], raw["value_bytes"]) == ("\ufffd" * 4, 50)
    assert (await orders.ask("GET", f"{ELEMENTS}?cut=100", Accept=ARROW)).status == 400


async def test_a_range_is_one_parquet_file(filled: Web) -> None:
    kind = "application/vnd.apache.parquet"
    said = await filled.ask("GET", f"{ELEMENTS}?start=offset:3&limit=2", Accept=kind)
    assert said.headers["content-type"] == kind
    table = pq.read_table(pa.BufferReader(said.body))
    assert table.column("offset").to_pylist() == [3, 4]
    assert table.column("value").to_pylist() == ['{"n":3}', '{"n":4}']
    nothing = await filled.ask("GET", f"{ELEMENTS}?start=end", Accept=kind)
    assert pq.read_table(pa.BufferReader(nothing.body)).num_rows == 0
    assert (await filled.ask("GET", f"{ELEMENTS}?follow=true", Accept=kind)).status == 400


async def test_a_parquet_file_that_would_be_too_large_is_refused(
    filled: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jjq.http.v1.parquet.HTTP_PARQUET_BYTES_MAX", 20)
    said = await filled.ask("GET", ELEMENTS, Accept="application/vnd.apache.parquet")
    assert (said.status, "Arrow" in said.json["detail"]) == (400, True)
