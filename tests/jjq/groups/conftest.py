"""Two worlds.

`jjq`, `remote`, `far`: a server over a fake store with a group of ten tasks, for tests of the doors alone.
`door`: a real store, in this process and over a server, for tests of how tasks live. Times are short, and tests wait
for what must come, not for a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hotstore.groups.values import GroupInfo, GroupSettings
from jjq.client.client import AsyncClient
from jjq.remote.groups.group_store import RemoteWorkStore
from jjq.remote.settings import RemoteSettings
from tests.jjq.cutproxy import CutProxy, proxied
from tests.jjq.fakework import FakeWorkStore
from tests.jjq.serving import Served, hot_store, served

PATIENT = RemoteSettings(timeout_seconds=20.0)


@pytest.fixture
async def jjq() -> AsyncIterator[Served]:
    store = FakeWorkStore()
    await store.create_queue("orders")
    await store.append_numbers("orders", 10)
    await store.create_group("orders", "billing", GroupSettings())
    async with served(store) as made:
        yield made


@pytest.fixture
async def remote(jjq: Served) -> AsyncIterator[RemoteWorkStore]:
    async with RemoteWorkStore(jjq.server.address, PATIENT) as made:
        yield made


@pytest.fixture
async def proxy(jjq: Served) -> AsyncIterator[CutProxy]:
    async with proxied(jjq.server.address) as made:
        yield made


@pytest.fixture
async def far(proxy: CutProxy) -> AsyncIterator[RemoteWorkStore]:
    async with RemoteWorkStore(proxy.address, PATIENT) as made:
        await made.get_group("orders/billing")
        yield made


class Door:
    """A real store, and any number of clients of it."""

    def __init__(self, store: Any, address: str | None, stack: AsyncExitStack) -> None:
        self.store = store
        self.address = address
        self._stack = stack
        self._names = 0

    async def client(self) -> AsyncClient:
        """Another client: a connection of its own."""
        store = self.store if self.address is None else RemoteWorkStore(self.address, PATIENT)
        if self.address is not None:
            await self._stack.enter_async_context(store)
        return await self._stack.enter_async_context(AsyncClient(store))

    async def group(self, client: AsyncClient, count: int = 0, **settings: Any) -> GroupInfo:
        """A group over a queue of its own, with `count` tasks that say their id."""
        self._names += 1
        queue = f"q{self._names}"
        await client.create_queue(queue)
        made = await client.create_group(queue, "g", **settings)
        if count:
            await client.push(queue, [b"%d" % n for n in range(count)])
        return made


@pytest.fixture(params=["embedded", "grpc"])
async def door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Door]:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(hot_store(tmp_path))
        address = None
        if request.param == "grpc":
            address = (await stack.enter_async_context(served(store))).server.address
        yield Door(store, address, stack)


@pytest.fixture
async def client(door: Door) -> AsyncClient:
    return await door.client()


async def eventually(question: Callable[[], Awaitable[object]], seconds: float = 20.0) -> None:
    """Return when the answer is true; fail if it never is."""
    async with asyncio.timeout(seconds):
        while not await question():  # noqa: ASYNC110 - a question has no event
            await asyncio.sleep(0.005)
