"""`compact`: merge the young blocks of many queues into final ones, one task for each queue.

Writers may be live meanwhile. If others merge or write at the same time, the commit protocol
(coldstore/queue/commit.py) decides, and the later one finds the block there. A job that is killed leaves a
file that the next merge adopts. A task holds the elements of one block at a time, however much it merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from coldstore.objects.settings import S3Settings
from jjq.spark import cold
from jjq.spark.jobs import tasks
from jjq.spark.jobs.tasks import Failure, Progress, silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result for one queue."""

    queue: str
    young: int = 0  # blocks there were
    left: int = 0  # … and are, not due yet or just written
    blocks: int = 0  # final blocks that this job wrote
    elements: int = 0
    stored_bytes: int = 0
    error: str | None = None


def compact(
    spark: SparkSession,
    root: str,
    queues: Sequence[str] = (),
    *,
    everything: bool = False,
    s3: S3Settings | None = None,
    progress: Progress = silent,
) -> list[Compacted]:
    """Merge what is due in these queues, or in all; `everything`: also what is not due yet."""
    s3 = s3 or S3Settings()
    check_queues(root, queues, s3)
    names = list(queues) or cold.store(root, s3).queue_names()
    work = partial(compact_queue, root, s3, everything)
    results = tasks.run(spark, "compact", names, work, progress)
    return [
        Compacted(name, error=found.message) if isinstance(found, Failure) else found
        for name, found in zip(names, results, strict=True)
    ]


def check_queues(root: str, queues: Sequence[str], s3: S3Settings) -> None:
    """Raise `NotFound` for an unknown name before any work begins."""
    store = cold.store(root, s3)
    for name in queues:
        store.files(name)


def compact_queue(root: str, s3: S3Settings, everything: bool, name: str) -> Compacted:
    """One task."""
    queue = cold.store(root, s3).open_queue(name)
    young = len(queue.list_blocks().young)
    merged = queue.merge(everything=everything)
    return Compacted(
        name,
        young,
        len(queue.list_blocks().young),
        len(merged),
        sum(block.count for block in merged),
        sum(block.stored_bytes for block in merged),
    )
