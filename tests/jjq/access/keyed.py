"""A server with keys, both doors of it, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import structlog

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from jjq.access.keyring import Keyring
from jjq.http.serving import serve_http
from jjq.http.settings import HttpSettings
from jjq.server.server import serve
from jjq.server.settings import ServerSettings
from jjq.sql.process import ProcessQueries
from jjq.sql.query import QueryLimits
from tests.jjq.http.asking import Web
from tests.jjq.serving import hot_store

WITH_REFLECTION = ServerSettings(listen="127.0.0.1:0", grace_seconds=2.0, reflection=True)


@dataclass
class Keyed(Web):
    """A server over a real store, whose keys are in `ring`."""

    ring: Keyring
    channel: Any
    objects: MemoryObjects

    async def make(self, *scopes: str) -> str:
        return (await self.ring.create("test", list(scopes))).text

    def metadata(self, key: str | None) -> tuple[tuple[str, str], ...]:
        return () if key is None else (("authorization", f"Bearer {key}"),)


@asynccontextmanager
async def keyed(folder: Path, *, operator: Any = None, log: Any = None) -> AsyncIterator[Keyed]:
    clock, chance = SystemClock(), SystemChance()
    quiet = log or structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
    objects = MemoryObjects()
    ring = Keyring(objects, clock, chance, quiet)
    await ring.open()
    try:
        async with hot_store(folder) as store:
            queries = ProcessQueries(store, None, None, None, QueryLimits())
            server = await serve(
                store, WITH_REFLECTION, log=quiet, keys=ring, operator=operator, queries=queries
            )
            try:
                http = await serve_http(server, HttpSettings("127.0.0.1:0"), chance, keys=ring)
                try:
                    async with grpc.aio.insecure_channel(server.address) as channel:
                        yield Keyed(store, server, http, ring, channel, objects)
                finally:
                    await http.stop(0.5)
            finally:
                await server.stop(0.5)
    finally:
        await ring.close()
