"""A server with HTTP over a real store, and a client of the standard library that asks it."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from coldstore.shared.chance import SystemChance
from jjq.http.listener import HttpListener
from jjq.http.serving import serve_http
from jjq.http.settings import HttpSettings
from jjq.server.server import Server, serve
from jjq.sql.process import ProcessQueries
from jjq.sql.query import QueryLimits
from tests.jjq.serving import ANYWHERE, hot_store

HERE = HttpSettings("127.0.0.1:0")


@dataclass(frozen=True)
class Said:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass
class Web:
    """A server that listens for HTTP."""

    store: Any
    server: Server
    listener: HttpListener

    @property
    def port(self) -> int:
        return self.listener.port

    async def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Said:
        """One request on a connection of its own. Underscores of header names are hyphens."""
        return await asyncio.to_thread(self._ask, method, path, body, headers)

    def _ask(self, method: str, path: str, body: bytes | str | None, headers: dict[str, str]) -> Said:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            reply = connection.getresponse()
            names = {name.lower(): value for name, value in reply.getheaders()}
            return Said(reply.status, names, reply.read())
        finally:
            connection.close()

    async def send(self, method: str, path: str, document: Any = None, **headers: str) -> Said:
        """A JSON document."""
        body = None if document is None else json.dumps(document)
        named = {} if document is None else {"Content_Type": "application/json"}
        return await self.ask(method, path, body, **named, **headers)

    async def talk(self, sent: bytes, *, closes: bool = True) -> bytes:
        """Raw bytes to the server, and all that it says until it hangs up (or until a reply is there)."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(sent)
            async with asyncio.timeout(20):
                return await (reader.read() if closes else reader.readuntil(b"\r\n\r\n"))
        finally:
            writer.transport.abort()


@asynccontextmanager
async def web_over(store: Any, settings: HttpSettings = HERE, **more: Any) -> AsyncIterator[Web]:
    quiet = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
    queries = ProcessQueries(store, None, None, None, QueryLimits())
    server = await serve(store, ANYWHERE, log=more.pop("log", quiet), queries=queries)
    try:
        listener = await serve_http(server, settings, SystemChance(), **more)
        try:
            yield Web(store, server, listener)
        finally:
            await asyncio.gather(listener.stop(1.0), server.stop(1.0))
    finally:
        await queries.close()
        await server.stop(0)


@asynccontextmanager
async def web_in(folder: Path, settings: HttpSettings = HERE, **more: Any) -> AsyncIterator[Web]:
    async with hot_store(folder) as store, web_over(store, settings, **more) as web:
        yield web
