"""Memory that large messages took goes back to the system.

The C library keeps what is freed, for later. A message of 17 MB comes in thousands of small pieces, and after eight
of them hundreds of megabytes stay that nobody uses. So a while after a large message what is free is given back, on
a thread, as it takes some milliseconds. And pieces that are large never come from what is kept: by itself the
library moves that limit to the largest piece ever freed.

Other C libraries than glibc have no such calls and need none; there nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from jjq.limits import LARGE_BYTES, TRIM_SECONDS

_M_MMAP_THRESHOLD: Final = -3  # of malloc.h
_M_ARENAS: Final = -8  # M_ARENA_MAX
_ARENAS: Final = 4  # one for each thread, as it would be, keeps as much as its busiest moment took


def set_up() -> None:
    """For a process that is a server and nothing else: its rules for memory are ours to make."""
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_ARENAS, _ARENAS)


class Memory:
    """Knows when there is something to give back."""

    def __init__(self) -> None:
        self._trim = _function("malloc_trim")
        self._timer: asyncio.TimerHandle | None = None
        self._trimming: asyncio.Future[None] | None = None
        self.trims = 0  # so far

    def used(self, size: int) -> None:
        """A message of `size` bytes has come, or goes."""
        if size >= LARGE_BYTES and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TRIM_SECONDS, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._trimming is None or self._trimming.done():
            self._trimming = asyncio.get_running_loop().run_in_executor(None, self._give_back)

    def _give_back(self) -> None:
        pa.default_memory_pool().release_unused()
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
