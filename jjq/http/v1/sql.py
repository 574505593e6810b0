"""`POST /v1/sql`: rows of a query, in the form that Accept asks for.

    application/x-ndjson                  one row a line, as an object (the default)
    application/json                      {"columns":[…],"types":[…],"rows":[[…], …]}, up to a limit
    application/vnd.apache.arrow.stream   record batches
    application/vnd.apache.parquet        one file, up to a limit

A row that has been sent stays sent: if the query fails afterwards, the connection is cut.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Final

import orjson
import pyarrow as pa
from msgspec import Meta, Struct

from coldstore.shared.errors import InvalidInput, NotFound
from jjq.http.replies import BytesReply, Reply, StreamReply
from jjq.http.request import JSON, Request
from jjq.http.routing import HttpRoute
from jjq.http.v1.documents import Sent
from jjq.http.v1.elements import ARROW, NDJSON
from jjq.http.v1.parquet import PARQUET, parquet_reply
from jjq.limits import HTTP_PAGE_BYTES, HTTP_PAGE_ELEMENTS_MAX, SQL_QUERY_BYTES_MAX
from jjq.sql.query import make_query
from jjq.wire import arrow_ipc
from jjq.wire.batches import pieces
from jjq.wire.repeated_elements import Steps

_STEP_ROWS: Final = 250
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z


class SqlOrder(Sent):
    """`params` are a list for $1, $2, …, or an object for $name."""

    query: Annotated[str, Meta(min_length=1)]
    params: list[Any] | dict[str, Any] | None = None
    timeout_seconds: Annotated[float, Meta(gt=0)] | None = None


class SqlRows(Struct):
    """`types` are those of Arrow, such as int64."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]


async def _sql(request: Request) -> Reply:
    form = request.accepts((NDJSON, JSON, ARROW, PARQUET))
    queries = request.backend.queries
    if queries is None:
        raise NotFound(
            "this server answers no SQL: its setting sql_queries is 0, or it is part of another application"
        )
    asked = await request.decode(SqlOrder, 2 * SQL_QUERY_BYTES_MAX)
    batches = _batches(request, queries.run(make_query(asked.query, asked.params, asked.timeout_seconds)))
    if form == JSON:
        return await _document(request, batches)
    if form == PARQUET:
        return await parquet_reply(batches)
    if form == ARROW:
        return StreamReply(_arrow(batches), ARROW.encode())
    return StreamReply(_lines(request, batches), NDJSON.encode())


async def _batches(request: Request, rows: Any) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches of a query, which ends when its client goes or the server stops."""
    backend = request.backend
    async with aclosing(rows):
        while True:
            batch = await request.while_connected(backend.drain.wait(anext(rows, None)))
            if batch is None:
                return
            backend.metrics.meter("http_sql").moved(batch.num_rows)
            if not batch.num_rows:
                yield batch
            for part in pieces(batch, backend.outgoing.room):
                yield part


async def _arrow(batches: AsyncGenerator[pa.RecordBatch, None]) -> AsyncIterator[bytes]:
    begun = False
    async with aclosing(batches):
        async for batch in batches:
            if not begun:
                yield batch.schema.serialize().to_pybytes()
                begun = True
            yield batch.serialize().to_pybytes()
    yield arrow_ipc.END


async def _lines(request: Request, batches: AsyncGenerator[pa.RecordBatch, None]) -> AsyncIterator[bytes]:
    async with aclosing(batches):
        async for batch in batches:
            texts = await request.backend.scheduler.run(row_texts(batch))
            if texts:
                yield b"\n".join(texts) + b"\n"


async def _document(request: Request, batches: AsyncGenerator[pa.RecordBatch, None]) -> Reply:
    columns: list[str] = []
    types: list[str] = []
    rows: list[bytes] = []
    size = 0
    async with aclosing(batches):
        async for batch in batches:
            columns, types = batch.schema.names, [str(kind) for kind in batch.schema.types]
            rows += await request.backend.scheduler.run(row_texts(batch, as_lists=True))
            size += batch.nbytes
            if size > HTTP_PAGE_BYTES or len(rows) > HTTP_PAGE_ELEMENTS_MAX:
                raise InvalidInput(
                    f"the result has more than {HTTP_PAGE_ELEMENTS_MAX} rows or {HTTP_PAGE_BYTES} bytes: "
                    f"add LIMIT, or ask for {NDJSON} or {ARROW}"
                )
    head = b'{"columns":' + orjson.dumps(columns) + b',"types":' + orjson.dumps(types) + b',"rows":['
    return BytesReply(head + b",".join(rows) + b"]}")


def row_texts(batch: pa.RecordBatch, *, as_lists: bool = False) -> Steps[list[bytes]]:
    """Each row as JSON, in steps."""
    names = batch.schema.names
    done: list[bytes] = []
    for at in range(0, batch.num_rows, _STEP_ROWS):
        if at:
            yield
        few = batch.slice(at, _STEP_ROWS)
        for row in zip(*(column.to_pylist() for column in few.columns), strict=True):
            shown = list(row) if as_lists else dict(zip(names, row, strict=True))
            done.append(orjson.dumps(shown, _json_value, _OPTIONS))
    return done


def _json_value(value: object) -> object:
    """What JSON has no form for: bytes as text or base64, exact numbers as text."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)


ROUTES = (
    HttpRoute(
        "POST", "/v1/sql", _sql, "sql", "Rows of a query in SQL over queues and system tables", "read", waits=True,
        streams=True, body=SqlOrder, reply=SqlRows, gives=(NDJSON, ARROW, PARQUET),
    ),
)  # fmt: skip
