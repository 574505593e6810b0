"""The Subscribe streams of this server, by subscriber, so that a seek finds the stream it must move.

A subscriber has at most one stream: a newer one ends the older, which after a broken connection is
usually the same client's and dead. Seeks made elsewhere, through another node or an embedded store,
are found by comparing positions every `WATCH_SECONDS`, in one listing for all streams of a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from coldstore.shared.errors import Conflict, JjqError, NotFound
from coldstore.shared.results import queue_part
from hotstore.port import Store
from jjq.limits import WATCH_SECONDS


class Stream(Protocol):
    """What the registry may do to a stream."""

    confirmed: int  # where the subscriber was last seen
    generation: int  # how often it was moved
    moving: asyncio.Lock  # held while the subscriber is moved, by a seek or by a confirmation

    def moved(self, offset: int) -> None:
        """The subscriber is at `offset` now, moved by somebody else: go on there."""
        ...

    def end(self, error: BaseException | None) -> None:
        """Tell the client why, and end."""
        ...


class Streams:
    """All streams that are open."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, Stream] = {}
        self._watch: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, subscriber: str, stream: Stream) -> None:
        older = self._open.get(subscriber)
        if older is not None:
            older.end(Conflict(f"another stream of subscriber {subscriber} was opened: one at a time"))
        self._open[subscriber] = stream
        if self._watch is None:
            self._watch = asyncio.create_task(self._look_periodically(), name="jjq-watch")

    def leave(self, subscriber: str, stream: Stream) -> None:
        if self._open.get(subscriber) is stream:
            del self._open[subscriber]

    def deleted(self, subscriber: str) -> None:
        stream = self._open.get(subscriber)
        if stream is not None:
            stream.end(NotFound(f"subscriber {subscriber} was deleted"))

    @asynccontextmanager
    async def moving(self, subscriber: str, dry_run: bool) -> AsyncIterator[Callable[[int], None]]:
        """Around a seek: no confirmation falls between the move and the stream's knowing of it."""
        stream = self._open.get(subscriber)
        if stream is None or dry_run:
            yield lambda offset: None
            return
        async with stream.moving:
            yield stream.moved

    async def look(self) -> None:
        """Find streams whose subscriber was moved or deleted elsewhere."""
        before = {
            subscriber: (stream, stream.generation, stream.confirmed)
            for subscriber, stream in self._open.items()
        }
        queues = sorted({queue_part(subscriber) for subscriber in before})
        now = {
            found.id: found.offset for queue in queues for found in await self._store.list_subscribers(queue)
        }
        for subscriber, (stream, generation, confirmed) in before.items():
            if self._open.get(subscriber) is not stream or stream.moving.locked():
                continue  # gone, or on the move: the next look will tell
            if subscriber not in now:
                self.deleted(subscriber)
            elif stream.generation == generation and not confirmed <= now[subscriber] <= stream.confirmed:
                stream.moved(now[subscriber])

    async def _look_periodically(self) -> None:
        while self._open:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                await self.look()
            except JjqError:
                continue  # the streams learn of it themselves
        self._watch = None

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
