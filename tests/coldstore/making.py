"""What tests of the cold store are made of: elements, queues, and objects that misbehave on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from coldstore.history.block_list import BlockList
from coldstore.history.columns import BlockColumns
from coldstore.layout.metadata import BlockMetadata, genesis, link
from coldstore.layout.paths import data_path
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared import batch
from coldstore.shared.batch import Content
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.limits import BLOCK_BYTES_MIN
from coldstore.store import ColdStore

QUEUE_ID = "0123456789abcdef" * 2
START_US = 1_767_225_600_000_000


def elements(
    first: int, count: int, *, said: str = "value", content: Content = "bytes", at_us: int = START_US
) -> pa.Table:
    """`count` elements from `first` on, each saying who it is."""
    texts = [f"{said} {offset}" for offset in range(first, first + count)]
    values: list[Any] = texts if content == "text" else [text.encode() for text in texts]
    if content == "json":
        values = [f'"{text}"' for text in texts]
    return pa.Table.from_batches([batch.stamp(batch.payload(content, values), first, at_us)])


@dataclass
class Made:
    """A store in memory with one queue, on a clock that tests move."""

    clock: ManualClock = field(default_factory=ManualClock)
    objects: Any = None
    seed: int = 1

    def __post_init__(self) -> None:
        self.objects = self.objects or MemoryObjects(self.clock)
        self.store = ColdStore(self.objects, self.clock, SeededChance(self.seed))
        self.queue = self.store.create_queue("orders", block_bytes=BLOCK_BYTES_MIN)

    def push(
        self, count: int, *, final: bool = True, said: str = "value", epoch: int = 0
    ) -> list[BlockMetadata]:
        table = elements(self.queue.next_offset, count, said=said, at_us=self.clock.now_us())
        return self.queue.write_block(table, final=final, epoch=epoch)

    def reopened(self, seed: int = 2) -> ColdQueue:
        """The queue as another process would open it."""
        return ColdStore(self.objects, self.clock, SeededChance(seed)).open_queue("orders")


def read_all(queue: ColdQueue) -> list[tuple[int, Any]]:
    """Offsets and values of everything in a queue."""
    said: list[tuple[int, Any]] = []
    for block in queue.list_blocks():
        table = queue.read_block(block)
        said += zip(table.column("offset").to_pylist(), table.column("value").to_pylist(), strict=True)
    return said


def shape(queue: ColdQueue) -> list[tuple[str, int, int]]:
    """Kind, first and last offset of each block."""
    return [(block.kind, block.first, block.last) for block in queue.list_blocks()]


def keys(objects: ObjectStore, prefix: str = "") -> list[str]:
    return [info.key for info in objects.list(prefix)]


def contents(objects: ObjectStore) -> dict[str, bytes]:
    """Everything in a store."""
    return {key: bytes(objects.get(key).data) for key in keys(objects)}


def flip(objects: ObjectStore, key: str, byte: int, bit: int = 0) -> bytes:
    """Flip one bit of an object; returns what it was before."""
    before = bytes(objects.get(key).data)
    damaged = bytearray(before)
    damaged[byte] ^= 1 << bit
    objects.put(key, bytes(damaged))
    return before


def linked(count: int, *, queue: str = QUEUE_ID, length: int = 10) -> Iterator[BlockMetadata]:
    """Metadata of `count` final blocks that follow one another, of data that was never written."""
    chance = SeededChance(7)
    chain = genesis(queue)
    for i in range(count):
        first, last = i * length, (i + 1) * length - 1
        sha256 = 2 * chance.token()
        chain = link(chain, first, last, sha256)
        yield BlockMetadata(
            queue=queue,
            kind="final",
            first=first,
            last=last,
            min_timestamp_us=first,
            max_timestamp_us=last,
            stored_bytes=500,
            raw_bytes=1_000,
            sha256=sha256,
            path=data_path(first),
            previous=None if i == 0 else first - length,
            epoch=1,
            put_id=chance.token(),
            chain=chain,
        )


def listed(count: int, *, queue: str = QUEUE_ID) -> BlockList:
    """A list of final blocks that were never written."""
    return BlockList(queue, BlockColumns().extended(0, linked(count, queue=queue)), count)
