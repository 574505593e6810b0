"""Columns that grow when they are decoded: dictionaries and views let a few bytes stand for many."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared.batch import TIMESTAMP, value_type
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import BATCH_BYTES_MAX

_LEDGER: Final = value_type("ledger")


def check_types(schema: pa.Schema) -> None:
    """Refuse types that no column of an element has, so that no exotic one is decoded at all."""
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        simple = _is_bytes(kind) or _is_view(kind) or kind in (pa.int64(), TIMESTAMP, pa.null())
        simple = simple or kind == _LEDGER
        headers = pa.types.is_map(kind) and _is_bytes(kind.key_type) and _is_bytes(kind.item_type)
        if not simple and not (headers and kind is field.type):
            raise InvalidInput(
                f"column {field.name} has type {field.type}, which no column of an element has"
            )


def check(batch: pa.RecordBatch) -> None:
    """Refuse columns that would pass the limit of a batch."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _bytes_of(column) > BATCH_BYTES_MAX:
            raise InvalidInput(
                f"column {name} has more than {BATCH_BYTES_MAX} bytes once expanded: split the batch"
            )


def _is_bytes(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(
        is_.is_binary(kind) or is_.is_string(kind) or is_.is_large_binary(kind) or is_.is_large_string(kind)
    )


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary_view(kind) or pa.types.is_string_view(kind))


def _bytes_of(column: pa.Array) -> int:
    """Size of a column once expanded; 0 for forms that do not expand."""
    if pa.types.is_dictionary(column.type):
        if not (_is_bytes(column.type.value_type) or _is_view(column.type.value_type)):
            return 8 * len(column)
        lengths = pa.array(_lengths(column.dictionary))
        return pc.sum(pc.take(lengths, column.indices)).as_py() or 0
    return int(_lengths(column).sum()) if _is_view(column.type) else 0


def _lengths(values: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    if _is_view(values.type):
        # A view is 16 bytes and begins with its length; there is no kernel for it.
        views = np.frombuffer(values.buffers()[1], np.int32)[4 * values.offset :][: 4 * len(values)]
        lengths = views[::4].astype(np.int64)
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, np.int64)
