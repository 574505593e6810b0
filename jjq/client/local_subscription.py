"""A subscriber's elements in process: read ahead in the background, confirmed in the background.

The same interface as `jjq.remote.subscription.RemoteSubscription`, over the verbs of any `Store`. It reads
ahead of the subscriber, whose position only confirmations move, so after any failure the
next subscription begins at the last confirmed offset.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, Self, cast

from coldstore.shared.errors import Conflict, JjqError
from hotstore.port import Popped, Store
from jjq.limits import CREDIT_BYTES


class Deliveries(Protocol):
    """Elements as they come, and how to say that they were handled."""

    async def __anext__(self) -> Popped: ...

    async def confirm(self, delivery: Any, offset: int | None = None) -> None:
        """All of `delivery` was handled, or all before `offset`; returns before that is durable."""
        ...

    async def settled(self) -> None:
        """Return when everything confirmed so far is durable."""
        ...

    async def close(self) -> None:
        """End, after the confirmations that were made."""
        ...


@dataclass(frozen=True, slots=True)
class LocalDelivery(Popped):
    """Elements still to be confirmed."""

    generation: int = 0  # which of the subscriber's moves it follows


class LocalDeliveries:
    """See the module's docstring."""

    def __init__(self, store: Store, subscriber: str, nbytes: int = CREDIT_BYTES) -> None:
        self.subscriber = subscriber
        self.moving = asyncio.Lock()  # held while the subscriber is moved, by a seek or a confirmation
        self._store = store
        self._budget = nbytes
        self._ready: deque[LocalDelivery] = deque()
        self._bytes = 0
        self._generation = 0
        self._wanted = -1
        self._confirmed = -1
        self._error: JjqError | None = None
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._confirmer: asyncio.Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LocalDelivery:
        if self._reader is None:
            self._read_from(None)
        while not self._ready:
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()
        delivery = self._ready.popleft()
        self._bytes -= delivery.batch.nbytes
        self._changed.set()
        return delivery

    async def confirm(self, delivery: LocalDelivery, offset: int | None = None) -> None:
        wanted = delivery.next if offset is None else offset
        if delivery.generation == self._generation and wanted > self._wanted:
            self._wanted = wanted
            if self._confirmer is None:
                self._confirmer = asyncio.create_task(self._commit(), name="jjq-confirm")

    async def settled(self) -> None:
        if self._confirmer is not None:
            await asyncio.shield(self._confirmer)
        if self._error is not None:
            raise self._error

    def moved(self, offset: int) -> None:
        """The subscriber was placed at `offset`: what was read ahead is not what comes next."""
        self._generation += 1
        self._wanted = self._confirmed = -1
        if self._reader is not None:
            self._read_from(offset)

    def end(self, error: JjqError) -> None:
        """Raise `error` in the reader."""
        self._error = self._error or error
        if self._reader is not None:
            self._reader.cancel()
        self._ready.clear()
        self._changed.set()

    async def close(self) -> None:
        tasks = [task for task in (self._reader, self._confirmer) if task is not None]
        if self._reader is not None:
            self._reader.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.end(Conflict("the subscription is closed: subscribe again"))

    def _read_from(self, offset: int | None) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._ready.clear()
        self._bytes = 0
        self._reader = asyncio.create_task(self._read(offset, self._generation), name="jjq-read-ahead")

    async def _read(self, offset: int | None, generation: int) -> None:
        try:
            found = await self._store.get_subscriber(self.subscriber)
            position = found.offset if offset is None else offset
            batches = self._store.read(found.queue, f"offset:{position}", follow=True)
            async with aclosing(cast("Any", batches)) as source:
                async for batch in source:
                    self._ready.append(LocalDelivery(batch, position, position + batch.num_rows, generation))
                    position += batch.num_rows
                    self._bytes += batch.nbytes
                    self._changed.set()
                    while self._bytes >= self._budget:
                        self._changed.clear()
                        await self._changed.wait()
        except JjqError as error:
            self._error = error
            self._changed.set()

    async def _commit(self) -> None:
        """Confirm until nothing is left to confirm; what comes meanwhile becomes one."""
        try:
            while self._wanted > self._confirmed:
                async with self.moving:
                    wanted = self._wanted
                    if wanted > self._confirmed:
                        await self._store.confirm(self.subscriber, wanted)
                        self._confirmed = wanted
        except JjqError as error:
            self.end(error)
        finally:
            self._confirmer = None
