"""Shutting down: waiting calls are cancelled at once, working calls are finished.

Waiting for a client's next message, or for an element that nobody has pushed yet, is no work: such
calls end with UNAVAILABLE, which tells every client to connect again and go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Generic, TypeVar

from coldstore.shared.errors import Unavailable

T = TypeVar("T")

STOPPING = "the server is stopping: connect again and go on, nothing was lost"


class Interrupted(Exception):
    """`Interrupt.fire` was called while, or before, this was awaited."""


class Interrupt(Generic[T]):
    """One coroutine awaits through `wait`, others may `fire`.

    Firing cancels only the awaited operation, so it must only guard what may be cancelled: waiting
    for a message or an element, never writing one.
    """

    __slots__ = ("_task", "fired")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self.fired = False

    def fire(self) -> None:
        """Break off; stays in force until `reset`."""
        if not self.fired:
            self.fired = True
            if self._task is not None:
                self._task.cancel()

    def reset(self) -> None:
        self.fired = False

    async def wait(self, operation: Awaitable[T]) -> T:
        """The result of `operation`, or `Interrupted`."""
        self._refuse(operation)
        task = self._task = asyncio.current_task()
        try:
            return await operation
        except asyncio.CancelledError:
            # Our own cancellation is taken back; one from outside that came as well stays in force.
            if self.fired and task is not None and task.uncancel() == 0:
                raise Interrupted from None
            raise
        finally:
            self._task = None

    def _refuse(self, operation: Awaitable[T]) -> None:
        if self.fired:
            close = getattr(operation, "close", None)  # of a coroutine: nobody will ever await it
            if close is not None:
                close()
            raise Interrupted


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
            work.exception()  # the waiting call has seen it; nobody else will

    async def finish(self, seconds: float) -> None:
        """Wait until all that was kept is done; what takes longer is of unknown outcome."""
        if self._pending:
            _, late = await asyncio.wait(self._pending, timeout=seconds)
            for work in late:
                work.cancel()
            await asyncio.gather(*late, return_exceptions=True)
