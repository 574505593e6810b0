"""The keys screen, and a server that wants one: no permission, a key that is asked for, a server that goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Request, expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.console import Console
from tests.jjq.console.browser.stage import SCRIPT, Stage, served

pytestmark = pytest.mark.xdist_group("console")

STORED = "sessionStorage.getItem('jjq-key')"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server without a key so far. The tests are run in their order."""
    server, port = served(tmp_path_factory.mktemp("closed"))
    with server:
        stage = Stage(server, port)
        stage.ask("PUT", "queues/orders", {"content": "json"})
        yield stage


def secret(console: Console) -> str:
    return console.page.get_by_label("The key", exact=True).input_value()


def test_the_first_key_closes_the_server_and_is_used_at_once(closed: Stage, visit: Visit) -> None:
    console = visit(closed, permissions=["clipboard-read", "clipboard-write"])
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(url_of(request)))
    console.open("/keys", "Keys")
    console.sees("Everything is open")
    console.press("New key")
    console.page.get_by_label("Name", exact=True).fill("me")
    console.press("Create")
    console.sees("Copy it now.")
    closed.key = secret(console)
    assert closed.key.startswith("jjq_")
    console.press("Copy")
    assert console.page.evaluate("navigator.clipboard.readText()") == closed.key
    console.check_access()
    console.press("Use it in this tab, and close")
    console.sees("yours")
    assert console.page.evaluate(STORED) == closed.key
    assert console.page.evaluate("localStorage.length + document.cookie.length") == 0
    console.press("New key")
    console.page.get_by_label("Name", exact=True).fill(SCRIPT)
    console.choose("Right 1", "read")
    console.page.get_by_label("Queues of right 1", exact=True).fill("orders")
    console.press("Another right")
    console.choose("Right 2", "work")
    console.press("Create")
    assert secret(console) != closed.key
    console.press("Close")
    console.sees(SCRIPT)
    console.sees("read:orders")
    console.check_width()
    part = closed.key.split("_")[2]
    assert [url for url in asked if part in url] == []


def test_a_key_is_revoked_after_its_name_was_written(closed: Stage, visit: Visit) -> None:
    made = closed.ask("POST", "keys", {"scopes": ["read"], "name": "robot"})
    console = entered(visit(closed), closed.key, "/keys")
    console.press("Revoke robot")
    console.sees("refused within five seconds", inside=console.dialog())
    console.confirm("Revoke", "robot")
    console.sees("Key robot is revoked.")
    assert made["key"]["id"] not in {key["id"] for key in closed.ask("GET", "keys")["keys"]}


def test_a_page_without_a_key_asks_for_one_and_keeps_it_in_the_tab(closed: Stage, visit: Visit) -> None:
    console = visit(closed)
    console.visit.expected.append("401")
    console.open("/groups")
    console.sees("This server wants a key.", inside=console.dialog())
    console.page.get_by_label("Key", exact=True).last.fill("jjq_wrong_key")
    console.press("Use this key")
    expect(console.dialog().get_by_role("alert")).to_be_visible()
    console.page.get_by_label("Key", exact=True).last.fill(closed.key)
    console.press("Use this key")
    expect(console.dialog()).to_have_count(0)
    console.sees("No worker groups yet")
    assert console.page.evaluate(STORED) == closed.key
    console.page.reload()
    console.sees("No worker groups yet")


def test_what_a_key_may_not_do_is_said(closed: Stage, visit: Visit) -> None:
    small = closed.ask("POST", "keys", {"scopes": ["push:other"], "name": "small"})["text"]
    console = visit(closed)
    console.visit.expected.append("403")
    entered(console, small, "/keys")
    console.sees("No permission")
    console.check_access()
    for path in ("/groups", "/queues", "/queues/orders", "/subscribers"):
        console.open(path)
        console.sees("No permission")
    console.open("/sql", "SQL")
    console.page.get_by_role("textbox", name="Query").fill("SELECT 1")
    console.press("Run")
    console.sees("No permission")
    console.open("/cluster", "Cluster")
    console.sees("This server works alone.")  # any key may ask how the server is


def test_a_server_that_goes_and_comes_back(closed: Stage, visit: Visit) -> None:
    console = visit(closed)
    console.visit.expected += ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE_CHUNKED"]
    console.visit.expected += ["ERR_EMPTY_RESPONSE", "ERR_NETWORK", "503"]
    entered(console, closed.key, "/")
    closed.server.kill()
    console.sees("The server does not answer.")
    console.check_access()
    closed.server.start()
    console.sees("The server is back.")
    console.open("/groups", "Groups")
    console.sees("No worker groups yet")


def entered(console: Console, key: str, path: str) -> Console:
    """On a screen, with a key that was given before."""
    console.page.add_init_script(f"sessionStorage.setItem('jjq-key', {key!r})")
    return console.open(path)


def url_of(request: Request) -> str:
    return request.url
