"""GET and HEAD of what an element names: its object, or without one its value. A client that only pops knows digest and
size of the object from the element's header, and reads it by these.

    ETag                      the sha256, so If-None-Match and If-Range work
    Range: bytes=0-99         206 with these bytes; 416 for what begins after the end
    Content-Disposition       its name; a browser shows pictures and plain text only, the rest is saved
    Content-Security-Policy   a sandbox, where nothing runs and nothing is loaded

All bytes are hashed while they pass: if they are not what the digest says, the connection is cut before the last piece.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from coldstore.large.download import damaged
from coldstore.layout import paths
from coldstore.shared.attachments import ObjectRef
from coldstore.shared.batch import Content, Element, elements
from coldstore.shared.errors import DataLoss, NotFound, OutOfRange
from coldstore.shared.limits import OBJECT_CHUNK_BYTES, OFFSET_MAX
from hotstore.large.port import large_of
from jjq.http.problems import HttpRefusal
from jjq.http.replies import BytesReply, Headers, Reply, StreamReply
from jjq.http.request import Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.v1.queues import queue_of

ANY: Final = "application/octet-stream"
SHOWN: Final = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "text/plain"}
)
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:\s*;[\x20-\x7e]*)?")
_RANGE: Final = re.compile(r"bytes=\s*(?:(\d{1,19})-(\d{0,19})|-(\d{1,19}))\s*")
_UNSAFE: Final = re.compile(r'[^\x20-\x7e]|["\\%;]')
_OF_VALUES: Final[dict[Content, str]] = {
    "text": "text/plain; charset=utf-8",
    "json": "application/json",
}
_CLOSED: Final = (b"content-security-policy", b"default-src 'none'; sandbox")


class _Found(NamedTuple):
    """What is answered; `value` are its bytes if it is no object."""

    queue: str
    ref: ObjectRef
    value: bytes | None
    claimed: bool = False  # only the client says that there is such an object


async def _read(request: Request) -> Reply:
    request.query()
    return _answer(request, await _find(request, queue_of(request), request.params["offset"]))


async def _read_by_digest(request: Request) -> Reply:
    if "size" not in request.query("size"):
        raise HttpRefusal(400, "there is no size: send it as the element's header jjq-object has it")
    ref = ObjectRef(request.params["sha256"], request.number("size", 0))
    return _answer(request, _Found(queue_of(request), ref, None, claimed=True))


def _answer(request: Request, found: _Found) -> Reply:
    ref = found.ref
    etag = f'"{ref.sha256}"'
    headers = _headers(ref, etag)
    if _is_known(request, etag):
        return BytesReply(b"", _kind(ref), 304, headers)
    part = _requested_range(request, ref.size, etag)
    start, stop = (0, ref.size) if part is None else part
    headers.append((b"content-length", b"%d" % (stop - start)))
    if part is not None:
        headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, ref.size)))
    status = 200 if part is None else 206
    if request.method == "HEAD":
        return StreamReply(_nothing(), _kind(ref), headers, status=status)
    parts = _pieces(request, found, start, stop)
    return StreamReply(parts if part else _checked(parts, found), _kind(ref), headers, status=status)


# Which bytes ---------------------------------------------------------------------------------------------------------


def _is_known(request: Request, etag: str) -> bool:
    """Whether the client has these bytes, as If-None-Match says."""
    said = request.header("if-none-match")
    return said is not None and (
        said == "*" or etag in {part.strip().removeprefix("W/") for part in said.split(",")}
    )


def _requested_range(request: Request, size: int, etag: str) -> tuple[int, int] | None:
    """The range `start`..`stop` that is asked for; None: all. 416 for one that begins after the end.

    Several ranges, other units and what is malformed are answered by all bytes, as RFC 9110 has it, and so is the
    range of something else (If-Range).
    """
    said, only_of = request.header("range"), request.header("if-range")
    match = None if said is None else _RANGE.fullmatch(said)
    if match is None or (only_of is not None and only_of != etag):
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        start, stop = max(0, size - int(suffix)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= stop:
        raise HttpRefusal(
            416,
            f"the range {said} is not within the {size} bytes: ask for less",
            Content_Range=f"bytes */{size}",
        )
    return start, stop


# Where they are ------------------------------------------------------------------------------------------------------


async def _find(request: Request, queue: str, text: str) -> _Found:
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < OFFSET_MAX):
        raise HttpRefusal(400, f"the offset is {text[:60]!r}: write a whole number from 0 on")
    content = await request.backend.content_of(queue)
    element = await _element(request, queue, int(text))
    ref = element.object
    if ref is not None:
        return _Found(queue, ref, None)
    if element.reference is not None:
        raise NotFound(
            f"element {text} of queue {queue} refers to {element.reference.uri}: read it there, jjq has no copy"
        )
    if not isinstance(element.value, bytes | str):
        raise NotFound(f"element {text} of queue {queue} is a row of a ledger, and names no object")
    value = element.value if isinstance(element.value, bytes) else element.value.encode()
    digest = hashlib.sha256(value).hexdigest()
    return _Found(queue, ObjectRef(digest, len(value), _OF_VALUES.get(content, ANY)), value)


async def _element(request: Request, queue: str, offset: int) -> Element:
    source: Any = request.backend.store.read(queue, f"offset:{offset}", f"offset:{offset + 1}")
    async with aclosing(source):
        with suppress(OutOfRange):
            async for batch in source:
                for element in elements(batch):
                    if element.offset == offset:
                        return element
    raise NotFound(f"queue {queue} has no element {offset}: correct the offset")


async def _pieces(request: Request, found: _Found, start: int, stop: int) -> AsyncIterator[bytes]:
    if found.value is not None:
        for at in range(start, stop, OBJECT_CHUNK_BYTES):
            yield found.value[at : min(stop, at + OBJECT_CHUNK_BYTES)]
        return
    ref = found.ref
    source: Any = large_of(request.backend.store).read_object(found.queue, ref.sha256, ref.size, start, stop)
    at = start
    async with aclosing(source):
        try:
            async for piece in source:
                at += len(piece)
                request.backend.memory.used(len(piece))
                yield piece
        except DataLoss:
            if not found.claimed or at > start:
                raise
            raise NotFound(
                f"queue {found.queue} has no object {ref.sha256} of {ref.size} bytes: correct sha256 and size"
            ) from None


async def _checked(parts: AsyncIterator[bytes], found: _Found) -> AsyncIterator[bytes]:
    """The same, but for the last piece if what came is not what it should be."""
    digest, size = hashlib.sha256(), 0
    source: Any = parts
    async with aclosing(source):
        async for piece in source:
            await asyncio.to_thread(digest.update, piece)
            size += len(piece)
            if size >= found.ref.size and digest.hexdigest() != found.ref.sha256:
                raise damaged(paths.large(found.queue, found.ref.sha256))
            yield piece


async def _nothing() -> AsyncIterator[bytes]:
    none: tuple[bytes, ...] = ()
    for piece in none:
        yield piece


def _headers(ref: ObjectRef, etag: str) -> Headers:
    digest = base64.b64encode(bytes.fromhex(ref.sha256))
    kind = _kind(ref).partition(b";")[0].strip().lower().decode()
    return [
        (b"etag", etag.encode()),
        (b"accept-ranges", b"bytes"),
        (b"repr-digest", b"sha-256=:" + digest + b":"),
        (b"content-disposition", disposition("inline" if kind in SHOWN else "attachment", ref.name)),
        (b"cache-control", b"private, no-cache"),
        (b"cross-origin-resource-policy", b"same-origin"),
        _CLOSED,
    ]


def _kind(ref: ObjectRef) -> bytes:
    """Its media type, if it is one."""
    known = _MEDIA_TYPE.fullmatch(ref.media_type)
    return (ref.media_type if known else ANY).encode()


def disposition(how: str, name: str) -> bytes:
    """The header that says what to call it: once for all clients, and once with all of its letters."""
    if not name:
        return how.encode()
    plain = _UNSAFE.sub("_", name)
    exact = "" if plain == name else f"; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}"
    return f'{how}; filename="{plain}"{exact}'.encode()


_HEADERS: Final = (
    Parameter("Range", "bytes=FIRST-LAST, bytes=FIRST- or bytes=-LENGTH", place="header"),
    Parameter("If-None-Match", "answer 304 if it has this ETag, which is its sha256", place="header"),
    Parameter("If-Range", "the range only of what has this ETag; else all of it", place="header"),
)
ROUTES: Final = (
    HttpRoute(
        "GET", "/v1/queues/{queue}/elements/{offset}/object", _read, "read_object",
        "The object of an element, or a range of it; without an object its value", "read", "queue",
        waits=True, streams=True, gives=("*/*",), codes=("206", "304", "416"), parameters=_HEADERS,
    ),
    HttpRoute(
        "GET", "/v1/queues/{queue}/objects/{sha256}", _read_by_digest, "read_object_by_digest",
        "An object by what the header of its element says", "pop|read|work", "queue",
        waits=True, streams=True, gives=("*/*",), codes=("206", "304", "416"),
        parameters=(Parameter("size", "how many bytes it has", "integer"), *_HEADERS),
    ),
)  # fmt: skip
