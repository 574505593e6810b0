"""Clients over every kind of store: the same tests must hold for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import jjq
from coldstore.shared.limits import MIB
from hotstore.settings import HotSettings
from jjq.client import producer, resumable_pop
from jjq.client.client import AsyncClient
from tests.jjq.client.faulty import FaultyStore
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import hot_store, served, with_http
from tests.servers.jjq_server import JjqServer

SMALL = HotSettings(segment_bytes=32 * MIB, journal_bytes_max=256 * MIB)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses between attempts: nothing here needs time to recover."""
    for module in (producer, resumable_pop):
        monkeypatch.setattr(module, "BACKOFF_SECONDS", 0.001)


@pytest.fixture(params=["fake", "embedded", "remote", "websocket"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncClient]:
    """An asynchronous client: over the fake, over a store in process, and over a server, by gRPC and by WebSocket."""
    if request.param == "fake":
        async with AsyncClient(FakeStore()) as made:
            yield made
    elif request.param == "embedded":
        async with jjq.aio.open(tmp_path, settings=SMALL) as made:
            yield made
    elif request.param == "websocket":
        async with (
            hot_store(tmp_path) as store,
            served(store) as all_of_it,
            with_http(all_of_it.server),
            jjq.aio.connect(all_of_it.server.address, transport="websocket") as made,
        ):
            yield made
    else:
        async with (
            hot_store(tmp_path) as store,
            served(store) as all_of_it,
            jjq.aio.connect(all_of_it.server.address) as made,
        ):
            yield made


@pytest.fixture
async def faulty() -> FaultyStore:
    """A fake store with faults."""
    store = FaultyStore(FakeStore())
    await store.create_queue("orders")
    return store


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[jjq.Client]:
    """A blocking client in process."""
    with jjq.open(tmp_path, settings=SMALL) as made:
        yield made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[JjqServer]:
    """A server in a process of its own."""
    with JjqServer(tmp_path) as made:
        yield made
