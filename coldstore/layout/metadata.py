"""Block metadata: the document whose put-if-absent commits a block.

    queues/<name>/meta/<first:020d>.<final|young>.json

    {"block":"00000000000000000000",   first offset, 20 digits: the block's id
     "chain":"<hex>" | null,           final blocks only, see below
     "check":"<hex>",                  see sealed_json.py
     "copy":"young/…" | null,          final blocks only: a second copy of the data, see queue/commit.py
     "count":500000,                   last - first + 1
     "epoch":7,                        the tenure of the owner that committed it; never falls along a queue
     "first":0, "last":499999,
     "format":1,
     "kind":"final" | "young",
     "max_timestamp":…, "min_timestamp":…,   of its elements, microseconds since 1970
     "next":"00000000000000500000",    id of the next block: known when written, so this never changes
     "path":"data/….parquet",          the data file, relative to the queue's folder; that of a young
                                       block may begin before it (a claim, see queue/commit.py)
     "previous":"…" | null,            id of the block before it when it was written; null for the first
     "put_id":"<32 hex digits>",       the attempt that wrote it
     "queue":"<32 hex digits>",        the queue's id: a file of another queue is never taken for one of this queue
     "raw_bytes":…, "stored_bytes":…,  in Arrow form; of the data file
     "sha256":"<hex>"}                 of the data file

The chain digest of a final block is sha256(chain digest of the previous final block ‖ first ‖ last ‖ sha256
of the data file), with both offsets as 8 bytes big-endian; before the first block stands sha256(queue id). So
the last digest proves the whole history: nothing before it can be altered, left out or reordered without
changing it.

The invariants below run before every commit and after every read.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from coldstore.layout import paths, sealed_json
from coldstore.layout.paths import Kind
from coldstore.shared import limits
from coldstore.shared.errors import DataLoss, check
from coldstore.shared.results import BlockInfo

FORMAT: Final = 1

_OFFSETS: Final = struct.Struct(">qq")  # first and last offset in the chain digest
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_IDENTITY: Final = re.compile(r"[0-9a-f]{32}")
_BLOCK_ID: Final = re.compile(r"\d{20}")
_INTS: Final = (
    "first",
    "last",
    "count",
    "min_timestamp",
    "max_timestamp",
    "stored_bytes",
    "raw_bytes",
    "epoch",
)
_TEXTS: Final = ("queue", "kind", "sha256", "path", "put_id", "block", "next")


@dataclass(frozen=True, slots=True)
class BlockMetadata:
    """A committed block, described without its data."""

    queue: str
    kind: Kind
    first: int
    last: int
    min_timestamp_us: int
    max_timestamp_us: int
    stored_bytes: int
    raw_bytes: int
    sha256: str
    path: str
    previous: int | None
    epoch: int
    put_id: str
    chain: str | None = None
    copy: str | None = None

    @property
    def id(self) -> str:
        """The block's id as people see it."""
        return block_id(self.first)

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def next(self) -> int:
        """First offset after this block, which is the next block's id."""
        return self.last + 1

    @property
    def file_first(self) -> int:
        """First offset in the data file, which may hold elements before those of the block."""
        first = paths.file_first(self.path)
        return self.first if first is None else first

    def info(self, name: str, *, loaded: bool = False, subscribers: int = 0) -> BlockInfo:
        """The block as verbs describe it. `name` is the queue's name, because metadata knows only the queue's id."""
        return BlockInfo(
            id=self.first,
            first_offset=self.first,
            last_offset=self.last,
            count=self.count,
            kind=self.kind,
            loaded=loaded,
            min_timestamp_us=self.min_timestamp_us,
            max_timestamp_us=self.max_timestamp_us,
            raw_bytes=self.raw_bytes,
            stored_bytes=self.stored_bytes,
            sha256=self.sha256,
            key=paths.queue_folder(name) + self.path,
            subscribers=subscribers,
        )

    @property
    def is_claim(self) -> bool:
        """Whether this young block has no file of its own, but is part of a future final block (queue/commit.py)."""
        return self.kind == "young" and (
            self.file_first != self.first or self.path == paths.data_path(self.first)
        )


def block_id(first: int) -> str:
    return f"{first:020d}"


def genesis(queue: str) -> str:
    """The chain digest that stands before the first block."""
    return hashlib.sha256(queue.encode()).hexdigest()


def link(chain: str, first: int, last: int, sha256: str) -> str:
    """The chain digest of a final block that follows the one with digest `chain`."""
    return hashlib.sha256(
        bytes.fromhex(chain) + _OFFSETS.pack(first, last) + bytes.fromhex(sha256)
    ).hexdigest()


def encode(metadata: BlockMetadata) -> bytes:
    """The document, after all invariants were checked."""
    broken = broken_invariant(metadata)
    check(broken is None, f"block {metadata.id} must not be committed: {broken}")
    fields = {
        "block": metadata.id,
        "chain": metadata.chain,
        "copy": metadata.copy,
        "count": metadata.count,
        "epoch": metadata.epoch,
        "first": metadata.first,
        "kind": metadata.kind,
        "last": metadata.last,
        "max_timestamp": metadata.max_timestamp_us,
        "min_timestamp": metadata.min_timestamp_us,
        "next": block_id(metadata.next),
        "path": metadata.path,
        "previous": None if metadata.previous is None else block_id(metadata.previous),
        "put_id": metadata.put_id,
        "queue": metadata.queue,
        "raw_bytes": metadata.raw_bytes,
        "sha256": metadata.sha256,
        "stored_bytes": metadata.stored_bytes,
    }
    return sealed_json.seal(fields, FORMAT)


def decode(data: bytes | memoryview, key: str, queue: str) -> BlockMetadata:
    """The metadata at `key` of the queue with this id, or `DataLoss` naming key and block."""
    at = paths.parse_meta(key)
    if at is None:
        raise AssertionError(f"{key} is not a metadata key")
    fields = sealed_json.unseal(data, key, FORMAT, block=at.first)
    wrong = _wrong_types(fields)
    if wrong is None:
        metadata = _from_fields(fields)
        wrong = _contradiction(metadata, fields, at, queue) or broken_invariant(metadata)
        if wrong is None:
            return metadata
    raise DataLoss(f"{key} does not describe block {block_id(at.first)}: {wrong}", key=key, block=at.first)


def _wrong_types(fields: dict[str, Any]) -> str | None:
    for name in _INTS:
        if type(fields.get(name)) is not int:
            return f"{name} is not a number"
    for name in _TEXTS:
        if not isinstance(fields.get(name), str):
            return f"{name} is not a text"
    for name in ("chain", "copy", "previous"):
        if not isinstance(fields.get(name, ""), str | None):
            return f"{name} is neither a text nor null"
    if fields["previous"] is not None and not _BLOCK_ID.fullmatch(fields["previous"]):
        return "previous is not a block id"
    return None


def _from_fields(fields: dict[str, Any]) -> BlockMetadata:
    return BlockMetadata(
        queue=fields["queue"],
        kind=fields["kind"],
        first=fields["first"],
        last=fields["last"],
        min_timestamp_us=fields["min_timestamp"],
        max_timestamp_us=fields["max_timestamp"],
        stored_bytes=fields["stored_bytes"],
        raw_bytes=fields["raw_bytes"],
        sha256=fields["sha256"],
        path=fields["path"],
        previous=None if fields["previous"] is None else int(fields["previous"]),
        epoch=fields["epoch"],
        put_id=fields["put_id"],
        chain=fields["chain"],
        copy=fields["copy"],
    )


def _contradiction(
    metadata: BlockMetadata, fields: dict[str, Any], at: paths.MetaKey, queue: str
) -> str | None:
    """Fields that repeat others, or the key, must agree with them: swapped files are caught here."""
    if metadata.queue != queue:
        return f"it belongs to the queue with id {metadata.queue}, not {queue}"
    if (metadata.first, metadata.kind) != at:
        return f"it describes the {metadata.kind} block {metadata.id}"
    if fields["block"] != metadata.id or fields["count"] != metadata.count:
        return "id or count contradict the offsets"
    if fields["next"] != block_id(metadata.next):
        return "next contradicts the offsets"
    return None


def offsets_are_ordered(m: BlockMetadata) -> bool:
    return 0 <= m.first <= m.last < limits.OFFSET_MAX


def times_are_ordered(m: BlockMetadata) -> bool:
    return m.min_timestamp_us <= m.max_timestamp_us


def sizes_are_possible(m: BlockMetadata) -> bool:
    return m.stored_bytes > 0 and m.raw_bytes > 0 and m.epoch >= 0


def digests_are_digests(m: BlockMetadata) -> bool:
    return all(_DIGEST.fullmatch(d) is not None for d in (m.sha256, m.chain or m.sha256))


def identities_are_identities(m: BlockMetadata) -> bool:
    return all(_IDENTITY.fullmatch(i) is not None for i in (m.queue, m.put_id))


def only_final_blocks_are_chained(m: BlockMetadata) -> bool:
    return m.kind in ("final", "young") and (m.chain is not None) == (m.kind == "final")


def path_is_of_this_block(m: BlockMetadata) -> bool:
    if m.kind == "final":
        in_young = m.copy is None or (m.copy.startswith("young/") and paths.file_first(m.copy) == m.first)
        return m.path == paths.data_path(m.first) and in_young
    file_first = paths.file_first(m.path)
    return file_first is not None and file_first <= m.first and m.copy is None


def previous_comes_before(m: BlockMetadata) -> bool:
    return m.previous is None if m.first == 0 else m.previous is not None and m.previous < m.first


INVARIANTS: Final[tuple[Callable[[BlockMetadata], bool], ...]] = (
    offsets_are_ordered,
    times_are_ordered,
    sizes_are_possible,
    digests_are_digests,
    identities_are_identities,
    only_final_blocks_are_chained,
    path_is_of_this_block,
    previous_comes_before,
)


def broken_invariant(metadata: BlockMetadata) -> str | None:
    """The first invariant that does not hold, in words, else None."""
    for invariant in INVARIANTS:
        if not invariant(metadata):
            return f"it is not true that {invariant.__name__.replace('_', ' ')}"
    return None


def broken_link(before: BlockMetadata | None, after: BlockMetadata) -> str | None:
    """Why `after` cannot be the block that follows `before` (None: the queue's first), else None."""
    expected = 0 if before is None else before.next
    if after.first != expected:
        return f"it starts at {after.first}, but the block before it ends at {expected}"
    if before is not None and after.epoch < before.epoch:
        return f"its epoch {after.epoch} is older than {before.epoch}, that of the block before it"
    if after.kind == "young":
        return None  # the block that it names as previous may have been merged since
    if before is not None and (before.kind != "final" or after.previous != before.first):
        return f"it names {after.previous} as the block before it, which is {before.first}"
    chain = genesis(after.queue) if before is None else before.chain or ""
    if after.chain != link(chain, after.first, after.last, after.sha256):
        return "its chain digest does not continue that of the block before it"
    return None
