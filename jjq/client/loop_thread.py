"""The event loop behind the blocking face: one daemon thread for all clients of the process.

A blocking call is one wake-up of the loop and one wait on a lock. One loop for all, because gRPC's
asyncio driver polls for the whole process and loops in several threads would take each other's events.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from coldstore.shared.errors import Conflict

T = TypeVar("T")


class _Call(Generic[T]):
    """One call under way: its lock is held until there is an outcome."""

    __slots__ = ("_lock", "error", "result", "task")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.task: asyncio.Task[T] | None = None
        self.result: T | None = None
        self.error: BaseException | None = None

    def start(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.task = loop.create_task(work)
        self.task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.error = Conflict(
                "the client was closed while this call was under way; its outcome is unknown"
            )
        else:
            self.error = task.exception()
            if self.error is None:
                self.result = task.result()
        self._lock.release()

    def wait(self) -> None:
        """Return when there is an outcome. Ctrl-C breaks it off."""
        self._lock.acquire()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Portal:
    """Runs coroutines on the loop's thread for callers on any other."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._serve, name="jjq", daemon=True)
        self._thread.start()
        self._closers: dict[object, Callable[[], None]] = {}

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; an interrupt of this thread cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise Conflict(
                "a blocking call inside a callback of jjq would wait for itself: call it from another thread"
            )
        call = self._submit(work)
        try:
            call.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            raise
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]

    @property
    def is_mine(self) -> bool:
        """Whether this thread is the loop's own, which must not block."""
        return threading.get_ident() == self._thread.ident

    def later(self, call: Callable[..., object], *args: object) -> None:
        """Have `call` called on the loop, soon."""
        self._loop.call_soon_threadsafe(call, *args)

    def submit(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin `work` and do not wait for it; also from the loop's own thread."""
        self._submit(work)

    def _submit(self, work: Coroutine[Any, Any, T]) -> _Call[T]:
        if os.getpid() != self._pid:
            work.close()
            raise Conflict(
                f"the client was opened by process {self._pid}: open one in each process, after forking"
            )
        call: _Call[T] = _Call()
        self._loop.call_soon_threadsafe(call.start, self._loop, work)
        return call

    def on_exit(self, owner: object, close: Callable[[], None]) -> None:
        """Have `close` called before the process ends, unless `forget` comes first."""
        self._closers[owner] = close

    def forget(self, owner: object) -> None:
        self._closers.pop(owner, None)

    def shut(self) -> None:
        """Close what is open and end the thread."""
        while self._closers:
            _, close = self._closers.popitem()
            with suppress(Exception):  # the process ends: there is nobody left to tell
                close()
        if os.getpid() == self._pid:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_portal: Portal | None = None
_making = threading.Lock()


def portal() -> Portal:
    """The portal of this process, made when it is first needed."""
    global _portal  # noqa: PLW0603 - one per process is the point
    with _making:
        if _portal is None:
            _portal = Portal()
            _at_exit(_portal.shut)
        return _portal


def _at_exit(call: Callable[[], None]) -> None:
    # Thread pools refuse work once ordinary exit handlers run, and closing a store needs them: threading
    # has a list of its own, run before that, which the standard library itself uses for this purpose.
    register = getattr(threading, "_register_atexit", atexit.register)
    register(call)


def _forget_portal() -> None:
    global _portal, _making
    _portal, _making = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_portal)
