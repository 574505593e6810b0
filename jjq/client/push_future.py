"""The futures that a producer hands out: made for every push, so they cost almost nothing until used."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Generator
from functools import partial
from typing import Any

from coldstore.shared.results import Receipt
from jjq.client.batcher import Batcher, ProducerBatch

_INTERNALS = frozenset(vars(concurrent.futures.Future[Receipt]()))


class Pushed:
    """Await it for the receipt of one push."""

    __slots__ = ("_batch", "_batcher", "_index")

    def __init__(self, batcher: Batcher, batch: ProducerBatch, index: int) -> None:
        self._batcher = batcher
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.done

    def result(self) -> Receipt:
        """The receipt, or the error, of a push that is done."""
        if not self._batch.done:
            raise asyncio.InvalidStateError("the push is not done: await it")
        return self._batch.outcome(self._index)

    def __await__(self) -> Generator[Any, None, Receipt]:
        if not self._batch.done:
            yield from wait_done(self._batcher, self._batch).__await__()
        return self._batch.outcome(self._index)


async def wait_done(batcher: Batcher, batch: ProducerBatch) -> None:
    """Return when all pushes of the batch are decided."""
    future = asyncio.get_running_loop().create_future()
    if batcher.when_done(batch, partial(wake_future, future)):
        await future


def wake_future(future: asyncio.Future[None]) -> None:
    """Wake the coroutine that awaits `future`, if it still does."""
    if not future.done():
        future.set_result(None)


class PushFuture(concurrent.futures.Future[Receipt]):
    """A real `concurrent.futures.Future`, but it becomes one only when somebody looks at it.

    Making and settling a future with its lock costs more than the push itself, and most are dropped
    unread. So its constructor is not run; the first access to anything that it would have set ends
    up in `__getattr__`, which runs it then. A push cannot be cancelled.
    """

    def __init__(self, batcher: Batcher, batch: ProducerBatch, index: int) -> None:
        self._batcher = batcher
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.done and super().done()

    def __getattr__(self, name: str) -> Any:
        if name not in _INTERNALS:
            raise AttributeError(name)
        with self._batcher.lock:
            made = name not in self.__dict__  # of two threads the second finds it made
            if made:
                future = concurrent.futures.Future[Receipt]()
                future.set_running_or_notify_cancel()
                self.__dict__.update(future.__dict__)
        if made and not self._batcher.when_done(self._batch, self._settle):
            self._settle()
        return self.__dict__[name]

    def _settle(self) -> None:
        try:
            receipt = self._batch.outcome(self._index)
        except Exception as error:  # noqa: BLE001 - that is what a future is for
            self.set_exception(error)
        else:
            self.set_result(receipt)
