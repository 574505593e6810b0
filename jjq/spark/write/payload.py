"""Rows that are to be written, as payloads: which columns a queue takes, and in which form.

    value     string or binary; a queue of text or JSON takes string
    key       string or binary, may be null or missing
    headers   map<string, string or binary>, may be null or missing

Offsets and timestamps are the queue's to give, as for every other producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType

from coldstore.shared.batch import Content, payload_bytes, payload_schema
from coldstore.shared.errors import InvalidInput
from coldstore.shared.lists import null_column
from jjq.spark.limits import PUSH_BYTES, PUSH_ELEMENTS

_COLUMNS: Final = ("value", "key", "headers")
_STAMPS: Final = ("offset", "timestamp")


def check_columns(schema: StructType, queue: str, content: Content) -> None:
    """Refuse rows that do not fit the queue, before any of them is sent."""
    names = schema.fieldNames()
    for name in names:
        if name in _STAMPS:
            raise InvalidInput(
                f"column {name} cannot be written, the queue gives it: select value, and key and headers if needed"
            )
        if name not in _COLUMNS:
            raise InvalidInput(f"column {name!r} is not known: name columns {', '.join(_COLUMNS)}")
    if "value" not in names or len(set(names)) < len(names):
        raise InvalidInput(f"columns are {', '.join(names)}: one must be value, and each may be there once")
    for field in schema:
        wrong = _misfit(field.name, field.dataType, content)
        if wrong:
            raise InvalidInput(
                f"column {field.name} is {field.dataType.simpleString()}, but queue {queue} {wrong}"
            )


def _misfit(name: str, kind: DataType, content: Content) -> str | None:
    if name == "headers":
        fits = isinstance(kind, MapType) and _is_bytes(kind.keyType, False) and _is_bytes(kind.valueType)
        return None if fits else "takes headers as map<string,binary>: cast or rebuild it"
    if name == "value" and content != "bytes":
        return None if _is_bytes(kind, False) else f"holds {content}: make it a string, with to_json or cast"
    return None if _is_bytes(kind) else "takes bytes: make it binary or a string, with to_json or cast"


def _is_bytes(kind: DataType, binary: bool = True) -> bool:
    return isinstance(kind, StringType) or (binary and isinstance(kind, BinaryType))


def payloads(batches: Iterable[pa.RecordBatch], content: Content) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in batches of a size to be pushed."""
    wanted = payload_schema(content)
    held: list[pa.RecordBatch] = []
    for batch in batches:
        for part in _split(_conform(batch, wanted)):
            if held and not _fits([*held, part]):
                yield _concat(held)
                held = []
            held.append(part)
    if held:
        yield _concat(held)


def _conform(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = [
        given[field.name].cast(field.type) if field.name in given else null_column(batch.num_rows, field.type)
        for field in wanted
    ]
    if columns[wanted.get_field_index("value")].null_count:
        raise InvalidInput("a row has null as its value: leave such rows out, or give them an empty value")
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halves, and halves of them, until each has the size of a push or is one row."""
    if batch.num_rows <= 1 or _fits([batch]):
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from _split(batch.slice(0, half))
    yield from _split(batch.slice(half))


def _fits(batches: list[pa.RecordBatch]) -> bool:
    rows = sum(batch.num_rows for batch in batches)
    return rows <= PUSH_ELEMENTS and sum(payload_bytes(batch) for batch in batches) <= PUSH_BYTES


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]
