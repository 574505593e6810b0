"""A worker: takes tasks, calls a handler with each, acks those that are handled and nacks those that failed.

    take → handlers, `concurrency` at a time → ack, all that were handled meanwhile in one request
                                             → nack, with the exception as the reason
    every third of the ttr: touch what is being handled

The worker goes on while the server restarts: a take that cannot be sent is tried again, after growing pauses. A task
whose time has run out, or whose ack was refused, is counted in `lost`: another worker has it, or will. A request that
is wrong for good, such as one for a group that was deleted, ends the worker.

To stop: no further task is taken, handlers that run are finished and their tasks acked. Who cancels `run` instead
breaks the handlers off; their tasks are given back.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self

from coldstore.shared.backoff import Backoff
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, Exhausted, InvalidInput, JjqError, Unavailable
from hotstore.groups.values import GroupInfo
from jjq.client.groups.task import RefusedTasks, Task, TaskBatch
from jjq.limits import BACKOFF_SECONDS, BACKOFF_SECONDS_MAX, REASON_CHARS_MAX, WORKER_MAX, WORKER_WAIT_SECONDS

Handler = Callable[[Task], Any]

_TOUCHES: Final = 3  # within one ttr
_LOG: Final = logging.getLogger("jjq.worker")


class TaskClient(Protocol):
    """What a worker needs of a client."""

    async def get_group(self, group: str) -> GroupInfo: ...

    async def take(self, group: str, max: int, wait: float, *, ttr: float | None) -> TaskBatch: ...

    async def ack(self, group: str, tasks: list[Task]) -> None: ...

    async def nack(
        self, group: str, tasks: Task, delay: float | None = None, reason: str | None = None
    ) -> None: ...

    async def release(self, group: str, tasks: list[Task]) -> None: ...

    async def touch(self, group: str, tasks: list[Task], seconds: float) -> None: ...


class AsyncWorker:
    """See the module's docstring."""

    handled = 0  # tasks whose handler returned, acked
    failed = 0  # tasks whose handler raised, nacked
    lost = 0  # tasks that were handled too late: another worker has them, or will

    def __init__(
        self,
        client: TaskClient,
        group: str,
        handler: Handler,
        concurrency: int,
        ttr: float | None,
        clock: Clock,
    ) -> None:
        if not callable(handler):
            raise InvalidInput(
                f"handler is a {type(handler).__name__}: give a function or a coroutine function"
            )
        if not 1 <= concurrency <= WORKER_MAX:
            raise InvalidInput(f"concurrency must be between 1 and {WORKER_MAX}, not {concurrency}")
        if ttr is not None and not ttr > 0:
            raise InvalidInput(f"ttr is {ttr:g}: give seconds above 0")
        self._client = client
        self._group = group
        self._handler = handler
        self._concurrency = concurrency
        self._ttr = ttr
        self._clock = clock
        self._stopping = asyncio.Event()
        self._running: dict[asyncio.Task[None], Task] = {}
        self._done: list[Task] = []  # handled, to be acked
        self._wake = asyncio.Event()  # something is to be acked, or there is room
        self._threads: ThreadPoolExecutor | None = None
        self._background: asyncio.Task[None] | None = None

    # Running --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`, or until the process is asked to end by SIGTERM."""
        if self._ttr is None:
            self._ttr = (await self._client.get_group(self._group)).settings.ttr
        loop = asyncio.get_running_loop()
        with calling_at_sigterm(lambda: loop.call_soon_threadsafe(self.stop)):
            await self._run()

    async def _run(self) -> None:
        helpers = [asyncio.create_task(work()) for work in (self._take, self._ack, self._touch)]
        try:
            both = helpers[:2]  # touches end when there is nothing to touch
            await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
            for helper in both:
                if helper.done():
                    helper.result()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await self._give_back()
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Take no more; `run` returns when the handlers that run are done and their tasks acked."""
        self._stopping.set()
        self._wake.set()

    async def stop_soon(self) -> None:
        """As `stop`, for another thread."""
        self.stop()

    async def __aenter__(self) -> Self:
        self._background = asyncio.create_task(self.run(), name="jjq-worker")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._background is not None:
            await self._background

    # Taking ---------------------------------------------------------------------------------------

    async def _take(self) -> None:
        pauses = Backoff(BACKOFF_SECONDS, BACKOFF_SECONDS_MAX)
        while not self._stopping.is_set():
            free = self._concurrency - len(self._running)
            if not free:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                tasks = await self._unless_stopped(
                    self._client.take(self._group, free, WORKER_WAIT_SECONDS, ttr=self._ttr)
                )
            except (Unavailable, Exhausted, Conflict) as error:  # Conflict: the session has ended
                _LOG.warning("tasks of %s cannot be taken now: %s", self._group, error)
                await self._unless_stopped(asyncio.sleep(pauses.next_pause()))
                continue
            pauses.reset()
            for task in tasks or ():
                handling = asyncio.create_task(self._handle(task))
                self._running[handling] = task
                handling.add_done_callback(self._finished)
        while self._running:
            await asyncio.wait(self._running)
        self._wake.set()

    async def _unless_stopped(self, work: Awaitable[Any]) -> Any:
        """What `work` comes to; None if the worker is stopped first."""
        doing, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({doing, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else None
        finally:
            stopped.cancel()
            if not doing.done():
                doing.cancel()
                await asyncio.gather(doing, return_exceptions=True)

    # Handling -------------------------------------------------------------------------------------

    async def _handle(self, task: Task) -> None:
        try:
            await self._call(task)
        except Exception as error:  # noqa: BLE001 - it is the reason of the nack
            self.failed += 1
            reason = f"{type(error).__name__}: {error}"[:REASON_CHARS_MAX]
            with suppress(JjqError):  # then the task comes back by its ttr
                await self._client.nack(self._group, task, reason=reason)
        else:
            self._done.append(task)
            self._wake.set()

    async def _call(self, task: Task) -> None:
        if inspect.iscoroutinefunction(self._handler):
            await self._handler(task)
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, "jjq-worker")
        result = await asyncio.get_running_loop().run_in_executor(self._threads, self._handler, task)
        if inspect.isawaitable(result):  # of a callable object, or a partial
            await result

    def _finished(self, handling: asyncio.Task[None]) -> None:
        self._running.pop(handling, None)
        self._wake.set()

    # Acks and touches -------------------------------------------------------------------------------

    async def _ack(self) -> None:
        """Ack what was handled: all that came together, or while the ack before was under way, in one request."""
        while not (self._stopping.is_set() and not self._running and not self._done):
            if not self._done:
                self._wake.clear()
                await self._wake.wait()
                continue
            done, self._done = self._done, []
            lost = 0
            try:
                await self._client.ack(self._group, done)
            except RefusedTasks as refused:
                lost = len(refused.outcomes.errors)
                _LOG.warning("%s", refused)
            except JjqError as error:
                lost = len(done)
                _LOG.warning("%d tasks of %s could not be acked: %s", lost, self._group, error)
            self.lost += lost
            self.handled += len(done) - lost

    async def _touch(self) -> None:
        """Hold what is being handled for longer, until it is acked."""
        ttr = self._ttr or 0.0
        pause = ttr / _TOUCHES
        while True:
            await asyncio.sleep(pause)
            held = [*self._running.values(), *self._done]
            if held:
                try:
                    await self._client.touch(self._group, held, pause)
                except JjqError as error:  # the ack will tell whether they are lost
                    _LOG.warning("tasks of %s could not be touched: %s", self._group, error)

    async def _give_back(self) -> None:
        """After a cancellation: break off what runs, ack what is done, release the rest."""
        held, done = list(self._running.values()), self._done
        for handling in list(self._running):
            handling.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        with suppress(JjqError):
            if done:
                await self._client.ack(self._group, done)
        with suppress(JjqError):
            if held:
                await self._client.release(self._group, held)


@contextmanager
def calling_at_sigterm(stop: Callable[[], Any]) -> Iterator[None]:
    """Around work in the main thread: SIGTERM calls `stop`. In other threads nothing is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
