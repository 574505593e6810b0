"""Queues for Spark's tests: blocks put into a folder or a bucket at once, without a server."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from coldstore.objects.local import LocalObjects
from coldstore.objects.port import ObjectStore
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared import batch
from coldstore.shared.batch import Content
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import BLOCK_BYTES_MIN
from coldstore.store import ColdStore

START_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SECOND_US = 1_000_000


@dataclass
class Made:
    """A queue in the cold store. Element n says n and has a timestamp n seconds after START_US."""

    root: str
    store: ColdStore
    queue: ColdQueue

    @property
    def name(self) -> str:
        return self.queue.name

    @property
    def data(self) -> str:
        """The folder of final blocks, for those who read it directly."""
        return f"{self.root}/queues/{self.name}/data"

    def add(self, count: int, *, final: bool = True, width: int = 0, noise: int = 0) -> Made:
        """One more block; values are padded to `width` with blanks, and have so much noise in them."""
        content = self.queue.settings.content
        self.queue.write_block(elements(self.queue.next_offset, count, content, width, noise), final=final)
        return self

    def options(self, **more: Any) -> dict[str, str]:
        """What to tell `format("jjq")`."""
        return {"root": self.root, "queue": self.name} | {key: str(value) for key, value in more.items()}


def make(
    folder: Path,
    blocks: Sequence[int] = (),
    young: Sequence[int] = (),
    *,
    name: str = "orders",
    content: Content = "bytes",
) -> Made:
    """A queue in a folder with final blocks of so many elements each, then young ones."""
    objects = LocalObjects(folder, clock=SystemClock(), chance=SystemChance())
    return make_at(objects, str(folder), blocks, young, name=name, content=content)


def make_at(
    objects: ObjectStore,
    root: str,
    blocks: Sequence[int] = (),
    young: Sequence[int] = (),
    *,
    name: str = "orders",
    content: Content = "bytes",
) -> Made:
    """The same in any object store, which others reach by the URL `root`."""
    store = ColdStore(objects, SystemClock(), SystemChance())
    made = Made(root, store, store.create_queue(name, content=content, block_bytes=BLOCK_BYTES_MIN))
    for count in blocks:
        made.add(count)
    for count in young:
        made.add(count, final=False)
    return made


def elements(first: int, count: int, content: Content = "bytes", width: int = 0, noise: int = 0) -> pa.Table:
    """Elements that say their offsets, one a second; each third has a key, each fourth headers."""
    offsets = range(first, first + count)
    texts = [said(n, content).ljust(width) + noisy(n, noise) for n in offsets]
    payload = batch.payload(
        content,
        [text.encode() for text in texts] if content == "bytes" else texts,
        keys=[b"k%d" % n if n % 3 == 0 else None for n in offsets],
        headers=[{"n": b"%d" % n} if n % 4 == 0 else None for n in offsets],
    )
    stamped = pa.Table.from_batches([batch.stamp(payload, first, START_US)])
    times = pa.array([START_US + n * SECOND_US for n in offsets], batch.TIMESTAMP)
    return stamped.set_column(1, stamped.schema.field(1), times)


def noisy(n: int, digits: int) -> str:
    """Digits that no compressor makes much shorter, the same for the same n."""
    return hashlib.shake_128(b"%d" % n).hexdigest(digits // 2)


def said(n: int, content: Content = "bytes") -> str:
    """The value of element n."""
    return f'{{"n": {n}, "odd": {str(n % 2 == 1).lower()}}}' if content == "json" else f"value {n}"


def offsets(frame: Any) -> list[int]:
    """The offsets in a frame, sorted: what was read, each as often as it was."""
    return sorted(row["offset"] for row in frame.select("offset").collect())
