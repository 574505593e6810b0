"""Fixtures of the HTTP tests."""

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


@pytest.fixture
async def orders(web: Web) -> Web:
    """… that has a queue of JSON, `orders`, and one of bytes, `raw`."""
    assert (await web.send("PUT", "/v1/queues/orders", {"content": "json"})).status == 200
    assert (await web.send("PUT", "/v1/queues/raw")).status == 200
    return web
