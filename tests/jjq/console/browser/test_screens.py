"""Every screen, narrow and wide, in light and dark: it loads without an error, fits, and people can use it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.stage import IMAGE, SCRIPT, Stage
from tests.servers.browser import NARROW, WIDE, WIDEST, Theme

pytestmark = pytest.mark.xdist_group("console")

ALL = None  # rules of axe; in another theme only colours differ
SCREENS = {
    "/": "Overview",
    "/queues": "Queues",
    "/queues?create=1": "Queues",
    "/queues/orders": "orders",
    "/queues/hostile": "hostile",
    "/subscribers": "Subscribers",
    "/subscribers?queue=orders&chosen=billing": "Subscribers",
    "/groups": "Groups",
    "/groups/orders/ship": "ship",
    "/groups/orders/ship?state=buried": "ship",
    "/groups/orders/ship?view=past": "ship",
    "/groups/orders/ship?view=settings": "ship",
    "/groups/orders/ship/tasks/52": "Task 52",
    "/cluster": "Cluster",
    "/sql": "SQL",
    "/keys": "Keys",
}


@pytest.mark.parametrize(
    ("width", "theme", "judged"),
    [
        (WIDE, "light", ALL),
        (WIDEST, "dark", ()),
        (NARROW, "light", ()),
        (NARROW, "dark", ("color-contrast",)),
    ],
)
def test_every_screen(
    stage: Stage, visit: Visit, width: int, theme: Theme, judged: tuple[str, ...] | None
) -> None:
    console = visit(stage, width=width, theme=theme)
    for path, title in SCREENS.items():
        console.open(path, title)
        console.check_width()
        here = console.page.locator(".menu nav a[aria-current]")
        assert here.evaluate("link => link.getBoundingClientRect().right") <= width, f"the menu hides {path}"
        if judged != ():
            console.check_access(judged)


def test_a_plot_says_what_is_under_the_pointer(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open("/", "Overview")
    plot = console.page.get_by_role("img", name=re.compile(r"^Exposed bytes: not yet in history "))
    drawn = plot.locator(".line")
    expect(drawn).to_have_count(1)
    expect(plot.locator("text").first).to_have_text(re.compile(r"^[\d.,]+ (B|[KM]iB)$"))
    expect(plot.locator(".cursor")).to_have_count(0)
    plot.locator("svg").hover()
    expect(plot.locator(".cursor")).to_have_count(1)
    expect(plot.locator(".legend b").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(plot.locator(".legend span")).to_have_text(re.compile(r"^not yet in history [\d.,]+ (B|[KM]iB)$"))


def test_what_others_wrote_is_shown_as_text(stage: Stage, visit: Visit) -> None:
    console = visit(stage)
    console.open("/queues/hostile", "hostile")
    console.sees(SCRIPT)
    for offset in (0, 1):
        console.press(f"Show element {offset}")
        console.sees(IMAGE)
        console.sees(SCRIPT, inside=console.page.locator(".element"))
    console.open("/groups/orders/ship?state=buried", "ship")
    console.sees(f"bad {SCRIPT}")
    console.open("/groups/hostile/work?state=taken", "work")
    console.sees(IMAGE)
    console.open("/groups/hostile/work/tasks/0", "Task 0")
    for text in (SCRIPT, IMAGE):
        console.sees(text)
    console.page.get_by_role("button", name="Delete").click()
    console.page.keyboard.press("Escape")
    console.open("/groups/hostile/work?view=past", "work")
    console.sees(IMAGE)
    console.open("/sql", "SQL")
    console.page.get_by_role("textbox", name="Query").fill(
        f'SELECT value, decode(key) AS "{SCRIPT}" FROM hostile'
    )
    console.page.keyboard.press("Control+Enter")
    console.sees(SCRIPT)
    assert "taken over" not in console.page.title()
    assert console.page.locator("img[src=x], script:not([src])").count() == 0


def test_the_keyboard_finds_search_and_closes_dialogs(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open("/groups", "Groups")
    console.page.keyboard.press("/")
    console.page.keyboard.type("hostile")
    assert console.rows("Groups").count() == 1
    console.press("New group")
    console.sees("New group", inside=console.dialog())
    console.page.keyboard.press("Escape")
    assert console.dialog().count() == 0


def test_what_does_not_exist_is_said(stage: Stage, visit: Visit) -> None:
    console = visit(stage)
    console.visit.expected.append("404")
    console.open("/groups/orders/nothing", "nothing")
    console.sees("Not found")
    console.open("/groups/orders/ship/tasks/99999", "Task 99999")
    console.sees("Not found")
    console.open("/nowhere")
    console.sees("There is nothing here")
