"""Messages with a batch: decoded whole, encoded in the form that was asked for."""

from __future__ import annotations

from typing import Any, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from coldstore.errors import InvalidInput
from jjq.wire import frame, friendly, ipc

M = TypeVar("M", bound=Message)


def parse(kind: type[M], raw: bytes) -> M:
    """A message without a batch."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise InvalidInput(f"the message is not a protobuf encoding of {kind.DESCRIPTOR.name}") from None


def decode(kind: type[M], raw: bytes) -> tuple[M, pa.RecordBatch | None]:
    """A message and its batch, if it has one, in either form."""
    head, stream = frame.split(raw)
    message: Any = parse(kind, head)
    if stream is not None:
        return message, ipc.decode(stream)
    if message.HasField("elements"):
        return message, friendly.decode(message.elements)
    return message, None


def encode(message: Any, batch: pa.RecordBatch, form: str) -> bytes:
    """`message` with `batch` in it. The form is `arrow` or `elements`."""
    if form == "arrow":
        return frame.join(message.SerializeToString(), ipc.encode(batch))
    friendly.encode(batch, message.elements)
    return bytes(message.SerializeToString())
