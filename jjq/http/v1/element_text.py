"""Elements as text: JSON documents, lines of NDJSON, server-sent events.

The values of a JSON queue are written as they are stored, not parsed. Only line breaks between their tokens become
spaces, where a line break ends a line or an event. Work is done in steps of about a millisecond
(jjq/server/loop_steps.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import orjson
import pyarrow as pa

from coldstore.shared.batch import Content, Element, elements
from jjq.client.element_json import as_json
from jjq.wire.repeated_elements import Steps

_STEP_ELEMENTS: Final = 250
_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")

Frame = Callable[[int, bytes], bytes]


def line(offset: int, text: bytes) -> bytes:
    """One line of NDJSON."""
    return text + b"\n"


def event(offset: int, text: bytes) -> bytes:
    """A server-sent event; a client that comes back names the last id it has seen."""
    return b"id: %d\ndata: %b\n\n" % (offset, text)


def item(offset: int, text: bytes) -> bytes:
    """One of a list."""
    return text + b","


def write_elements(
    batch: pa.RecordBatch, content: Content, frame: Frame, cut: int | None = None
) -> Steps[bytes]:
    """All elements of a batch, each in its frame. Of values longer than `cut` only the beginning is written."""
    done: list[bytes] = []
    for at in range(0, batch.num_rows, _STEP_ELEMENTS):
        if at:
            yield
        few = elements(batch.slice(at, _STEP_ELEMENTS))
        done += [frame(element.offset, _text(element, content, cut)) for element in few]
    return b"".join(done)


def _text(element: Element, content: Content, cut: int | None) -> bytes:
    if cut is not None and isinstance(element.value, str | bytes) and len(element.value) > cut:
        return _beginning(element, cut)  # others are rows of a ledger, which are short
    fields: dict[str, Any] = as_json(element)
    if content == "json" and isinstance(element.value, str):
        raw = element.value.encode()
        fields["value"] = orjson.Fragment(raw.translate(_BREAKS) if b"\n" in raw or b"\r" in raw else raw)
    return orjson.dumps(fields)


def _beginning(element: Element, cut: int) -> bytes:
    """An element without its value: `value_cut` has the first characters, `value_bytes` says how long all of it is."""
    value = element.value
    whole = value if isinstance(value, bytes) else value.encode()
    head = value[:cut].decode(errors="replace") if isinstance(value, bytes) else value[:cut]
    fields = as_json(replace(element, value=""))
    del fields["value"]
    return orjson.dumps(fields | {"value_cut": head, "value_bytes": len(whole)})
