"""Much of everything: long lists exist only where they are seen, and long values only in part."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route, expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.stage import Stage

pytestmark = pytest.mark.xdist_group("console")

QUEUES = 10_000
SEEN = 120  # rows that exist at a time, at most
MEGABYTE = 1_000_000
BLOCKS, BLOCK = 100_000, 10_000  # blocks of a queue, and elements of each
ELEMENTS = BLOCKS * BLOCK
WINDOW = 60  # blocks that are drawn


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


def block_of(number: int) -> dict[str, Any]:
    first = number * BLOCK
    return {
        "id": first, "kind": "final" if number < BLOCKS - 1 else "hot-hot", "loaded": False, "count": BLOCK,
        "first_offset": first, "last_offset": first + BLOCK - 1, "raw_bytes": 1, "stored_bytes": 1,
        "min_timestamp": "2026-01-01T00:00:00Z", "max_timestamp": "2026-01-01T00:00:01Z",
    }  # fmt: skip


def test_a_thousand_million_elements_in_a_hundred_thousand_blocks(stage: Stage, visit: Visit) -> None:
    """Answers are ours, as above. Wherever one looks, little is asked for and little is drawn."""
    one = stage.ask("GET", "queues/raw")
    asked: list[str] = []

    def answer(route: Route) -> None:
        url = urlsplit(route.request.url)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        asked.append(route.request.url)
        if url.path.endswith("/blocks"):
            number, size = int(query["from_offset"]) // BLOCK, int(query["page_size"])
            found = [block_of(n) for n in range(number, min(BLOCKS, number + size))]
            token = "more" if number + size < BLOCKS else ""
            route.fulfill(json={"blocks": found, "next_page_token": token})
        elif url.path.endswith("/elements"):
            first = int(query["start"].removeprefix("offset:"))
            rows = range(first, min(ELEMENTS, first + 50))
            same = {"timestamp": "2026-01-01T00:00:00Z", "value": "x"}
            lines = "".join(json.dumps({"offset": n, **same}) + "\n" for n in rows)
            route.fulfill(body=lines, content_type="application/x-ndjson")
        else:
            route.fulfill(json={**one, "next_offset": ELEMENTS, "cold_offset": ELEMENTS - BLOCK})

    console = visit(stage)
    console.page.route("**/v1/queues/raw**", answer)
    console.page.route("**/v1/live*", lambda route: route.fulfill(status=403, json={"status": 403}))
    console.visit.expected.append("403")
    console.open("/queues/raw", "raw")
    blocks = console.page.get_by_role("group", name="Blocks, oldest first").get_by_role("button")
    expect(blocks).to_have_count(WINDOW)
    expect(blocks.last).to_have_attribute("title", "hot: 999,990,000 to 999,999,999")
    console.sees("999,999,999 to 999,999,950 of 1,000,000,000 elements")
    for back in (2, 3):  # one window each time
        console.press("Older")
        expect(blocks.first).to_have_attribute(
            "title", re.compile(f"^cold: {(BLOCKS - back * WINDOW) * BLOCK:,} to ")
        )
    console.page.locator(".whole").click()  # its middle
    expect(blocks.first).to_have_attribute("title", re.compile("^cold: (499|500),"))
    console.page.locator(".finder input").fill("123,456,789")
    console.press("Go")
    console.sees("123,456,838 to 123,456,789 of 1,000,000,000 elements")
    assert len(asked) < 20, asked
