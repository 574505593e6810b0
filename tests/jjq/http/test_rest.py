"""REST: every verb of queues and subscribers, over a real store."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.jjq.http.asking import Web, web_in
from tests.jjq.serving import until

ELEMENTS = "/v1/queues/orders/elements"


async def test_a_queue_is_created_shown_changed_deleted_and_brought_back(web: Web) -> None:
    made = await web.send("POST", "/v1/queues", {"name": "orders", "content": "json", "block_seconds": 60})
    assert (made.status, made.headers["location"]) == (201, "/v1/queues/orders")
    assert made.json["content"] == "json"
    assert made.json["block_seconds"] == 60
    assert made.json["created"].endswith("Z")

    assert (await web.send("GET", "/v1/queues/orders")).json == made.json
    assert [queue["name"] for queue in (await web.send("GET", "/v1/queues")).json["queues"]] == ["orders"]
    changed = await web.send("PATCH", "/v1/queues/orders", {"block_seconds": 30})
    assert changed.json["block_seconds"] == 30

    tried = await web.send("DELETE", "/v1/queues/orders?dry_run=true")
    assert (tried.status, (await web.send("GET", "/v1/queues/orders")).status) == (200, 200)
    gone = await web.send("DELETE", "/v1/queues/orders?grace_seconds=3600")
    assert gone.json["queue"] == "orders"
    assert (await web.send("GET", "/v1/queues/orders")).status == 404
    assert (await web.send("POST", "/v1/queues/orders/undelete")).json["name"] == "orders"


async def test_lists_come_in_pages(web: Web) -> None:
    for name in ("a", "b", "c"):
        await web.send("PUT", f"/v1/queues/{name}")
    first = (await web.send("GET", "/v1/queues?page_size=2")).json
    rest = (await web.send("GET", f"/v1/queues?page_size=2&page_token={first['next_page_token']}")).json
    assert [queue["name"] for queue in first["queues"] + rest["queues"]] == ["a", "b", "c"]
    assert rest["next_page_token"] == ""
    foreign = await web.send("GET", f"/v1/subscribers?page_token={first['next_page_token']}")
    assert (foreign.status, foreign.json["code"]) == (400, "INVALID_ARGUMENT")


async def test_a_subscriber_pops_peeks_seeks_and_is_deleted(orders: Web) -> None:
    await orders.ask("POST", ELEMENTS, b'{"n":1}\n{"n":2}\n{"n":3}', Content_Type="application/x-ndjson")
    one = "/v1/queues/orders/subscribers/billing"
    made = await orders.send(
        "POST", "/v1/queues/orders/subscribers", {"name": "billing", "start": "beginning"}
    )
    assert (made.status, made.headers["location"], made.json["lag"]) == (201, one, 3)

    peeked = (await orders.send("GET", f"{one}/peek?max=2")).json
    popped = (await orders.send("POST", f"{one}/pop", {"max": 2})).json
    assert peeked == popped
    assert [element["value"] for element in popped["elements"]] == [{"n": 1}, {"n": 2}]
    assert (popped["position"], popped["next"]) == (0, 2)
    again = (await orders.send("POST", f"{one}/pop", {"max": 2, "position": 0})).json
    assert again == popped, "a retry that names the position gets the same elements"

    assert (await orders.send("POST", f"{one}/seek", {"start": "offset:1"})).json["offset"] == 1
    assert (await orders.send("POST", f"{one}/confirm", {"offset": 3})).status == 204
    assert (await orders.send("GET", one)).json["offset"] == 3
    assert (await orders.send("POST", f"{one}/sleep")).json["asleep"] is True
    assert (await orders.send("POST", f"{one}/wakeup")).status == 200
    listed = (await orders.send("GET", "/v1/queues/orders/subscribers")).json["subscribers"]
    assert [each["id"] for each in listed] == ["orders/billing"]
    assert (await orders.send("DELETE", one)).status == 204
    assert (await orders.send("GET", one)).status == 404


async def test_blocks_seal_and_status_are_shown(orders: Web) -> None:
    await orders.ask("POST", ELEMENTS, b"1\n2", Content_Type="application/x-ndjson")
    assert (await orders.send("POST", "/v1/queues/orders/seal")).json["cold_offset"] == 2
    blocks = (await orders.send("GET", "/v1/queues/orders/blocks")).json["blocks"]
    assert sum(block["count"] for block in blocks) == 2
    later = (await orders.send("GET", "/v1/queues/orders/blocks?from_offset=2")).json["blocks"]
    assert [block["first_offset"] for block in later] == [2]
    (node,) = (await orders.send("GET", "/v1/status")).json["nodes"]
    assert node["uptime_seconds"] >= 0
    alone = await orders.send("GET", "/v1/nodes")
    assert (alone.status, "alone" in alone.json["detail"]) == (404, True)
    lost = await orders.send("POST", "/v1/queues/orders/accept-loss", {"dry_run": True})
    assert lost.status in {200, 409}


async def test_health_readiness_and_figures(orders: Web) -> None:
    assert (await orders.ask("GET", "/healthz")).body == b"ok\n"
    assert (await orders.ask("GET", "/readyz")).status == 200
    await orders.ask("POST", ELEMENTS, b"1", Content_Type="application/x-ndjson")
    figures = (await orders.ask("GET", "/metrics")).body.decode()
    assert 'jjq_calls_total{code="OK",method="http_push"} 1.0' in figures
    assert 'jjq_elements_total{method="http_push"} 1.0' in figures
    assert "jjq_journal_bytes" in figures
    assert "jjq_http_connections 1.0" in figures


async def test_a_server_that_cannot_take_requests_is_not_ready_and_says_why(tmp_path: Path) -> None:
    why = ""
    async with web_in(tmp_path, state=lambda: why) as web:
        assert (await web.ask("GET", "/readyz")).status == 200
        why = "nothing more can be acknowledged: the disk is gone"
        poisoned = await web.ask("GET", "/readyz")
        assert (poisoned.status, poisoned.headers["retry-after"]) == (503, "1")
        assert why in poisoned.json["detail"]
        why = ""
        web.server.shared()["drain"].begin()
        assert "stopping" in (await web.ask("GET", "/readyz")).json["detail"]
        assert (await web.ask("GET", "/healthz")).status == 200


async def test_a_stopping_server_breaks_off_what_waits(orders: Web) -> None:
    await orders.send("POST", "/v1/queues/orders/subscribers", {"name": "s", "start": "beginning"})
    waiting = asyncio.create_task(
        orders.send("POST", "/v1/queues/orders/subscribers/s/pop", {"wait_seconds": 600})
    )
    await until(lambda: orders.server.shared()["drain"]._waiting)
    await asyncio.gather(orders.listener.stop(5.0), orders.server.stop(5.0))
    answer = await waiting
    assert (answer.status, answer.json["code"]) == (503, "UNAVAILABLE")
    assert answer.headers["retry-after"] == "1"
