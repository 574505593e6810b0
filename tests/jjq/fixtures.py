"""Fixtures of the server's and the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, served, some_store


@pytest.fixture(params=["fake", "hot"])
async def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with some_store(request.param, tmp_path) as store:
        yield store


@pytest.fixture
async def jjq(any_store: Any) -> AsyncIterator[Served]:
    """A server over each kind of store."""
    async with served(any_store) as all_of_it:
        yield all_of_it


@pytest.fixture
async def hot(tmp_path: Path) -> AsyncIterator[Served]:
    """A server over the real store."""
    async with some_store("hot", tmp_path) as store, served(store) as all_of_it:
        yield all_of_it


@pytest.fixture
async def fake() -> AsyncIterator[Served]:
    """A server over the fake, where the kind of store does not matter."""
    async with served(FakeStore()) as all_of_it:
        yield all_of_it
