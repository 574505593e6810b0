"""Breaking off what a coroutine awaits, from outside, without breaking what it does next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Generic, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """`Interrupt.fire` was called while, or before, this was awaited."""


class Interrupt(Generic[T]):
    """One coroutine awaits through `wait`, others may `fire`.

    Firing cancels the awaited operation alone, so it must only guard what may be broken off: waiting
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
