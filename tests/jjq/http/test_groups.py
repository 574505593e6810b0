"""Worker groups over HTTP: create, take, and all that may become of a task."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from jjq.http.v1.documents import QueueDocument
from tests.jjq.access.keyed import keyed
from tests.jjq.http.asking import Web

NDJSON = "application/x-ndjson"
GROUP = "/v1/queues/orders/groups/ship"


async def with_tasks(web: Web, count: int = 4) -> None:
    lines = b"\n".join(b'{"n":%d}' % n for n in range(count))
    assert (await web.ask("POST", "/v1/queues/orders/elements", lines, Content_Type=NDJSON)).status == 200
    made = await web.send("POST", "/v1/queues/orders/groups", {"name": "ship", "settings": {"ttr": 30}})
    assert (made.status, made.headers["location"]) == (201, GROUP)
    assert made.json["settings"]["ttr"] == 30


async def test_tasks_are_taken_and_finished_in_every_way(orders: Web) -> None:
    await with_tasks(orders)
    taken = (await orders.send("POST", f"{GROUP}/take", {"max": 4, "worker": "w"})).json["tasks"]
    assert [(task["id"], task["attempt"], task["element"]["value"]) for task in taken] == [
        (n, 1, {"n": n}) for n in range(4)
    ]
    one, two, three, four = ({"id": task["id"], "attempt": task["attempt"]} for task in taken)
    assert (await orders.send("POST", f"{GROUP}/touch", {"tasks": [one], "seconds": 60})).json["changed"] == 1
    assert (await orders.send("POST", f"{GROUP}/ack", {"tasks": [one]})).json["states"] == {"done": 1}
    again = (await orders.send("POST", f"{GROUP}/ack", {"tasks": [one]})).json
    assert (again["changed"], again["errors"][0]["state"]) == (0, "done")
    failed = (
        await orders.send("POST", f"{GROUP}/nack", {"tasks": [two], "delay": 600, "reason": "no stock"})
    ).json
    assert failed["states"] == {"delayed": 1}
    assert (await orders.send("POST", f"{GROUP}/release", {"tasks": [three]})).json["states"] == {"ready": 1}
    assert (await orders.send("POST", f"{GROUP}/bury", {"tasks": [four]})).json["states"] == {"buried": 1}
    task = (await orders.send("GET", f"{GROUP}/tasks/1")).json
    assert (task["state"], task["reason"], task["value"]) == ("delayed", "no stock", '{"n":1}')
    listed = (await orders.send("GET", f"{GROUP}/tasks?page_size=2")).json
    rest = (
        await orders.send("GET", f"{GROUP}/tasks?page_size=2&page_token={listed['next_page_token']}")
    ).json
    states = {task["id"]: task["state"] for task in listed["tasks"] + rest["tasks"]}
    assert {1: "delayed", 2: "ready", 3: "buried"}.items() <= states.items()
    buried = (await orders.send("GET", f"{GROUP}/tasks?state=buried")).json["tasks"]
    assert [task["id"] for task in buried] == [3]
    short = (await orders.send("GET", f"{GROUP}/tasks?state=buried&cut=3")).json["tasks"][0]
    assert (short["value"], short["value_bytes"]) == ('{"n', 7)
    assert (await orders.send("POST", f"{GROUP}/kick", {"count": 5})).json["changed"] == 1
    assert (await orders.send("POST", f"{GROUP}/delete", {"tasks": [{"id": 3}]})).json["changed"] == 1
    done = {"tasks": [{"id": 2, "attempt": 2}], "pushes": [{"queue": "raw", "elements": [{"value": "sent"}]}]}
    await orders.send("POST", f"{GROUP}/take")
    completed = (await orders.send("POST", f"{GROUP}/complete", done)).json
    assert (completed["outcomes"]["changed"], completed["receipts"][0]["count"]) == (1, 1)
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")  # noqa: TID251 - a test of the real clock
    then = (await orders.ask("GET", f"{GROUP}/tasks-at?time={now}")).lines
    assert {row["task"]: row["state"] for row in then}[1] == "delayed"
    arrow = await orders.ask(
        "GET", f"{GROUP}/tasks-at?time={now}", Accept="application/vnd.apache.arrow.stream"
    )
    assert pa.ipc.open_stream(arrow.body).read_all().num_rows == len(then)
    assert (await orders.ask("GET", f"{GROUP}/tasks-at?time=yesterday")).status == 400
    assert (await orders.send("POST", f"{GROUP}/purge")).json == {"count": 1}
    assert (await orders.send("GET", f"{GROUP}/statistics")).json["tasks"]["done"] == 4


async def test_after_a_purge_nobody_has_anything_to_do_and_the_elements_stay(orders: Web) -> None:
    await with_tasks(orders)
    for name, start in (("slow", "beginning"), ("new", "end")):
        await orders.send("POST", "/v1/queues/orders/subscribers", {"name": name, "start": start})
    await orders.send("POST", f"{GROUP}/take", {"max": 3})
    plan = (await orders.send("POST", "/v1/queues/orders/purge", {"dry_run": True})).json
    assert plan == {
        "queue": "orders",
        "next_offset": 4,
        "groups": [{"name": "ship", "tasks": 4, "taken": 3}],
        "subscribers": [
            {"name": "new", "offset": 4, "passed": 0},
            {"name": "slow", "offset": 0, "passed": 4},
        ],
    }
    assert (await orders.send("GET", GROUP)).json["tasks"]["done"] == 0
    assert (await orders.send("GET", "/v1/queues/orders/subscribers/slow")).json["lag"] == 4
    assert (await orders.send("POST", "/v1/queues/orders/purge")).json == plan
    assert (await orders.send("GET", GROUP)).json["tasks"] | {"total": 0} == {
        "ready": 0, "taken": 0, "delayed": 0, "buried": 0, "done": 4, "total": 0,
    }  # fmt: skip
    assert (await orders.send("GET", "/v1/queues/orders/subscribers/slow")).json["lag"] == 0
    assert len((await orders.ask("GET", "/v1/queues/orders/elements")).lines) == 4
    again = (await orders.send("POST", "/v1/queues/orders/purge")).json
    assert [group["tasks"] for group in again["groups"]] == [0]
    assert [each["passed"] for each in again["subscribers"]] == [0, 0]
    back = await orders.send("POST", "/v1/queues/orders/subscribers/slow/seek", {"start": "offset:1"})
    assert back.json["lag"] == 3
    assert (await orders.send("POST", "/v1/queues/nothing/purge")).status == 404


async def test_groups_are_listed_changed_paused_and_deleted(orders: Web) -> None:
    await with_tasks(orders, 2)
    for query, names in (("", []), ("?ledgers=true", ["orders~ship"])):
        found = (await orders.send("GET", f"/v1/queues{query}")).json["queues"]
        assert [queue["name"] for queue in found if "~" in queue["name"]] == names
        assert msgspec.convert(found, list[QueueDocument]), "as /openapi.json says"
    for path in ("/v1/groups", "/v1/queues/orders/groups"):
        assert [group["id"] for group in (await orders.send("GET", path)).json["groups"]] == ["orders/ship"]
    assert (await orders.send("PATCH", GROUP, {"ttr": 5, "max_attempts": 3})).json["settings"][
        "max_attempts"
    ] == 3
    assert (await orders.send("POST", f"{GROUP}/pause")).json["paused"] is True
    assert (await orders.send("POST", f"{GROUP}/take")).json == {"tasks": []}
    assert (await orders.send("POST", f"{GROUP}/resume")).json["paused"] is False
    assert len((await orders.send("POST", f"{GROUP}/take", {"max": 2})).json["tasks"]) == 2
    waiting = asyncio.create_task(orders.send("POST", f"{GROUP}/take", {"wait_seconds": 30}))
    await orders.ask("POST", "/v1/queues/orders/elements", b"7", Content_Type=NDJSON)
    assert (await waiting).json["tasks"][0]["element"]["value"] == 7
    assert (await orders.send("DELETE", GROUP)).status == 409
    assert (await orders.send("POST", f"{GROUP}/release-all")).json == {"count": 3}
    assert (await orders.send("POST", f"{GROUP}/seek", {"start": "offset:1"})).json["first"] == 1
    assert (await orders.send("DELETE", f"{GROUP}?force=true")).status == 204
    assert (await orders.send("GET", GROUP)).status == 404
    bodies: list[dict[str, Any]] = [{"tasks": [{"id": 1}]}, {"tasks": []}, {}]
    for body in bodies:
        assert (await orders.send("POST", f"{GROUP}/ack", body)).status == 422


async def test_completing_needs_the_right_to_push_as_well(tmp_path: Path) -> None:
    async with keyed(tmp_path) as doors:
        for queue in ("orders", "raw"):
            await doors.store.create_queue(queue)
        rules = {"Authorization": f"Bearer {await doors.make('admin')}"}
        works = {"Authorization": f"Bearer {await doors.make('work:orders', 'push:orders')}"}
        for shown, status in ((works, 403), (rules, 201)):
            made = await doors.send("POST", "/v1/queues/orders/groups", {"name": "ship"}, **shown)
            assert made.status == status
        await doors.ask("POST", "/v1/queues/orders/elements", b"1", Content_Type="text/plain", **works)
        await doors.send("POST", f"{GROUP}/take", **works)
        done = {
            "tasks": [{"id": 0, "attempt": 1}],
            "pushes": [{"queue": "raw", "elements": [{"value": "x"}]}],
        }
        refused = await doors.send("POST", f"{GROUP}/complete", done, **works)
        assert (refused.status, "right to push" in refused.json["detail"]) == (403, True)
        assert (await doors.store.get_queue("raw")).next_offset == 0
