"""Back-pressure: bytes are admitted at the front, before anything is written or copied.

A push waits its turn while too many bytes are on their way to the disk, and is refused with a delay
to retry after where waiting does not help: too many bytes wait already, the journal's budget is
full (the cold store does not take blocks), the unsealed blocks fill the memory budget, or the disk
is nearly full. Reads are never refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from coldstore.shared.errors import Exhausted
from hotstore.settings import HotSettings

_WAITING_SHARE = 4  # waiting bytes may be so many times the bytes on their way


@dataclass(slots=True)
class Usage:
    """What counts against the budgets; kept by the engine."""

    journal_bytes: int = 0
    unsealed_bytes: int = 0
    disk_free_bytes: int = 1 << 62


class Admission:
    """The gate that every push passes."""

    def __init__(self, settings: HotSettings, usage: Callable[[], Usage]) -> None:
        self._settings = settings
        self._usage = usage
        self._inside = 0
        self._waiting = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.refused = 0

    def enters(self, size: int) -> bool:
        """Let `size` bytes in, if they need not wait. Raises `Exhausted` if waiting does not help."""
        self._refuse_over_budget(size)
        if self._line or self._inside + size > self._settings.pending_bytes_max:
            return False
        self._inside += size
        return True

    async def enter(self, size: int) -> None:
        """Let `size` bytes in, or raise `Exhausted`. Every `enter` is paired with a `leave`."""
        if self.enters(size):
            return
        limit = self._settings.pending_bytes_max
        if self._waiting + size > limit * _WAITING_SHARE:
            self._refuse(f"{self._waiting} bytes of pushes wait for the disk already", 0.1)
        await self._wait(size)

    async def _wait(self, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size, turn))
        self._waiting += size
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(size)  # it was let in at the very moment
            raise
        finally:
            self._waiting -= size

    def leave(self, size: int) -> None:
        """These bytes are in the journal, or were not written."""
        self._inside -= size
        while self._line:
            size, turn = self._line[0]
            if turn.done():
                self._line.popleft()
            elif not self._inside or self._inside + size <= self._settings.pending_bytes_max:
                self._line.popleft()
                self._inside += size
                turn.set_result(None)
            else:
                return

    @property
    def usage(self) -> Usage:
        return self._usage()

    def _refuse_over_budget(self, size: int) -> None:
        usage, settings = self._usage(), self._settings
        if usage.journal_bytes + size > settings.journal_bytes_max:
            self._refuse(
                f"the journal holds {usage.journal_bytes} bytes of at most {settings.journal_bytes_max}: the cold "
                f"store does not take blocks quickly enough",
                1.0,
            )
        if usage.unsealed_bytes + size > settings.unsealed_bytes_max:
            self._refuse(
                f"{usage.unsealed_bytes} bytes wait in memory for the cold store, at most "
                f"{settings.unsealed_bytes_max} may",
                1.0,
            )
        if usage.disk_free_bytes < settings.disk_free_bytes_min:
            self._refuse(
                f"the journal's disk has {usage.disk_free_bytes} bytes free, at least {settings.disk_free_bytes_min} "
                f"are kept: free some space",
                5.0,
            )

    def _refuse(self, why: str, retry_after: float) -> None:
        self.refused += 1
        raise Exhausted(f"{why}; nothing was written, retry in {retry_after:g} s", retry_after=retry_after)
