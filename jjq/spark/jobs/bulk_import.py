"""`import`: history from elsewhere becomes final blocks of a new or idle queue; all of it, or nothing.

    check     one pass over the source: nulls, types, number of rows
    sort      by range: the rows of partition n come before those of partition n + 1. Each partition is sorted and kept
              on the executors' disks. Ties are broken by the rest of the row, so a repeated task gives the same
              elements the same offsets (equal rows aside)
    count     elements and bytes of each partition: these give its first offset and its number of blocks. One partition
              has all that the check counted, so it is neither counted nor kept
    stage     every partition checks its rows like pushes, encodes its blocks and puts them where no reader looks
    publish   in order; then all are shown at once (coldstore/queue/bulk_import.py says how, and why that is safe)

An error before the end takes everything back. After a crash, run the import again: it takes over what was
left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from coldstore.layout.metadata import BlockMetadata
from coldstore.objects.settings import S3Settings
from coldstore.queue import bulk_import
from coldstore.queue.bulk_import import Staged, Ticket
from coldstore.shared.batch import Content
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, JjqError, NotFound
from coldstore.store import ColdStore
from jjq.spark import cold
from jjq.spark.cold import store_or_new
from jjq.spark.jobs import tasks
from jjq.spark.jobs.direct_import import DirectPlan, files_of_frame, plan_direct, read_direct
from jjq.spark.jobs.import_blocks import ImportShare, partition_id, stage_blocks
from jjq.spark.jobs.import_columns import (
    HEADERS,
    Counted,
    Format,
    Shape,
    TimeUnit,
    check_rows,
    read,
    row_bytes,
)
from jjq.spark.jobs.tasks import Failures, Progress, silent
from jjq.spark.limits import IMPORT_BLOCKS, IMPORT_PARTITIONS_MAX, PUBLISH_BLOCKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

R = TypeVar("R")

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
    time_unit: TimeUnit | None = None,
    content: Content | None = None,
    block_bytes: int | None = None,
    block_seconds: float | None = None,
    idle: bool = False,
    s3: S3Settings | None = None,
    progress: Callable[[str], Progress] = lambda _: silent,
) -> Imported:
    """Import the rows of `frame`, ordered by `order`, into a new queue, or into one that is `idle`.

    The other names are columns. `time_unit` says what times that are numbers count: s, ms or us since 1970.
    Settings that are not given are those of the queue, or the usual ones.
    """
    shape = Shape(
        order=(order,) if isinstance(order, str) else tuple(order),
        value=value,
        time=time,
        key=key,
        headers=headers,
        time_unit=time_unit,
    )
    chosen = {"content": content, "block_bytes": block_bytes, "block_seconds": block_seconds}
    job = _Import(frame.sparkSession, lambda: frame, root, s3 or S3Settings(), shape, progress)
    asked = {name: value for name, value in chosen.items() if value is not None}
    return job.run(queue, idle, asked, *(files_of_frame(frame) or ()))


def import_files(
    spark: SparkSession,
    sources: Sequence[str],
    format: Format,
    root: str,
    queue: str,
    shape: Shape,
    *,
    idle: bool,
    s3: S3Settings,
    progress: Callable[[str], Progress],
    **chosen: Any,
) -> Imported:
    """As `import_history`, of files. Small ones of Parquet are read by one task, not by Spark (direct_import.py)."""
    text = {name for name in (shape.value, shape.key) if name is not None}
    job = _Import(spark, lambda: read(spark, sources, format, text), root, s3, shape, progress)
    direct = sources if format == "parquet" else ()
    asked = {name: value for name, value in chosen.items() if value is not None}
    return job.run(queue, idle, asked, direct)


class _Import:
    def __init__(
        self,
        spark: SparkSession,
        frame: Callable[[], DataFrame],
        root: str,
        s3: S3Settings,
        shape: Shape,
        progress: Callable[[str], Progress],
    ) -> None:
        self._spark = spark
        self._read = frame
        self._root = root
        self._s3 = s3
        self._shape = shape
        self._progress = progress
        self._now_us = SystemClock().now_us()

    def run(
        self,
        queue: str,
        idle: bool,
        chosen: dict[str, Any],
        files: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> Imported:
        store = store_or_new(self._root, self._s3)
        content = chosen.get("content") or content_of(store, queue)
        plan = plan_direct(files, self._shape, content, self._now_us, self._s3, kinds) if files else None
        rows = None if plan is not None else self._shaped(content)
        ticket = store.begin_import(queue, idle=idle, **{**chosen, "content": content})
        try:
            blocks = None if plan is None else self._stage_directly(ticket, plan)
            if blocks is None:
                blocks = self._stage(ticket, *(rows or self._shaped(content)))
            self._publish(ticket, blocks)
        except BaseException:
            _abandon(store, ticket)
            raise
        bulk_import.show(store.objects, ticket, blocks)
        bulk_import.forget(store.objects, ticket)
        last = blocks[-1]
        stored = sum(block.stored_bytes for block in blocks)
        return Imported(queue, ticket.first, last.next, len(blocks), stored, last.chain or "")

    def _shaped(self, content: Content) -> tuple[DataFrame, DataFrame]:
        """The source, and its rows with the columns of elements."""
        source = self._read()
        return source, self._shape.frame(source, content, self._now_us)

    def _stage_directly(self, ticket: Ticket, plan: DirectPlan) -> list[BlockMetadata] | None:
        progress = self._progress("stage")
        progress(0, plan.rows)
        work = partial(_stage_rows, self._root, self._s3, ticket)
        staged = tasks.run_one(self._spark, "import", plan, work)
        if staged is None:
            return None
        progress(plan.rows, plan.rows)
        return _chain(ticket, staged, plan.rows)

    def _stage(self, ticket: Ticket, source: DataFrame, shaped: DataFrame) -> list[BlockMetadata]:
        from pyspark.storagelevel import StorageLevel

        checked = self._watch("check", lambda: check_rows(shaped, self._shape, source))
        partitions = self._partitions(ticket, checked)
        in_order = self._sort(shaped, partitions)
        if partitions == 1:
            staged = self._encode(ticket, in_order, _share_out(ticket, [(0, checked)]))
        else:
            in_order.persist(StorageLevel.DISK_ONLY)
            try:
                staged = self._encode(ticket, in_order, self._count(ticket, in_order, checked.rows))
            finally:
                in_order.unpersist()
        return _chain(ticket, staged, checked.rows)

    def _partitions(self, ticket: Ticket, checked: Counted) -> int:
        """So many that a task makes few blocks, and that no processor is idle; but no block is cut for that."""
        block_bytes = ticket.settings.block_bytes
        needed = -(-checked.size // (IMPORT_BLOCKS * block_bytes))
        useful: int = min(self._spark.sparkContext.defaultParallelism, checked.size // block_bytes)
        return max(1, min(max(needed, useful), checked.rows, IMPORT_PARTITIONS_MAX))

    def _watch(self, step: str, job: Callable[[], R]) -> R:
        """Run a job of Spark's that counts nothing while it runs; its step is shown."""
        progress = self._progress(step)
        return tasks.run_watched(self._spark, "import", job, lambda: progress(0, 0))

    def _sort(self, shaped: DataFrame, partitions: int) -> DataFrame:
        from pyspark.sql import functions as f

        order = self._shape.order_columns
        ties: list[Any] = ["timestamp", "key", "value"]
        kept = ["timestamp", "key", "value"]
        if HEADERS in shaped.columns:
            ties.append(f.to_json(HEADERS))
            kept.append(HEADERS)
        return shaped.repartitionByRange(partitions, *order).sortWithinPartitions(*order, *ties).select(*kept)

    def _count(self, ticket: Ticket, in_order: DataFrame, count: int) -> dict[int, ImportShare]:
        """The share of each partition. It is counted where the rows are; Python workers see them once, later."""
        from pyspark.sql import functions as f

        counts = in_order.groupBy(f.spark_partition_id().alias("partition")).agg(
            f.count("*").alias("count"), f.sum(row_bytes(in_order)).alias("bytes")
        )
        rows = self._watch("sort", counts.collect)
        if sum(row["count"] for row in rows) != count:
            raise _changed()
        return _share_out(
            ticket, [(row["partition"], Counted(row["count"], row["bytes"])) for row in sorted(rows)]
        )

    def _encode(self, ticket: Ticket, in_order: DataFrame, shares: dict[int, ImportShare]) -> list[Staged]:
        failures = Failures(self._spark)
        done = self._spark.sparkContext.accumulator(0)
        root, s3 = self._root, self._s3

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for staged in failures.guard(lambda: stage_blocks(batches, ticket, root, s3, shares)):
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
            tasks.run_one(self._spark, "import", blocks[at : at + PUBLISH_BLOCKS], publish)
            progress(min(at + PUBLISH_BLOCKS, len(blocks)), len(blocks))


def _share_out(ticket: Ticket, counted: Iterable[tuple[int, Counted]]) -> dict[int, ImportShare]:
    """Offsets for the partitions, which come in order."""
    shares: dict[int, ImportShare] = {}
    first = ticket.first
    for partition, (count, size) in counted:
        pieces = max(1, round(size / ticket.settings.block_bytes))
        shares[partition] = ImportShare(first, first + count, size / pieces)
        first += count
    return shares


def _chain(ticket: Ticket, staged: Sequence[Staged], rows: int) -> list[BlockMetadata]:
    blocks = bulk_import.chain_blocks(ticket, staged, SystemChance().token())
    if sum(block.count for block in blocks) != rows:
        raise _changed()
    return blocks


def _changed() -> Conflict:
    return Conflict("the source changed while it was imported: run it again on one that stays as it is")


def check_queue(root: str, queue: str, idle: bool, s3: S3Settings, **chosen: Any) -> None:
    """Refuse what `import_history` would refuse of store and queue, before Spark starts; nothing is changed."""
    store = store_or_new(root, s3)
    asked = {name: value for name, value in chosen.items() if value is not None}
    store.check_import(
        queue, idle=idle, **{**asked, "content": asked.get("content") or content_of(store, queue)}
    )


def content_of(store: ColdStore, queue: str) -> Content:
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


def _stage_rows(root: str, s3: S3Settings, ticket: Ticket, plan: DirectPlan) -> list[Staged] | None:
    """In a task: read, sort and stage all rows of an import; None if Spark must."""
    rows = read_direct(plan)
    if rows is None:
        return None
    shares = {partition_id(): next(iter(_share_out(ticket, [(0, rows.counted)]).values()))}
    return list(stage_blocks(iter(rows.batches), ticket, root, s3, shares))
