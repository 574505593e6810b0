"""`python -m tests.jjq.console.browser.pictures` (`make pictures`): the pictures of docs/console.md, made anew.

Real servers with real data, and somebody who pushes, pops and works meanwhile, so that there is something to see.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.jjq.console.browser.console import Console
from tests.jjq.console.browser.stage import QUEUES, Stage, order, served, staged, staged_cluster
from tests.servers.browser import running_browser, visiting
from tests.servers.waiting import wait_until

FOLDER = Path(__file__).parents[4] / "docs" / "images"
SECONDS = 75.0  # of traffic before the last picture: the plots show so much
PAUSE = 0.15
SHIP = "queues/orders/groups/ship"
QUERY = """SELECT value->>'item' AS item, count(*) AS orders, round(sum((value->>'price')::DOUBLE), 2) AS revenue
FROM orders
GROUP BY item
ORDER BY revenue DESC"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    wanted = set(sys.argv[1:])
    with running_browser() as browser, tempfile.TemporaryDirectory() as folder:
        for name, make in {"alone": _alone, "cluster": _cluster, "keys": _keys}.items():
            if not wanted or name in wanted:
                make(browser, Path(folder) / name)


# Traffic -------------------------------------------------------------------------------------------------


@contextmanager
def _traffic(stage: Stage) -> Iterator[threading.Event]:
    """A shop: orders come in waves, one subscriber keeps up and one does not, workers do most of their tasks."""
    over, enough = threading.Event(), threading.Event()

    def run() -> None:
        rounds = 0
        while not over.wait(PAUSE):
            rounds += 1
            first = 1_000 * rounds
            stage.push("orders", *map(order, range(first, first + 5 + rounds % 40)))
            stage.ask("POST", "queues/orders/subscribers/mail/pop", {"max": 40})
            stage.ask("POST", "queues/orders/subscribers/billing/pop", {"max": 9 + rounds % 20})
            if rounds % 60 == 0:
                stage.ask("POST", "queues/orders/seal")
            if rounds % 3 == 0:
                stage.push("events", {"value": f"door {rounds} opened"})
            _work(stage, rounds)
            if rounds * PAUSE > SECONDS:
                enough.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield enough
    finally:
        over.set()
        thread.join()


def _work(stage: Stage, rounds: int) -> None:
    worker = ("anna", "boris", "chen")[rounds % 3]
    session = {"session": f"s-{worker}"}
    taken = stage.ask("POST", f"{SHIP}/take", {"max": 4 + rounds % 13, "worker": worker, **session})["tasks"]
    tasks = [{"id": task["id"], "attempt": task["attempt"]} for task in taken]
    verbs: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("ack", tasks[2:], {}),
        ("nack", tasks[1:2], {"reason": "no stock of rice", "delay": 20.0}),
        ("bury" if rounds % 9 == 0 else "ack", tasks[:1], {"reason": "address unknown"}),
    ]
    for verb, some, more in verbs:
        if some:
            stage.ask("POST", f"{SHIP}/{verb}", {"tasks": some, **session, **(more if verb != "ack" else {})})


# Pictures ------------------------------------------------------------------------------------------------


def _take(console: Console, name: str) -> None:
    console.settle()
    console.page.mouse.move(0, 0)
    console.page.screenshot(path=FOLDER / f"console-{name}.png")
    print(f"console-{name}.png")


def _alone(browser: Browser, folder: Path) -> None:
    acts: dict[str, tuple[str, Callable[[Console], None]]] = {
        "queues": ("/queues", _nothing),
        "queue": ("/queues/orders", _nothing),
        "subscribers": ("/subscribers?chosen=orders/billing", _watch),
        "groups": ("/groups", _nothing),
        "group": ("/groups/orders/ship", _nothing),
        "task": ("/groups/orders/ship/tasks/52", _nothing),
        "past": ("/groups/orders/ship?view=past", _compare),
        "sql": ("/sql", _query),
    }
    with (
        staged(folder) as stage,
        _traffic(_dressed(stage)) as enough,
        visiting(browser) as first,
    ):
        overview = Console(first, stage).open("/")
        while not enough.is_set():  # the page must go on hearing
            overview.page.wait_for_timeout(1_000)
        for name, (path, act) in acts.items():
            with visiting(browser) as visit:
                console = Console(visit, stage).open(path)
                act(console)
                console.page.wait_for_timeout(3_000)  # live figures come once a second
                _take(console, name)
        _take(overview, "overview")


def _dressed(stage: Stage) -> Stage:
    """Without what only tests need, and with more to see."""
    stage.ask("DELETE", "queues/hostile")
    stage.ask("POST", f"{SHIP}/delete", {"tasks": [{"id": 50}, {"id": 51}]})
    for name in ("clicks", "emails", "invoices", "payments", "returns", "sensors-eu", "sensors-us"):
        stage.ask("PUT", f"queues/{name}", {"content": "json"})
        stage.push(name, *map(order, range(37 + 11 * len(name))))
    for queue, name in (("emails", "send"), ("payments", "book"), ("events", "notify")):
        stage.ask("POST", f"queues/{queue}/groups", {"name": name})
        taken = stage.ask("POST", f"queues/{queue}/groups/{name}/take", {"max": 9})["tasks"]
        tasks = [{"id": task["id"], "attempt": task["attempt"]} for task in taken[2:]]
        stage.ask("POST", f"queues/{queue}/groups/{name}/ack", {"tasks": tasks})
    return stage


def _nothing(console: Console) -> None:
    pass


def _watch(console: Console) -> None:
    console.page.wait_for_timeout(12_000)  # the plots of a subscriber begin when it is looked at


def _compare(console: Console) -> None:
    console.page.get_by_label("Compare with an earlier time").check()
    console.page.get_by_label("Since", exact=True).fill("500")
    console.sees("What changed")


def _query(console: Console) -> None:
    console.page.get_by_role("textbox", name="Query").fill(QUERY)
    console.press("Run")
    console.sees("7 rows")


def _shards(node: Stage) -> int:
    return sum(each["load"]["shards"] for each in node.ask("GET", "nodes")["nodes"])


def _cluster(browser: Browser, folder: Path) -> None:
    with staged_cluster(folder) as (node, _), visiting(browser) as visit:
        wait_until(lambda: _shards(node) == len(QUEUES), "the nodes have told their loads")
        console = Console(visit, node).open("/cluster")
        _take(console, "cluster")
        console.press("Plan a rebalance")
        console.sees("Share of the load")
        _take(console, "rebalance")


def _keys(browser: Browser, folder: Path) -> None:
    server, port = served(folder)
    with server, visiting(browser) as visit:
        stage = Stage(server, port)
        stage.key = stage.ask("POST", "keys", {"scopes": ["admin"], "name": "me"})["text"]
        for name, scopes in {
            "shop": ["push:orders-*"],
            "reports": ["read"],
            "workers": ["work:orders", "pop:orders"],
        }.items():
            stage.ask("POST", "keys", {"scopes": scopes, "name": name, "elements_per_second": 1000.0})
        visit.page.add_init_script(f"sessionStorage.setItem('jjq-key', {stage.key!r})")
        _take(Console(visit, stage).open("/keys"), "keys")


if __name__ == "__main__":
    main()
