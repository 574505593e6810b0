"""What a server and the process of a query say to each other, over the process's standard input and output.

    frame = kind (1 byte) · length (4 bytes, big-endian) · payload

    server → process    JOB: what to do, JSON · PARAMS: see query.py
                        ANSWER: JSON, or BATCH: Arrow, to what the process asked · DONE: the end of batches
                        FAILED: an error, JSON
    process → server    ASK: JSON, the process waits for an answer
                        BATCH: rows of the result · DONE: all of them · FAILED

Neither trusts the other more than it must: payloads are JSON and Arrow, and frames have a limit.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import orjson
import pyarrow as pa

from coldstore.shared.errors import KINDS, Exhausted, InvalidInput, JjqError, OutOfRange, Unavailable
from jjq.limits import SQL_FRAME_BYTES_MAX

JOB, PARAMS, ANSWER, BATCH, DONE, FAILED, ASK = range(1, 8)
HEADER: Final = struct.Struct(">BI")
_DETAILS: Final = ("first", "next", "key", "block", "retry_after", "position")


def frame(kind: int, payload: bytes | memoryview = b"") -> bytes:
    """A whole frame."""
    if len(payload) > SQL_FRAME_BYTES_MAX:
        raise InvalidInput(
            f"a part of the result has {len(payload)} bytes; at most {SQL_FRAME_BYTES_MAX} are allowed: "
            f"ask for smaller values"
        )
    return b"".join((HEADER.pack(kind, len(payload)), payload))


def unpack(header: bytes) -> tuple[int, int]:
    """Kind and length of the frame that begins so."""
    kind, size = HEADER.unpack(header)
    if not JOB <= kind <= ASK or size > SQL_FRAME_BYTES_MAX:
        raise Unavailable("the process of the query sent something that is not a frame")
    return kind, size


def json_frame(kind: int, value: Any) -> bytes:
    return frame(kind, orjson.dumps(value))


def error_frame(error: JjqError) -> bytes:
    """An error, to be raised at the other side."""
    details = {name: getattr(error, name) for name in _DETAILS if getattr(error, name, None) is not None}
    return json_frame(FAILED, {"code": error.code, "message": error.message[:4_000], "details": details})


def error_in(payload: bytes) -> JjqError:
    """The error of such a frame."""
    try:
        said = orjson.loads(payload)
        kind = next(kind for kind in KINDS if kind.code == said["code"])
        message, details = str(said["message"]), dict(said["details"])
    except (orjson.JSONDecodeError, StopIteration, KeyError, TypeError, ValueError):
        return Unavailable("the query failed unexpectedly")
    if kind is OutOfRange:
        return OutOfRange(message, first=int(details.get("first", 0)), next=int(details.get("next", 0)))
    if kind is Exhausted:
        return Exhausted(message, retry_after=float(details.get("retry_after", 1.0)))
    found = kind(message)
    for name in _DETAILS:
        if name in details and hasattr(found, name):
            setattr(found, name, details[name])
    return found


def batch_frame(batch: pa.RecordBatch) -> bytes:
    """A batch with its schema."""
    return frame(BATCH, memoryview(to_stream(batch)))


def to_stream(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as an Arrow IPC stream of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def from_stream(data: bytes) -> pa.RecordBatch:
    """The one batch of a stream; what it points to is inside of it."""
    try:
        with pa.ipc.open_stream(data) as stream:
            batch = stream.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, StopIteration):
        raise Unavailable("the rows are not an Arrow stream") from None
    return batch
