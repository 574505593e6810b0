"""A client of the priority socket, `/connect/`: it posts, fetches and finishes, in JSON or in bincode."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests.faults.clients.takers import TTR_SECONDS
from tests.faults.clients.worker import AWAY_SECONDS, CALL_SECONDS, SIZES, STEP_SECONDS, Worker
from tests.faults.history import Operation
from tests.faults.values import make_value, read_value
from tests.jjq.http.priority_socket.wireclient import WireClient

MAIL_GROUP = "workers"  # which the protocol works with


class Poster(Worker):
    """One socket after the other, as the same client. No notice names an offset: a post is found by its value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._binary = self.number % 2 == 0
        self._client: WireClient | None = None
        self._id: int | None = None
        self._label = 0

    async def once(self) -> None:
        await self._post()
        if self.dice(3):
            await self._fetch()
        await self.pause(STEP_SECONDS)

    async def _post(self) -> None:
        numbers = self.numbers(1)
        value = make_value(numbers[0], SIZES[self.dice(3)])
        op = self.pen.invoke("push", self.queue, values=numbers)
        reply = await self._ask(
            op, "post", message=self._either(value), priority=self.dice(3), notify=self._notify()
        )
        if reply is not None and reply.get("notice") == "sync":
            op.ok()
        elif reply is not None:
            op.end("info", str(reply.get("code")), late=True)

    async def _fetch(self) -> None:
        durable = self.dice(2) == 0
        op = self.pen.invoke("take", self.queue, durable=durable)
        reply = await self._ask(
            op, "fetch", work_timeout=TTR_SECONDS, block_timeout=0.1, sync="sync" if durable else "ready"
        )
        if reply is None:
            return
        if reply["type"] == "error":
            op.end("info", reply["code"], late=True)
            return
        if reply["type"] == "nomessage":
            op.ok(position=0, tasks=[], attempts=[], values=[])
            return
        task, attempt, body = reply["sequence"], reply["shard"], reply["body"]
        op.ok(position=task, tasks=[task], attempts=[attempt], offsets=[task], values=[read_value(body)])
        if self.dice(4):
            await self._finish(task, attempt)

    async def _finish(self, task: int, attempt: int) -> None:
        op = self.pen.invoke("ack", self.queue, tasks=[task], attempts=[attempt])
        reply = await self._ask(op, "finish", sequence=task, shard=attempt)
        if reply is not None and reply.get("notice") == "finish":
            op.ok(refused=[])
        elif reply is not None:
            op.end("info", str(reply.get("code")), late=True)

    async def _ask(self, op: Operation, kind: str, **fields: Any) -> dict[str, Any] | None:
        """The reply with our label; None if there is none, and then the operation has been ended."""
        self._label += 1
        try:
            async with asyncio.timeout(CALL_SECONDS):
                client = await self._open()
                await client.ask(kind, queue=self.queue, label=self._label, **fields)
                while True:
                    reply = await client.reply()
                    if reply.get("label") == self._label:
                        return reply
        except (OSError, TimeoutError, WebSocketException) as error:
            op.end("info", type(error).__name__, late=True)
            self.failed(away=True)
            self._close()
            await self.pause(AWAY_SECONDS)
            return None

    async def _open(self) -> WireClient:
        if self._client is None:
            headers = {"Binary": "true"} if self._binary else {}
            if self._id is not None:
                headers["RECONNECT-AS"] = str(self._id)
            url = f"ws://{self.http.split(',')[self._at]}/connect/"
            socket = await connect(url, additional_headers=headers, max_size=None, ping_interval=None)
            self._client = WireClient(socket, binary=self._binary)
            self._id = (await self._client.reply())["id"]
        return self._client

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(OSError, WebSocketException):
                client.connection.transport.abort()

    def _either(self, value: bytes) -> Any:
        return value if self._binary else value.decode()

    def _notify(self) -> Any:
        return ("sync",) if self._binary else ["sync"]
