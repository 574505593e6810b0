"""Subscribing: elements as they come, prefetched, confirmed as the consumer goes on.

An element counts as handled when the consumer asks for the next one, or calls `confirm`. What is
handled is confirmed in the background: at the end of each batch and, whether the consumer asks for more or
not, every `confirm_every` seconds, half a second by default. So after a crash the elements of the last second may
come again, and those before do not. With `confirm_every=None` only `confirm` confirms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from math import inf
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from coldstore.shared.attachments import ObjectSource
from coldstore.shared.batch import Element, elements
from coldstore.shared.clock import Clock
from hotstore.port import Popped
from jjq.client.local_subscription import Deliveries

CONFIRM_EVERY_SECONDS: Final = 0.5  # by default; with the way to the journal that is less than a second


class Cursor:
    """Where in its present batch a consumer is. Used by one thread at a time."""

    def __init__(self, clock: Clock, every: float) -> None:
        self._clock = clock
        self._every = every
        self._elements: Iterator[Element] = iter(())
        self._due = 0.0
        self.source: ObjectSource | None = None  # reads the objects that elements name
        self.delivery: Popped | None = None
        self.handled: int | None = None  # everything of the delivery before it was handled
        self._given: int | None = None

    def begin(self, delivery: Popped) -> None:
        """Go on with the next batch."""
        self.delivery = delivery
        self.handled = self._given = delivery.position
        self._elements = elements(delivery.batch, self.source)

    def drop(self) -> None:
        """Give out nothing more of the present batch."""
        self._elements = iter(())

    def give(self) -> Element | None:
        """The next element, by which those before count as handled; None at the end of the batch."""
        self.handled = self._given
        element = next(self._elements, None)
        if element is not None:
            self._given = element.offset + 1
        return element

    def give_all(self) -> pa.RecordBatch:
        """What is left of the batch, at once."""
        delivery, given = self.delivery, self._given
        if delivery is None or given is None:
            raise AssertionError("no batch was begun")
        self.handled, self._given, self._elements = given, delivery.next, iter(())
        return delivery.batch.slice(given - delivery.position)

    def hand_back(self) -> None:
        """All that was given was handled."""
        self.handled = self._given

    def is_due(self) -> bool:
        """Whether it is time to confirm in the middle of a batch."""
        now = self._clock.monotonic()
        if now < self._due:
            return False
        self._due = now + self._every
        return True


class AsyncSubscription:
    """Iterate over it for elements, or over `batches()` for Arrow. Close it, or use it as a context manager."""

    def __init__(
        self,
        deliveries: Deliveries,
        clock: Clock,
        on_close: Callable[[AsyncSubscription], None],
        confirm_every: float | None = CONFIRM_EVERY_SECONDS,
    ) -> None:
        self._every = confirm_every
        self.cursor = Cursor(clock, inf if confirm_every is None else confirm_every)
        self._deliveries = deliveries
        self._on_close = on_close
        self._noting: asyncio.Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Element:
        while (element := self.cursor.give()) is None:
            await self.turn()
        if self.cursor.is_due():
            await self.note()
            await asyncio.sleep(
                0
            )  # elements that are here already come without a turn of the loop, which sends it
        return element

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow record batches; one counts as handled when the next is asked for."""
        while True:
            yield await self.next_batch()

    async def next_batch(self) -> pa.RecordBatch:
        """The rest of the present batch, or the next one."""
        while True:
            batch = self.cursor.give_all() if self.cursor.delivery is not None else None
            if batch is not None and batch.num_rows:
                return batch
            await self.turn()

    async def turn(self) -> None:
        """Note what was handled and wait for the next batch."""
        await self.note()
        if self._noting is None and self._every is not None:
            self._noting = asyncio.create_task(self._note_now_and_then(self._every), name="jjq-note")
        self.cursor.begin(await self._deliveries.__anext__())

    async def note(self) -> None:
        """Pass on what was handled, unless only `confirm` does; durable a little later."""
        if self._every is not None:
            await self._pass_on()

    async def _pass_on(self) -> None:
        if self.cursor.delivery is not None:
            await self._deliveries.confirm(self.cursor.delivery, self.cursor.handled)

    async def _note_now_and_then(self, seconds: float) -> None:
        """For a consumer that is slow, or never asks for another element."""
        while True:
            await asyncio.sleep(seconds)
            await self.note()

    async def confirm(self) -> None:
        """All elements given so far were handled: returns when that is durable."""
        self.cursor.hand_back()
        await self._pass_on()
        await self._deliveries.settled()

    async def close(self) -> None:
        """End. The element given last is not confirmed by that; `confirm` first if it was handled."""
        if self._noting is not None:
            self._noting.cancel()
            await asyncio.wait({self._noting})
        await self.note()
        await self._deliveries.close()
        self._on_close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
