"""Query: rows of a query in SQL, as a stream. The query runs in a process of its own (jjq/sql/process.py)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import pyarrow as pa

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import MESSAGE_BYTES_MAX
from jjq.limits import SQL_BEAT_SECONDS, SQL_QUERY_BYTES_MAX
from jjq.server.handlers import Call
from jjq.server.shutdown import Drain
from jjq.sql.frames import to_stream
from jjq.sql.query import Queries, Query
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse, pieces

_BEAT: Final = pb.QueryResponse().SerializeToString()


async def query(queries: Queries, drain: Drain, call: Call) -> None:
    """Send rows as they are found. A server that stops does not wait for queries: their callers ask again.

    A client that goes cancels this, which closes the iterator, which kills the process.
    """
    raw = call.first or b""
    if len(raw) > 2 * SQL_QUERY_BYTES_MAX:  # before it is parsed; what it holds is measured afterwards
        raise InvalidInput(f"the query has {len(raw)} bytes; at most {SQL_QUERY_BYTES_MAX} are allowed")
    request = parse(pb.QueryRequest, raw)
    asked = Query(request.query, request.params, request.timeout_seconds or None)
    rows: Any = queries.run(asked)
    async with aclosing(rows):
        while (batch := await _next(rows, drain, call)) is not None:
            if not batch.num_rows:
                await call.write(_message(batch))
            for part in pieces(batch, call.outgoing.room):
                await call.write(_message(part))
            call.meter.moved(batch.num_rows)


async def _next(rows: AsyncIterator[pa.RecordBatch], drain: Drain, call: Call) -> pa.RecordBatch | None:
    """The next batch. While it is not there, an empty message now and then says that the query is under way."""
    waiting = asyncio.ensure_future(anext(rows, None))
    try:
        while not (await drain.wait(asyncio.wait({waiting}, timeout=SQL_BEAT_SECONDS)))[0]:
            await call.write(_BEAT)
        return await waiting
    finally:
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})


def _message(batch: Any) -> bytes:
    message = pb.QueryResponse(ipc=bytes(to_stream(batch))).SerializeToString()
    if len(message) > MESSAGE_BYTES_MAX:
        raise InvalidInput(
            f"a row of the result makes a message of {len(message)} bytes; at most {MESSAGE_BYTES_MAX} fit: "
            f"ask for smaller values"
        )
    return message
