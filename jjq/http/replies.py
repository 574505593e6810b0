"""What a route answers: a document, bytes, or a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

_JSON: Final = b"application/json"
_ENCODER: Final = msgspec.json.Encoder()

Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class BytesReply:
    """A whole body."""

    body: bytes
    media_type: bytes = _JSON
    status: int = 200
    headers: Headers = field(default_factory=list)


@dataclass(slots=True)
class StreamReply:
    """A body that comes in parts. `last_words` makes the end of it of an error; None: the connection is cut."""

    parts: AsyncIterator[bytes]
    media_type: bytes
    headers: Headers = field(default_factory=list)
    tells_errors: bool = False  # events can carry an error; other forms are cut
    status: int = 200


Reply = BytesReply | StreamReply


def document(value: Any, status: int = 200, headers: Headers | None = None) -> BytesReply:
    """A value as JSON."""
    return BytesReply(_ENCODER.encode(value), _JSON, status, headers or [])
