"""The work of one task of a read. The driver pickles it, an executor runs it.

A partition holds parts of cold blocks, or a range that is read from a server. A block's sha256 is checked
before the block is parsed. Then it is decoded row group by row group, so a task holds the stored block and
one decoded row group in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from coldstore.block.files import BlockFiles
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.queue_settings import QueueSettings
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import DataLoss
from jjq.spark import cold
from jjq.spark.errors import report
from jjq.spark.options import Options


class Times(NamedTuple):
    """ScanBounds of timestamps, in microseconds since 1970, both included."""

    since_us: int
    until_us: int

    def touch(self, least_us: int, most_us: int) -> bool:
        """Whether some time of `least_us`..`most_us` may lie inside."""
        return least_us <= self.until_us and most_us >= self.since_us


class Slice(NamedTuple):
    """The elements `start`..`end` (exclusive) of a cold block."""

    block: BlockMetadata
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PartitionSource:
    """Where the elements of a partition come from, and the columns they are wanted in."""

    options: Options
    settings: QueueSettings
    wanted: pa.Schema
    times: Times | None = None  # row groups without an element of these times may be left out


class Partition(InputPartition):
    """The work of one task: parts of cold blocks, or the elements `tail` of a server."""

    def __init__(
        self, source: PartitionSource, slices: tuple[Slice, ...] = (), tail: tuple[int, int] | None = None
    ) -> None:
        super().__init__(None)
        self.source = source
        self.slices = slices
        self.tail = tail

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The elements, in order; called on an executor."""
        wanted = self.source.wanted
        for part in self.slices:
            for table in self._cold(part):
                yield from (_conform(batch, wanted) for batch in table.to_batches() if batch.num_rows)
        if self.tail is not None:
            for batch in self._hot(*self.tail):
                yield _conform(batch, wanted)

    def _cold(self, part: Slice) -> Iterator[pa.Table]:
        try:
            yield from self._block(part)
        except DataLoss as loss:
            if self.source.options.on_damage == "fail":
                raise
            report(self.source.settings.name, part.start, part.end, loss)

    def _block(self, part: Slice) -> Iterator[pa.Table]:
        block, columns = part.block, self.source.wanted.names
        files = BlockFiles(
            cold.objects(self.source.options.root or "", self.source.options.s3), self.source.settings
        )
        try:
            file = files.open(block, files.data(block))
        except DataLoss:
            if block.kind == "final":
                raise
            # A young block may have been merged and swept since the plan was made.
            queue = ColdQueue(files, SystemClock(), SystemChance())
            yield queue.read_block(block, part.start, part.end, columns)
            return
        origin = block.file_first
        for low, high in file.runs(part.start - origin, part.end - origin, self.source.times):
            yield file.read(low, high, columns)

    def _hot(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        # Imported here: it brings gRPC, which reading the cold store does not need.
        from jjq.spark.server import ServerConnection

        options = self.source.options
        with ServerConnection(options.server or "", options.tls, options.timeout, task=True) as server:
            yield from server.read(self.source.settings.name, start, end)


def _conform(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    columns = [batch.column(field.name).cast(field.type) for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
