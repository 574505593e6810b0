"""Shutting down: what waits is broken off at once, what works is finished.

Waiting for a client's next message, or for an element that nobody has pushed yet, is no work: such
calls end with UNAVAILABLE, which tells every client to connect again and go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from coldstore.shared.errors import Unavailable
from jjq.server.interrupt import Interrupt, Interrupted

T = TypeVar("T")

STOPPING = "the server is stopping: connect again and go on, nothing was lost"


class Drain:
    """The one place that knows whether the server is stopping."""

    def __init__(self) -> None:
        self.stopping = False
        self._waiting: set[Interrupt[Any]] = set()
        self._pending: set[asyncio.Future[Any]] = set()

    def begin(self) -> None:
        """Break off everything that waits, now and from now on."""
        self.stopping = True
        for interrupt in list(self._waiting):
            interrupt.fire()

    async def wait(self, operation: Awaitable[T], interrupt: Interrupt[T] | None = None) -> T:
        """The result of `operation`, or `Unavailable` when the server stops first.

        A caller that breaks off for reasons of its own passes its `interrupt`, and sees `Interrupted`.
        """
        interrupt = interrupt or Interrupt()
        if self.stopping:
            interrupt.fire()
        self._waiting.add(interrupt)
        try:
            return await interrupt.wait(operation)
        except Interrupted:
            if self.stopping:
                raise Unavailable(STOPPING) from None
            raise
        finally:
            self._waiting.discard(interrupt)

    def keep(self, work: asyncio.Future[Any]) -> None:
        """Finish `work` before the server is gone, even if its caller has gone."""
        self._pending.add(work)
        work.add_done_callback(self._forget)

    def _forget(self, work: asyncio.Future[Any]) -> None:
        self._pending.discard(work)
        if not work.cancelled():
            work.exception()  # whoever waited has seen it; nobody else will

    async def finish(self, seconds: float) -> None:
        """Wait until all that was kept is done; what takes longer is of unknown outcome."""
        if self._pending:
            _, late = await asyncio.wait(self._pending, timeout=seconds)
            for work in late:
                work.cancel()
            await asyncio.gather(*late, return_exceptions=True)
