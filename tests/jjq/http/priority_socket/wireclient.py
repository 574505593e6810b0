"""A client of the protocol with a real WebSocket, in JSON or bincode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect

from jjq.http.priority_socket import bincode
from jjq.http.priority_socket.frames import (
    CreateRequest,
    FetchRequest,
    FinishRequest,
    PopRequest,
    PostRequest,
)

QUEUE = "test_queue"
_REQUESTS: dict[str, Any] = {
    "post": PostRequest,
    "fetch": FetchRequest,
    "finish": FinishRequest,
    "pop": PopRequest,
    "create": CreateRequest,
}
_OMITTED: dict[str, Any] = {"fetch": {"block_timeout": None}}


class WireClient:
    """One connection. Replies are dictionaries in either form."""

    def __init__(self, connection: ClientConnection, *, binary: bool) -> None:
        self.connection = connection
        self.binary = binary
        self.number = 0

    async def ask(self, kind: str, **fields: Any) -> None:
        fields = {"queue": QUEUE, **fields}
        if not self.binary:
            await self.connection.send(orjson.dumps({"type": kind, **fields}).decode())
            return
        request = _REQUESTS[kind](**{**_OMITTED.get(kind, {}), **fields})
        await self.connection.send(bincode.encode(request, bincode.REQUESTS))

    async def reply(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            data = await self.connection.recv()
        if isinstance(data, str):
            assert not self.binary
            found: dict[str, Any] = orjson.loads(data)
            return found
        assert self.binary
        value = bincode.decode(data, bincode.REPLIES)
        kind = type(value).__name__.removesuffix("Reply").lower()
        return {"type": kind, **value._asdict()}

    async def replies(self, count: int) -> list[dict[str, Any]]:
        return [await self.reply() for _ in range(count)]


@asynccontextmanager
async def client_of(port: int, *, binary: bool = False, **headers: str) -> AsyncIterator[WireClient]:
    """A client that has read its hello. Underscores of header names are hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if binary:
        named["Binary"] = "true"
    async with connect(f"ws://127.0.0.1:{port}/connect/", additional_headers=named, max_size=None) as found:
        client = WireClient(found, binary=binary)
        hello = await client.reply()
        assert hello["type"] == "hello"
        client.number = hello["id"]
        yield client


async def send_messages(port: int, total: int = 100, concurrent: int = 1, *, binary: bool = False) -> int:
    """Post with the notice `write`, so many at a time; how many were told."""
    async with client_of(port, binary=binary) as client:
        labels: set[int] = set()
        sent = told = 0
        while told < total:
            while sent < total and len(labels) < concurrent:
                sent += 1
                labels.add(sent)
                await client.ask(
                    "post", message=_message(binary), priority=1, label=sent, notify=_notify(binary)
                )
            reply = await client.reply()
            assert (reply["type"], reply["notice"]) == ("notice", "write")
            labels.remove(reply["label"])
            told += 1
        return told


def _message(binary: bool) -> Any:
    return b"TEST MESSAGE" if binary else "TEST MESSAGE"


def _notify(binary: bool) -> Any:
    return ("write",) if binary else ["write"]


async def fetch_messages(
    port: int,
    limit: int = 100,
    concurrent: int = 1,
    *,
    forget: bool = False,
    binary: bool = False,
    work_timeout: float = 30.0,
) -> tuple[int, int, int]:
    """Fetch until so many are finished; with `forget` the first of each two is not. Fetched, finished, forgotten."""
    async with client_of(port, binary=binary) as client:
        label = fetched = finished = forgotten = 0
        waiting: set[int] = set()
        reply: dict[str, Any] = {}
        while finished < limit:
            while len(waiting) < concurrent:
                label += 1
                waiting.add(label)
                await client.ask(
                    "fetch", label=label, sync="write", work_timeout=work_timeout, block_timeout=30.0
                )
            reply = await client.reply()
            assert (reply["type"], reply["body"], reply["finished"]) == ("message", _message(binary), False)
            waiting.remove(reply["label"])
            fetched += 1
            if forget and fetched % 2:
                forgotten += 1
                continue
            await client.ask("finish", sequence=reply["sequence"], shard=reply["shard"])
            finished += 1
        await client.ask("finish", sequence=reply["sequence"], shard=reply["shard"], label=1)
        while (await client.reply())["type"] != "error":  # it was finished: so all before it were
            pass
        return fetched, finished, forgotten
