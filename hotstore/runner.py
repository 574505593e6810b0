"""How the process runs: blocking work in threads of its own (or inline, for a simulation), and Arrow's allocator."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Final, Protocol, TypeVar

import pyarrow as pa

T = TypeVar("T")

_NICENESS: Final = 19
# A replay frees a block every quarter of a second. If jemalloc kept those for its default of one second, they would be
# more than the budget for loaded blocks.
_DECAY_MS: Final = 10


class Runner(Protocol):
    """Runs blocking calls off the event loop."""

    async def run(self, call: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class ThreadRunner:
    """A small pool of named threads.

    Its work gives way to everything else, unless it is `urgent`: others wait for it, and it is short. Beats are. With
    four busy processes on two cores, 30 calls of 5 ms each took 24 s in threads that give way, and 0.8 s in others.
    """

    def __init__(self, name: str, threads: int, *, urgent: bool = False) -> None:
        give_way = None if urgent else _step_back
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name, initializer=give_way)

    async def run(self, call: Callable[[], T]) -> T:
        # With the caller's context, so that what it waits for is part of its trace.
        return await asyncio.get_running_loop().run_in_executor(self._pool, copy_context().run, call)

    def close(self, *, wait: bool = True) -> None:
        """Take nothing more; by default, wait for what runs."""
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


def use_quick_pool(environment: Mapping[str, str]) -> None:
    """Let Arrow allocate with jemalloc where it has it, unless the user chose another allocator.

    Arrow's default, mimalloc, returns pages to the kernel at once and pays for them again at the next batch: a push of
    1,000 × 100 B that stays in memory cost 0.6 ms with it, 0.15 ms with jemalloc.
    """
    chosen = environment.get("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
    if chosen == "jemalloc" and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(_DECAY_MS)
