"""Plan a read: from a queue's name to what each task reads.

The range of offsets is decided first, once. Blocks that are cold by then are read from the cold store,
without those that their metadata rules out. The rest is read from the server, by offsets. So a block that is
sealed meanwhile is neither read twice nor left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from coldstore import start_points
from coldstore.block.files import BlockFiles
from coldstore.layout.queue_settings import QueueSettings
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from coldstore.shared.results import QueueInfo
from coldstore.store import ColdStore
from jjq.client.loop_thread import portal
from jjq.spark import cold
from jjq.spark.limits import HOT_PARTITION_ELEMENTS, PARTITION_BYTES_MIN, PARTITIONS_MIN
from jjq.spark.options import Options
from jjq.spark.scan.partition import Partition, PartitionSource, Slice, Times

if TYPE_CHECKING:
    from jjq.spark.server import ServerConnection

_SERVER_KINDS: Final = frozenset({"time", "ago", "subscriber"})  # starting points that a server resolves


class OffsetSpan(NamedTuple):
    """A range of offsets, `end` excluded."""

    start: int
    end: int


class View:
    """A queue as a query sees it: up to `next_offset`, which moves only by `refresh`. Close it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._server = _connect(options)
        self._clock = SystemClock()
        try:
            info = None if self._server is None else self._server.queue(options.queue)
            self._cold = None if options.root is None else _open(options, info)
        except BaseException:
            self.close()
            raise
        self.settings = self._cold.settings if self._cold is not None else _settings(info)
        self.first_offset = 0 if info is None else info.first_offset
        self.next_offset = self._cold.next_offset if info is None else info.next_offset  # type: ignore[union-attr]

    def refresh(self) -> int:
        """Look again; the offset after the last element that is there now."""
        if self._server is not None:
            found = self._server.queue(self.settings.name).next_offset
            if found == self.next_offset:
                return found
            self.next_offset = found
        if self._cold is not None:
            found = self._cold.refresh().next_offset
            if self._server is None:
                self.next_offset = found
        return self.next_offset

    @property
    def final_offset(self) -> int:
        """Everything before it is in final blocks, which never change."""
        return 0 if self._cold is None else self._cold.list_blocks().final_next

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    # Starting points ------------------------------------------------------------------------------

    def resolve(self, point: str) -> int:
        """The offset that a starting point means, at most `next_offset`."""
        start = start_points.parse(point)
        if self._server is not None and start.kind in _SERVER_KINDS:
            return min(self._server.resolve(self.settings.name, point).offset, self.next_offset)
        return portal().run(start_points.resolve(start, self)).offset

    def span(self) -> OffsetSpan:
        """The range that the options ask for."""
        start, end = self.resolve(self.options.start), self.resolve(self.options.end)
        if start > end:
            raise InvalidInput(
                f"start {self.options.start} is offset {start}, after end {self.options.end}, "
                f"which is {end}: swap or correct them"
            )
        return OffsetSpan(start, end)

    def now_us(self) -> int:
        return self._clock.now_us()

    async def offset_at(self, timestamp_us: int) -> int | None:
        if self._cold is None or (block := self._cold.block_at(timestamp_us)) is None:
            return None
        times = self._cold.read_block(block, columns=["timestamp"]).column("timestamp")
        late = np.asarray(times.cast(pa.int64())) >= timestamp_us
        return block.first + int(late.argmax())

    async def timestamp_of(self, offset: int) -> int | None:
        return None  # a plan needs no timestamps, and one costs reading a block

    def position_of(self, subscriber: str) -> int:
        raise InvalidInput(
            f"subscriber:{subscriber} needs option server: the cold store does not know subscribers"
        )

    @property
    def files(self) -> BlockFiles:
        """The queue's files in the cold store."""
        if self.options.root is None:
            raise AssertionError("options have no root")
        return BlockFiles(cold.objects(self.options.root, self.options.s3), self.settings)

    @property
    def cold_next(self) -> int:
        """The offset after the cold blocks."""
        return 0 if self._cold is None else self._cold.next_offset

    # What to read ---------------------------------------------------------------------------------

    def slices(self, span: OffsetSpan, times: Times | None = None) -> list[Slice]:
        """The parts of cold blocks inside `span`, without blocks that have no element within `times`."""
        if self._cold is None:
            return []
        blocks = self._cold.list_blocks()
        end = min(span.end, blocks.next_offset)
        if span.start >= end:
            return []
        wanted = blocks[blocks.index_for(span.start) : blocks.index_for(end - 1) + 1]
        return [
            Slice(block, max(span.start, block.first), min(end, block.next))
            for block in wanted
            if times is None or times.touch(block.min_timestamp_us, block.max_timestamp_us)
        ]

    def partitions(self, span: OffsetSpan, wanted: pa.Schema, times: Times | None = None) -> list[Partition]:
        """`span` cut into pieces for tasks: cold blocks by bytes, the rest from the server by count."""
        source = PartitionSource(self.options, self.settings, wanted, times)
        runs = _runs(self.slices(span, times), self.options.partition_bytes)
        cold_parts = [Partition(source, slices=tuple(run)) for run in runs]
        return cold_parts + [Partition(source, tail=tail) for tail in self._tails(span)]

    def _tails(self, span: OffsetSpan) -> Iterator[tuple[int, int]]:
        if self._server is None:
            return
        start = max(span.start, self.cold_next)
        for first in range(start, span.end, HOT_PARTITION_ELEMENTS):
            yield first, min(first + HOT_PARTITION_ELEMENTS, span.end)


def _runs(slices: list[Slice], most: int) -> Iterator[list[Slice]]:
    """Consecutive slices of about `most` stored bytes together; less if there would be few tasks otherwise."""
    total = sum(part.block.stored_bytes for part in slices)
    most = min(most, max(PARTITION_BYTES_MIN, total // PARTITIONS_MIN))
    run: list[Slice] = []
    taken = 0
    for part in slices:
        if run and taken + part.block.stored_bytes > most:
            yield run
            run, taken = [], 0
        run.append(part)
        taken += part.block.stored_bytes
    if run:
        yield run


def _connect(options: Options) -> ServerConnection | None:
    if options.server is None:
        return None
    from jjq.spark.server import ServerConnection  # brings gRPC, which the cold store does not need

    return ServerConnection(options.server, options.tls, options.timeout)


def _open(options: Options, info: QueueInfo | None) -> ColdQueue:
    """The queue in the cold store; the same one that the server has, where there is a server."""
    root = options.root or ""
    found = cold.store(root, options.s3)
    queue = found.open_queue(_find_name(found, options.queue if info is None else info.name))
    if info is not None and info.id != queue.settings.id:
        raise Conflict(
            f"queue {info.name} of {options.server} is another one than that in {root}: correct root or server"
        )
    return queue


def _find_name(store: ColdStore, queue: str) -> str:
    """The name of a queue that is given by name or id."""
    try:
        store.objects.head(f"queues/{queue}/queue.json")
    except NotFound:
        return _find_by_id(store.list_queues(), queue)
    return queue


def _find_by_id(queues: Iterable[QueueSettings], queue: str) -> str:
    return next((known.name for known in queues if known.id == queue), queue)


def _settings(info: QueueInfo | None) -> QueueSettings:
    if info is None:
        raise AssertionError("options have neither root nor server")
    return QueueSettings(
        info.name, info.id, info.content, info.block_bytes, info.block_seconds, info.created_us
    )
