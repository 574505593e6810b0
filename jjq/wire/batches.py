"""Messages with a batch: decoded whole, encoded in the form that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from coldstore.shared.errors import InvalidInput
from coldstore.shared.results import queue_part
from jjq.limits import STREAM_MESSAGE_BYTES
from jjq.wire import arrow_field, arrow_ipc, friendly

M = TypeVar("M", bound=Message)


def parse(kind: type[M], raw: bytes) -> M:
    """A message without a batch."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise InvalidInput(f"the message is not a protobuf encoding of {kind.DESCRIPTOR.name}") from None


def decode(
    kind: type[M], raw: bytes, begin: int = 0, end: int | None = None
) -> tuple[M, pa.RecordBatch | None]:
    """The message in `raw[begin:end]` and its batch, if it has one, in either form."""
    message, batch, _ = decode_serialized(kind, raw, begin, end)
    return message, batch


def decode_serialized(
    kind: type[M], raw: bytes, begin: int = 0, end: int | None = None
) -> tuple[M, pa.RecordBatch | None, pa.Buffer | None]:
    """As `decode`, and the batch as it came, if that is how we serialize it ourselves."""
    message, stream = opened(kind, raw, begin, end)
    return message, *batch_in(message, stream)


def opened(
    kind: type[M], raw: bytes, begin: int = 0, end: int | None = None
) -> tuple[M, arrow_field.Span | None]:
    """The message in `raw[begin:end]`, and the Arrow stream in it, not looked into yet."""
    head, stream = arrow_field.split(raw, begin, end)
    return parse(kind, head), stream


def batch_in(message: Any, stream: arrow_field.Span | None) -> tuple[pa.RecordBatch | None, pa.Buffer | None]:
    """The batch of an opened message, and as it came, if that is how we serialize it ourselves."""
    if stream is not None:
        return arrow_ipc.decode(stream)
    if message.HasField("elements"):
        return friendly.decode(message.elements), None
    return None, None


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """`batch` in parts of about `STREAM_MESSAGE_BYTES`, for streams: while one is sent the next is made."""
    count = -(-batch.nbytes // STREAM_MESSAGE_BYTES)
    if count <= 1:
        yield batch
        return
    step = -(-batch.num_rows // count)
    for begin in range(0, batch.num_rows, step):
        yield batch.slice(begin, step)


def encode(message: Any, batch: pa.RecordBatch, form: str, serialized: pa.Buffer | None = None) -> bytes:
    """`message` with `batch` in it. The form is `arrow` or `elements`."""
    if form == "arrow":
        return arrow_field.join(message.SerializeToString(), arrow_ipc.encode(batch, serialized))
    friendly.encode(batch, message.elements)
    return bytes(message.SerializeToString())


def queue_of(message: Any) -> str:
    """The queue that a request or its reply's hint is about; empty for those that are about none, or all."""
    for field in ("queue", "subscriber", "name"):
        value = getattr(message, field, None)
        if isinstance(value, str) and value:
            return queue_part(value)
    return ""
