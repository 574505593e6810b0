"""The rows of a query: batch by batch, or all of them as a table. The query runs when the first is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from coldstore.shared.errors import Conflict, check

if TYPE_CHECKING:
    import pandas as pd


class AsyncSqlResult:
    """An asynchronous iterator of record batches; memory holds a few of them at a time.

    To stop the query before all rows came, close it, or leave `async with`.
    """

    def __init__(self, batches: AsyncIterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._first: pa.RecordBatch | None = None
        self._schema: pa.Schema | None = None
        self._waiting: asyncio.Future[pa.RecordBatch | None] | None = None
        self._closed = False

    async def schema(self) -> pa.Schema:
        """The names and types of the columns; begins the query."""
        if self._schema is None:
            first = await self._fetch()
            check(first is not None, "a result has at least one batch")
            self._first, self._schema = first, cast("pa.RecordBatch", first).schema
        return self._schema

    async def _fetch(self) -> pa.RecordBatch | None:
        """The next batch; `Conflict` if the result was closed, also meanwhile."""
        if not self._closed:
            waiting = self._waiting = asyncio.ensure_future(anext(self._batches, None))
            try:
                return await waiting
            except asyncio.CancelledError:
                if not self._closed:
                    raise
            finally:
                self._waiting = None
        raise Conflict("the result was closed: ask again")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        batch = await self.next()
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def next(self) -> pa.RecordBatch | None:
        """The next batch with rows; None at the end."""
        await self.schema()
        batch, self._first = self._first, None
        while batch is None or not batch.num_rows:
            batch = await self._fetch()
            if batch is None:
                return None
        return batch

    async def to_table(self) -> pa.Table:
        """All rows in memory, as an Arrow table."""
        schema = await self.schema()
        return pa.Table.from_batches([batch async for batch in self], schema)

    async def to_pandas(self) -> pd.DataFrame:
        """All rows in memory, as a data frame (needs pandas)."""
        return cast("pd.DataFrame", (await self.to_table()).to_pandas())

    async def to_pylist(self) -> list[dict[str, Any]]:
        """All rows in memory, each as a dict of its columns."""
        return cast("list[dict[str, Any]]", (await self.to_table()).to_pylist())

    async def close(self) -> None:
        """End before the end: the query is stopped, also while another task waits for its rows."""
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait({self._waiting})
        close = getattr(self._batches, "aclose", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
