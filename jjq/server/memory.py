"""Memory that large messages took: kept while more of them come, given back to the system soon after.

A new page from the system costs two microseconds, zeros included, and a message of 9 MiB is copied twice on the event
loop. With new pages that took eleven milliseconds; with pages that the process already has it takes less than one. So
the process keeps what it frees. Some time after the last large message, or after many small ones, `malloc_trim` gives
the memory back, in a thread, because that takes some milliseconds. If messages come without end, this happens now and
then. It is repeated for some minutes (`TRIM_AGAIN_SECONDS`): pushed elements are freed when their block is sealed, and
replies that a client does not read when it hangs up.

All threads share one arena, because `malloc_trim` never gives back the free end of any arena but the main one.
Arrow has memory of its own, and each thread gives back only what it freed itself, so the event loop does that.

C libraries other than glibc have no such calls and need none; there this module does nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from coldstore.shared.limits import MIB
from jjq.limits import LARGE_BYTES, TRIM_AGAIN_SECONDS, TRIM_BYTES, TRIM_SECONDS, TRIM_SECONDS_MAX

_M_TRIM_THRESHOLD: Final = -1  # of malloc.h: free memory at the end that is kept
_M_MMAP_THRESHOLD: Final = -3  # a piece that is as large comes from the system, and goes back at once
_M_ARENAS: Final = -8  # M_ARENA_MAX
_KEPT_BYTES: Final = 256 * MIB
_PIECE_BYTES: Final = 32 * MIB  # the largest that the library takes


def set_up() -> None:
    """Set the rules for memory of the whole process. Only for a process that is a server and nothing else."""
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _PIECE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENAS, 1)


class Memory:
    """Knows when there is something to give back."""

    def __init__(self) -> None:
        self._trim = _function("malloc_trim")
        self._timer: asyncio.TimerHandle | None = None
        self._trimming: asyncio.Future[None] | None = None
        self._bytes = 0  # of messages since the last time
        self._first = 0.0  # when there were enough of them
        self._again = 0  # times that it was given back since the last message
        self._last = 0.0
        self.trims = 0  # so far

    def used(self, size: int) -> None:
        """A message of `size` bytes has come, or goes, or a stream that sent so much is over."""
        self._bytes += size
        if size < LARGE_BYTES and self._bytes < TRIM_BYTES:
            return
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._timer is None or self._again:
            if self._timer is not None:
                self._timer.cancel()
            self._first, self._again = self._last, 0
            self._timer = loop.call_later(TRIM_SECONDS, self._look)

    def _look(self) -> None:
        """Give back, unless more came meanwhile."""
        loop = asyncio.get_running_loop()
        due = min(self._last + TRIM_SECONDS, self._first + TRIM_SECONDS_MAX)
        if loop.time() < due:
            self._timer = loop.call_at(due, self._look)
            return
        if self._trimming is not None and not self._trimming.done():  # on a busy machine
            self._timer = loop.call_later(TRIM_SECONDS, self._look)
            return
        more = TRIM_AGAIN_SECONDS[self._again :]
        self._timer = loop.call_later(more[0], self._look) if more else None
        self._again = self._again + 1 if more else 0
        self._bytes = 0
        pa.default_memory_pool().release_unused()
        self._trimming = loop.run_in_executor(None, self._give_back)

    def _give_back(self) -> None:
        if self._trim is not None:
            self._trim(0)
        self.trims += 1

    async def close(self) -> None:
        """Wait for what is under way, and begin no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._trimming is not None:
            await self._trimming


def _function(name: str) -> Callable[..., Any] | None:
    """One of the C library's, if it has it. It runs without the interpreter's lock."""
    try:
        found: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found
