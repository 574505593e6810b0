"""A question in SQL as a value: its text, its parameters, and how long it may take. And who answers questions.

Parameters travel as an Arrow IPC stream of one row: any type of value keeps its type, and nothing is ever put into
the text. Columns are named 1, 2, … for the parameters `$1`, `$2`, … (or `?`), and otherwise as in `$name`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from coldstore.shared.errors import InvalidInput, JjqError
from jjq.limits import SQL_BYTES_MAX, SQL_BYTES_MIN, SQL_QUERIES_MAX, SQL_QUERY_BYTES_MAX, SQL_SECONDS_MAX

Params = Sequence[Any] | Mapping[str, Any]


class TableName(NamedTuple):
    """A table as a query names it."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True)
class Query:
    """One question."""

    text: str
    params: bytes = b""  # see `encode_params`
    seconds: float | None = None  # it is stopped then; None: the limit of the place where it runs

    def __post_init__(self) -> None:
        size = len(self.text.encode("utf-8", "surrogatepass")) + len(self.params)
        if not self.text.strip():
            raise InvalidInput("the query is empty: give a SELECT")
        if size > SQL_QUERY_BYTES_MAX:
            raise InvalidInput(
                f"the query and its parameters have {size} bytes; at most {SQL_QUERY_BYTES_MAX} are allowed"
            )
        if self.seconds is not None and not self.seconds > 0:
            raise InvalidInput(f"the time for a query is {self.seconds:g} s: give a number above 0")


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may use, and how many may run at the same time."""

    seconds: float | None = SQL_SECONDS_MAX
    memory_bytes: int = SQL_BYTES_MAX
    queries: int = SQL_QUERIES_MAX  # 0: none are answered
    threads: int = field(default_factory=lambda: max(1, (os.cpu_count() or 1) // 2))

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise InvalidInput(f"sql_seconds_max must be above 0, not {self.seconds:g}")
        if self.memory_bytes < SQL_BYTES_MIN:
            raise InvalidInput(f"sql_bytes_max must be at least {SQL_BYTES_MIN}, not {self.memory_bytes}")
        if self.queries < 0 or self.threads < 1:
            raise InvalidInput(
                f"sql_queries_max must not be negative, and threads at least 1: {self.queries}, {self.threads}"
            )

    def seconds_of(self, query: Query) -> float | None:
        """How long this query may take."""
        given = [seconds for seconds in (query.seconds, self.seconds) if seconds is not None]
        return min(given, default=None)


class Queries(Protocol):
    """Port: answers queries. `LocalQueries`, `ProcessQueries` and a client of a server implement it."""

    def run(self, query: Query) -> AsyncIterator[pa.RecordBatch]:
        """The rows, in batches of one schema. There is at least one batch; it may be empty.

        Closing the iterator, or cancelling the task that waits for it, stops the query.
        """
        ...


def make_query(text: str, params: Params | None = None, seconds: float | None = None) -> Query:
    """A query with the parameters of a caller."""
    return Query(text, encode_params(params), seconds)


def encode_params(params: Params | None) -> bytes:
    """Parameters as bytes; none give no bytes."""
    if params is None:
        return b""
    if isinstance(params, Mapping):
        named = {str(name): value for name, value in params.items()}
    elif isinstance(params, Sequence) and not isinstance(params, str | bytes):
        named = {str(place): value for place, value in enumerate(params, 1)}
    else:
        raise InvalidInput(
            f"params is {type(params).__name__}: give a list for $1, $2, …, or a dict for $name"
        )
    if not named:
        return b""
    columns = [_column(name, value) for name, value in named.items()]
    batch = pa.RecordBatch.from_arrays(columns, list(named))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _column(name: str, value: Any) -> pa.Array:
    try:
        return pa.array([value])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"parameter ${name} is a {type(value).__name__} that SQL has no type for ({first_line(error)}): "
            f"give a number, text, bytes, time, list or dict"
        ) from None


def decode_params(data: bytes) -> list[Any] | dict[str, Any] | None:
    """The parameters that `encode_params` was given. The bytes come from a client, so they are checked."""
    if not data:
        return None
    try:
        with pa.ipc.open_stream(data) as stream:
            table = stream.read_all()
        table.validate(full=True)
        if table.num_rows != 1:
            raise InvalidInput(f"parameters are one row of an Arrow stream; this one has {table.num_rows}")
        values: dict[str, Any] = {
            name: column[0].as_py() for name, column in zip(table.column_names, table.columns, strict=True)
        }
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput(f"the parameters are no Arrow IPC stream ({first_line(error)})") from None
    if list(values) == [str(place) for place in range(1, len(values) + 1)]:
        return list(values.values())
    return values


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


def out_of_time(seconds: float) -> JjqError:
    """What to say of a query that took longer than it may."""
    return InvalidInput(
        f"the query was stopped after {seconds:g} s, which is all it may take: narrow it by offset or timestamp"
    )
