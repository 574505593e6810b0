"""A visit as a whole: quick to load, one stream at a time and none while nobody looks, and a first minute."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Request, expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.console import Console
from tests.jjq.console.browser.stage import Stage, served

pytestmark = pytest.mark.xdist_group("console")

LOADED_SECONDS_MAX = 0.5
VISITS = 5  # the machine may be busy: the best of so many counts
# From the first byte that is asked for until the screen is there.
SHOWN = """new Promise((tell) => {
  const look = () => document.querySelector("main h1") ? tell(performance.now()) : requestAnimationFrame(look);
  look();
})"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
FOCUS = """() => {
  const style = getComputedStyle(document.activeElement);
  return [document.activeElement.outerHTML.slice(0, 120), parseFloat(style.outlineWidth), style.outlineStyle];
}"""


def test_the_console_is_there_within_half_a_second(stage: Stage, visit: Visit) -> None:
    seconds = []
    for _ in range(VISITS):
        console = visit(stage)  # with nothing in its cache
        console.page.goto(stage.url, wait_until="commit")
        seconds.append(console.page.evaluate(SHOWN) / 1000)
        if seconds[-1] < LOADED_SECONDS_MAX:
            break
    assert min(seconds) < LOADED_SECONDS_MAX, seconds


class Streams:
    """Streams of events that a page has open."""

    def __init__(self, console: Console) -> None:
        self.page = console.page
        self.open: list[str] = []
        self.page.on("request", self._began)
        self.page.on("requestfailed", self._ended)
        self.page.on("requestfinished", self._ended)

    def _began(self, request: Request) -> None:
        if "text/event-stream" in request.headers.get("accept", ""):
            self.open.append(request.url)

    def _ended(self, request: Request) -> None:
        if request.url in self.open:
            self.open.remove(request.url)

    def expect(self, *parts: str) -> None:
        """Wait until these and no others are open."""
        for _ in range(200):
            if len(self.open) == len(parts) and all(map(str.__contains__, self.open, parts)):
                return
            self.page.wait_for_timeout(50)  # events of the page are heard meanwhile
        raise AssertionError((self.page.url, self.open))


def test_a_page_has_one_stream_and_none_while_it_is_hidden(stage: Stage, visit: Visit) -> None:
    console = visit(stage)
    streams = Streams(console)
    for path, stream in (
        ("/", "v1/live"),
        ("/queues/orders", "v1/live?details=orders"),
        ("/subscribers", "v1/live?details="),
        ("/groups", "v1/live?details="),
        ("/groups/orders/ship", "elements?start=end"),
        ("/sql", ""),
    ):
        wanted = [stream] if stream else []
        console.open(path)
        streams.expect(*wanted)
        console.page.evaluate(HIDE, True)
        streams.expect()
        console.page.evaluate(HIDE, False)
        streams.expect(*wanted)


def test_whatever_has_the_focus_shows_it(stage: Stage, visit: Visit) -> None:
    console = visit(stage)
    for path in ("/queues/orders", "/groups/orders/ship", "/keys"):
        console.open(path)
        for _ in range(30):
            console.page.keyboard.press("Tab")
            element, width, style = console.page.evaluate(FOCUS)
            assert element.startswith("<body") or (width >= 1 and style != "none"), element


def test_the_first_minute_of_a_new_user(visit: Visit, tmp_path: Path) -> None:
    """Push an element, watch one arrive, move a subscriber back in time, see a task's life; on an empty server."""
    server, port = served(tmp_path)
    with server:
        stage = Stage(server, port)
        console = visit(stage).open("/", "Overview")
        console.page.get_by_role("link", name="Create a queue").click()
        console.page.get_by_label("Name", exact=True).fill("orders")
        console.confirm("Create")
        console.press("Push")
        console.page.get_by_label("Value, JSON").fill('{"item": "tea"}')
        console.confirm("Push")
        console.sees(re.compile('"tea"'))
        stage.push("orders", {"value": {"item": "milk"}})
        console.press("Show 1 new")
        console.sees(re.compile('"milk"'))
        console.press("Follow live")
        stage.push("orders", {"value": {"item": "rice"}})
        console.sees(re.compile('"rice"'))

        console.page.get_by_role("link", name="Subscribers").click()
        console.press("Create a subscriber")
        console.page.get_by_label("Queue", exact=True).fill("orders")
        console.page.get_by_label("Name", exact=True).fill("mail")
        console.choose("Begin at", "end")
        console.confirm("Create")
        console.press("mail").press("Move…")
        console.choose("To", "ago")
        console.page.get_by_label("so long ago", exact=True).fill("1h")
        console.sees("It reads 3 elements again.", inside=console.dialog())
        console.confirm("Move to offset 0")
        console.sees("mail stands at offset 0")

        console.page.get_by_role("link", name="Groups").click()
        console.press("New group")
        console.page.get_by_label("Name", exact=True).fill("ship")
        console.confirm("Create")
        stage.ask("POST", "queues/orders/groups/ship/take", {"max": 1, "worker": "anna"})
        expect(console.tile("taken")).to_have_text("1")
        console.page.get_by_role("link", name="0", exact=True).click()
        life = console.page.locator(".life li b")
        expect(life).to_have_text(["Pushed", "Seen by the group", "Taken"])
