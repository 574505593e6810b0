"""Files, objects and references into a queue.

    POST …/files?name=&key=          the body is a file: stored, then pushed as one element. With sha256= it goes
                                     straight to the object store; else its digest is made first, on this server's disk
    POST …/references                {"uri":"s3://…"}, or {"sha256":…,"size":…} for an object that was uploaded
    PUT …/objects/SHA256             only the bytes
    POST …/uploads                   {"sha256":…,"size":…}: begin an upload, or go on with {"upload":…}
    PATCH …/uploads/UPLOAD           bytes from Upload-Offset on; what came before a cut is kept
    POST …/uploads/UPLOAD/finish     these were all: answered when the object is durable

Pushes take the headers of every push (Idempotency-Key, Jjq-Stage, …). Where pushes are signed, the signature of a file
is over its sha256, in hexadecimal digits.
"""

from __future__ import annotations

import asyncio
import errno
import mimetypes
from contextlib import aclosing
from functools import partial
from typing import IO, Any, Final

from msgspec import Struct

from coldstore.layout import paths
from coldstore.shared.attachments import Attachment, ObjectRef, Reference, last_part
from coldstore.shared.batch import payload
from coldstore.shared.errors import Exhausted
from coldstore.shared.limits import OBJECT_CHUNK_BYTES, OFFSET_MAX
from coldstore.shared.push import Push
from coldstore.shared.results import UploadState
from hotstore.large.port import LargeStore, large_of
from jjq.access.quotas import SPENDER
from jjq.access.signatures import HEADER as SIGNATURE
from jjq.client.large.sending import ObjectToSend, send_object
from jjq.http.problems import HttpRefusal
from jjq.http.replies import Reply, document
from jjq.http.request import Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.v1 import documents as doc
from jjq.http.v1.elements import PUSH_HEADERS, append, push_arguments, trace_of
from jjq.http.v1.queues import queue_of
from jjq.limits import (
    HTTP_BODY_BYTES_PER_SECOND,
    HTTP_BODY_SECONDS,
    HTTP_SPOOLS_MAX,
    OBJECT_SECONDS,
)
from jjq.traces.context import with_trace

_ANY: Final = ("*/*",)
_NOT_SAID: Final = frozenset(
    {"", "application/x-www-form-urlencoded"}
)  # the latter is curl's when nobody says


class NewUpload(Struct, forbid_unknown_fields=True):
    """An object that is announced; `upload` goes on with one that was cut."""

    sha256: str
    size: int
    upload: str = ""


class UploadDocument(Struct):
    """An upload: its name from now on, how many bytes came, and whether the object is there."""

    upload: str
    received: int
    done: bool


class StoredObject(Struct):
    """An object of a queue."""

    sha256: str
    size: int


class NewReference(Struct, forbid_unknown_fields=True):
    """What an element names: something elsewhere by its `uri`, or an uploaded object by `sha256` and `size`."""

    uri: str | None = None
    sha256: str = ""
    size: int | None = None
    media_type: str = ""
    name: str = ""
    key: str | None = None
    headers: dict[str, str] | None = None


class Files:
    """Files that are on their way; those whose digest is not known are on disk meanwhile."""

    def __init__(self) -> None:
        self._spools = 0

    async def push(self, request: Request) -> Reply:
        query = request.query("name", "key", "sha256")
        queue, arguments, trace = queue_of(request), push_arguments(request), trace_of(request)
        kind = _media_type(request)
        name = last_part(query.get("name", ""))
        kind = kind or mimetypes.guess_type(name)[0] or ""
        await request.backend.store.get_queue(queue)
        if query.get("sha256"):
            ref = ObjectRef(query["sha256"], _length(request), kind, name)
            _check_signature(request, queue, ref.sha256)
            await _stream(request, queue, ref)
        else:
            ref = await self._spooled(request, queue, kind, name)
        key = query.get("key")
        batch = payload("bytes", [b""], None if key is None else [key.encode()])
        if trace is not None and (traced := with_trace(batch, trace)) is not None:
            batch = traced
        return await append(request, Push(queue, batch, *arguments, objects=((0, ref),)))

    async def _spooled(self, request: Request, queue: str, kind: str, name: str) -> ObjectRef:
        """The file by way of the disk: its digest must be known before its first byte is stored."""
        if self._spools >= HTTP_SPOOLS_MAX:
            raise Exhausted(
                f"{HTTP_SPOOLS_MAX} files without a sha256 are on their way: retry, or send sha256="
            )
        self._spools += 1
        backend = request.backend
        try:
            import tempfile  # with shutil and all kinds of compression

            with tempfile.TemporaryFile() as spool:
                await _spool(request, spool)
                with await asyncio.to_thread(ObjectToSend, spool) as source:
                    await asyncio.to_thread(source.measure)
                    ref = source.ref(kind, name)
                    _check_signature(request, queue, ref.sha256)
                    large = large_of(backend.store)
                    await send_object(large, queue, source, backend.clock, backend.chance, OBJECT_SECONDS)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            raise Exhausted(
                "the server's disk has no room for the file: retry later, or send sha256="
            ) from None
        finally:
            self._spools -= 1
        return ref


async def _spool(request: Request, spool: IO[bytes]) -> None:
    def write(piece: bytes) -> None:
        spool.write(piece)

    most = await _patience(request)
    async with aclosing(request.pieces(most, OBJECT_CHUNK_BYTES)) as pieces:
        async for piece in pieces:
            await asyncio.to_thread(write, piece)
            _spend(len(piece))
    await asyncio.to_thread(spool.seek, 0)


async def _stream(request: Request, queue: str, ref: ObjectRef) -> None:
    """The body to the object store, as it comes; of an object that is there it is passed over."""
    large = large_of(request.backend.store)
    most = await _patience(request)
    if ref.size > most:
        raise _too_large(most)
    state = await large.begin_upload(queue, ref.sha256, ref.size)
    at = 0
    async with aclosing(request.pieces(ref.size, OBJECT_CHUNK_BYTES)) as pieces:
        async for piece in pieces:
            if not state.done:
                await large.upload(state.upload, at, piece)
                _spend(len(piece))
            at += len(piece)
    if not state.done:
        await _finish(request, large, state.upload)


async def _finish(request: Request, large: LargeStore, upload: str) -> None:
    """Finish even if the client has gone: he will ask whether the object is there."""
    work = asyncio.ensure_future(large.finish_upload(upload))
    request.backend.drain.keep(work)
    await asyncio.shield(work)


async def _put(request: Request) -> Reply:
    request.query()
    ref = ObjectRef(request.params["sha256"], _length(request))
    await _stream(request, queue_of(request), ref)
    return document(StoredObject(ref.sha256, ref.size))


async def _begin(request: Request) -> Reply:
    request.query()
    new = await request.decode(NewUpload)
    large = large_of(request.backend.store)
    if new.size > large.object_bytes_max:
        raise _too_large(large.object_bytes_max)
    paths.check_sha256(new.sha256)
    state = await large.begin_upload(queue_of(request), new.sha256, new.size, upload=new.upload)
    return document(_upload_document(state))


async def _add(request: Request) -> Reply:
    request.query()
    at = request.header_number("upload-offset", OFFSET_MAX)
    if at is None:
        raise HttpRefusal(400, "there is no Upload-Offset: say at which byte of the object the body begins")
    large, upload = large_of(request.backend.store), request.params["upload"]
    most = await _patience(request)
    async with aclosing(request.pieces(most, OBJECT_CHUNK_BYTES, at)) as pieces:
        async for piece in pieces:
            await large.upload(upload, at, piece)
            at += len(piece)
            _spend(len(piece))
    return document(UploadDocument(upload, at, False))


async def _finished(request: Request) -> Reply:
    request.query()
    upload = request.params["upload"]
    await _finish(request, large_of(request.backend.store), upload)
    return document(UploadDocument(upload, 0, True))


async def _refer(request: Request) -> Reply:
    request.query()
    queue, arguments, trace = queue_of(request), push_arguments(request), trace_of(request)
    if (keys := request.backend.keys) is not None:
        request.verify = partial(keys.check_signature, queue, request.header(SIGNATURE))
    new = await request.decode(NewReference)
    named: Attachment
    if new.uri is not None:
        named = Reference(new.uri, new.size, new.sha256, new.media_type, new.name)
    elif new.size is None:
        raise HttpRefusal(422, "there is neither uri nor size: send uri, or sha256 and size of an object")
    else:
        named = ObjectRef(new.sha256, new.size, new.media_type, new.name)
    headers = {name: text.encode() for name, text in (new.headers or {}).items()}
    batch = payload(
        "bytes", [b""], None if new.key is None else [new.key.encode()], [headers] if headers else None
    )
    if trace is not None and (traced := with_trace(batch, trace)) is not None:
        batch = traced
    return await append(request, Push(queue, batch, *arguments, objects=((0, named),)))


async def _patience(request: Request) -> int:
    """How many bytes may come. They may take longer than those of other requests."""
    most = large_of(request.backend.store).object_bytes_max
    expected = request.header_number("content-length")
    if expected is not None and expected > most:
        raise _too_large(most)
    size = most if expected is None else expected
    request.allow_seconds(HTTP_BODY_SECONDS + size / HTTP_BODY_BYTES_PER_SECOND)
    return most


def _length(request: Request) -> int:
    size = request.header_number("content-length")
    if size is None:
        raise HttpRefusal(411, "the size must be known before the first byte: send Content-Length")
    return size


def _media_type(request: Request) -> str:
    """The media type that the request gives; empty: it follows from the name."""
    kind = request.media_type
    if kind.startswith("multipart/"):
        raise HttpRefusal(
            415, "a form came: send the file itself, as curl does with -T FILE or --data-binary"
        )
    return "" if kind in _NOT_SAID else (request.header("content-type") or "")


def _check_signature(request: Request, queue: str, sha256: str) -> None:
    if (keys := request.backend.keys) is not None:
        keys.check_signature(queue, request.header(SIGNATURE), sha256.encode())


def _spend(size: int) -> None:
    if (usage := SPENDER.get()) is not None:
        usage.spend(0, size)


def _too_large(most: int) -> HttpRefusal:
    return HttpRefusal(
        413, f"the object has more than {most} bytes: raise object_bytes_max, or push a reference"
    )


def _upload_document(state: UploadState) -> UploadDocument:
    return UploadDocument(state.upload, state.received, state.done)


def object_routes() -> list[HttpRoute]:
    """The routes, with the files of one application."""
    more: dict[str, Any] = {"scope": "push", "queue": "queue"}
    pushes: dict[str, Any] = {"reply": doc.ReceiptDocument, "codes": ("412",), **more}
    return [
        HttpRoute(
            "POST", "/v1/queues/{queue}/files", Files().push, "push_file", "Push a file: the body is its bytes",
            takes=_ANY, **pushes,
            parameters=(
                Parameter("name", "what it is called; its last part is kept"),
                Parameter("key", "key of the element"),
                Parameter("sha256", "its digest, if it is known: then it goes straight to the object store"),
                *PUSH_HEADERS,
            ),
        ),
        HttpRoute(
            "POST", "/v1/queues/{queue}/references", _refer, "push_reference",
            "Push a reference: to something elsewhere, or to an object that was uploaded",
            body=NewReference, parameters=PUSH_HEADERS, **pushes,
        ),
        HttpRoute(
            "PUT", "/v1/queues/{queue}/objects/{sha256}", _put, "put_object",
            "Store an object, for references to it", takes=_ANY, reply=StoredObject, **more,
        ),
        HttpRoute(
            "POST", "/v1/queues/{queue}/uploads", _begin, "begin_upload",
            "Begin an upload in pieces, or go on with one", body=NewUpload, reply=UploadDocument,
            codes=("413",), **more,
        ),
        HttpRoute(
            "PATCH", "/v1/queues/{queue}/uploads/{upload}", _add, "upload", "The next bytes of an upload",
            takes=_ANY, reply=UploadDocument, **more,
            parameters=(Parameter("Upload-Offset", "where the body begins in the object", "integer", "header"),),
        ),
        HttpRoute(
            "POST", "/v1/queues/{queue}/uploads/{upload}/finish", _finished, "finish_upload",
            "All bytes were sent: make the object durable", reply=UploadDocument, **more,
        ),
    ]  # fmt: skip
