"""A range of a queue, cut into pieces for tasks. An executor reads a piece block by block.

A file of its own, although small: stats and export share it, and executors load it without the planner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from coldstore.block.read import COLUMNS
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.settings import S3Settings
from coldstore.shared import batch
from jjq.spark.options import Options
from jjq.spark.scan.partition import Partition, PartitionSource, Slice


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Elements `start`..`end` (exclusive) of a queue in a cold store, cut into `pieces`."""

    options: Options
    settings: QueueSettings
    start: int
    end: int
    pieces: tuple[tuple[Slice, ...], ...]

    def blocks(self, piece: Sequence[Slice], columns: Sequence[str] = COLUMNS) -> Iterator[pa.Table]:
        """On an executor: the elements of a piece, a table for each part of a block."""
        wanted = batch.schema(self.settings.content)
        wanted = pa.schema([wanted.field(name) for name in columns])
        source = PartitionSource(self.options, self.settings, wanted)
        for part in piece:
            yield pa.Table.from_batches(Partition(source, (part,)).batches(), schema=wanted)


def find(
    root: str,
    s3: S3Settings,
    queue: str,
    start: str = "beginning",
    end: str = "end",
    known: tuple[int, int] | None = None,
) -> OffsetRange:
    """The range that starting points mean now, or the `known` one."""
    from jjq.spark.scan.plan import OffsetSpan, View  # asks servers, too: executors need not load that

    options = Options(queue=queue, root=root, start=start, end=end, s3=s3)
    with closing(View(options)) as view:
        span = view.span() if known is None else OffsetSpan(*known)
        found = view.partitions(span, batch.schema(view.settings.content))
        return OffsetRange(options, view.settings, span.start, span.end, tuple(each.slices for each in found))
