"""Push: elements into a queue, in four forms by Content-Type.

    application/json                      {"elements":[{"value":…,"key":…,"headers":{…}}, …]}, up to 1 MiB
    application/x-ndjson                  one value on each line, kept byte by byte as it is written
    application/vnd.apache.arrow.stream   one record batch with the columns value, and perhaps key and headers
    application/octet-stream, text/plain  one element: the body itself; its key in the header Jjq-Key

    Jjq-Expected-Offset: N     only if the queue goes on at N; else 412, and nothing is written
    Idempotency-Key: text      the same push again answers the receipt of the first, and is not written again
    Jjq-Producer, Jjq-Sequence the same, for a client that numbers its pushes
    traceparent: 00-…          W3C trace context: a header of every element that has no headers, for its consumers
    Jjq-Signature: t=…,v1=…    where pushes to the queue are signed (jjq/access/signatures.py)
    Jjq-Stage: written         answer at this stage, synced by default

All of a push is written, or nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from functools import partial
from typing import Any, Final, get_args

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from coldstore.shared.batch import HEADERS, Content, payload, payload_schema
from coldstore.shared.errors import Conflict, InvalidInput
from coldstore.shared.limits import BATCH_ELEMENTS_MAX, KIB
from coldstore.shared.results import Stage
from hotstore.port import Push
from jjq.access.quotas import SPENDER
from jjq.access.signatures import HEADER as SIGNATURE
from jjq.http.problems import HttpRefusal
from jjq.http.replies import Reply, document
from jjq.http.request import JSON, Request, decode_json, explain_all
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.strict_json import Suspect, suspect_document, suspect_lines
from jjq.http.v1 import documents as doc
from jjq.http.v1.queues import queue_of
from jjq.limits import HTTP_JSON_BYTES_MAX, IDEMPOTENCY_CHARS_MAX, LARGE_BYTES
from jjq.traces.context import NAME, is_trace, with_trace
from jjq.wire import arrow_ipc
from jjq.wire.arrow_field import Span
from jjq.wire.repeated_elements import Steps

NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"
RAW: Final = ("application/octet-stream", "text/plain")
TAKES: Final = (JSON, NDJSON, "application/ndjson", ARROW, *RAW)
_STAGES: Final = get_args(Stage)
_STEP_BYTES: Final = 64 * KIB  # lines, or a document, that are checked in one step
_STEP_ELEMENTS: Final = 500  # of a larger document
_NEWLINE: Final = ord("\n")
_RAW_SCHEMA: Final = payload_schema("bytes")
_NO_KEY: Final = pa.nulls(1, pa.binary())
_NO_HEADERS: Final = pa.nulls(1, HEADERS)
_TWO_ENDS: Final = struct.Struct("<ii")  # where an Arrow column of one value has its beginning and end


async def _push(request: Request) -> Reply:
    queue = queue_of(request)
    request.query()
    arguments = push_arguments(request)
    trace = trace_of(request)
    keys, signature = request.backend.keys, request.header(SIGNATURE)
    if keys is not None:
        request.verify = partial(keys.check_signature, queue, signature)
    batch, serialized = await _payload(request, queue)
    if trace is not None and (traced := with_trace(batch, trace)) is not None:
        batch, serialized = traced, None
    return await append(request, Push(queue, batch, *arguments, serialized))


def push_arguments(request: Request) -> tuple[str | None, int | None, int | None, Stage]:
    """What the headers of a push say: producer, sequence, expected offset, stage."""
    producer, sequence = _identity(request)
    expected = request.header_number("jjq-expected-offset")
    stage: Any = request.header("jjq-stage") or "synced"
    if stage not in _STAGES:
        raise HttpRefusal(400, f"Jjq-Stage is {stage[:60]!r}: use one of {', '.join(_STAGES)}")
    return producer, sequence, expected, stage


async def append(request: Request, push: Push) -> Reply:
    """Push, and answer the receipt."""
    backend = request.backend
    try:
        receipt = await backend.store.append(push)
    except Conflict as conflict:
        if push.expected_offset is None or push.producer is not None:
            raise
        raise HttpRefusal(412, conflict.message) from None
    if (usage := SPENDER.get()) is not None:
        usage.spend(receipt.count, push.payload.nbytes)
    backend.metrics.meter("http_push").moved(push.payload.num_rows)
    return document(doc.receipt_document(receipt))


def trace_of(request: Request) -> str | None:
    """The trace context of a request, if it has one."""
    text = request.header(NAME)
    if text is not None and not is_trace(text):
        raise HttpRefusal(
            400,
            f"traceparent is {text[:60]!r}, which is not a W3C trace context: correct it, or leave it out",
        )
    return text


def _identity(request: Request) -> tuple[str | None, int | None]:
    key, producer = request.header("idempotency-key"), request.header("jjq-producer")
    sequence = request.header_number("jjq-sequence")
    if key is None:
        return producer, sequence
    if producer is not None or sequence is not None:
        raise HttpRefusal(400, "send Idempotency-Key, or Jjq-Producer and Jjq-Sequence, not both")
    if not 1 <= len(key) <= IDEMPOTENCY_CHARS_MAX:
        raise HttpRefusal(400, f"Idempotency-Key must have 1 to {IDEMPOTENCY_CHARS_MAX} characters")
    return f"http-{hashlib.sha256(key.encode()).hexdigest()[:40]}", 0


async def _payload(request: Request, queue: str) -> tuple[pa.RecordBatch, pa.Buffer | None]:
    kind = request.media_type
    if kind == JSON:
        return await _from_document(request, await request.backend.content_of(queue)), None
    if kind in {NDJSON, "application/ndjson"}:
        return await _from_lines(request), None
    if kind == ARROW:
        raw = await request.body()
        if len(raw) >= LARGE_BYTES:
            await request.backend.scheduler.pace.turn()  # one in each round: it takes some milliseconds
        return arrow_ipc.decode(Span(raw, 0, len(raw)))
    if kind in RAW:
        key = request.header("jjq-key")
        if key is None:
            return _one_value(await request.body()), None
        return payload("bytes", [await request.body()], [key.encode()]), None
    wanted = ", ".join(TAKES)
    raise HttpRefusal(415, f"Content-Type is {kind[:60]!r}: send one of {wanted}", Accept=wanted)


def _one_value(value: bytes) -> pa.RecordBatch:
    """A batch of one element. Its bytes are used as they are: this is the busiest kind of push."""
    ends = pa.py_buffer(_TWO_ENDS.pack(0, len(value)))
    values = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(value)])
    return pa.RecordBatch.from_arrays([_NO_KEY, values, _NO_HEADERS], schema=_RAW_SCHEMA)


# JSON ----------------------------------------------------------------------------------------------------


class _OpenDocument(doc.Sent):
    """A document whose elements are not looked into."""

    elements: list[msgspec.Raw]


async def _from_document(request: Request, content: Content) -> pa.RecordBatch:
    raw = await request.document(HTTP_JSON_BYTES_MAX)
    if len(raw) < _STEP_BYTES:
        sent = await decode_json(raw, doc.NewElements)
        return batch_of(sent.elements, content)
    scheduler = request.backend.scheduler
    batch = await scheduler.run(_in_steps(raw, content))
    if batch is None:  # something is wrong, or looks so: this finds out what, and where
        await scheduler.pace.turn()
        sent = await decode_json(raw, doc.NewElements)
        return batch_of(sent.elements, content)
    return batch


def _in_steps(raw: bytes, content: Content) -> Steps[pa.RecordBatch | None]:
    """The elements of a large document, some at a time: 1 MiB of small ones held up everybody for 0.3 s. None: it is
    not certain that all of the text is right."""
    yield
    try:
        found = msgspec.json.decode(raw, type=_OpenDocument).elements
        begin = pa.py_buffer(raw).address
        if not found or suspect_document(
            raw[: _place(found[0], begin)[0]] + raw[_place(found[-1], begin)[1] :]
        ):
            return None
        parts: list[pa.RecordBatch] = []
        for at in range(0, len(found), _STEP_ELEMENTS):
            yield
            few = found[at : at + _STEP_ELEMENTS]
            text = raw[_place(few[0], begin)[0] : _place(few[-1], begin)[1]]
            text = b'{"elements":[' + text + b"]}"  # as deep as it was
            if suspect_document(text):
                return None
            parts.append(batch_of(msgspec.json.decode(text, type=doc.NewElements).elements, content, at))
    except msgspec.MsgspecError:
        return None
    return pa.concat_batches(parts)


def _place(part: msgspec.Raw, begin: int) -> tuple[int, int]:
    """Where a part lies in the text that it was found in, whose memory it shares."""
    found = pa.py_buffer(part)
    first = found.address - begin
    return first, first + found.size


def batch_of(elements: list[doc.NewElement], content: Content, first: int = 0) -> pa.RecordBatch:
    """The elements of a document, for a queue of this content; `first` is the number of the first one."""
    values = [_value(element, content, at) for at, element in enumerate(elements, first)]
    keys = [_bytes("key", each.key, each.key_base64, at) for at, each in enumerate(elements, first)]
    headers = [_headers(each, at) for at, each in enumerate(elements, first)]
    return payload(
        "bytes",
        values,
        keys if any(key is not None for key in keys) else None,
        headers if any(headers) else None,
    )


def _value(element: doc.NewElement, content: Content, at: int) -> bytes:
    given = element.value
    if isinstance(given, msgspec.UnsetType):
        value = _bytes("value", None, element.value_base64, at)
        if value is None:
            raise _unfit(at, "it has neither value nor value_base64")
        return value
    if element.value_base64 is not None:
        raise _unfit(at, "it has both value and value_base64: send one of them")
    raw = bytes(given).strip()
    if content == "json":
        return raw
    if not raw.startswith(b'"'):
        raise _unfit(
            at, f"its value is {raw[:40].decode()!r}; the queue holds {content}: send a text, or value_base64"
        )
    return _unescape(raw, at)


def _unescape(raw: bytes, at: int) -> bytes:
    try:
        text: str = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _unfit(at, f"its value cannot be written as UTF-8 ({error})") from None
    return text.encode()


def _bytes(name: str, text: str | None, encoded: str | None, at: int) -> bytes | None:
    if text is not None and encoded is not None:
        raise _unfit(at, f"it has both {name} and {name}_base64: send one of them")
    if encoded is None:
        return None if text is None else text.encode()
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise _unfit(at, f"its {name}_base64 is not base64") from None


def _headers(element: doc.NewElement, at: int) -> dict[str, bytes] | None:
    found = {name: text.encode() for name, text in (element.headers or {}).items()}
    for name, encoded in (element.headers_base64 or {}).items():
        if name in found:
            raise _unfit(at, f"it has the header {name[:60]!r} twice")
        found[name] = _bytes("headers", None, encoded, at) or b""
    return found or None


def _unfit(at: int, why: str) -> HttpRefusal:
    return HttpRefusal(422, f"element {at}: {why}")


# NDJSON --------------------------------------------------------------------------------------------------


async def _from_lines(request: Request) -> pa.RecordBatch:
    """One value for each line. No code runs for each of them: Arrow's offsets are where the lines end."""
    scheduler = request.backend.scheduler
    text = await scheduler.run(_lines_in(await request.body()))
    if not text:
        raise InvalidInput("the body has no lines: push at least one element")
    await explain_all(await scheduler.run(_suspects(text)))
    return await scheduler.run(_batch_of_lines(text))


def _lines_in(text: bytes) -> Steps[bytes]:
    """The lines with one break between them; empty lines are passed over."""
    if len(text) > _STEP_BYTES:
        yield
    if b"\r" in text or b"\n\n" in text:
        parts: list[bytes] = []
        at = 0
        while at < len(text):
            if at:
                yield
            end = text.find(b"\n", at + _STEP_BYTES) + 1 or len(text)
            parts.append(_without_empty(text[at:end].replace(b"\r\n", b"\n")))
            at = end
        text = b"".join(parts)
        yield
    text = text.strip(b"\n")
    breaks = int(np.count_nonzero(_are_breaks(text)))
    if breaks >= BATCH_ELEMENTS_MAX:
        raise InvalidInput(
            f"the body has {breaks + 1} lines; at most {BATCH_ELEMENTS_MAX} elements go in one push"
        )
    return text


def _without_empty(text: bytes) -> bytes:
    """`text`, which begins a line, without empty lines."""
    text = text.lstrip(b"\n")
    if b"\n\n" not in text:
        return text
    breaks = _are_breaks(text)
    kept = np.ones(len(text), bool)
    np.logical_not(breaks[1:] & breaks[:-1], out=kept[1:])
    return np.frombuffer(text, np.uint8)[kept].tobytes()


def _batch_of_lines(text: bytes) -> Steps[pa.RecordBatch]:
    if len(text) > _STEP_BYTES:
        yield
    ends = np.flatnonzero(_are_breaks(text))
    lines = len(ends) + 1
    offsets = np.empty(lines + 1, np.int32)
    offsets[0], offsets[-1] = 0, len(text) - lines + 1
    offsets[1:-1] = ends - np.arange(lines - 1)
    if len(text) > _STEP_BYTES:
        yield
    data = pa.py_buffer(text.replace(b"\n", b""))
    values = pa.Array.from_buffers(pa.binary(), lines, [None, pa.py_buffer(offsets), data])
    return pa.RecordBatch.from_arrays([values], names=["value"])


def _are_breaks(text: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found: np.ndarray[Any, np.dtype[np.bool_]] = np.frombuffer(text, np.uint8) == _NEWLINE
    return found


def _suspects(text: bytes) -> Steps[list[Suspect]]:
    """The lines that may be wrong, in steps."""
    suspects: list[Suspect] = []
    at = 0
    while at < len(text):
        if at:
            yield
        end = text.find(b"\n", at + _STEP_BYTES)
        part = text[at : end if end >= 0 else len(text)]
        if suspect_lines(part, 1):
            suspects += suspect_lines(part, text.count(b"\n", 0, at) + 1)
        at += len(part) + 1
    return suspects


PUSH_HEADERS = (
    Parameter("Idempotency-Key", "the same key is answered, and not written again", place="header"),
    Parameter("Jjq-Expected-Offset", "only if this is the next offset; otherwise 412", "integer", "header"),
    Parameter("Jjq-Stage", "answer at this stage: ready, written, synced, cold", place="header"),
    Parameter("traceparent", "W3C trace context; becomes a header of the elements", place="header"),
    Parameter("Jjq-Signature", "t=SECONDS,v1=HMAC, where pushes to the queue are signed", place="header"),
)
_KEY = Parameter("Jjq-Key", "key of an element that is sent as raw bytes", place="header")

ROUTES = (
    HttpRoute(
        "POST", "/v1/queues/{queue}/elements", _push, "push", "Push elements: all of them, or none", "push", "queue",
        body=doc.NewElements, reply=doc.ReceiptDocument, takes=TAKES[1:], parameters=(*PUSH_HEADERS, _KEY),
        codes=("412",),
    ),
)  # fmt: skip
