"""Pushes to a queue whose groups are full: they wait for room, or are refused before anything is written.

A group with a capacity counts every task that is not done: ready, taken, delayed and buried. Pushes on their way count,
too, so that many at once do not pass the limit together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from coldstore.shared.errors import Exhausted, InvalidInput
from hotstore.groups.drivers import OPTIONS
from hotstore.groups.options import check_seconds
from hotstore.queue.queue import HotQueue
from hotstore.work.desk import WorkDesk
from hotstore.work.work_group import WorkGroup
from hotstore.write.push import PushEntry


class Capacity:
    """The gate between a push and the groups of its queue."""

    def __init__(self, desk: WorkDesk) -> None:
        self._desk = desk
        self._inside: dict[str, int] = {}  # elements of pushes on their way, by queue
        self._pushes: dict[PushEntry, str] = {}  # those pushes

    def is_open(self, queue: HotQueue, entry: PushEntry) -> bool:
        """Whether the push need not even ask: what almost every push finds."""
        return not entry.options and self._desk.has_no_limits(queue)

    async def enter(self, queue: HotQueue, entry: PushEntry) -> None:
        """Wait for room. The push counts as inside until it is settled."""
        groups = await self._desk.all_of(queue)
        if entry.options and groups and not any(OPTIONS & group.live.kind.uses for group in groups):
            raise InvalidInput(
                f"no group of queue {queue.name} uses {', '.join(sorted(entry.options))}: leave these options out, or "
                f"create a group with fifottl, limfifottl or utubettl"
            )
        limited = _limited(groups)
        if not limited:
            return
        check_seconds("timeout", entry.timeout)
        rows = entry.payload.num_rows
        for group in limited:
            capacity = group.live.state.settings.capacity or 0
            if rows > capacity:
                raise InvalidInput(
                    f"the push has {rows} elements, and group {group.id} has room for {capacity} in all: push fewer at "
                    f"a time"
                )
        if self._full(queue.name, limited, rows) is not None:
            await self._wait(queue, limited, rows, entry.timeout)
        self._count(queue.name, entry, rows)

    def _full(self, queue: str, groups: list[WorkGroup], rows: int) -> WorkGroup | None:
        """A group that has no room for so many more."""
        coming = self._inside.get(queue, 0) + rows
        for group in groups:
            capacity = group.live.state.settings.capacity
            if capacity is not None and group.advance().counts["total"] + coming > capacity:
                return group
        return None

    async def _wait(self, queue: HotQueue, groups: list[WorkGroup], rows: int, seconds: float) -> None:
        """Until there is room; nothing happens between that and the return."""
        try:
            async with asyncio.timeout(seconds):
                while (full := self._full(queue.name, groups, rows)) is not None:
                    await _turn(full.pushes)
                    groups = _limited(await self._desk.all_of(queue))  # one may have been loaded again
        except TimeoutError:
            full = self._full(queue.name, groups, rows)
            if full is not None:
                state = full.live.state
                raise Exhausted(
                    f"group {full.id} has {full.live.counts['total']} tasks of at most {state.settings.capacity}; "
                    f"nothing was written: take and ack tasks, or push with a longer timeout"
                ) from None

    def _count(self, queue: str, entry: PushEntry, rows: int) -> None:
        self._inside[queue] = self._inside.get(queue, 0) + rows
        self._pushes[entry] = queue
        leave = entry.on_settled

        def settled(size: int) -> None:
            self.leave(entry)
            if leave is not None:
                leave(size)

        entry.on_settled = settled

    def leave(self, entry: PushEntry) -> None:
        """The push is in the queue, or will never be."""
        queue = self._pushes.pop(entry, None)
        if queue is not None:
            self._inside[queue] -= entry.payload.num_rows


def _limited(groups: list[WorkGroup]) -> list[WorkGroup]:
    """Those that have a capacity."""
    return [group for group in groups if group.live.state.settings.capacity is not None]


async def _turn(line: deque[asyncio.Future[None]]) -> None:
    """Wait until a task of the group is done."""
    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    line.append(turn)
    try:
        await turn
    finally:
        if not turn.done() or turn.cancelled():
            with suppress(ValueError):  # a task was done just when the wait ended
                line.remove(turn)
