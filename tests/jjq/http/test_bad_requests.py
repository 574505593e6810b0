"""Requests that are wrong, slow or hostile: 4xx or closed, and others are served meanwhile (FAULTS.md, row 35)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jjq import limits
from jjq.http import connection
from jjq.http.settings import HttpSettings
from jjq.http.v1 import elements
from tests.jjq.http.asking import Web, web_in, web_over
from tests.jjq.serving import hot_store, until

HOST = b"Host: localhost\r\n"
PUSH = b"POST /v1/queues/raw/elements HTTP/1.1\r\n" + HOST + b"Content-Type: text/plain\r\n"


MALFORMED = [
    (b"GET /healthz HTTP/1.1\r\n\r\n", 400),  # no Host
    (b"GET /healthz HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01", 400),  # TLS to a server without
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    (PUSH + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (PUSH + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", 400),
    (PUSH + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    (PUSH + b"Content-Length: -1\r\n\r\n", 400),
    (PUSH + b"Content-Length: +1\r\n\r\na", 400),
    (PUSH + b"Transfer-Encoding: gzip, chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400),
    (PUSH + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n", 400),  # bare CR
    (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X : a\r\n\r\n", 400),  # space before the colon
    (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n", 400),
    (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 20_000 + b"\r\n\r\n", 431),
    (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 200 + b"\r\n", 431),
    (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 100_000, 431),  # … that never ends
]


async def test_what_is_not_http_is_refused_and_closed(orders: Web) -> None:
    for sent, status in MALFORMED:
        said = await orders.talk(sent)
        assert said.startswith(b"HTTP/1.1 %d " % status), (sent[:200], said[:300])
        assert said.count(b"HTTP/1.1 ") == 1, "one request has one answer"
        assert b"application/problem+json" in said
    assert (await orders.ask("GET", "/healthz")).status == 200


async def test_folded_headers_never_become_two_meanings(orders: Web) -> None:
    """A header that goes on in the next line (obs-fold) is refused, or read as one value; never as a new header."""
    sent = (
        b"GET /healthz HTTP/1.1\r\n"
        + HOST
        + b"X: a\r\n Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    said = await orders.talk(sent)
    assert said.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200"))
    assert said.count(b"HTTP/1.1 ") == 1


PATHS = ["/v1//queues", "/v1/queues/", "/v1/queues/..", "/v1/queues/%2e%2e", "/v1/queues/a%2Fb", "/v1/queues/%00",
     "/v1/queues/a;b", "/v2/queues", "/v1/queues/raw/elements/", "/%76%31/nothing", "/v1/queues/%ff"]  # fmt: skip


async def test_tricks_with_paths_find_nothing(orders: Web) -> None:
    for path in PATHS:
        said = await orders.ask("GET", path)
        assert said.status in {400, 404}, (path, said.body)
        assert said.headers["content-type"] == "application/problem+json"


async def test_a_method_that_does_not_go_with_a_path_is_405(orders: Web) -> None:
    said = await orders.ask("DELETE", "/v1/queues")
    assert (said.status, said.headers["allow"]) == (405, "GET, POST")
    assert said.json["code"] == "INVALID_ARGUMENT"
    assert (await orders.ask("GET", "/v1/nothing")).json["code"] == "NOT_FOUND"


async def test_a_web_page_of_a_stranger_is_refused(orders: Web) -> None:
    rebound = await orders.ask("GET", "/v1/queues", Host="evil.example:7576")
    assert (rebound.status, "http_hosts" in rebound.json["detail"]) == (421, True)
    forged = await orders.ask("POST", "/v1/queues/raw/elements", b"x", Content_Type="text/plain",
                              Origin="https://evil.example")  # fmt: skip
    assert (forged.status, "http_origins" in forged.json["detail"]) == (403, True)
    own = await orders.ask("GET", "/v1/queues", Origin=f"http://127.0.0.1:{orders.port}")
    assert (own.status, (await orders.store.get_queue("raw")).next_offset) == (200, 0)


async def test_pages_of_listed_origins_may_ask_and_read_what_they_need(tmp_path: Path) -> None:
    page = {"Origin": "https://shop.example"}
    settings = HttpSettings("127.0.0.1:0", origins=frozenset(page.values()))
    async with web_in(tmp_path, settings) as web:
        asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "jjq-signature"}
        before = await web.ask("OPTIONS", "/v1/queues/raw/elements", **page, **asked)
        allowed = before.headers["access-control-allow-headers"].split(", ")
        assert (before.status, before.headers["access-control-allow-origin"]) == (204, page["Origin"])
        sent = {p.name.lower() for route in elements.ROUTES for p in route.parameters if p.place == "header"}
        assert sent | {"authorization", "content-type", "last-event-id", "x-request-id"} <= set(allowed)
        told = await web.ask("GET", "/v1/queues", **page)
        assert (told.status, told.headers["vary"]) == (200, "origin")
        assert "retry-after" in told.headers["access-control-expose-headers"]
        other = await web.ask("OPTIONS", "/v1/queues", Origin="https://evil.example", **asked)
        assert (other.status, "access-control-allow-origin" in other.headers) == (403, False)


async def test_a_server_for_others_has_any_name_until_it_is_told_its_names(tmp_path: Path) -> None:
    async with hot_store(tmp_path) as store:
        for names, status in ((frozenset[str](), 200), (frozenset({"jjq.example"}), 421)):
            async with web_over(store, HttpSettings("0.0.0.0:0", hosts=names)) as web:
                assert (await web.ask("GET", "/v1/queues", Host="evil.example")).status == status
                assert (await web.ask("GET", "/v1/queues", Host=f"JJQ.example:{web.port}")).status == 200
                assert (await web.ask("GET", "/v1/queues")).status == 200, "by its address"


async def test_bodies_are_refused_while_they_are_received(orders: Web) -> None:
    head = PUSH + b"Content-Length: %d\r\n\r\n" % (limits.HTTP_BODY_BYTES_MAX + 1)
    assert (await orders.talk(head, closes=False)).startswith(b"HTTP/1.1 413")

    reader, writer = await asyncio.open_connection("127.0.0.1", orders.port)
    writer.write(PUSH + b"Transfer-Encoding: chunked\r\n\r\n")
    chunk = b"100000\r\n" + b"x" * 2**20 + b"\r\n"

    async def send_for_ever() -> None:
        while True:
            writer.write(chunk)
            await writer.drain()

    sending = asyncio.create_task(send_for_ever())
    async with asyncio.timeout(30):
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413")
        with pytest.raises(ConnectionError):
            await sending
    writer.transport.abort()
    assert (await orders.store.get_queue("raw")).next_offset == 0


async def test_slow_headers_and_slow_bodies_end(orders: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HTTP_HEADER_SECONDS", 0.2)
    monkeypatch.setattr(connection, "HTTP_BODY_IDLE_SECONDS", 0.2)
    for sent in (b"", b"GET /heal", PUSH + b"Content-Length: 5\r\n\r\nab"):
        assert (await orders.talk(sent)).startswith(b"HTTP/1.1 408"), sent
    assert (await orders.store.get_queue("raw")).next_offset == 0


async def test_a_connection_too_many_takes_the_place_of_the_longest_idle(orders: Web) -> None:
    orders.listener._state.most = 20
    idle = [await asyncio.open_connection("127.0.0.1", orders.port) for _ in range(40)]
    await until(lambda: len(orders.listener._state.connections) <= 20)
    assert (await orders.ask("GET", "/healthz")).status == 200
    assert await idle[0][0].read() == b""
    for _, writer in idle:
        writer.transport.abort()


async def test_a_header_that_may_occur_once_occurs_once(orders: Web) -> None:
    said = await orders.talk(
        PUSH + b"Jjq-Key: a\r\nJjq-Key: b\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"
    )
    assert said.startswith(b"HTTP/1.1 400")
    assert b"occurs twice" in said


async def test_two_requests_in_one_packet_get_two_answers_in_order(orders: Web) -> None:
    one = PUSH + b"Content-Length: 1\r\n\r\na"
    two = b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    said = await orders.talk(one + two)
    assert said.count(b"HTTP/1.1 200") == 2
    assert said.index(b"first_offset") < said.index(b"ok\n")


async def test_an_unforeseen_failure_is_a_problem_and_says_nothing_of_the_inside(orders: Web) -> None:
    async def broken(name: str) -> None:
        raise RuntimeError("secret of the inside")

    orders.store.get_queue = broken
    said = await orders.ask("GET", "/v1/queues/raw")
    assert (said.status, said.json["code"]) == (500, "INTERNAL")
    assert b"secret" not in said.body
    del orders.store.get_queue


async def test_a_request_that_is_broken_off_gets_a_problem_too(orders: Web) -> None:
    async def ended(name: str) -> None:
        raise asyncio.CancelledError

    orders.store.get_queue = ended
    said = await orders.ask("GET", "/v1/queues/raw")
    assert (said.status, said.json["code"], "unknown" in said.json["detail"]) == (503, "UNAVAILABLE", True)
    del orders.store.get_queue
