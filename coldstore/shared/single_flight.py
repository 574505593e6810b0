"""Many callers wait for one load: of all calls for the same key at the same time, the first starts the work.

`SingleFlight` is for an event loop, `ThreadSingleFlight` for threads. Neither remembers an outcome: a call
after the work has ended starts it again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from coldstore.shared.errors import Unavailable

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """Work of one event loop, one task for each key. A caller that is cancelled does not cancel the work."""

    def __init__(self, failed: Callable[[K, BaseException], None] = lambda key, error: None) -> None:
        """`failed` is called for every failure, also if nobody waits for the work any more."""
        self._tasks: dict[K, asyncio.Task[T]] = {}
        self._failed = failed

    async def run(self, key: K, work: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """The outcome of the work for `key`, which is started unless it is under way."""
        return await asyncio.shield(self.start(key, work, name))

    def start(self, key: K, work: Callable[[], Coroutine[Any, Any, T]], name: str) -> asyncio.Task[T]:
        """The task of the work for `key`; await it through `asyncio.shield`."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work(), name=name)
            task.add_done_callback(lambda done: self._done(key, done))
        return task

    def _done(self, key: K, task: asyncio.Task[T]) -> None:
        del self._tasks[key]
        error = None if task.cancelled() else task.exception()  # asking keeps asyncio from warning of it
        if error is not None:
            self._failed(key, error)

    def __contains__(self, key: K) -> bool:
        return key in self._tasks

    async def ended(self, chosen: Callable[[K], bool]) -> None:
        """Wait until no work is under way for such a key, however it ends."""
        while tasks := [task for key, task in self._tasks.items() if chosen(key)]:
            await asyncio.wait(tasks)

    def __len__(self) -> int:
        """How many keys are being worked on."""
        return len(self._tasks)


class ThreadSingleFlight(Generic[K, T]):
    """Work of many threads: one of those that ask for a key does it, the others wait for the outcome."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[K, Future[T]] = {}

    def run(self, key: K, work: Callable[[], T], doing: str) -> T:
        """The outcome of `work`. If the working thread is interrupted, as by Ctrl-C, the others get an error that names
        `doing`."""
        mine: Future[T] = Future()
        with self._lock:
            future = self._under_way.setdefault(key, mine)
        if future is not mine:
            return future.result()
        try:
            result = work()
        except BaseException as error:
            self._end(key)
            interrupted = Unavailable(f"{doing} was interrupted; retry")
            mine.set_exception(error if isinstance(error, Exception) else interrupted)
            raise
        self._end(key)
        mine.set_result(result)
        return result

    def _end(self, key: K) -> None:
        with self._lock:
            del self._under_way[key]
