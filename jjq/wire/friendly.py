"""The friendly form: repeated Element to a payload, and an element batch to repeated Element."""

from __future__ import annotations

import pyarrow as pa

from coldstore.shared.batch import HEADERS, payload_schema
from coldstore.shared.errors import InvalidInput
from coldstore.shared.null_columns import null_column
from jjq.v1 import jjq_pb2 as pb


def decode(message: pb.Elements) -> pa.RecordBatch:
    """The payload that `message` pushes. Values are bytes here; the queue checks what they must be."""
    elements = message.elements
    values = [e.value for e in elements]
    keys = [e.key if e.HasField("key") else None for e in elements]
    headers = [list(e.headers.items()) or None for e in elements]
    count = len(values)
    try:
        columns = [
            pa.array(keys, pa.binary())
            if any(k is not None for k in keys)
            else null_column(count, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(headers, HEADERS) if any(headers) else null_column(count, HEADERS),
        ]
    except pa.ArrowException as error:
        raise InvalidInput(f"the elements do not fit into one batch ({error}): split it") from None
    return pa.RecordBatch.from_arrays(columns, schema=payload_schema("bytes"))


def encode(batch: pa.RecordBatch, into: pb.Elements) -> None:
    """Add the elements of a batch; also where there are none, `into` becomes a present field."""
    into.SetInParent()
    add = into.elements.add
    offsets = batch.column("offset").to_pylist()
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    values = batch.column("value").cast(pa.binary()).to_pylist()
    keys, headers = batch.column("key"), batch.column("headers")
    if keys.null_count == len(keys) and headers.null_count == len(headers):
        for offset, time, value in zip(offsets, times, values, strict=True):
            add(offset=offset, timestamp_us=time, value=value)
        return
    columns = zip(offsets, times, values, keys.to_pylist(), headers.to_pylist(), strict=True)
    for offset, time, value, key, pairs in columns:
        add(offset=offset, timestamp_us=time, value=value, key=key, headers=dict(pairs or ()))
