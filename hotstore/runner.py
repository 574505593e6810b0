"""Where blocking work runs: in threads of its own, or inline where a simulation wants one thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

T = TypeVar("T")

_NICENESS = 19


class Runner(Protocol):
    """Runs blocking calls off the event loop."""

    async def run(self, call: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class ThreadRunner:
    """A small pool of named threads."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name, initializer=_step_back)

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self, *, wait: bool = True) -> None:
        """Take nothing more; unless told not to, wait for what runs."""
        self._pool.shutdown(wait=wait)


class InlineRunner:
    """Runs everything at once on the caller's thread: one thread, one order, one outcome."""

    async def run(self, call: Callable[[], T]) -> T:
        return call()

    def close(self) -> None:
        return None


def _step_back() -> None:
    """Let the event loop go first: sealing and loading may take every core, but never the loop's turn.

    Linux gives each thread a niceness of its own; threads that this one starts inherit it.
    """
    with suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
