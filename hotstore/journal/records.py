"""What the engine writes into the journal, and reads back at start.

A journal record is a kind and a payload. Integers are little-endian.

    PUSH       queue u64 · first offset i64 · timestamp i64 · count u32 · parts u32 ·
               parts × (at u32 · count u32 · sequence i64 · producer length u16 · producer) ·
               the payload columns as one Arrow IPC record batch (schema by the queue's content)
    VALUE      a push of one element of bytes without key and headers: as PUSH, with the value itself in
               place of the columns. A quarter of the bytes, and made without Arrow
    POSITIONS  n × (subscriber u64 · previous i64 · offset i64)
    SEALED     n × (queue u64 · cold offset i64): what lies before is in the cold store
    QUEUES, SUBSCRIBERS, GONE, PRODUCERS, LEFT
               JSON arrays of rows; each row replaces what was known of its number. LEFT names queues that
               another node serves from now on, or that were deleted. A QUEUES row ends with the epoch and
               the standing of the queue where this node is one of several, or the queue is about to leave
    DOUBTS     rows (queue, name, cause): the queue may have lost elements, and takes no pushes; no cause: that
               was settled. Queue 0: a queue of this name that the journal does not know any more
    FILLED     rows (queue, first, next, time): an operator gave these elements up (placeholders.py). Both kinds
               are written only where something was lost
    CHECKPOINT one row (begin): here a checkpoint begins (hotstore/checkpoint). With no checkpoint at all, only a
               journal that is there from `begin` on tells everything

The last record about a queue, subscriber or producer wins. Releases before the CHECKPOINT kind wrote their
checkpoints into the journal: the same rows again, in chunks, while other records went on between them. Kinds are never
renumbered.
`queue` and `subscriber` are numbers of this journal, bound to names by QUEUES and SUBSCRIBERS rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa

from coldstore.shared import lists
from coldstore.shared.errors import DataLoss
from hotstore.journal.port import Record
from hotstore.limits import GATHER_BYTES_MAX

PUSH: Final = 1
POSITIONS: Final = 2
SEALED: Final = 3
QUEUES: Final = 4
SUBSCRIBERS: Final = 5
GONE: Final = 6
PRODUCERS: Final = 7
LEFT: Final = 8
VALUE: Final = 9
DOUBTS: Final = 10
FILLED: Final = 11
CHECKPOINT: Final = 12
KINDS: Final = frozenset(
    {PUSH, POSITIONS, SEALED, QUEUES, SUBSCRIBERS, GONE, PRODUCERS, LEFT, VALUE, DOUBTS, FILLED, CHECKPOINT}
)

# Elements, and what stands in for lost ones: they are in the journal alone until they are cold. The rest is state, of
# which a checkpoint has all that was written before it began.
ELEMENTS: Final = frozenset({PUSH, VALUE, FILLED})

# The standing of a queue, in its row
SETTLED: Final = 0
LEAVING: Final = 1  # perhaps another node's by now: only its shards document tells
ARRIVING: Final = 2  # its subscribers and producers are not all in the journal yet

MESSAGE_BYTES: Final = 512  # about what Arrow adds to the columns of a payload

_PUSH = struct.Struct("<QqqII")
_PART = struct.Struct("<IIqH")
_POSITION = struct.Struct("<Qqq")
_SEALED = struct.Struct("<Qq")


@dataclass(frozen=True, slots=True)
class ProducerPart:
    """The share of one idempotent push in a PUSH record: `count` elements from `at` on."""

    at: int
    count: int
    producer: str
    sequence: int


@dataclass(frozen=True, slots=True)
class PushRecord:
    """A PUSH or VALUE record. `columns` is the Arrow IPC message, to be read with the queue's payload schema;
    of a VALUE it is the value itself."""

    queue: int
    first: int
    timestamp_us: int
    count: int
    parts: tuple[ProducerPart, ...]
    columns: pa.Buffer
    single: bool = False  # a VALUE

    @property
    def bytes(self) -> int:
        """What the payload counts towards block size and budgets."""
        return int(self.columns.size) + (MESSAGE_BYTES if self.single else 0)


def push(
    queue: int, first: int, timestamp_us: int, parts: Sequence[ProducerPart], count: int, columns: pa.Buffer
) -> Record:
    """`columns` is the payload of `count` elements, serialized."""
    return Record(PUSH, (_head(queue, first, timestamp_us, count, parts), columns))


def push_value(
    queue: int, first: int, timestamp_us: int, parts: Sequence[ProducerPart], value: bytes
) -> Record:
    """The push of one element that has nothing but a value."""
    head = _head(queue, first, timestamp_us, 1, parts)
    return Record(VALUE, head + value if len(value) <= GATHER_BYTES_MAX else (head, value))


def _head(queue: int, first: int, timestamp_us: int, count: int, parts: Sequence[ProducerPart]) -> bytes:
    head = _PUSH.pack(queue, first, timestamp_us, count, len(parts))
    for part in parts:
        producer = part.producer.encode()
        head += _PART.pack(part.at, part.count, part.sequence, len(producer)) + producer
    return head


def read_push(payload: memoryview, *, single: bool = False) -> PushRecord:
    """A PUSH record, or a VALUE record where it is a `single` one."""
    queue, first, timestamp_us, count, parts = _PUSH.unpack_from(payload)
    at = _PUSH.size
    read: list[ProducerPart] = []
    for _ in range(parts):
        start, size, sequence, length = _PART.unpack_from(payload, at)
        at += _PART.size
        read.append(ProducerPart(start, size, bytes(payload[at : at + length]).decode(), sequence))
        at += length
    # Copied, so that the element batches are aligned and do not pin the journal's read buffer.
    columns = pa.allocate_buffer(len(payload) - at)
    memoryview(columns).cast("B")[:] = payload[at:]
    return PushRecord(queue, first, timestamp_us, count, tuple(read), columns, single)


def read_columns(push: PushRecord, schema: pa.Schema) -> pa.RecordBatch:
    if push.single:
        values = [[None], [push.columns.to_pybytes()], [None]]
        columns = [lists.array(column, field.type) for column, field in zip(values, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    else:
        batch = pa.ipc.read_record_batch(push.columns, schema)
    if batch.num_rows != push.count:
        raise DataLoss(
            f"journal: a push at offset {push.first} has {batch.num_rows} elements, not {push.count}"
        )
    return batch


def positions(rows: Iterable[tuple[int, int, int]]) -> Record:
    return Record(POSITIONS, (b"".join([_POSITION.pack(*row) for row in rows]),))


def read_positions(payload: memoryview) -> Iterator[tuple[int, int, int]]:
    return _POSITION.iter_unpack(payload)


def sealed(rows: Iterable[tuple[int, int]]) -> Record:
    return Record(SEALED, (b"".join([_SEALED.pack(*row) for row in rows]),))


def read_sealed(payload: memoryview) -> Iterator[tuple[int, int]]:
    return _SEALED.iter_unpack(payload)


def rows(kind: int, items: Sequence[Sequence[Any]]) -> Record:
    return Record(kind, (orjson.dumps(items),))


def read_rows(payload: memoryview) -> list[list[Any]]:
    found: list[list[Any]] = orjson.loads(payload)
    return found
