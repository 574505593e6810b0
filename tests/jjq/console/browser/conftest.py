"""Fixtures of the console's tests: one browser, and a server with data for all of them.

All modules are in one group of xdist, so that one process runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.jjq.console.browser.console import Console
from tests.jjq.console.browser.stage import Stage, staged
from tests.servers.browser import running_browser, visiting

Visit = Callable[..., Console]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server with queues, subscribers, groups and tasks in every state."""
    with staged(tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Open the console of a stage; at the end of the test each visit is checked for errors and closed."""
    with ExitStack() as stack:
        yield lambda stage, **how: Console(stack.enter_context(visiting(browser, **how)), stage)
