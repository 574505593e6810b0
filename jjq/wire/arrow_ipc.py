"""The fast form at the door: one record batch as an Arrow IPC stream, written quickly, read strictly.

    stream = schema message · dictionary messages? · one record batch message · end marker?
    message = ff ff ff ff · length of metadata int32 · metadata (flatbuffer, padded to 8) · body

Readers trust nothing. The buffers of a batch are taken from the received bytes without a copy, so
everything that could point outside them is checked (`validate(full=True)`: 4 µs for 1,000 elements
of 100 bytes). Compressed bodies are refused before they are inflated, and dictionaries and views,
which let a few bytes stand for many, before they are expanded (expanding.py).

A stream that begins with the very bytes of a schema of ours, and lies at a multiple of 8, needs no
reader: its one message is checked and taken as it lies, at a third of the cost.

The few facts of a message's metadata that pyarrow does not tell are read from its flatbuffer:

    Message          version 0 · kind of header 1 · header 2 · length of body 3
    RecordBatch      length 0 · nodes 1 · buffers 2 · compression 3
    DictionaryBatch  id 0 · data (a RecordBatch) 1

Wrong offsets lead to `struct.error` or to wrong facts, never out of the bytes; Arrow verifies the same bytes by itself
before it uses them.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coldstore.shared import batch as batches
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import BATCH_ELEMENTS_MAX
from jjq.limits import ARROW_MESSAGES_MAX, ARROW_SCHEMA_BYTES_MAX
from jjq.wire import expanding
from jjq.wire.arrow_field import Span

END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
ALIGNMENT: Final = 8

SCHEMAS: Final = (
    *(
        schema(content)
        for schema in (batches.payload_schema, batches.schema)
        for content in ("bytes", "text")
    ),
    batches.schema("ledger"),
)
_KNOWN: Final = tuple((schema, schema.serialize().to_pybytes()) for schema in SCHEMAS)
# A stream that lies at an odd place: its offsets are copied, its values are not.
_OPTIONS: Final = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False)
_MALFORMED: Final = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, struct.error)
_PREFIX: Final = struct.Struct("<iI")
_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_U32, _I32, _I64 = (struct.Struct(form) for form in ("<I", "<i", "<q"))
_VTABLE: Final = struct.Struct("<6H")  # its own length and that of the table, then the slots
_SLOTS_AT: Final = 4


def encode(batch: pa.RecordBatch, serialized: pa.Buffer | None = None) -> tuple[bytes, pa.Buffer, bytes]:
    """The stream in parts, for one join: schema, batch, end."""
    message = batch.serialize() if serialized is None else serialized
    for schema, encoded in _KNOWN:
        if batch.schema is schema or batch.schema.equals(schema):
            return encoded, message, END
    return batch.schema.serialize().to_pybytes(), message, END


def decode(span: Span) -> tuple[pa.RecordBatch, pa.Buffer | None]:
    """The one batch of a stream, sharing its memory, or `InvalidInput`. If it is in a schema of ours, also the message
    that it lies in, so that a caller need not serialize it again."""
    try:
        batch, serialized = _read_own_stream(span) or (_any(span.buffer()), None)
        batch.validate(full=True)
        if batch.num_rows > BATCH_ELEMENTS_MAX:
            raise InvalidInput(
                f"the batch has {batch.num_rows} elements; at most {BATCH_ELEMENTS_MAX} go in one"
            )
        if serialized is None and batch.schema not in SCHEMAS:
            expanding.check(batch)
    except InvalidInput:
        raise
    except _MALFORMED as error:
        line = str(error).splitlines()[0][:200] if str(error) else "unreadable"
        raise InvalidInput(
            f"the Arrow batch is malformed ({line}): send an IPC stream of one record batch"
        ) from None
    return batch, serialized


def _read_own_stream(span: Span) -> tuple[pa.RecordBatch, pa.Buffer] | None:
    """The batch of a stream of ours and its message; None if it must be read with all the care that others need."""
    for schema, message in _KNOWN:
        if not span.raw.startswith(message, span.begin, span.end):
            continue
        at = span.begin + len(message)
        if at == span.end or span.raw.startswith(END, at):
            return None  # nothing but a schema
        marker, size = _PREFIX.unpack_from(span.raw, at)
        found = _read_facts(memoryview(span.raw)[at + 8 : at + 8 + size])
        after = at + 8 + size + found.body_bytes
        buffer = pa.py_buffer(span.raw).slice(at)
        if marker != -1 or found.kind != _RECORD_BATCH or buffer.address % ALIGNMENT:
            return None
        if after > span.end or span.raw[after : span.end] not in (END, b""):
            return None
        _refuse_compressed(found.compressed)
        serialized = buffer.slice(0, after - at)
        return pa.ipc.read_record_batch(serialized, schema), serialized
    return None


def _any(stream: pa.Buffer) -> pa.RecordBatch:
    _check_schema_bytes(stream)
    _check_messages(stream)
    reader = pa.ipc.open_stream(stream, options=_OPTIONS)
    expanding.check_types(reader.schema)
    return reader.read_next_batch()


def _check_schema_bytes(stream: pa.Buffer) -> None:
    """Refuse a schema that is large before Arrow makes columns of it: each takes 50 times its bytes."""
    if stream.size < _PREFIX.size:
        return  # too short for one: the walk says what is missing
    marker, size = _PREFIX.unpack_from(stream)
    size = size if marker == -1 else marker  # streams of old versions of Arrow have no marker
    if size > ARROW_SCHEMA_BYTES_MAX:
        raise InvalidInput(
            f"the schema of the Arrow stream has {size} bytes; at most {ARROW_SCHEMA_BYTES_MAX} are allowed: "
            f"send the columns key, value and headers only, without metadata"
        )


def _check_messages(stream: pa.Buffer) -> None:
    """Walk the messages without touching their bodies."""
    source = pa.BufferReader(stream)
    kinds: list[Any] = []
    for message in pa.ipc.MessageReader.open_stream(source):
        kinds.append(message.type)
        _refuse_compressed(_read_facts(memoryview(message.metadata)).compressed)
        if len(kinds) > ARROW_MESSAGES_MAX:
            raise InvalidInput(
                f"the Arrow stream holds more than {ARROW_MESSAGES_MAX} messages: send one dictionary for each column"
            )
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


def _refuse_compressed(compressed: bool) -> None:
    if compressed:
        raise InvalidInput("the Arrow batch is compressed: send it without body compression")


class MessageFacts(NamedTuple):
    """What kind of message it is, how long its body is and whether that is compressed."""

    kind: int
    body_bytes: int
    compressed: bool


def _read_facts(data: memoryview) -> MessageFacts:
    """The facts of one message, given its metadata."""
    kind_at, header_at, length_at = _fields(data, _U32.unpack_from(data)[0])
    kind = data[kind_at] if kind_at else 0
    length = _I64.unpack_from(data, length_at)[0] if length_at else 0
    if length < 0:
        raise ValueError("negative length of body")
    table = _follow(data, header_at)
    if kind == _DICTIONARY_BATCH:
        table = _follow(data, _fields(data, table)[0])
    compressed = kind in (_RECORD_BATCH, _DICTIONARY_BATCH) and _fields(data, table)[2] != 0
    return MessageFacts(kind, length, compressed)


def _follow(data: memoryview, at: int) -> int:
    return at + int(_U32.unpack_from(data, at)[0])


def _fields(data: memoryview, table: int) -> tuple[int, int, int]:
    """Where a table keeps the fields in slots 1, 2 and 3; 0 for one that is absent."""
    vtable = table - _I32.unpack_from(data, table)[0]
    if vtable < 0:
        raise ValueError("metadata points before its beginning")
    if len(data) - vtable < _VTABLE.size:  # a short one that ends with the data
        size, _, _, one, two, three = _VTABLE.unpack(bytes(data[vtable:]).ljust(_VTABLE.size, b"\0"))
    else:
        size, _, _, one, two, three = _VTABLE.unpack_from(data, vtable)
    if size < _VTABLE.size:  # trailing absent ones are left out: what was read for them is something else
        slots = (size - _SLOTS_AT) // 2
        one, two, three = one if slots > 1 else 0, two if slots > 2 else 0, 0
    return (table + one if one else 0, table + two if two else 0, table + three if three else 0)
