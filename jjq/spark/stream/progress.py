"""How far a stream has come, and how its batches are cut into partitions.

`Progress` is what Spark writes to its checkpoint and hands back after a restart:

    {"offset": 1500000,            the next element to be read
     "queue": "<32 hex digits>",   the queue's id, so that a checkpoint is never used for another queue
     "start": "ago:7d"}            only in the very first one: the starting point that led there

    {"offset": …, "queue": …,
     "final": 1400000, "bytes": 8388608, "elements": 250000}    how the batch that ends here was cut

The first progress differs from all others even if there is nothing to read yet. So Spark records a batch at once,
and with it where the stream began: `end` means the end at that instant also after a restart.

`Cut` says how a batch is cut into partitions. It is recorded because blocks are sealed and merged meanwhile: a batch
that runs again has the same elements in the same partitions, and a sink that recognises its partitions
(write/pushes.py) adds nothing twice. Final blocks never change, so they are cut where blocks end, by their bytes. The
elements after them may be young now and final later, hot now and cold later. They are cut by count, and each piece is
read from wherever its elements are when the batch is planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Self

import pyarrow as pa

from coldstore.shared.errors import InvalidInput
from jjq.spark.limits import HOT_PARTITION_ELEMENTS, PARTITION_BYTES_MIN, PARTITIONS_MIN
from jjq.spark.scan.partition import Partition, Slice
from jjq.spark.scan.plan import OffsetSpan, View


@dataclass(frozen=True, slots=True)
class Cut:
    """Final blocks up to offset `final` are cut by stored bytes, what comes after them by count."""

    final: int
    bytes: int
    elements: int


@dataclass(frozen=True, slots=True)
class Progress:
    """A place in a queue, between two batches of a stream."""

    offset: int
    queue: str
    start: str | None = None
    cut: Cut | None = None

    def document(self) -> dict[str, Any]:
        """What goes to the checkpoint."""
        found: dict[str, Any] = {"offset": self.offset, "queue": self.queue}
        if self.start is not None:
            found["start"] = self.start
        return found | (asdict(self.cut) if self.cut is not None else {})

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The progress that a checkpoint holds."""
        offset, queue, start = (document.get(name) for name in ("offset", "queue", "start"))
        if type(offset) is not int or not isinstance(queue, str) or not isinstance(start, str | None):
            raise InvalidInput(
                "the checkpoint is not that of a jjq stream: use the right one, or begin with a new folder"
            )
        numbers = [document.get(name) for name in ("final", "bytes", "elements")]
        cut = Cut(*numbers) if all(type(number) is int for number in numbers) else None  # type: ignore[arg-type]
        return cls(offset, queue, start, cut)


def plan_cut(view: View, span: OffsetSpan) -> Cut:
    """How to cut a new batch, by what the queue is now."""
    final = max(span.start, min(span.end, view.final_offset))
    stored = sum(part.block.stored_bytes for part in view.slices(OffsetSpan(span.start, final)))
    most = min(view.options.partition_bytes, max(PARTITION_BYTES_MIN, stored // PARTITIONS_MIN))
    return Cut(final, most, HOT_PARTITION_ELEMENTS)


def pieces(view: View, span: OffsetSpan, cut: Cut) -> Iterator[OffsetSpan]:
    """`span` in order, without gap or overlap."""
    final = max(span.start, min(span.end, cut.final, view.final_offset))
    yield from _by_bytes(view.slices(OffsetSpan(span.start, final)), cut.bytes)
    for first in range(final, span.end, cut.elements):
        yield OffsetSpan(first, min(first + cut.elements, span.end))


def _by_bytes(slices: list[Slice], most: int) -> Iterator[OffsetSpan]:
    start, taken = slices[0].start if slices else 0, 0
    for part in slices:
        if taken and taken + part.block.stored_bytes > most:
            yield OffsetSpan(start, part.start)
            start, taken = part.start, 0
        taken += part.block.stored_bytes
    if slices:
        yield OffsetSpan(start, slices[-1].end)


def plan_partitions(view: View, span: OffsetSpan, cut: Cut, wanted: pa.Schema) -> list[Partition]:
    """One partition for each piece, with the places where its elements are now."""
    return [_join_partitions(view.partitions(piece, wanted)) for piece in pieces(view, span, cut)]


def _join_partitions(parts: list[Partition]) -> Partition:
    tails = [part.tail for part in parts if part.tail is not None]
    return Partition(
        parts[0].source,
        slices=tuple(chain.from_iterable(part.slices for part in parts)),
        tail=(tails[0][0], tails[-1][1]) if tails else None,
    )
