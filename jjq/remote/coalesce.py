"""Requests that one client makes at the same time travel together.

A request costs as much as a thousand elements, or a hundred tasks. While as many requests of a kind are under way as
may be at a time, further ones wait for one of them to end, and then go as one. Each caller gets its own part of the
reply. A caller that awaits each request before the next sees no difference: requests that are made at the same time
have no order.

`Coalescer` does that for any kind of request, `PushCoalescer` for pushes; groups/task_coalescer.py for takes and acks.

A push goes at once if it is alone, or large. A batch is written as a whole or not at all, so an error that says "not
written" is true of every part. If an error says that the input is wrong, each request is sent by itself, to find out
which one it is; any other error is true of all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

import pyarrow as pa

from coldstore.shared.deadline import settle
from coldstore.shared.errors import InvalidInput, JjqError
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt
from jjq.limits import JOIN_BYTES_MAX, JOIN_CALLS, JOIN_PUSH_BYTES

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class _Line(Generic[Request, Reply]):
    """Requests that may go as one."""

    __slots__ = ("calls", "soon", "waiting")

    def __init__(self) -> None:
        self.calls = 0  # on their way
        self.soon = False  # those that wait are sent in the next round of the event loop
        self.waiting: deque[tuple[Request, asyncio.Future[Reply]]] = deque()


class Coalescer(Generic[Request, Reply]):
    """Sends requests by `send`, several as one where that saves requests."""

    def __init__(
        self,
        send: Callable[[Request], Awaitable[Reply]],
        gather: Callable[
            [deque[tuple[Request, asyncio.Future[Reply]]]], list[tuple[Request, asyncio.Future[Reply]]]
        ],
        join: Callable[[list[Request]], Request],
        share: Callable[[list[tuple[Request, asyncio.Future[Reply]]], Reply], None],
        *,
        calls: int,
        unheard: Callable[[Request, Reply], None] | None = None,
        wait_a_round: bool = False,
    ) -> None:
        """`gather` takes those from a line that fit into one request, `join` makes that, `share` answers each.

        `calls` go at once; `unheard` gets a reply whose caller went away just when it came. With `wait_a_round` a
        request waits one round of the event loop if the last one was that of several callers: the reply to that one
        wakes all of them, and what they ask for next goes together, too.
        """
        self._send = send
        self._gather = gather
        self._join = join
        self._share = share
        self._calls = calls
        self._unheard = unheard
        self._wait_a_round = wait_a_round
        self._several = False  # the last request was one of several callers, and `wait_a_round`
        self._lines: dict[Hashable, _Line[Request, Reply]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, key: Hashable, request: Request) -> Reply:
        """The reply; requests with the same key may go together."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        is_full = line.calls >= self._calls
        if is_full or self._several:
            if not is_full and not line.soon:
                line.soon = True
                asyncio.get_running_loop().call_soon(self._send_waiting, key, line)
            reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            line.waiting.append((request, reply))
            try:
                return await reply
            except asyncio.CancelledError:
                if self._unheard is not None and _has_result(reply):
                    self._unheard(request, reply.result())
                raise
        line.calls += 1
        try:
            return await self._send(request)
        finally:
            self._ended(key, line)

    def _ended(self, key: Hashable, line: _Line[Request, Reply]) -> None:
        line.calls -= 1
        self._send_next(key, line)

    def _send_waiting(self, key: Hashable, line: _Line[Request, Reply]) -> None:
        line.soon = False
        if line.calls < self._calls:
            self._send_next(key, line)

    def _send_next(self, key: Hashable, line: _Line[Request, Reply]) -> None:
        """Send those that wait, as many as fit into one request."""
        joined = self._gather(line.waiting)
        if joined:
            self._several = self._wait_a_round and len(joined) > 1
            line.calls += 1
            task = asyncio.create_task(self._send_all(key, line, joined), name="jjq-join")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif not line.calls and not line.soon:
            self._lines.pop(key, None)

    async def _send_all(self, key: Hashable, line: _Line[Request, Reply], joined: list[Any]) -> None:
        try:
            await self._try(joined)
        finally:
            for _, reply in joined:
                reply.cancel()  # those that have no reply: the client is being torn down
            self._ended(key, line)

    async def _try(self, joined: list[Any]) -> None:
        try:
            got = await self._send(self._join([request for request, _ in joined]))
        except InvalidInput as error:
            if len(joined) == 1:
                settle(joined[0][1], error.copy())
                return
            for one in joined:
                await self._try([one])
        except Exception as error:  # noqa: BLE001 - callers must not wait for ever
            for _, reply in joined:
                settle(reply, error.copy() if isinstance(error, JjqError) else error)
        else:
            self._share(joined, got)


class PushCoalescer:
    """Sends independent pushes by `send`, several in one call where that saves calls."""

    def __init__(self, send: Callable[[Push], Awaitable[Receipt]]) -> None:
        self._send = send
        self._pushes: Coalescer[Push, Receipt] = Coalescer(
            send, _gather_pushes, _join_pushes, _share_receipt, calls=JOIN_CALLS
        )

    async def append(self, push: Push) -> Receipt:
        if push.payload.get_total_buffer_size() > JOIN_PUSH_BYTES:
            return await self._send(push)
        return await self._pushes.ask((push.queue, push.stage), push)


def _has_result(reply: asyncio.Future[Any]) -> bool:
    return reply.done() and not reply.cancelled() and reply.exception() is None


def _gather_pushes(waiting: deque[Any]) -> list[Any]:
    """Pushes that fit into one call, in the order in which they came; without those whose caller has gone."""
    found: list[Any] = []
    size = 0
    while waiting:
        payload = waiting[0][0].payload
        size += payload.get_total_buffer_size()
        if size > JOIN_BYTES_MAX or (found and not payload.schema.equals(found[0][0].payload.schema)):
            break
        one = waiting.popleft()
        if one[1].done():
            size -= payload.get_total_buffer_size()
        else:
            found.append(one)
    return found


def _join_pushes(pushes: list[Push]) -> Push:
    if len(pushes) == 1:
        return pushes[0]
    first = pushes[0]
    return Push(first.queue, pa.concat_batches([push.payload for push in pushes]), stage=first.stage)


def _share_receipt(joined: list[Any], receipt: Receipt) -> None:
    first = receipt.first_offset
    for push, reply in joined:
        rows = push.payload.num_rows
        settle(reply, Receipt(first, rows, receipt.timestamp_us, receipt.stage))
        first += rows
