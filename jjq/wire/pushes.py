"""Several pushes in one request of a PushStream, their batches not copied through protobuf.

    PushRequest = ( padding? · 32 · length · PushRequest )*

A message costs as much as a push of a thousand elements, and code that runs several times in a row costs a
third of what it costs between two messages. The padding puts each push at a multiple of 8 bytes, as its own
padding expects; see frame.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coldstore.shared.errors import InvalidInput
from jjq.limits import STREAM_PUSHES_MAX
from jjq.wire import arrow_field

_PUSHES_TAG: Final = 6 << 3 | 2
_BEGINNINGS: Final = (_PUSHES_TAG, arrow_field.PADDING_TAG)


def join_pushes(pushes: Sequence[bytes]) -> bytes:
    """One request of encoded ones, not none."""
    if len(pushes) == 1:
        return pushes[0]
    parts: list[bytes] = []
    at = 0
    for raw in pushes:
        lead = bytes((_PUSHES_TAG,)) + arrow_field.varint(len(raw))
        padding = arrow_field.padding(at + len(lead))
        parts += (padding, lead, raw)
        at += len(padding) + len(lead) + len(raw)
    return b"".join(parts)


def split_pushes(raw: bytes) -> list[arrow_field.Span]:
    """The pushes of a request: itself, or those that it holds."""
    whole = [arrow_field.Span(raw, 0, len(raw))]
    if not raw or raw[0] not in _BEGINNINGS:
        return whole
    fields = list(arrow_field.fields(raw, 0, len(raw), most=2 * STREAM_PUSHES_MAX))
    found = [arrow_field.part(raw, body, end) for tag, _, body, end in fields if tag == _PUSHES_TAG]
    if not found:
        return whole
    if any(tag not in _BEGINNINGS for tag, _, _, _ in fields) or len(found) > STREAM_PUSHES_MAX:
        raise InvalidInput(f"a request with pushes holds up to {STREAM_PUSHES_MAX} of them and nothing else")
    return found
