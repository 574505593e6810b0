"""One object of a journal on object storage: journals/<node>/<number:020d>, put if absent.

    object    64 bytes   header
              body       records as in hotstore.journal.layout: 8 bytes kind and length, payload, zeros up to 8

One object holds one batch. A large batch is cut into several objects with consecutive numbers, which are put side by
side; the batch counts only if all of them are there. The number of the first object is the batch's sequence.

An object without a body is a *fence*: no object of run `run`, or of an earlier run, counts from here on, and the
journal goes on at number `next`. A run has puts in flight only below `next`, so an object that arrives later is never
read.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from coldstore.shared.errors import Conflict, DataLoss, check
from hotstore.journal import layout
from hotstore.journal.port import JournalBatch, Record
from hotstore.limits import JOURNAL_BATCH_BYTES_MAX
from sharding.limits import JOURNAL_PART_BYTES

VERSION: Final = 1
MAGIC: Final = b"jjqo"

_HEADER: Final = struct.Struct(
    "<4s"  # magic "jjqo"
    "H"  # format version: a newer one is refused
    "2x"  # zero
    "Q"  # number, the same as in the key
    "Q"  # run of the node (tenure.py) that wrote it; in a fence the last one that it ends
    "16s"  # token of the writer: on a condition that did not hold, tells whether the object is our own
    "Q"  # next: where the journal goes on behind a fence; else number + 1
    "I"  # number of records in the batch; 0 in a fence
    "I"  # CRC32C of the body, which starts from the number
    "H"  # parts of the batch before this one
    "H"  # parts of the batch after this one
)
_CHECKSUM: Final = struct.Struct("<I")  # of the header before it
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
check(HEADER_BYTES == 64, "the header is not as long as it says")


class JournalObject(NamedTuple):
    """What is known of an object from its header, and its body."""

    number: int
    run: int
    token: bytes
    next: int
    records: int
    before: int
    after: int
    body: memoryview
    size: int

    @property
    def is_fence(self) -> bool:
        return self.records == 0


def encode(
    records: Sequence[Record], number: int, run: int, token: bytes, part_bytes: int = JOURNAL_PART_BYTES
) -> list[bytes]:
    """A batch as objects, from `number` on."""
    body = layout.lay_out(records, JOURNAL_BATCH_BYTES_MAX)
    whole = memoryview(b"".join(body.pieces))
    count = -(-len(whole) // part_bytes)
    parts: list[bytes] = []
    for at in range(count):
        part = whole[at * part_bytes : (at + 1) * part_bytes]
        crc = layout.checksum(_seed(number + at), part)
        header = _header(number + at, run, token, number + at + 1, (body.records, crc, at, count - 1 - at))
        parts.append(b"".join((header, part)))
    return parts


def fence(number: int, run: int, token: bytes, next: int) -> bytes:
    """An object that ends the runs up to `run`."""
    return _header(number, run, token, next, (0, _seed(number), 0, 0))


def _seed(number: int) -> int:
    return layout.seed(0, number, 0)


def _header(number: int, run: int, token: bytes, next: int, body: tuple[int, int, int, int]) -> bytes:
    fields = _HEADER.pack(MAGIC, VERSION, number, run, token, next, *body)
    return fields + _CHECKSUM.pack(layout.checksum(_seed(number), fields))


def decode(data: bytes, number: int, key: str) -> JournalObject:
    """The object at `key`; `DataLoss` if it is damaged, `Conflict` if a newer version wrote it."""
    if len(data) < HEADER_BYTES:
        raise _damaged(key, "it is cut short")
    magic, version, at, run, token, next_, records, crc, before, after = _HEADER.unpack_from(data)
    end = HEADER_BYTES - _CHECKSUM.size
    if (
        magic != MAGIC
        or layout.checksum(_seed(number), data[:end]) != _CHECKSUM.unpack_from(data, end)[0]
        or at != number
    ):
        raise _damaged(key, "its header does not match its checksum")
    if version > VERSION:
        raise Conflict(f"{key} has format {version}, this jjq reads up to {VERSION}: start a newer jjq")
    body = memoryview(data)[HEADER_BYTES:]
    if layout.checksum(_seed(number), body) != crc:
        raise _damaged(key, "its records do not match their checksum")
    return JournalObject(number, run, token, next_, records, before, after, body, len(data))


def batches(objects: Iterable[JournalObject], kinds: Container[int] | None) -> Iterator[JournalBatch]:
    """The whole batches in `objects`; `Conflict` for a kind of record that is not in `kinds`.

    The last batch may be cut short: then it was never acknowledged. Any other one has a damaged part.
    """
    parts: list[JournalObject] = []
    for found in objects:
        follows = bool(parts) and (found.number, found.before) == (parts[-1].number + 1, parts[-1].before + 1)
        if found.before == 0:
            parts = [found]
        elif follows:
            parts.append(found)
        else:
            parts = []
        if parts and found.after == 0:
            body = found.body if len(parts) == 1 else memoryview(b"".join(part.body for part in parts))
            yield JournalBatch(parts[0].number, layout.decode_records(body, found.records, kinds))
            parts = []


def _damaged(key: str, why: str) -> DataLoss:
    return DataLoss(f"journal object {key} is damaged: {why}; restore it from a copy", key=key)
