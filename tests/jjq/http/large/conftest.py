"""A server over a real store, with a queue for files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.jjq.http.asking import Web, web_in


@pytest.fixture
async def photos(tmp_path: Path) -> AsyncIterator[Web]:
    async with web_in(tmp_path) as made:
        assert (await made.send("PUT", "/v1/queues/photos")).status == 200
        yield made
