"""What blocking verbs return and people iterate over or run: each is the asynchronous one, run by the portal."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from coldstore.shared.batch import Element, elements
from jjq.client.groups.worker import AsyncWorker, calling_at_sigterm
from jjq.client.loop_thread import Portal
from jjq.client.replay import AsyncReplay
from jjq.client.sql_result import AsyncSqlResult

if TYPE_CHECKING:
    import pandas as pd


class Replay:
    """An iterator of record batches; memory holds a few of them at a time."""

    def __init__(self, inner: AsyncReplay, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self._portal.run(self._inner.next())
        if batch is None:
            raise StopIteration
        return batch

    def elements(self) -> Iterator[Element]:
        """The same, one element at a time."""
        for batch in self:
            yield from elements(batch, self._inner.source)

    def to_table(self) -> pa.Table:
        """All of it in memory, as one table."""
        return self._portal.run(self._inner.to_table())

    def to_pandas(self) -> pd.DataFrame:
        """All of it in memory, as a data frame (needs pandas)."""
        return self._portal.run(self._inner.to_pandas())

    def close(self) -> None:
        """End before the end."""
        self._portal.run(self._inner.close())


class SqlResult:
    """An iterator of record batches: the rows of a query. Close it, or use `with`, to stop a query early."""

    def __init__(self, inner: AsyncSqlResult, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns; begins the query."""
        return self._portal.run(self._inner.schema())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self._portal.run(self._inner.next())
        if batch is None:
            raise StopIteration
        return batch

    def to_table(self) -> pa.Table:
        """All rows in memory, as an Arrow table."""
        return self._portal.run(self._inner.to_table())

    def to_pandas(self) -> pd.DataFrame:
        """All rows in memory, as a data frame (needs pandas)."""
        return self._portal.run(self._inner.to_pandas())

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows in memory, each as a dict of its columns."""
        return self._portal.run(self._inner.to_pylist())

    def close(self) -> None:
        """End before the end: the query is stopped."""
        self._portal.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Worker:
    """Handles tasks of a group: `run` it, or use it as a context manager, which works in the background."""

    def __init__(self, inner: AsyncWorker, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on

    @property
    def handled(self) -> int:
        """Tasks whose handler returned, acked."""
        return self._inner.handled

    @property
    def failed(self) -> int:
        """Tasks whose handler raised, nacked."""
        return self._inner.failed

    @property
    def lost(self) -> int:
        """Tasks that were handled too late: another worker has them, or will."""
        return self._inner.lost

    def run(self) -> None:
        """Work until `stop`, or until the process is asked to end by SIGTERM."""
        with calling_at_sigterm(self.stop):
            self._portal.run(self._inner.run())

    def stop(self) -> None:
        """Take no more; `run` returns when the handlers that run are done and their tasks acked."""
        self._portal.submit(self._inner.stop_soon())

    def __enter__(self) -> Self:
        self._portal.run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.run(self._inner.__aexit__(kind, error, trace))
