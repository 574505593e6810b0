"""Queries in this process: the engine in a thread of its own, so that the event loop goes on.

For callers that can read the cold store themselves: `jjq.open`, `client.sql(…, cold=URL)`, `jjq sql --cold`. The tail
comes from the client's own store: the one in this process, or a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from coldstore.objects.open import open_objects
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput, JjqError
from coldstore.store import ColdStore
from jjq.sql.connection import ConnectionPool
from jjq.sql.engine import Execution
from jjq.sql.query import Query, QueryLimits, out_of_time
from jjq.sql.source import ColdSource, LoopSource, OpenQueues, QueueVerbs, StoreAnswers
from jjq.sql.system_tables import ClusterVerbs

T = TypeVar("T")


class LocalQueries:
    """Answers queries over a cold store, and a store that has the tails."""

    def __init__(
        self,
        open_cold: Callable[[], ColdStore | None],
        store: QueueVerbs | None,
        operator: ClusterVerbs | None = None,
        limits: QueryLimits | None = None,
    ) -> None:
        """`open_cold` may block: it is called in a thread. Without `store`, history alone is seen."""
        self._open_cold = open_cold
        self._store = store
        self._operator = operator
        self._limits = limits or QueryLimits(seconds=None)  # it is the caller's own time
        self._cold: OpenQueues | None = None
        self._pool = ConnectionPool(self._limits)

    def close(self) -> None:
        """Close what is kept between queries."""
        self._pool.close()

    async def run(self, query: Query) -> AsyncIterator[pa.RecordBatch]:
        """See `Queries`."""
        if self._cold is None:
            found = await asyncio.to_thread(self._open_cold)
            self._cold = None if found is None else OpenQueues(found)
        source: LoopSource | ColdSource
        if self._store is not None:
            answers = StoreAnswers(self._store, self._operator)
            source = LoopSource(answers, asyncio.get_running_loop())
        elif self._cold is not None:
            source = ColdSource(self._cold)
        else:
            raise AssertionError("neither a store nor a cold store to ask")
        running = _Running(Execution(query, source, self._cold, self._limits, self._pool), source)
        async with running.within(self._limits.seconds_of(query)):
            rows = running.execution.batches()

            def begin() -> tuple[pa.Schema, pa.RecordBatch | None]:
                return running.execution.open(), next(rows, None)

            schema, batch = await running.call(begin)
            if batch is None:
                yield pa.RecordBatch.from_pylist([], schema)
            while batch is not None:
                yield batch
                batch = await running.call(lambda: next(rows, None))


class _Running:
    """An execution in its thread, and the time that is left to it."""

    def __init__(self, execution: Execution, source: LoopSource | ColdSource) -> None:
        self.execution = execution
        self._source = source
        self._thread = ThreadPoolExecutor(1, "jjq-sql")
        self._seconds: float | None = None
        self._late = False
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float | None) -> _Running:
        self._seconds = seconds
        return self

    async def __aenter__(self) -> None:
        if self._seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._stop, True)

    async def __aexit__(self, *_: object) -> None:
        """However it ends: the thread is free again when this is done."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop(False)
        await asyncio.shield(self._wind_up())

    async def _wind_up(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self.execution.close)
        finally:
            self._thread.shutdown(wait=False)

    def _stop(self, late: bool) -> None:
        self._late = self._late or late
        self._source.give_up()
        self.execution.interrupt()

    async def call(self, step: Callable[[], T]) -> T:
        """Run one step of the execution. If the caller is cancelled meanwhile, the step is stopped."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, step)
        except JjqError:
            if self._late and self._seconds is not None:
                raise out_of_time(self._seconds) from None
            raise


def open_history(cold: str, s3: S3Settings | None, clock: Clock, chance: Chance) -> ColdStore:
    """The cold store at a URL; a mistyped place must not pass for one without queues."""
    found = ColdStore(open_objects(cold, s3=s3, clock=clock, chance=chance), clock, chance)
    if found.id is None:
        raise InvalidInput(f"nothing was ever written to {cold}: correct the URL of the cold store")
    return found
