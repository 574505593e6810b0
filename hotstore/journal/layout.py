"""How the journal looks on disk: segments of pages, each batch on pages of its own.

    segment   page 0          segment header, rest zero
              page 1 …        batches one after the other, each rounded up to whole pages
              next page       zero: the end. Written with the batch before it, because in a recycled
                              segment the bytes beyond it are those of an earlier life
    batch     64 bytes        batch header
              body            records; then zeros up to the page
    record    8 bytes         kind, payload length
              payload         then zeros up to a multiple of 8, so that Arrow data stays aligned

Integers are little-endian. Every checksum is a CRC32C that starts from the *seed*: the CRC32C of the
segment's identity, its number (which only its file name tells) and the position in the file. So no
bytes of an earlier life of the file, of another segment, of another place in this segment or inside
a payload are ever taken for a batch. The header is checked before its length is believed.

The identity stands in each batch too: a segment whose header is damaged still yields its batches.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

import google_crc32c
import numpy as np

from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, check
from hotstore.journal.port import Buffer, Record, StoredRecord
from hotstore.limits import (
    GATHER_BYTES_MAX,
    JOURNAL_BATCH_BYTES_MAX,
    JOURNAL_RECORDS_MAX,
    PAGE_BYTES,
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
)

VERSION: Final = 1
NO_SEGMENT: Final = 0  # numbers start at 1
BATCH_MAGIC: Final = b"jjqb"
SEGMENT_MAGIC: Final = b"jjqs"

SEGMENT: Final = struct.Struct(
    "<4s"  # magic "jjqs"; this, the two lengths and the place of the checksum hold in every version
    "H"  # format version: a newer one is refused before anything is changed
    "H"  # header length, checksum included
    "Q"  # number, the same as in the file name
    "Q"  # identity: random, new for each life of the file
    "Q"  # segment length in bytes
    "Q"  # synced_upto when the segment was prepared
    "Q"  # replaces: the segment whose batches were copied into this one, or 0
    "Q"  # journal: random, the same in all segments of one journal; 0 in those that were written before it was kept
    "4x"  # zero
)
BATCH: Final = struct.Struct(
    "<4s"  # magic "jjqb"
    "I"  # header length, checksum included
    "Q"  # identity of the segment
    "Q"  # sequence number of the batch
    "Q"  # synced_upto: every batch below this one was durable when this one was written
    "Q"  # opened_at: sequence of the first batch in this segment
    "I"  # number of records
    "I"  # body length, without the zeros that fill the page
    "I"  # CRC32C of the body
    "8x"  # zero
)
RECORD: Final = struct.Struct("<II")  # kind, payload length
CHECKSUM: Final = struct.Struct("<I")  # ends both headers; covers all that stands before it
SEED: Final = struct.Struct("<QQQ")  # identity, segment number, position

HEADER_BYTES: Final = 64  # of both, checksum included
check(SEGMENT.size == BATCH.size == HEADER_BYTES - CHECKSUM.size, "the headers are not as long as they say")
ZEROS: Final = bytes(2 * PAGE_BYTES)
_FILL: Final = memoryview(ZEROS)


class SegmentHeader(NamedTuple):
    number: int
    identity: int
    segment_bytes: int
    synced_upto: int
    replaces: int
    journal: int = 0


class BatchHeader(NamedTuple):
    identity: int
    sequence: int
    synced_upto: int
    opened_at: int
    records: int
    body_bytes: int
    body_crc: int

    @property
    def span(self) -> int:
        """Bytes that the batch takes on disk."""
        return pages(HEADER_BYTES + self.body_bytes)


class Body(NamedTuple):
    """Records laid out for writing: few pieces, large payloads among them uncopied."""

    pieces: list[Buffer]
    records: int
    body_bytes: int
    span: int  # bytes that the batch will take on disk


def pages(length: int) -> int:
    """`length` rounded up to whole pages."""
    return -(-length // PAGE_BYTES) * PAGE_BYTES


def checksum(start: int, data: Buffer) -> int:
    """Extend a CRC32C. The library takes bytes or an array, not a memoryview: the array spares the copy."""
    whole = data if isinstance(data, bytes) else np.frombuffer(data, np.uint8)
    crc: int = google_crc32c.extend(start, whole)
    return crc


def seed(identity: int, number: int, position: int) -> int:
    crc: int = google_crc32c.value(SEED.pack(identity, number, position))
    return crc


# Segment headers


def encode_segment(header: SegmentHeader) -> bytes:
    """The first page of a segment, and the zero page that says that it has no batch yet."""
    fields = SEGMENT.pack(SEGMENT_MAGIC, VERSION, HEADER_BYTES, *header)
    crc = checksum(seed(0, header.number, 0), fields)
    return (fields + CHECKSUM.pack(crc)).ljust(2 * PAGE_BYTES, b"\0")


def decode_segment(page: bytes, number: int) -> SegmentHeader | None:
    """The header of segment `number`, None if it is damaged. Raises Conflict if it is of a newer version."""
    magic, version, length, *fields = SEGMENT.unpack_from(page)
    if magic != SEGMENT_MAGIC or not HEADER_BYTES <= length <= PAGE_BYTES:
        return None
    end = length - CHECKSUM.size
    if checksum(seed(0, number, 0), page[:end]) != CHECKSUM.unpack_from(page, end)[0]:
        return None
    if version > VERSION:
        raise Conflict(
            f"journal segment {number} has format {version}, this jjq reads up to {VERSION}: "
            "start a newer jjq; nothing was changed"
        )
    header = SegmentHeader(*fields)
    sound = header.number == number and SEGMENT_BYTES_MIN <= header.segment_bytes <= SEGMENT_BYTES_MAX
    return header if sound and header.segment_bytes % PAGE_BYTES == 0 else None


# Batches


def lay_out(records: Sequence[Record], span_max: int) -> Body:
    """Arrange the records for writing; raises InvalidInput if they do not fit into `span_max` bytes."""
    if not 0 < len(records) <= JOURNAL_RECORDS_MAX:
        raise InvalidInput(f"a journal batch has 1 to {JOURNAL_RECORDS_MAX} records, not {len(records)}")
    limit = min(span_max, JOURNAL_BATCH_BYTES_MAX)
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    body_bytes = 0
    for kind, payload in records:
        parts = payload if isinstance(payload, tuple) else (payload,)
        length = 0
        for part in parts:
            length += part.nbytes if isinstance(part, memoryview) else len(part)
        padding = -length % 8
        body_bytes += RECORD.size + length + padding
        if HEADER_BYTES + body_bytes > limit:
            raise InvalidInput(f"a journal batch has at most {limit} bytes")
        small.append(RECORD.pack(kind, length))
        for part in parts:
            if (part.nbytes if isinstance(part, memoryview) else len(part)) <= GATHER_BYTES_MAX:
                small.append(part)
            else:
                pieces += (b"".join(small), part)
                small = []
        small.append(ZEROS[:padding])
    pieces.append(b"".join(small))
    return Body(pieces, len(records), body_bytes, pages(HEADER_BYTES + body_bytes))


def encode_batch(
    body: Body,
    segment: SegmentHeader,
    position: int,
    length: int,
    *,
    sequence: int,
    synced_upto: int,
    opened_at: int,
) -> list[Buffer]:
    """Header and body as they stand at `position` of the segment, and zeros up to `length`."""
    identity = segment.identity
    start = seed(identity, segment.number, position)
    crc = start
    for piece in body.pieces:
        crc = google_crc32c.extend(crc, piece) if type(piece) is bytes else checksum(crc, piece)
    header = BATCH.pack(
        BATCH_MAGIC,
        HEADER_BYTES,
        identity,
        sequence,
        synced_upto,
        opened_at,
        body.records,
        body.body_bytes,
        crc,
    )
    header += CHECKSUM.pack(google_crc32c.extend(start, header))
    return [header, *body.pieces, _FILL[: length - HEADER_BYTES - body.body_bytes]]


def decode_batch(
    window: bytes, at: int, number: int, position: int, identity: int | None
) -> BatchHeader | None:
    """The batch header that `window` has at `at`, if it is a sound one of this segment and position."""
    magic, length, *fields = BATCH.unpack_from(window, at)
    if magic != BATCH_MAGIC or length != HEADER_BYTES:
        return None
    header = BatchHeader(*fields)
    if identity is not None and header.identity != identity:
        return None
    end = at + BATCH.size
    crc = checksum(seed(header.identity, number, position), window[at:end])
    return header if crc == CHECKSUM.unpack_from(window, end)[0] else None


def body_is_sound(header: BatchHeader, body: memoryview, number: int, position: int) -> bool:
    return checksum(seed(header.identity, number, position), body) == header.body_crc


def decode_records(body: memoryview, count: int, kinds: Container[int] | None) -> list[StoredRecord]:
    """The records of a sound body. Raises Conflict for a kind not in `kinds` (None: all are known)."""
    records: list[StoredRecord] = []
    at = 0
    for _ in range(count):
        kind, length = RECORD.unpack_from(body, at)
        at += RECORD.size
        if kinds is not None and kind not in kinds:
            raise Conflict(
                f"the journal has a record of kind {kind}, unknown to this jjq: start a newer one; nothing was changed"
            )
        records.append(StoredRecord(kind, body[at : at + length]))
        at += length + -length % 8
    if at != len(body):
        raise DataLoss("a journal batch with a sound checksum does not hold the records that it claims")
    return records
