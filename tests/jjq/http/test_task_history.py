"""The past of worker groups over HTTP: one task's life, all tasks at a time, what changed, activity."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from tests.jjq.http.asking import Web
from tests.jjq.http.test_groups import GROUP, with_tasks


def now() -> str:
    return quote(datetime.now(UTC).isoformat())  # noqa: TID251 - a test of the real clock


async def change(web: Web, verb: str, task: int, **more: object) -> None:
    body = {"tasks": [{"id": task, "attempt": 1}], **more}
    assert (await web.send("POST", f"{GROUP}/{verb}", body)).json["changed"] == 1


async def test_a_task_has_its_whole_life(orders: Web) -> None:
    await with_tasks(orders)
    await orders.send("POST", f"{GROUP}/take", {"max": 2, "worker": "w1", "stage": "synced"})
    await change(orders, "nack", 0, delay=600, reason="no stock")
    await orders.send("POST", f"{GROUP}/bury", {"tasks": [{"id": 0}], "reason": "given up"})
    await orders.send("POST", f"{GROUP}/kick", {"tasks": [{"id": 0}]})
    life = (await orders.send("GET", f"{GROUP}/tasks/0/history")).json
    steps = [(step["event"], step["state"], step["reason"]) for step in life["transitions"]]
    assert steps == [
        ("create", None, None),
        ("take", "taken", None),
        ("nack", "delayed", "no stock"),
        ("bury", "buried", "given up"),
        ("kick", "ready", None),
    ]
    assert (life["task"], life["earlier"], life["transitions"][1]["worker"]) == (0, 0, "w1")
    untouched = (await orders.send("GET", f"{GROUP}/tasks/3/history")).json["transitions"]
    assert [step["event"] for step in untouched] == ["create"]
    assert (await orders.send("GET", f"{GROUP}/tasks/99/history")).status == 404
    assert (await orders.send("GET", f"{GROUP}/tasks/x/history")).status == 400


async def test_the_tasks_at_a_time_and_what_changed_since(orders: Web) -> None:
    await with_tasks(orders)
    early = now()
    await orders.send("POST", f"{GROUP}/take", {"max": 3, "stage": "synced"})
    await change(orders, "ack", 0)
    await change(orders, "bury", 1, reason="broken")
    await orders.ask("POST", "/v1/queues/orders/elements", b"7", Content_Type="application/x-ndjson")
    late = now()
    past = (await orders.send("GET", f"{GROUP}/past?time={early}")).json
    assert past["counts"] == {"ready": 4, "taken": 0, "delayed": 0, "buried": 0, "done": 0}
    assert [(task["task"], task["state"]) for task in past["tasks"]] == [(n, "ready") for n in range(4)]
    both = (await orders.send("GET", f"{GROUP}/past?time={late}&since={early}")).json
    assert both["counts"] == {"ready": 2, "taken": 1, "delayed": 0, "buried": 1, "done": 1}
    assert both["counts_since"]["ready"] == 4
    changes = {(each["before"], each["after"]): each["count"] for each in both["changes"]}
    assert changes == {
        ("ready", "done"): 1,
        ("ready", "buried"): 1,
        ("ready", "taken"): 1,
        (None, "ready"): 1,
    }
    assert [(task["task"], task["before"], task["state"]) for task in both["tasks"]] == [
        (0, "ready", "done"),
        (1, "ready", "buried"),
        (2, "ready", "taken"),
        (4, None, "ready"),
    ]
    only = (await orders.send("GET", f"{GROUP}/past?time={late}&since={early}&state=buried")).json["tasks"]
    assert [(task["task"], task["reason"]) for task in only] == [(1, "broken")]
    few = (await orders.send("GET", f"{GROUP}/past?time={late}&state=ready&limit=1&after=3")).json["tasks"]
    assert [task["task"] for task in few] == [4]
    for wrong in ("", "?time=now", f"?time={early}&since={late}", f"?time={late}&state=lost", "?after=x"):
        assert (await orders.send("GET", f"{GROUP}/past{wrong}")).status == 400


async def test_tasks_that_a_seek_left_behind_are_none_any_more(orders: Web) -> None:
    await with_tasks(orders)
    early = now()
    assert (await orders.send("POST", f"{GROUP}/seek", {"start": "offset:3"})).status == 200
    both = (await orders.send("GET", f"{GROUP}/past?time={now()}&since={early}")).json
    gone = [(task["task"], task["before"], task["state"]) for task in both["tasks"]]
    assert gone == [(n, "ready", None) for n in range(3)]
    before_all = (await orders.send("GET", f"{GROUP}/past?time={early}&since=2000-01-01T00:00:00Z")).json
    assert before_all["changes"] == [{"before": None, "after": "ready", "count": 4}]
    nothing = "/past?time=2001-01-01T00:00:00Z&since=2000-01-01T00:00:00Z"
    assert (await orders.send("GET", GROUP + nothing)).json["changes"] == []


async def test_activity_counts_transitions_over_time(orders: Web) -> None:
    await with_tasks(orders)
    await orders.send("POST", f"{GROUP}/take", {"max": 3, "stage": "synced"})
    await change(orders, "ack", 0)
    found = (await orders.send("GET", f"{GROUP}/activity?buckets=5")).json
    assert {event: (sum(counts), len(counts)) for event, counts in found["events"].items()} == {
        "take": (3, 5),
        "ack": (1, 5),
    }
    assert found["bucket_seconds"] > 0
    earlier = "start=2000-01-01T00:00:00Z&end=2000-01-02T00:00:00Z"
    assert (await orders.send("GET", f"{GROUP}/activity?{earlier}")).json["events"] == {}
    assert (await orders.send("GET", f"{GROUP}/activity?buckets=0")).status == 400


async def test_the_ledger_is_replayed_like_a_queue(orders: Web) -> None:
    await with_tasks(orders)
    await orders.send("POST", f"{GROUP}/take", {"max": 1, "stage": "synced", "worker": "w"})
    rows = (await orders.ask("GET", "/v1/queues/orders~ship/elements")).lines
    assert [row["value"]["event"] for row in rows] == ["create", "take"]
    assert rows[1]["value"]["worker"] == "w"
