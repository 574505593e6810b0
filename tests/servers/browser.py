"""A real Chromium for tests, steered by playwright: found on this machine, never downloaded by playwright.

`make test` says where it is (`JJQ_BROWSER`, from .ci/browser). Playwright's blocking interface keeps an event loop
"running" in its thread until it is stopped, so tests that use it have a package of their own, without coroutines.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

Theme = Literal["light", "dark"]

WIDEST, WIDE, NARROW = 2560, 1440, 400
_NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
_FLAGS = (
    "--no-sandbox",  # containers run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
)
# A page that is left ends what it loads; the browser calls that a failed request.
_LEFT = ("net::ERR_ABORTED",)


def browser_path() -> str | None:
    """The Chromium to use; None: there is none."""
    named = os.environ.get("JJQ_BROWSER") or os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """One browser process; the test is skipped where there is none."""
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium: run make test as root on Debian, or apt install chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page in a profile of its own, and whatever went wrong in it.

    `expected` are parts of messages that a test wants to see: a refusal of the server is an error to the browser.
    """

    page: Page
    context: BrowserContext
    wrong: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", self._spoke)
        self.page.on("pageerror", lambda error: self.wrong.append(f"uncaught: {error}"))
        self.page.on("requestfailed", self._failed)

    def _spoke(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.wrong.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _failed(self, request: Request) -> None:
        if request.failure not in _LEFT:
            self.wrong.append(f"failed: {request.method} {request.url} {request.failure}")

    def check(self) -> None:
        """Fail if something went wrong that nobody expected."""
        left = [each for each in self.wrong if not any(part in each for part in self.expected)]
        assert not left, left


@contextmanager
def visiting(
    browser: Browser, *, width: int = WIDE, theme: Theme = "light", height: int = 900, **more: Any
) -> Iterator[Visit]:
    """A visit in a new profile; what went wrong in it fails the test at its end."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
        **more,
    )
    try:
        context.set_default_timeout(10_000)
        visit = Visit(context.new_page(), context)
        visit.watch()
        yield visit
        visit.check()
    finally:
        context.close()
