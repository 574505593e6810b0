"""Plain pushes that one client makes at the same time travel together.

A call costs as much as a thousand elements. While two calls for a queue are under way, further small pushes
wait for one of them to end, and then go as one batch. Each gets the receipt for its own part. A push goes at
once if it is alone, or large. A caller that awaits each push before the next sees no difference: pushes that
are made at the same time have no order.

A batch is written as a whole or not at all, so an error that says "not written" is true of every part. If the
error says that the input is wrong, each part is sent by itself, to find out which one it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pyarrow as pa

from coldstore.shared.deadline import settle
from coldstore.shared.errors import InvalidInput, JjqError
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt, Stage
from jjq.limits import JOIN_BYTES_MAX, JOIN_CALLS, JOIN_PUSH_BYTES

Send: TypeAlias = Callable[[Push], Awaitable[Receipt]]
Waiting: TypeAlias = tuple[pa.RecordBatch, int, asyncio.Future[Receipt]]  # with the size in bytes


class _Line:
    """The pushes to one queue."""

    __slots__ = ("calls", "waiting")

    def __init__(self) -> None:
        self.calls = 0  # on their way
        self.waiting: deque[Waiting] = deque()


class PushJoiner:
    """Sends plain pushes by `send`, several in one call where that saves calls."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lines: dict[tuple[str, Stage], _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(self, push: Push) -> Receipt:
        size: int = push.payload.get_total_buffer_size()
        if size > JOIN_PUSH_BYTES:
            return await self._send(push)
        queue, stage = push.queue, push.stage
        line = self._lines.get((queue, stage))
        if line is None:
            line = self._lines[queue, stage] = _Line()
        if line.calls >= JOIN_CALLS:
            reply: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
            line.waiting.append((push.payload, size, reply))
            return await reply
        line.calls += 1
        try:
            return await self._send(push)
        finally:
            self._ended(queue, stage, line)

    def _ended(self, queue: str, stage: Stage, line: _Line) -> None:
        line.calls -= 1
        joined = _take(line.waiting)
        if joined:
            line.calls += 1
            task = asyncio.create_task(self._send_all(queue, stage, line, joined), name="jjq-join")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif not line.calls:
            del self._lines[queue, stage]

    async def _send_all(self, queue: str, stage: Stage, line: _Line, joined: list[Waiting]) -> None:
        try:
            await self._try(queue, stage, joined)
        finally:
            for _, _, reply in joined:
                reply.cancel()  # those that have no answer: the client is being torn down
            self._ended(queue, stage, line)

    async def _try(self, queue: str, stage: Stage, joined: list[Waiting]) -> None:
        payloads = [payload for payload, _, _ in joined]
        try:
            whole = payloads[0] if len(payloads) == 1 else pa.concat_batches(payloads)
            receipt = await self._send(Push(queue, whole, stage=stage))
        except InvalidInput as error:
            if len(joined) == 1:
                _answer(joined[0][2], error)
                return
            for one in joined:
                await self._try(queue, stage, [one])
        except Exception as error:  # noqa: BLE001 - callers must not wait for ever
            for _, _, reply in joined:
                _answer(reply, error)
        else:
            first = receipt.first_offset
            for payload, _, reply in joined:
                _answer(reply, Receipt(first, payload.num_rows, receipt.timestamp_us, receipt.stage))
                first += payload.num_rows


def _take(waiting: deque[Waiting]) -> list[Waiting]:
    """Pushes that fit into one call, in the order in which they came; without those whose caller has gone."""
    found: list[Waiting] = []
    size = 0
    while waiting and size + waiting[0][1] <= JOIN_BYTES_MAX:
        if found and not waiting[0][0].schema.equals(found[0][0].schema):
            break
        one = waiting.popleft()
        if not one[2].done():
            found.append(one)
            size += one[1]
    return found


def _answer(reply: asyncio.Future[Receipt], outcome: Receipt | Exception) -> None:
    settle(reply, outcome.copy() if isinstance(outcome, JjqError) else outcome)
