"""A store, a server over it and clients of that, for tests; closed in order whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import structlog

from coldstore.objects.memory import MemoryObjects
from coldstore.queue.spans import NO_SPANS, Spans
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import MIB
from coldstore.store import ColdStore
from hotstore.opening import open_store
from hotstore.port import Store
from hotstore.settings import HotSettings
from jjq.http.listener import HttpListener
from jjq.http.serving import serve_http
from jjq.http.settings import HttpSettings
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.server.server import Server, serve
from jjq.server.settings import ServerSettings
from jjq.v1 import jjq_pb2_grpc
from tests.jjq.fakestore import FakeStore

ANYWHERE = ServerSettings(listen="127.0.0.1:0", grace_seconds=5.0)
PATIENT = RemoteSettings(timeout_seconds=20.0)


def hurry(remote: RemoteStore, seconds: float = 0.3) -> None:
    """Nothing is waited for any longer than this, from now on: what is to be answered before has had its time."""
    object.__setattr__(remote._settings, "timeout_seconds", seconds)


@dataclass
class Served:
    """What a test needs to talk to a server."""

    store: Any
    server: Server
    remote: RemoteStore
    channel: grpc.aio.Channel

    @property
    def stub(self) -> Any:
        """Generated code alone: what a client of another language has."""
        return jjq_pb2_grpc.JjqStub(self.channel)

    def raw(self, method: str) -> Any:
        """Bytes in, bytes out."""
        return self.channel.unary_unary(f"/jjq.v1.Jjq/{method}")


@asynccontextmanager
async def hot_store(
    directory: Path,
    objects: MemoryObjects | None = None,
    spans: Spans = NO_SPANS,
    settings: HotSettings | None = None,
) -> AsyncIterator[Store]:
    """A store; with the same directory and objects it is the one from before, started again."""
    clock, chance = SystemClock(), SystemChance()
    settings = settings or HotSettings(segment_bytes=32 * MIB, journal_bytes_max=256 * MIB)
    store = await open_store(
        directory,
        ColdStore(objects or MemoryObjects(), clock, chance, spans=spans),
        settings=settings,
        clock=clock,
        chance=chance,
    )
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def some_store(kind: str, directory: Path) -> AsyncIterator[Any]:
    """The fake or the real one."""
    if kind == "fake":
        yield FakeStore()
    else:
        async with hot_store(directory) as store:
            yield store


@asynccontextmanager
async def served(
    store: Any,
    settings: ServerSettings = ANYWHERE,
    remote: RemoteSettings = PATIENT,
    options: Sequence[tuple[str, Any]] = (),
    log: Any = None,
) -> AsyncIterator[Served]:
    quiet = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
    server = await serve(store, settings, log=log or quiet)
    client = RemoteStore(server.address, remote)
    channel = grpc.aio.insecure_channel(
        server.address, [("grpc.max_receive_message_length", 64 * MIB), *options]
    )
    try:
        yield Served(store, server, client, channel)
    finally:
        await client.close()
        await channel.close()
        await server.stop(0)


@asynccontextmanager
async def with_http(server: Server) -> AsyncIterator[HttpListener]:
    """HTTP, and WebSockets, beside a server."""
    listener = await serve_http(server, HttpSettings("127.0.0.1:0"), SystemChance())
    try:
        yield listener
    finally:
        await listener.stop(0.1)


def values(*items: bytes) -> pa.RecordBatch:
    """A payload of these values."""
    return payload("bytes", list(items))


def numbers(first: int, count: int) -> pa.RecordBatch:
    """A payload of values that tell their place."""
    return payload("bytes", [b"%d" % n for n in range(first, first + count)])


def said(batch: pa.RecordBatch) -> list[bytes]:
    """The values of a batch."""
    found: list[bytes] = batch.column("value").to_pylist()
    return found


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Return when `condition` holds; fail if it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - most conditions have no event
            await asyncio.sleep(0.001)


async def rest(call: Any) -> list[Any]:
    """What a stream still has to say."""
    found = []
    while (message := await call.read()) is not grpc.aio.EOF:
        found.append(message)
    return found
