"""A client without a network: frames go straight to the session, replies are values."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from jjq.http.priority_socket.sessions import SocketClient, SocketSessions


class FakeSocket:
    """What a session sends to. `reads` is cleared while the client does not read."""

    def __init__(self) -> None:
        self.replies: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.closed: tuple[int, str] | None = None
        self.reads = asyncio.Event()
        self.reads.set()

    async def send(self, data: bytes | str) -> None:
        assert isinstance(data, str)
        await self.reads.wait()
        self.replies.put_nowait(json.loads(data))

    def close(self, code: int, reason: str = "") -> None:
        self.closed = (code, reason)


class FakeClient:
    """A client that speaks JSON. `queue` is the one that its requests mean, if they name no other."""

    queue = ""

    def __init__(self, sessions: SocketSessions, number: int | None = None, *, durable: bool = False) -> None:
        self.sessions = sessions
        self.socket = FakeSocket()
        self.client: SocketClient = sessions.connect(self.socket, number, None, binary=False, durable=durable)

    async def ask(self, kind: str, **fields: Any) -> None:
        await self.client.requests.handle(
            json.dumps({"type": kind, "queue": self.queue, **fields}).encode(), text=True
        )

    async def reply(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            return await self.socket.replies.get()

    async def hello(self) -> int:
        said = await self.reply()
        assert said["type"] == "hello"
        number: int = said["id"]
        return number

    def leave(self) -> None:
        self.sessions.disconnect(self.client, self.socket)
