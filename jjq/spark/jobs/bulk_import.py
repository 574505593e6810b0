"""`import`: history from elsewhere becomes final blocks of a new or idle queue; all of it, or nothing.

    check     one pass over the source: nulls, types, number of rows
    sort      by range: the rows of partition n come before those of partition n + 1. Each partition is sorted and kept
              on the executors' disks. Ties are broken by the rest of the row, so a repeated task gives the same
              elements the same offsets (equal rows aside)
    count     elements and bytes of each partition: these give its first offset and its number of blocks
    stage     every partition encodes its blocks and puts them where no reader looks
    publish   in order; then all are shown at once (coldstore/queue/bulk_import.py says how, and why that is safe)

An error before the end takes everything back. After a crash, run the import again: it takes over what was
left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from coldstore.block.draft import make_draft
from coldstore.layout.metadata import BlockMetadata
from coldstore.objects.settings import S3Settings
from coldstore.queue import bulk_import
from coldstore.queue.bulk_import import Staged, Ticket
from coldstore.shared import batch, limits
from coldstore.shared.batch import Content
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound
from coldstore.store import ColdStore
from jjq.spark import cold
from jjq.spark.cold import store_or_new
from jjq.spark.jobs import tasks
from jjq.spark.jobs.import_columns import ROW_BYTES, Shape, check_rows
from jjq.spark.jobs.tasks import Failures, Progress, silent
from jjq.spark.limits import IMPORT_BLOCKS, IMPORT_PARTITIONS_MAX, PUBLISH_BLOCKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COUNTED = "partition int, count long, bytes long"
_STAGED = (
    "first long, last long, min_timestamp_us long, max_timestamp_us long, stored_bytes long, raw_bytes long, "
    "sha256 string"
)


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: elements `first`..`next` (exclusive)."""

    queue: str
    first: int
    next: int
    blocks: int
    stored_bytes: int
    chain: str


class ImportShare(NamedTuple):
    """The blocks that one partition makes: of about `block_bytes` each, from offset `first` on."""

    first: int
    next: int
    block_bytes: float


def import_history(
    frame: DataFrame,
    root: str,
    queue: str,
    *,
    order: str | Sequence[str],
    value: str = "value",
    time: str | None = None,
    key: str | None = None,
    headers: str | None = None,
    content: Content | None = None,
    block_bytes: int | None = None,
    block_seconds: float | None = None,
    idle: bool = False,
    s3: S3Settings | None = None,
    progress: Callable[[str], Progress] = lambda _: silent,
) -> Imported:
    """Import the rows of `frame`, ordered by `order`, into a new queue, or into one that is `idle`.

    The other names are columns. Settings that are not given are those of the queue, or the usual ones.
    """
    shape = Shape(
        order=(order,) if isinstance(order, str) else tuple(order),
        value=value,
        time=time,
        key=key,
        headers=headers,
    )
    chosen = {"content": content, "block_bytes": block_bytes, "block_seconds": block_seconds}
    job = _Import(frame, root, s3 or S3Settings(), shape, progress)
    return job.run(queue, idle, {name: value for name, value in chosen.items() if value is not None})


class _Import:
    def __init__(
        self, frame: DataFrame, root: str, s3: S3Settings, shape: Shape, progress: Callable[[str], Progress]
    ) -> None:
        self._frame = frame
        self._spark: SparkSession = frame.sparkSession
        self._root = root
        self._s3 = s3
        self._shape = shape
        self._progress = progress
        self._now_us = SystemClock().now_us()

    def run(self, queue: str, idle: bool, chosen: dict[str, Any]) -> Imported:
        store = store_or_new(self._root, self._s3)
        content = chosen.get("content") or _content(store, queue)
        shaped = self._shape.frame(self._frame, content, self._now_us)
        ticket = store.begin_import(queue, idle=idle, **{**chosen, "content": content})
        try:
            blocks = self._stage(ticket, shaped)
            self._publish(ticket, blocks)
        except BaseException:
            _abandon(store, ticket)
            raise
        bulk_import.show(store.objects, ticket, blocks)
        bulk_import.forget(store.objects, ticket)
        last = blocks[-1]
        stored = sum(block.stored_bytes for block in blocks)
        return Imported(queue, ticket.first, last.next, len(blocks), stored, last.chain or "")

    def _stage(self, ticket: Ticket, shaped: DataFrame) -> list[BlockMetadata]:
        from pyspark.storagelevel import StorageLevel

        counted = tasks.run_watched(
            self._spark, "import", lambda: check_rows(shaped, self._shape), lambda: None
        )
        count, size = counted
        partitions = -(-size // (IMPORT_BLOCKS * ticket.settings.block_bytes))
        in_order = self._sort(shaped, max(1, min(partitions, count, IMPORT_PARTITIONS_MAX)))
        in_order.persist(StorageLevel.DISK_ONLY)
        try:
            shares = self._count(ticket, in_order, count)
            staged = self._encode(ticket, in_order, shares)
        finally:
            in_order.unpersist()
        blocks = bulk_import.chain_blocks(ticket, staged, SystemChance().token())
        if sum(block.count for block in blocks) != count:
            raise Conflict(
                "the source changed while it was imported: run it again on one that stays as it is"
            )
        return blocks

    def _sort(self, shaped: DataFrame, partitions: int) -> DataFrame:
        from pyspark.sql import functions as f

        order = self._shape.order_columns
        ties = ["timestamp", "key", "value", f.to_json("headers")]
        return (
            shaped.repartitionByRange(partitions, *order)
            .sortWithinPartitions(*order, *ties)
            .select("timestamp", "key", "value", "headers")
        )

    def _count(self, ticket: Ticket, in_order: DataFrame, count: int) -> dict[int, ImportShare]:
        """The share of each partition, after a check that every row can be an element."""
        failures = Failures(self._spark)
        content = ticket.settings.content

        def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return failures.guard(lambda: _measure(batches, content))

        counts = tasks.map_in_arrow(in_order, measure, _COUNTED)
        rows = tasks.run_watched(self._spark, "import", counts.collect, lambda: None)
        failures.raise_first()
        shares: dict[int, ImportShare] = {}
        first = ticket.first
        for row in sorted(rows):
            pieces = max(1, round(row["bytes"] / ticket.settings.block_bytes))
            shares[row["partition"]] = ImportShare(first, first + row["count"], row["bytes"] / pieces)
            first += row["count"]
        if first != ticket.first + count:
            raise Conflict(
                "the source changed while it was imported: run it again on one that stays as it is"
            )
        return shares

    def _encode(self, ticket: Ticket, in_order: DataFrame, shares: dict[int, ImportShare]) -> list[Staged]:
        failures = Failures(self._spark)
        done = self._spark.sparkContext.accumulator(0)
        root, s3 = self._root, self._s3

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for staged in failures.guard(lambda: _stage_blocks(batches, ticket, root, s3, shares)):
                done.add(staged.last - staged.first + 1)
                yield pa.RecordBatch.from_pylist([staged._asdict()])

        total = sum(share.next - share.first for share in shares.values())
        progress = self._progress("stage")
        rows = tasks.run_watched(
            self._spark,
            "import",
            tasks.map_in_arrow(in_order, stage, _STAGED).collect,
            lambda: progress(done.value, total),
        )
        failures.raise_first()
        return [Staged(*row) for row in rows]

    def _publish(self, ticket: Ticket, blocks: list[BlockMetadata]) -> None:
        progress = self._progress("publish")
        publish = partial(_publish_run, self._root, self._s3, ticket)
        for at in range(0, len(blocks), PUBLISH_BLOCKS):
            tasks.raise_failures(
                tasks.run(self._spark, "import", [blocks[at : at + PUBLISH_BLOCKS]], publish)
            )
            progress(min(at + PUBLISH_BLOCKS, len(blocks)), len(blocks))


def _content(store: ColdStore, queue: str) -> Content:
    """The content of a queue that exists; `bytes` for a new one."""
    try:
        return store.files(queue).settings.content
    except (NotFound, Conflict):
        return "bytes"


def _abandon(store: ColdStore, ticket: Ticket) -> None:
    """Take everything back, as far as that is possible; what stays, the next import takes over."""
    try:
        bulk_import.abandon(store.objects, ticket)
    except JjqError as error:
        tasks.LOG.warning("the import of queue %s could not be taken back: %s", ticket.settings.name, error)


def _publish_run(root: str, s3: S3Settings, ticket: Ticket, run: Sequence[BlockMetadata]) -> None:
    bulk_import.publish(cold.objects(root, s3), ticket, run)


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _measure(batches: Iterator[pa.RecordBatch], content: Content) -> Iterator[pa.RecordBatch]:
    count = size = 0
    for rows in _payloads(batches, content):
        sizes = batch.element_bytes(rows.payload)
        count += len(sizes)
        size += int(sizes.sum()) + ROW_BYTES * len(sizes)
    if count:
        yield pa.RecordBatch.from_pylist(
            [{"partition": _partition(), "count": count, "bytes": size}], schema=_COUNT
        )


_COUNT = pa.schema([("partition", pa.int32()), ("count", pa.int64()), ("bytes", pa.int64())])


class _Rows(NamedTuple):
    payload: pa.RecordBatch
    timestamps_us: np.ndarray[Any, np.dtype[np.int64]]


def _payloads(batches: Iterator[pa.RecordBatch], content: Content) -> Iterator[_Rows]:
    """The rows as payloads of a queue, checked like pushes. An error names the row, in sorted order."""
    seen = 0
    for rows in batches:
        for part in _split(rows.select(["key", "value", "headers"])):
            try:
                payload = batch.check_payload(part.rows, content)
            except InvalidInput as error:
                at = part.start + (error.position or 0)
                raise InvalidInput(f"row {seen + at} of partition {_partition()}: {error.message}") from None
            times = (
                rows.column("timestamp").slice(part.start, payload.num_rows).to_numpy(zero_copy_only=False)
            )
            yield _Rows(payload, np.ascontiguousarray(times, dtype=np.int64))
        seen += rows.num_rows


class _Part(NamedTuple):
    rows: pa.RecordBatch
    start: int


def _split(rows: pa.RecordBatch, start: int = 0) -> Iterator[_Part]:
    """Pieces within the limits of one push."""
    big = rows.nbytes > limits.BATCH_BYTES_MAX // 2 or rows.num_rows > limits.BATCH_ELEMENTS_MAX
    if big and rows.num_rows > 1:
        half = rows.num_rows // 2
        yield from _split(rows.slice(0, half), start)
        yield from _split(rows.slice(half), start + half)
    elif rows.num_rows:
        yield _Part(rows, start)


def _stage_blocks(
    batches: Iterator[pa.RecordBatch],
    ticket: Ticket,
    root: str,
    s3: S3Settings,
    shares: dict[int, ImportShare],
) -> Iterator[Staged]:
    """Encode and put the blocks of a partition, one after the other: one of them is in memory at a time."""
    share = shares.get(_partition())
    if share is None:
        return
    objects = cold.objects(root, s3)
    content = ticket.settings.content
    for run in _cut(_payloads(batches, content), share):
        yield bulk_import.stage(objects, ticket, make_draft(pa.Table.from_batches(run), content))


def _cut(rows: Iterator[_Rows], share: ImportShare) -> Iterator[list[pa.RecordBatch]]:
    """Element batches, grouped into blocks of about `block_bytes`; offsets from `first` on."""
    offset, taken, goal = share.first, 0.0, share.block_bytes
    run: list[pa.RecordBatch] = []
    for payload, times in rows:
        elements = batch.stamp_each(payload, offset, times)
        offset += payload.num_rows
        ends = taken + np.cumsum(batch.element_bytes(payload) + ROW_BYTES)
        start = 0
        while start < payload.num_rows:
            stop = min(int(np.searchsorted(ends, goal)) + 1, payload.num_rows)
            run.append(elements.slice(start, stop - start))
            if ends[stop - 1] >= goal and offset - payload.num_rows + stop < share.next:
                yield run
                run, goal = [], goal + share.block_bytes
            start = stop
        taken = float(ends[-1])
    if run:
        yield run
