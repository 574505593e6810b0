"""Making requests of what callers gave: what protobuf cannot hold, or would take for a default, is refused."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import Message

from coldstore.shared.errors import InvalidInput
from coldstore.shared.push import Push
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.convert import attached_out
from jjq.wire.enums import STAGE

M = TypeVar("M", bound=Message)


def make_message(kind: type[M], /, **fields: Any) -> M:
    """A message with these fields; None leaves one out."""
    try:
        return kind(**fields)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"the request cannot be sent: {error}") from None


def push_request(push: Push) -> pb.PushRequest:
    """A push without its payload."""
    return make_message(
        pb.PushRequest,
        queue=push.queue,
        producer=push.producer,
        sequence=push.sequence,
        expected_offset=push.expected_offset,
        stage=STAGE.number(push.stage),
        timeout_seconds=push.timeout,
        objects=attached_out(push.objects) if push.objects else None,
    )


def refuse_empty(**texts: str) -> None:
    """On the wire an empty text stands for the default, which is not what a caller of ours means by it."""
    for name, text in texts.items():
        if text == "":
            raise InvalidInput(f"{name} is empty: give one, or leave it out")


def at_least_one(number: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidInput(f"max must be a whole number from 1 on, not {number!r}")
    return number
