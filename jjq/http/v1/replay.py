"""Replay: elements of a queue by offset or time, without a subscriber, in the form that Accept asks for.

    application/x-ndjson                  one element a line, until the end of the range
    application/json                      one page: {"elements":[…],"position":N,"next":N}
    application/vnd.apache.arrow.stream   record batches
    application/vnd.apache.parquet        one file, up to a limit
    text/event-stream                     events whose id is the offset; follows the queue, and `Last-Event-ID` resumes

start, end: starting points as everywhere (beginning, end, offset:N, a time, …); end is not included, and is the end of
the queue at the time of the request by default. follow=true goes on with what is pushed later. cut=N leaves out the
rest of values that have more than N characters (bytes in a queue of bytes), for lists of elements that may be large.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import pyarrow as pa

from coldstore.shared.batch import Content, schema
from coldstore.shared.errors import Unavailable, check
from coldstore.shared.limits import OFFSET_MAX
from jjq.http.problems import HttpRefusal
from jjq.http.replies import BytesReply, Reply, StreamReply
from jjq.http.request import JSON, Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.v1 import documents as doc
from jjq.http.v1.element_text import Frame, event, item, line, write_elements
from jjq.http.v1.elements import ARROW, NDJSON
from jjq.http.v1.parquet import PARQUET, parquet_reply
from jjq.http.v1.queues import queue_of
from jjq.limits import HTTP_EVENT_SECONDS, HTTP_PAGE_BYTES, HTTP_PAGE_ELEMENTS, HTTP_PAGE_ELEMENTS_MAX
from jjq.wire import arrow_ipc
from jjq.wire.batches import pieces

EVENTS: Final = "text/event-stream"
GIVES: Final = (NDJSON, JSON, ARROW, EVENTS, PARQUET)
_ALIVE: Final = b": nothing new\n\n"
_AGAIN: Final = b"retry: 1000\n\n"  # milliseconds after which a browser connects again


class _Range:
    """What is to be read. `last` is None where the read follows."""

    def __init__(self, queue: str, content: Content, first: int, last: int | None, limit: int | None) -> None:
        self.queue = queue
        self.content = content
        self.first = first
        self.last = last
        self.limit = limit
        self.cut: int | None = None


async def _replay(request: Request) -> Reply:
    query = request.query("start", "end", "follow", "limit", "cut")
    form = request.accepts(GIVES)
    queue = queue_of(request)
    follow = request.flag("follow") or (form == EVENTS and "follow" not in query and "end" not in query)
    if follow and (form in {JSON, PARQUET} or "end" in query):
        raise HttpRefusal(400, f"follow has no end: leave out end, and ask for {NDJSON}, {ARROW} or {EVENTS}")
    if "cut" in query and form in {ARROW, PARQUET}:
        raise HttpRefusal(400, f"{form} has whole values: leave out cut, or ask for {NDJSON} or {JSON}")
    most = HTTP_PAGE_ELEMENTS_MAX if form == JSON else OFFSET_MAX
    limit = request.number("limit", HTTP_PAGE_ELEMENTS, most) if form == JSON or "limit" in query else None
    start = query.get("start", "beginning")
    seen = request.header_number("last-event-id") if form == EVENTS else None
    if seen is not None:
        start = f"offset:{seen + 1}"
    wanted = await _resolve(request, queue, start, query.get("end"), follow)
    wanted.limit = limit
    wanted.cut = request.number("cut", 0) if "cut" in query else None
    if form == JSON:
        return await _page(request, wanted)
    if form == ARROW:
        return StreamReply(_arrow(request, wanted), ARROW.encode())
    if form == PARQUET:
        return await parquet_reply(_batches(request, wanted), schema(wanted.content))
    if form == EVENTS:
        headers = [(b"cache-control", b"no-store")]
        return StreamReply(_events(request, wanted), EVENTS.encode(), headers, tells_errors=True)
    return StreamReply(_text(request, wanted, line), NDJSON.encode())


async def _resolve(request: Request, queue: str, start: str, end: str | None, follow: bool) -> _Range:
    store = request.backend.store
    content = await request.backend.content_of(queue)
    found = await store.create_subscriber(queue, start=start, dry_run=True)
    check(found.resolved is not None, "a dry run resolves")
    last: int | None = None
    if not follow:
        last = found.resolved.next_offset if found.resolved is not None else 0
        if end is not None:
            last = (await store.create_subscriber(queue, start=end, dry_run=True)).offset
    return _Range(queue, content, found.offset, last, None)


async def _batches(request: Request, wanted: _Range) -> AsyncGenerator[pa.RecordBatch, None]:
    """Batches of the range, in parts that fit the budget. What follows ends with the server or the client."""
    backend = request.backend
    left = wanted.limit if wanted.limit is not None else OFFSET_MAX
    if left == 0 or (wanted.last is not None and wanted.last <= wanted.first):
        return
    end = None if wanted.last is None else f"offset:{wanted.last}"
    source: Any = backend.store.read(wanted.queue, f"offset:{wanted.first}", end, follow=wanted.last is None)
    async with aclosing(source):
        while left > 0:
            try:
                if wanted.last is None:
                    batch = await request.while_connected(backend.drain.wait(anext(source)))
                else:
                    batch = await anext(source)
            except StopAsyncIteration:
                return
            batch = batch.slice(0, left)
            left -= batch.num_rows
            backend.metrics.meter("http_replay").moved(batch.num_rows)
            for part in pieces(batch, backend.outgoing.room):
                yield part


async def _text(request: Request, wanted: _Range, frame: Frame) -> AsyncIterator[bytes]:
    async with aclosing(_batches(request, wanted)) as batches:
        async for batch in batches:
            yield await request.backend.scheduler.run(
                write_elements(batch, wanted.content, frame, wanted.cut)
            )


async def _events(request: Request, wanted: _Range) -> AsyncIterator[bytes]:
    """Events, with a comment now and then, so that proxies keep the connection and a lost client is noticed."""
    yield _AGAIN
    texts: Any = _text(request, wanted, event)
    upcoming: asyncio.Task[bytes] | None = None
    try:
        while True:
            if upcoming is None:
                upcoming = asyncio.ensure_future(_first(texts))
            done, _ = await asyncio.wait((upcoming,), timeout=HTTP_EVENT_SECONDS)
            if not done:
                yield _ALIVE
                continue
            text, upcoming = upcoming.result(), None
            if not text:
                return
            yield text
    except Unavailable:
        if not request.backend.drain.stopping:
            raise
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        await texts.aclose()


async def _first(texts: AsyncIterator[bytes]) -> bytes:
    """The next text; empty at the end."""
    async for text in texts:
        return text
    return b""


async def _arrow(request: Request, wanted: _Range) -> AsyncIterator[bytes]:
    yield schema(wanted.content).serialize().to_pybytes()
    async with aclosing(_batches(request, wanted)) as batches:
        async for batch in batches:
            yield batch.serialize().to_pybytes()
    yield arrow_ipc.END


async def _page(request: Request, wanted: _Range) -> Reply:
    parts: list[bytes] = []
    size, after = 0, wanted.first
    async with aclosing(_batches(request, wanted)) as batches:
        async for batch in batches:
            text = await request.backend.scheduler.run(
                write_elements(batch, wanted.content, item, wanted.cut)
            )
            parts.append(text)
            size += len(text)
            after += batch.num_rows
            if size > HTTP_PAGE_BYTES:
                break
    head = b'{"position":%d,"next":%d,"elements":[' % (wanted.first, after)
    return BytesReply(head + b"".join(parts).removesuffix(b",") + b"]}")


ROUTES = (
    HttpRoute(
        "GET", "/v1/queues/{queue}/elements", _replay, "replay", "Elements by offset or time", "read", "queue",
        waits=True, streams=True, reply=doc.ElementPage, gives=(NDJSON, ARROW, EVENTS, PARQUET),
        parameters=(
            Parameter("start", "where to begin: beginning, end, offset:N, a time"),
            Parameter("end", "where to end, not included; the end of the queue by default"),
            Parameter("follow", "go on with elements that are pushed later", "boolean"),
            Parameter("limit", "at most so many elements", "integer"),
            Parameter("cut", "cut values after this many characters, as value_cut", "integer"),
            Parameter("Last-Event-ID", "offset of the last event that was seen", "integer", "header"),
        ),
    ),
)  # fmt: skip
