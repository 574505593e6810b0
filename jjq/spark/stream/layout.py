"""A batch of a stream, cut into what single tasks read: the same cut whenever it is asked for.

Final blocks stay as they are for ever, so they are cut where blocks end, by their bytes. What comes after
them may be young now and final later, hot now and cold later: it is cut by count, and each piece is read
from wherever its elements are when it is planned.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from jjq.spark.limits import HOT_PARTITION_ELEMENTS, PARTITION_BYTES_MIN, PARTITIONS_MIN
from jjq.spark.scan.partition import Partition, Slice
from jjq.spark.scan.plan import Span, View
from jjq.spark.stream.progress import Cut


def plan_cut(view: View, span: Span) -> Cut:
    """How to cut a new batch, by what the queue is now."""
    final = max(span.start, min(span.end, view.final_offset))
    stored = sum(part.block.stored_bytes for part in view.slices(Span(span.start, final)))
    most = min(view.options.partition_bytes, max(PARTITION_BYTES_MIN, stored // PARTITIONS_MIN))
    return Cut(final, most, HOT_PARTITION_ELEMENTS)


def pieces(view: View, span: Span, cut: Cut) -> Iterator[Span]:
    """`span` in order, without gap or overlap."""
    final = max(span.start, min(span.end, cut.final, view.final_offset))
    yield from _by_bytes(view.slices(Span(span.start, final)), cut.bytes)
    for first in range(final, span.end, cut.elements):
        yield Span(first, min(first + cut.elements, span.end))


def _by_bytes(slices: list[Slice], most: int) -> Iterator[Span]:
    start, taken = slices[0].start if slices else 0, 0
    for part in slices:
        if taken and taken + part.block.stored_bytes > most:
            yield Span(start, part.start)
            start, taken = part.start, 0
        taken += part.block.stored_bytes
    if slices:
        yield Span(start, slices[-1].end)


def partitions(view: View, span: Span, cut: Cut, wanted: pa.Schema) -> list[Partition]:
    """One partition for each piece, with the places where its elements are now."""
    return [_joined(view.partitions(piece, wanted)) for piece in pieces(view, span, cut)]


def _joined(parts: list[Partition]) -> Partition:
    tails = [part.tail for part in parts if part.tail is not None]
    return Partition(
        parts[0].source,
        slices=tuple(chain.from_iterable(part.slices for part in parts)),
        tail=(tails[0][0], tails[-1][1]) if tails else None,
    )
