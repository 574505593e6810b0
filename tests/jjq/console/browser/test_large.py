"""Much of everything: long lists exist only where they are seen, and long values only in part."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.stage import Stage

pytestmark = pytest.mark.xdist_group("console")

QUEUES = 10_000
SEEN = 120  # rows that exist at a time, at most
MEGABYTE = 1_000_000


def test_ten_thousand_queues(stage: Stage, visit: Visit) -> None:
    """The server's answer is ours: making so many queues would take minutes, and the page asks the same."""
    one = stage.ask("GET", "queues/raw")

    def answer(route: Route) -> None:
        first = int(route.request.url.partition("page_token=")[2] or 0)
        size = 1_000
        page: dict[str, Any] = {
            "queues": [{**one, "name": f"queue-{n:05d}"} for n in range(first, first + size)],
            "next_page_token": str(first + size) if first + size < QUEUES else "",
        }
        route.fulfill(json=page)

    console = visit(stage)
    console.page.route("**/v1/queues?*", answer)
    console.page.route("**/v1/live*", lambda route: route.fulfill(status=403, json={"status": 403}))
    console.visit.expected.append("403")  # the live figures of queues that are not there
    console.open("/queues", "Queues")
    console.sees("10,000 queues")
    assert console.rows("Queues").count() < SEEN
    console.region("Queues").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    console.sees("queue-09999")
    assert console.rows("Queues").count() < SEEN
    console.page.get_by_label("Find a queue").fill("queue-0777")
    expect(console.rows("Queues")).to_have_count(10)


def test_a_value_of_a_megabyte_is_cut_until_it_is_wanted(stage: Stage, visit: Visit) -> None:
    stage.ask("PUT", "queues/large", {"content": "json"})
    value = json.dumps({"text": "x" * MEGABYTE}).encode()
    stage.ask("POST", "queues/large/elements", value + b"\n", media_type="application/x-ndjson")
    stage.ask("POST", "queues/large/groups", {"name": "work"})
    console = visit(stage).open("/groups/large/work", "work")
    expect(console.rows("Tasks")).to_have_count(1)
    length = "document.body.textContent.length"
    assert console.page.evaluate(length) < 10_000
    console.open("/groups/large/work/tasks/0", "Task 0")
    console.sees("text")
    assert console.page.evaluate(length) < 20_000
    console.page.get_by_role("button", name="all 977 KiB").click()
    assert console.page.evaluate(length) > MEGABYTE
    console.open("/queues/large", "large")
    assert console.page.evaluate(length) < 20_000
    console.press("Show element 0")
    console.settle()
    assert console.page.evaluate(length) < 100_000
