"""The console as a test uses it: by roles and labels, as a person with a screen reader would."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.jjq.console.browser.stage import Stage
from tests.servers.browser import Visit

_AXE = Path(__file__).parent / "axe"
_SERIOUS = ("serious", "critical")
# Wide tables scroll inside their own region; the page itself never does.
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

expect.set_options(timeout=15_000)  # the machine may be busy


@cache
def _axe() -> str:
    text = (_AXE / "axe.min.js").read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    assert digest in (_AXE / "NOTICE").read_text(), "axe.min.js is not the file that NOTICE names"
    return text.decode()


class Console:
    """One visit of one server's console."""

    def __init__(self, visit: Visit, stage: Stage) -> None:
        self.visit, self.stage = visit, stage

    @property
    def page(self) -> Page:
        return self.visit.page

    def open(self, path: str = "/", title: str | None = None) -> Console:
        """Go to a screen, and wait until it has loaded."""
        self.page.goto(f"{self.stage.url}#{path}")
        if title is not None:
            expect(self.page.get_by_role("heading", level=1)).to_contain_text(title)
        return self.settle()

    def settle(self) -> Console:
        """Wait until nothing on the page says that it loads."""
        expect(self.page.locator("main .pulse")).to_have_count(0)
        return self

    # What is there ---------------------------------------------------------------------------------------

    def button(self, name: str | re.Pattern[str], **more: Any) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True, **more)

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    def tile(self, state: str) -> Locator:
        """The number of tasks in a state."""
        return self.page.locator(f".state-tile.{state} .figure")

    def sees(self, text: str | re.Pattern[str], *, inside: Locator | None = None) -> None:
        expect((inside or self.page.locator("#app")).get_by_text(text).first).to_be_visible()

    def rows(self, table: str) -> Locator:
        return self.region(table).locator("tbody tr:not(.gap)")

    # What is done ----------------------------------------------------------------------------------------

    def press(self, name: str) -> Console:
        self.button(name).first.click()
        return self

    def confirm(self, verb: str, retype: str = "") -> Console:
        """Answer the question of a dialog, and wait until it has gone."""
        dialog = self.dialog()
        if retype:
            expect(dialog.get_by_role("button", name=verb, exact=True)).to_be_disabled()
            dialog.get_by_role("textbox").first.fill(retype)
        dialog.get_by_role("button", name=verb, exact=True).click()
        expect(dialog).to_have_count(0)
        return self

    def choose(self, label: str, value: str) -> Console:
        self.page.get_by_label(label, exact=True).select_option(value)
        return self

    # What is judged --------------------------------------------------------------------------------------

    def check_width(self) -> None:
        """The page does not scroll sideways."""
        assert self.page.evaluate(_OVERFLOW) <= 0, f"{self.page.url} is wider than the window"

    def check_access(self, rules: Sequence[str] | None = None) -> None:
        """No serious finding of axe: contrast, names, roles, labels; or of these rules alone."""
        if not self.page.evaluate("typeof axe !== 'undefined'"):
            self.page.evaluate(_axe())
        only = {} if rules is None else {"runOnly": {"type": "rule", "values": list(rules)}}
        options = json.dumps({"resultTypes": ["violations"], **only})
        found = self.page.evaluate(f"axe.run(document, {options})")
        serious = [
            (each["id"], each["help"], [node["html"][:200] for node in each["nodes"][:3]])
            for each in found["violations"]
            if each["impact"] in _SERIOUS
        ]
        assert not serious, f"{self.page.url}: {serious}"
