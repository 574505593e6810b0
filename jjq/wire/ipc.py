"""The fast form at the door: one record batch as an Arrow IPC stream, written quickly, read strictly.

    stream = schema message · dictionary messages? · one record batch message · end marker?
    message = ff ff ff ff · length of metadata int32 · metadata (flatbuffer, padded to 8) · body

Readers trust nothing. The buffers of a batch are taken from the received bytes without a copy, so
everything that could point outside them is checked (`validate(full=True)`: 4 µs for 1,000 elements
of 100 bytes). Compressed bodies are refused before they are inflated, and dictionaries and views,
which let a few bytes stand for many, before they are expanded.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coldstore import batch as batches
from coldstore.errors import InvalidInput
from coldstore.limits import BATCH_BYTES_MAX, BATCH_ELEMENTS_MAX

END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"

_SCHEMAS: Final = tuple(
    s(content) for s in (batches.schema, batches.payload_schema) for content in ("bytes", "text")
)
_KNOWN: Final = [(schema, schema.serialize().to_pybytes()) for schema in _SCHEMAS]
# Misaligned offsets are copied, values are not: a message puts the stream wherever its fields end.
_OPTIONS: Final = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False)
_MALFORMED: Final = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, struct.error)

_HEADER_SLOT, _COMPRESSION_SLOT, _DICTIONARY_DATA_SLOT = 2, 3, 1  # of Message, RecordBatch, DictionaryBatch


def encode(batch: pa.RecordBatch) -> tuple[bytes, pa.Buffer, bytes]:
    """The stream in parts, for one join: schema, batch, end."""
    for schema, message in _KNOWN:
        if batch.schema is schema or batch.schema.equals(schema):
            return message, batch.serialize(), END
    return batch.schema.serialize().to_pybytes(), batch.serialize(), END


def decode(stream: pa.Buffer) -> pa.RecordBatch:
    """The one batch of `stream`, sharing its memory, or `InvalidInput`."""
    try:
        _check_messages(stream)
        reader = pa.ipc.open_stream(stream, options=_OPTIONS)
        _check_types(reader.schema)
        batch = reader.read_next_batch()
        batch.validate(full=True)
        _check_extent(batch)
    except InvalidInput:
        raise
    except _MALFORMED as error:
        raise _malformed(str(error)) from None
    return batch


def _check_extent(batch: pa.RecordBatch) -> None:
    if batch.num_rows > BATCH_ELEMENTS_MAX:
        raise InvalidInput(f"the batch has {batch.num_rows} elements; at most {BATCH_ELEMENTS_MAX} go in one")
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _expanded_bytes(column) > BATCH_BYTES_MAX:
            raise InvalidInput(
                f"column {name} has more than {BATCH_BYTES_MAX} bytes once expanded: split the batch"
            )


def _malformed(why: str) -> InvalidInput:
    line = why.splitlines()[0][:200] if why else "unreadable"
    return InvalidInput(f"the Arrow batch is malformed ({line}): send an IPC stream of one record batch")


def _check_messages(stream: pa.Buffer) -> None:
    """Walk the messages without touching their bodies."""
    source = pa.BufferReader(stream)
    kinds = []
    for message in pa.ipc.MessageReader.open_stream(source):
        kinds.append(message.type)
        if message.type != "schema" and _compressed(message):
            raise InvalidInput("the Arrow batch is compressed: send it without body compression")
        if kinds[0] != "schema" or kinds.count("schema") > 1 or kinds.count("record batch") > 1:
            break
    if kinds.count("record batch") > 1:
        raise InvalidInput(
            "the Arrow stream holds several record batches: combine them, or push each by itself"
        )
    if kinds[:1] != ["schema"] or kinds[-1] != "record batch" or kinds.count("schema") > 1:
        raise InvalidInput(
            f"the Arrow stream must hold a schema and one record batch; it holds {', '.join(kinds) or 'nothing'}"
        )
    if source.tell() != stream.size:
        raise InvalidInput(
            f"{stream.size - source.tell()} bytes follow the end of the Arrow stream: remove them"
        )


def _compressed(message: pa.ipc.Message) -> bool:
    metadata = memoryview(message.metadata)
    header = _follow(metadata, _slot(metadata, _root(metadata), _HEADER_SLOT))
    if message.type == "dictionary":
        header = _follow(metadata, _slot(metadata, header, _DICTIONARY_DATA_SLOT))
    return _slot(metadata, header, _COMPRESSION_SLOT) != 0


def _root(flat: memoryview) -> int:
    return int(struct.unpack_from("<I", flat, 0)[0])


def _follow(flat: memoryview, at: int) -> int:
    return at + int(struct.unpack_from("<I", flat, at)[0])


def _slot(flat: memoryview, table: int, number: int) -> int:
    """Where a flatbuffer table keeps its field `number`, 0 if it is absent."""
    vtable = table - int(struct.unpack_from("<i", flat, table)[0])
    if vtable < 0 or table < 0:
        raise InvalidInput("the Arrow batch is malformed (metadata)")
    if struct.unpack_from("<H", flat, vtable)[0] < 6 + 2 * number:
        return 0
    offset = int(struct.unpack_from("<H", flat, vtable + 4 + 2 * number)[0])
    return table + offset if offset else 0


def _check_types(schema: pa.Schema) -> None:
    """Only types that a queue can hold, so that no exotic one is decoded at all."""
    if any(schema is known or schema.equals(known) for known in _SCHEMAS):
        return
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        simple = _is_bytes(kind) or _is_bytes_view(kind) or kind in (pa.int64(), batches.TIMESTAMP, pa.null())
        headers = pa.types.is_map(kind) and _is_bytes(kind.key_type) and _is_bytes(kind.item_type)
        if not simple and not (headers and kind is field.type):
            raise InvalidInput(
                f"column {field.name} has type {field.type}, which no column of an element has"
            )


def _is_bytes(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(
        is_.is_binary(kind) or is_.is_string(kind) or is_.is_large_binary(kind) or is_.is_large_string(kind)
    )


def _is_bytes_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary_view(kind) or pa.types.is_string_view(kind))


def _expanded_bytes(column: pa.Array) -> int:
    """Size of a column whose form lets a few bytes stand for many; 0 for other forms."""
    if pa.types.is_dictionary(column.type):
        if not (_is_bytes(column.type.value_type) or _is_bytes_view(column.type.value_type)):
            return 8 * len(column)
        lengths = pa.array(_lengths(column.dictionary))
        return pc.sum(pc.take(lengths, column.indices)).as_py() or 0
    return int(_lengths(column).sum()) if _is_bytes_view(column.type) else 0


def _lengths(values: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    if _is_bytes_view(values.type):
        # A view is 16 bytes and begins with its length; there is no kernel for it.
        views = np.frombuffer(values.buffers()[1], np.int32)[4 * values.offset :][: 4 * len(values)]
        lengths = views[::4].astype(np.int64)
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, np.int64)
