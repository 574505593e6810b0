"""A world for each test, started, with one queue `q` of the smallest blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.hotstore.kit import BLOCK_BYTES, World


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    made = await World().start()
    await made.store.create_queue("q", block_bytes=BLOCK_BYTES)
    yield made
    await made.crash()
