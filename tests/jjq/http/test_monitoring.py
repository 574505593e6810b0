"""The dashboard and the alert rules ask for figures that a server exports, and show all that matter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.jjq.http.asking import Web

FOLDER = Path(__file__).parents[3] / "docs/monitoring"
NAME = re.compile(r"\bjjq_[a-z_]+\b")


async def exported(web: Web) -> set[str]:
    """The names of all series of a server."""
    text = (await web.ask("GET", "/metrics")).body.decode()
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}


def expressions() -> tuple[list[str], list[str]]:
    """What the dashboard and the rules ask for."""
    board: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text("utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [
        each["query"]["query"] for each in board["templating"]["list"] if isinstance(each["query"], dict)
    ]
    rules: dict[str, Any] = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))
    return asked, [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


async def test_every_name_is_one_that_the_server_exports(orders: Web) -> None:
    await orders.send("POST", "/v1/queues/orders/subscribers", {"name": "s", "start": "beginning"})
    await orders.send("POST", "/v1/queues/orders/elements", {"elements": [{"value": 1}]})
    await orders.send("POST", "/v1/queues/orders/groups", {"name": "g"})
    names = await exported(orders)
    shown, alarming = expressions()
    asked = {name for text in (*shown, *alarming) for name in NAME.findall(text)}
    assert asked <= names, asked - names
    families = {
        re.sub(r"_(bucket|count|sum|created)$", "", name) for name in names if name.startswith("jjq_")
    }
    on_the_board = {re.sub(r"_bucket$", "", name) for text in shown for name in NAME.findall(text)}
    assert families - on_the_board == {"jjq_outgoing_bytes_max"}, "the board shows everything but a setting"


async def test_figures_of_groups_tell_states_transitions_ages_and_times(orders: Web) -> None:
    group = "/v1/queues/orders/groups/g"
    await orders.send("POST", "/v1/queues/orders/groups", {"name": "g"})
    lines = b"\n".join(b"%d" % n for n in range(6))
    await orders.ask("POST", "/v1/queues/orders/elements", lines, Content_Type="application/x-ndjson")
    await orders.send("POST", f"{group}/take", {"max": 4})
    held = [{"id": n, "attempt": 1} for n in range(3)]
    await orders.send("POST", f"{group}/ack", {"tasks": held[:2]})
    await orders.send("POST", f"{group}/nack", {"tasks": held[2:], "delay": 600})
    text = (await orders.ask("GET", "/metrics")).body.decode()
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("jjq_task"))

    def figure(name: str, **more: str) -> float:
        labels = {"group": "g", "queue": "orders"} | more
        return float(found[name + "{" + ",".join(f'{key}="{labels[key]}"' for key in sorted(labels)) + "}"])

    states = ("ready", "taken", "delayed", "buried", "done")
    assert [figure("jjq_tasks", state=state) for state in states] == [2, 1, 1, 0, 2]
    events = ("put", "take", "ack", "nack", "timeout")
    assert [figure("jjq_task_transitions_total", event=event) for event in events] == [6, 4, 2, 1, 0]
    assert 0 < figure("jjq_task_age_seconds", state="taken") <= figure("jjq_task_age_seconds", state="ready")
    assert [figure(f"jjq_task_{name}_seconds_count") for name in ("wait", "run")] == [4, 3]
    assert 0 < figure("jjq_task_run_seconds_sum") < 3 * 60


def test_panels_and_rules_say_what_they_are() -> None:
    board = json.loads((FOLDER / "grafana.json").read_text("utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels)
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert all({"summary", "todo"} <= set(rule["annotations"]) for rule in rules)
    assert all(rule["expr"].count("(") == rule["expr"].count(")") for rule in rules)
