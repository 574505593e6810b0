"""/docs in a browser: every verb is listed and found, without any other server, and with the key of the console."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.stage import Stage

pytestmark = pytest.mark.xdist_group("console")


def test_the_page_lists_every_verb_and_asks_nobody_else(stage: Stage, visit: Visit) -> None:
    console = visit(stage)
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url))
    console.page.goto(f"{stage.url}docs")
    verbs = console.page.locator("main details")
    expect(console.page.locator("main").get_by_text("/v1/queues/{queue}/elements").first).to_be_visible()
    assert verbs.count() > 70
    console.page.get_by_label("Find").fill("take tasks")
    expect(verbs).to_have_count(1)
    verbs.first.click()
    expect(verbs.first).to_contain_text(f"{stage.url}v1/queues/{{queue}}/groups/{{group}}/take")
    expect(verbs.first).to_contain_text("A key needs the scope: work")
    console.check_width()
    assert asked
    assert all(url.startswith(stage.url) for url in asked)


def test_it_says_that_a_key_is_wanted_and_uses_that_of_the_console(stage: Stage, visit: Visit) -> None:
    console = visit(stage)
    console.visit.expected.append("401")

    def answer(route: Route) -> None:
        if route.request.headers.get("authorization") == "Bearer jjq_mine":
            route.continue_(headers={})
        else:
            route.fulfill(status=401)

    console.page.route("**/openapi.json", answer)
    console.page.goto(f"{stage.url}docs")
    expect(console.page.locator("main")).to_contain_text("this server wants a key")
    console.page.evaluate("sessionStorage.setItem('jjq-key', 'jjq_mine')")
    console.page.reload()
    expect(console.page.locator("main").get_by_text("/v1/queues/{queue}/elements").first).to_be_visible()
