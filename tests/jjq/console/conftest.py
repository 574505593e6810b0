"""Fixtures of the console tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.jjq.http.asking import Web, web_in


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    """A server over a real store."""
    async with web_in(tmp_path) as made:
        yield made
