"""W3C trace context: the `traceparent` of a push travels in a header of its elements.

    traceparent: 00-<32 hex: trace>-<16 hex: span of the sender>-<2 hex: flags>

A consumer finds it in `headers` of each element, over every door, and goes on with the trace. An element that has
headers keeps those that it has, and gets none.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Final

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared.batch import HEADERS
from coldstore.shared.errors import InvalidInput

NAME: Final = "traceparent"
_FORM: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[\x21-\x7e]*)?")
_NOBODY: Final = re.compile(r"ff-.*|..-0{32}-.*|..-.{32}-0{16}-.*")

# The trace context of the call that the present task serves, as its caller sent it; noted only where traces are on.
TRACE: Final[ContextVar[str | None]] = ContextVar("jjq-trace", default=None)


def is_trace(text: str) -> bool:
    """Whether this is a trace context."""
    return bool(_FORM.fullmatch(text)) and not _NOBODY.fullmatch(text)


def note_trace(text: str | None) -> None:
    """The present call is part of this trace; what is none is passed over."""
    TRACE.set(text if text is not None and is_trace(text) else None)


def check_collector(url: str) -> None:
    """Refuse what is no address of a collector."""
    scheme, _, place = url.partition("://")
    if scheme not in {"http", "https"} or not place or " " in place:
        raise InvalidInput(f"traces is {url[:100]!r}: write the address of a collector, http://HOST:4318")


def with_trace(batch: pa.RecordBatch, trace: str) -> pa.RecordBatch | None:
    """The batch with that header on every element; None if its elements have headers of their own."""
    names = batch.schema.names
    if "headers" in names and batch.column("headers").null_count < batch.num_rows:
        return None
    rows = batch.num_rows
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32))
    items = pa.repeat(pa.scalar(trace.encode(), pa.binary()), rows)
    headers = pa.MapArray.from_arrays(offsets, pa.repeat(pa.scalar(NAME), rows), items).cast(HEADERS)
    kept = [name for name in names if name != "headers"]
    return pa.RecordBatch.from_arrays(
        [*(batch.column(name) for name in kept), headers], names=[*kept, "headers"]
    )


def traces_in(batch: pa.RecordBatch, most: int) -> list[str]:
    """The different trace contexts that elements of a batch carry, up to `most`."""
    if "headers" not in batch.schema.names:
        return []
    headers = batch.column("headers")
    if headers.null_count == batch.num_rows:
        return []
    pairs = headers.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))).flatten()
    found = pc.unique(pairs.field("value").filter(pc.equal(pairs.field("key"), NAME)))
    texts = (value.decode("latin-1") for value in found[:most].to_pylist())
    return [text for text in texts if is_trace(text)]
