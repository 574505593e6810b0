"""Messages with a batch: decoded whole, encoded in the form that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from coldstore.shared.errors import InvalidInput
from coldstore.shared.results import queue_part
from jjq.limits import REQUEST_BYTES_MAX
from jjq.wire import arrow_field, arrow_ipc, repeated_elements
from jjq.wire.repeated_elements import Steps

M = TypeVar("M", bound=Message)


def parse(kind: type[M], raw: bytes) -> M:
    """A message without a batch."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise InvalidInput(f"the message is not a protobuf encoding of {kind.DESCRIPTOR.name}") from None


def request(kind: type[M], raw: bytes, most: int = REQUEST_BYTES_MAX) -> M:
    """A request without a batch; one larger than any of ours is refused before it is parsed."""
    if len(raw) > most:
        raise InvalidInput(
            f"the request has {len(raw)} bytes beside its batch; {kind.DESCRIPTOR.name} has at most {most}"
        )
    return parse(kind, raw)


def decode(
    kind: type[M], raw: bytes, begin: int = 0, end: int | None = None, *, most: int = REQUEST_BYTES_MAX
) -> tuple[M, pa.RecordBatch | None]:
    """The message in `raw[begin:end]` and its batch, if it has one, in either form. The rest has `most` bytes."""
    message, batch = opened(kind, raw, begin, end, most=most)
    if batch is None:
        return message, None
    small = (
        repeated_elements.decode_small(batch) if isinstance(batch, arrow_field.RepeatedElementsSpan) else None
    )
    return message, repeated_elements.finish(batch_in(batch))[0] if small is None else small


def opened(
    kind: type[M], raw: bytes, begin: int = 0, end: int | None = None, *, most: int = REQUEST_BYTES_MAX
) -> tuple[M, arrow_field.Span | None]:
    """The message in `raw[begin:end]`, and the batch in it, not looked into yet."""
    head, batch = arrow_field.split(raw, begin, end)
    return request(kind, head, most), batch


def batch_in(span: arrow_field.Span) -> Steps[tuple[pa.RecordBatch, pa.Buffer | None]]:
    """The batch of an opened message, and as it came, if that is how we serialize it ourselves."""
    if isinstance(span, arrow_field.RepeatedElementsSpan):
        return (yield from repeated_elements.decode(span)), None
    return arrow_ipc.decode(span)


def pieces(batch: pa.RecordBatch, room: Callable[[], int]) -> Iterator[pa.RecordBatch]:
    """`batch` in parts for a stream, each about as large as there is `room`: while one is sent the next is made."""
    nbytes, at = batch.nbytes, 0
    while at < batch.num_rows:
        count = -(-nbytes // room())
        step = batch.num_rows if count <= 1 else -(-batch.num_rows // count)
        yield batch if step == batch.num_rows else batch.slice(at, step)
        at += step


def encode(message: Any, batch: pa.RecordBatch, form: str, serialized: pa.Buffer | None = None) -> bytes:
    """`message` with `batch` in it. The form is `arrow` or `elements`."""
    return repeated_elements.finish(encoding(message, batch, form, serialized))


def encoding(
    message: Any, batch: pa.RecordBatch, form: str, serialized: pa.Buffer | None = None
) -> Steps[bytes]:
    """As `encode`, in steps: see repeated_elements.py."""
    if form == "arrow":
        return arrow_field.join(message.SerializeToString(), arrow_ipc.encode(batch, serialized))
    content = yield from repeated_elements.encode(batch)
    return b"".join((message.SerializeToString(), arrow_field.lead_elements(len(content)), content))


def queue_of(message: Any) -> str:
    """The queue that a request or its reply's hint is about; empty for those that are about none, or all."""
    for field in ("queue", "subscriber", "group", "name"):
        value = getattr(message, field, None)
        if isinstance(value, str) and value:
            return queue_part(value)
    return ""
