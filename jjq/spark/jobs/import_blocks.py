"""What a task of an import does with its rows: check them like pushes, cut them into blocks, put these.

Rows come in order, as Arrow batches with the columns timestamp, key, value and perhaps headers, from Spark or from
direct_import.py. One block of a task is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from coldstore.block.draft import make_draft
from coldstore.objects.settings import S3Settings
from coldstore.queue import bulk_import
from coldstore.queue.bulk_import import Staged, Ticket
from coldstore.shared import batch, limits, lists
from coldstore.shared.batch import Content
from coldstore.shared.errors import InvalidInput
from jjq.spark import cold
from jjq.spark.jobs.import_columns import ROW_BYTES


class ImportShare(NamedTuple):
    """The blocks that one partition makes: of about `block_bytes` each, from offset `first` on."""

    first: int
    next: int
    block_bytes: float


def partition_id() -> int:
    """The number of the partition that this task works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


class _Rows(NamedTuple):
    payload: pa.RecordBatch
    timestamps_us: np.ndarray[Any, np.dtype[np.int64]]


def _payloads(batches: Iterator[pa.RecordBatch], content: Content) -> Iterator[_Rows]:
    """The rows as payloads of a queue, checked like pushes. An error names the row, in sorted order."""
    seen = 0
    for rows in batches:
        for part in _split(rows.drop_columns("timestamp")):
            try:
                payload = batch.check_payload(part.rows, content)
            except InvalidInput as error:
                at = part.start + (error.position or 0)
                raise InvalidInput(
                    f"row {seen + at} of partition {partition_id()}: {error.message}"
                ) from None
            times = rows.column("timestamp").slice(part.start, payload.num_rows)
            yield _Rows(payload, lists.numbers(times))
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


def stage_blocks(
    batches: Iterator[pa.RecordBatch],
    ticket: Ticket,
    root: str,
    s3: S3Settings,
    shares: dict[int, ImportShare],
) -> Iterator[Staged]:
    """Encode and put the blocks of a partition, one after the other: one of them is in memory at a time."""
    share = shares.get(partition_id())
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
