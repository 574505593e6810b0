"""Replaying a range of a queue as Arrow: batch by batch, or all of it as a table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Self, cast

import pyarrow as pa

from coldstore.shared.attachments import ObjectSource
from coldstore.shared.batch import Element, elements
from coldstore.shared.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd


class AsyncReplay:
    """An asynchronous iterator of record batches; memory holds one of them at a time."""

    def __init__(
        self,
        batches: AsyncIterator[pa.RecordBatch],
        schema: Callable[[], Awaitable[pa.Schema]],
        endless: bool,
        source: ObjectSource | None = None,
    ) -> None:
        self.source = source  # reads the objects that elements name
        self._batches = batches
        self._schema = schema
        self._endless = endless

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        return await self._batches.__anext__()

    async def next(self) -> pa.RecordBatch | None:
        """The next batch; None at the end."""
        return await anext(self._batches, None)

    async def elements(self) -> AsyncIterator[Element]:
        """The same, one element at a time."""
        async for batch in self._batches:
            for element in elements(batch, self.source):
                yield element

    async def to_table(self) -> pa.Table:
        """All of it in memory, as one table."""
        if self._endless:
            raise InvalidInput("a replay that follows never ends: iterate over it, or leave out follow")
        batches = [batch async for batch in self._batches]
        return pa.Table.from_batches(batches, batches[0].schema if batches else await self._schema())

    async def to_pandas(self) -> pd.DataFrame:
        """All of it in memory, as a data frame (needs pandas)."""
        return cast("pd.DataFrame", (await self.to_table()).to_pandas())

    async def close(self) -> None:
        """End before the end."""
        close = getattr(self._batches, "aclose", None)
        if close is not None:
            await close()
