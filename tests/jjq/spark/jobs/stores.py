"""Stores for tests of pipeline jobs, and what is in them."""

from __future__ import annotations

from pathlib import Path

from coldstore.objects.local import LocalObjects
from coldstore.objects.port import ObjectStore
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared import batch, limits
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from tests.coldstore.making import elements


def opened(folder: Path) -> ColdStore:
    return ColdStore(
        LocalObjects(folder, clock=SystemClock(), chance=SystemChance()), SystemClock(), SystemChance()
    )


def fill(store: ColdStore, name: str, *, finals: int = 0, young: int = 0, length: int = 50) -> ColdQueue:
    """A queue with so many blocks; element n says `NAME n`."""
    queue = store.create_queue(name, block_bytes=limits.BLOCK_BYTES_MIN)
    for at in range(finals + young):
        table = elements(queue.next_offset, length, said=name, at_us=1_767_225_600_000_000 + at)
        queue.write_block(table, final=at < finals)
    return queue


def values(store: ColdStore, name: str) -> list[bytes | str]:
    """All values of a queue, which must have dense offsets."""
    queue = store.open_queue(name)
    found: list[bytes | str] = []
    for block in queue.list_blocks():
        table = queue.read_block(block)
        assert table["offset"].to_pylist() == list(range(len(found), len(found) + table.num_rows))
        found += [element.value for element in batch.elements(table)]
    return found


def told(name: str, count: int) -> list[bytes]:
    """What `fill` and writers like it put there."""
    return [f"{name} {n}".encode() for n in range(count)]


def damage(objects: ObjectStore, key: str) -> None:
    data = bytearray(objects.get(key).data)
    data[len(data) // 2] ^= 1
    objects.put(key, bytes(data))
