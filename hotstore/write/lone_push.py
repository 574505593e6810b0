"""The short way past `check_payload` for a push of one element that is nothing but a value.

After each sync of the disk all code is cold, and a single push waits for every Arrow object that is
made: this makes four, and what it finds is what the journal writes.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from coldstore.shared.batch import Content, payload_schema
from coldstore.shared.limits import ELEMENT_BYTES_MAX

_SCHEMA: Final = payload_schema("bytes")


def lone_value(batch: pa.RecordBatch, content: Content) -> bytes | None:
    """The value of a sound payload of one element of bytes that has no key and no headers.

    None for everything else, sound or not: `check_payload` judges it.
    """
    if content != "bytes" or not isinstance(batch, pa.RecordBatch) or batch.num_rows != 1:
        return None
    if not batch.schema.equals(_SCHEMA):
        return None
    key, values, headers = batch.column(0), batch.column(1), batch.column(2)
    if not key.null_count or not headers.null_count:
        return None
    value: bytes | None = values.to_pylist()[0]
    return value if value is not None and len(value) <= ELEMENT_BYTES_MAX else None
