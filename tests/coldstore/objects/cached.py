"""Blocks for the tests of the cache, and a process that reads them."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from coldstore.objects.cache import BlockCache
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import Object
from coldstore.shared.chance import SeededChance, SystemChance
from coldstore.shared.clock import Clock, ManualClock

SIZE = 1_000
HEX = 32


def block(number: int) -> bytes:
    return b"%010d" % number * (SIZE // 10)


def sha256(number: int) -> str:
    return hashlib.sha256(block(number)).hexdigest()


def key(number: int) -> str:
    return f"queues/q/data/{number:020d}.parquet"


class Remote(MemoryObjects):
    """A store that counts what is fetched from it, and can hold it back."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open = threading.Event()
        self.open.set()
        for number in range(blocks):
            self.put(key(number), block(number))

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        self.fetched.append(key)
        self.open.wait(30)
        return super().get(key, start, end)


class Cache:
    """A cache of blocks, asked by number."""

    def __init__(
        self,
        remote: MemoryObjects | LocalObjects,
        directory: Path,
        *,
        disk: int = 100,
        memory: int = 100,
        clock: Clock | None = None,
    ) -> None:
        chance = SystemChance()
        self._cache = BlockCache(
            remote, directory, disk * SIZE, memory * SIZE, clock or ManualClock(), chance
        )

    def get(self, number: int) -> bytes:
        return self._cache.get(key(number), sha256(number), SIZE)


def read_many(root: Path, directory: Path, seed: int, blocks: int, rounds: int, disk: int) -> int:
    """Read blocks at random through a cache without memory; how many came wrong. A process of its own."""
    chance = SeededChance(seed)
    cache = Cache(LocalObjects(root), directory, disk=disk, memory=0)
    numbers = [int(chance.jitter() * blocks) for _ in range(rounds)]
    return sum(cache.get(number) != block(number) for number in numbers)
