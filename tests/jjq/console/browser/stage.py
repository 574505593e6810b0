"""Servers with real data for the console to show: a lone one, one with keys, a cluster of two nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.servers.jjq_server import JjqServer, together
from tests.servers.waiting import free_ports, wait_until

SCRIPT = "<script>document.title='taken over'</script>"
IMAGE = "<img src=x onerror=\"document.title='taken over'\">"
ITEMS = ("milk", "bread", "tea", "rice", "apples", "coffee", "salt")
QUEUES = ("baskets", "clicks", "invoices", "payments")  # of the cluster
CITIES = ("Bern", "Lyon", "Graz", "Turin")


@dataclass
class Stage:
    """A server that the console is served by."""

    server: JjqServer
    port: int
    key: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: Any = None, *, media_type: str = "application/json") -> Any:
        """One request; what it answers, which must be fine."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Content-Type": media_type, "Accept": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        sent = body if isinstance(body, bytes | None) else json.dumps(body)
        try:
            connection.request(method, f"/v1/{path}", sent, headers)
            reply = connection.getresponse()
            text = reply.read()
            assert reply.status < 300, (method, path, reply.status, text)
            return json.loads(text) if text else None
        finally:
            connection.close()

    def push(self, queue: str, *elements: dict[str, Any]) -> None:
        self.ask("POST", f"queues/{queue}/elements", {"elements": list(elements)})


def order(n: int) -> dict[str, Any]:
    """An order as a shop might have it."""
    value = {
        "id": n,
        "item": ITEMS[n % len(ITEMS)],
        "price": round(1 + n * 37 % 90 / 10, 2),
        "customer": {"name": f"customer {n % 23}", "city": CITIES[n % len(CITIES)]},
        "lines": [{"sku": f"A-{n % 9}", "count": 1 + n % 3}],
    }
    return {"value": value, "key": f"customer-{n % 23}", "headers": {"source": "shop", "trace": f"t-{n}"}}


def served(folder: Path, *flags: str, port: int = 0) -> tuple[JjqServer, int]:
    port = port or free_ports(1)[0]
    return JjqServer(folder, "--http-listen", f"127.0.0.1:{port}", *flags), port


@contextmanager
def staged(folder: Path, port: int = 0) -> Iterator[Stage]:
    """A lone server with data of every kind."""
    server, port = served(folder, port=port)
    with server:
        stage = Stage(server, port)
        fill_queues(stage)
        fill_group(stage)
        yield stage


def fill_queues(stage: Stage) -> None:
    for name, content in (("orders", "json"), ("events", "text"), ("raw", "bytes"), ("hostile", "json")):
        stage.ask("PUT", f"queues/{name}", {"content": content})
    stage.push("orders", *map(order, range(300)))
    stage.ask("POST", "queues/orders/seal")
    stage.push("orders", *map(order, range(300, 400)))
    stage.push("events", *({"value": f"door {n} opened"} for n in range(40)))
    stage.push("raw", *({"value": "x" * n} for n in range(1, 20)))
    for value in ({"text": SCRIPT, IMAGE: 1}, SCRIPT):
        stage.push("hostile", {"value": value, "key": SCRIPT, "headers": {IMAGE: SCRIPT, "x": IMAGE}})
    for queue, name, start in (
        ("orders", "billing", "beginning"),
        ("orders", "audit", "offset:250"),
        ("orders", "mail", "end"),
        ("events", "screen", "beginning"),
        ("hostile", "reader", "beginning"),
    ):
        stage.ask("POST", f"queues/{queue}/subscribers", {"name": name, "start": start})
    stage.ask("POST", "queues/orders/subscribers/billing/pop", {"max": 120})


def fill_group(stage: Stage) -> None:
    """Tasks in every state, with reasons; one that went through much."""
    settings = {"driver": "fifottl", "ttr": 600, "max_attempts": 5}
    stage.ask("POST", "queues/orders/groups", {"name": "ship", "settings": settings})
    stage.ask("POST", "queues/hostile/groups", {"name": "work", "settings": settings})
    ship = "queues/orders/groups/ship"
    taken: list[dict[str, Any]] = []
    for worker in ("anna", "boris", "chen"):
        order_ = {"max": 30, "worker": worker, "session": f"s-{worker}", "stage": "synced"}
        found = stage.ask("POST", f"{ship}/take", order_)["tasks"]
        taken += [{"id": task["id"], "attempt": task["attempt"], "by": f"s-{worker}"} for task in found]

    def change(verb: str, first: int, last: int, **more: Any) -> None:
        for session in {task["by"] for task in taken[first:last]}:
            tasks = [{k: t[k] for k in ("id", "attempt")} for t in taken[first:last] if t["by"] == session]
            stage.ask("POST", f"{ship}/{verb}", {"tasks": tasks, "session": session, **more})

    change("ack", 0, 40)
    change("nack", 40, 46, delay=3600, reason="no stock of rice")
    change("bury", 46, 50, reason="address unknown")
    change("bury", 50, 52, reason=f"bad {SCRIPT}")
    change("nack", 52, 53, delay=0.0, reason="timeout after 30 s")
    stage.ask("POST", f"{ship}/bury", {"tasks": [{"id": 52}], "reason": "set aside by hand"})
    stage.ask("POST", f"{ship}/kick", {"tasks": [{"id": 52}]})
    hostile = "queues/hostile/groups/work"
    stage.ask("POST", f"{hostile}/take", {"max": 1, "worker": IMAGE, "session": SCRIPT, "stage": "synced"})


@contextmanager
def staged_cluster(folder: Path) -> Iterator[tuple[Stage, Stage]]:
    """Two nodes over one folder; the first has all queues, so that there is something to move."""
    ports = free_ports(2)
    servers = [
        served(
            folder / f"node-{n}", "--node", f"node-{n}", "--cold", str(folder / "cold"), port=ports[n - 1]
        )[0]
        for n in (1, 2)
    ]
    with together(*servers):
        one, two = (Stage(server, port) for server, port in zip(servers, ports, strict=True))
        wait_until(lambda: len(one.ask("GET", "nodes")["nodes"]) == 2, "both nodes know each other")
        for name in QUEUES:
            one.ask("PUT", f"queues/{name}", {"content": "json"})
            one.push(name, *map(order, range(100)))
        for shard in one.ask("GET", "shards")["shards"]:
            if shard["node"] == "node-2":
                one.ask("POST", f"queues/{shard['queue']}/move", {"to": "node-1"})
        wait_until(lambda: bool(one.ask("GET", "plan")["moves"]), "there is something to move")
        yield one, two
