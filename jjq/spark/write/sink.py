"""`write` and `writeStream.format("jjq")`: rows are pushed from the executors, each once.

A task has an identity that is the same whenever it runs again (pushes.py):

    a stream   its query's id, which the checkpoint holds; the batch; the partition
    a job      option `producer`, or a name that was made up when the job was planned; the partition

Elements are in the queue as soon as they are pushed, in no order between tasks. There is no way to take them
back: a job that fails half-way leaves what its tasks have pushed, and adds the rest when it is run again under
the same identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from coldstore.shared.batch import Content
from coldstore.shared.chance import SystemChance
from coldstore.shared.errors import InvalidInput
from coldstore.shared.results import Stage
from jjq.spark.errors import one_line
from jjq.spark.limits import PRODUCER_CHARS_MAX
from jjq.spark.options import Options
from jjq.spark.server import ServerConnection
from jjq.spark.write.payload import check_columns, payloads
from jjq.spark.write.pushes import Pushes, PushTask

if TYPE_CHECKING:
    from jjq.remote.settings import ClientTls

# Names of what Spark tells every task of a streaming query.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class WriteCounts(WriterCommitMessage):
    """What a task did: elements that it pushed, and those that an earlier attempt had pushed."""

    pushed: int
    found: int


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """The queue to write to, which was there and takes these columns when the write was planned."""

    server: str
    tls: ClientTls | None
    queue: str
    content: Content
    stage: Stage
    timeout: float

    @classmethod
    def planned(cls, options: Options, stage: str, schema: StructType) -> SinkTarget:
        if not options.server:
            raise InvalidInput(
                "writing needs option server: elements are pushed, blocks are the server's to make"
            )
        if stage not in get_args(Stage):
            raise InvalidInput(f"stage is {stage!r}: use one of {', '.join(get_args(Stage))}")
        with ServerConnection(options.server, options.tls, options.timeout) as server:
            info = server.queue(options.queue)
        check_columns(schema, info.name, info.content)
        return cls(options.server, options.tls, info.name, info.content, stage, options.timeout)  # type: ignore[arg-type]

    def push(self, identity: str, batches: Iterator[pa.RecordBatch]) -> WriteCounts:
        """Push the rows of a task; called on an executor."""
        with ServerConnection(self.server, self.tls, self.timeout, task=True) as server:
            pushes = Pushes(server, PushTask(self.queue, identity, self.stage))
            pushes.run(payloads(batches, self.content))
            return WriteCounts(pushes.pushed, pushes.found)


class SinkWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        with one_line():
            self._job = str(given.get("producer") or f"spark-{SystemChance().token()}")
            if len(self._job.encode()) > PRODUCER_CHARS_MAX:
                raise InvalidInput(
                    f"producer {self._job[:20]!r}… is too long: use {PRODUCER_CHARS_MAX} bytes"
                )
            if overwrite:
                raise InvalidInput("a queue only grows: use mode append")
            options = Options.parse(given, also=("producer", "stage"))
            self._target = SinkTarget.planned(options, _stage(given), schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteCounts:
        with one_line():
            return self._target.push(f"{self._job}.{_task().partitionId()}", iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writes of a streaming query. With output mode complete each batch appends the whole result."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        with one_line():
            if given.get("producer"):
                raise InvalidInput("a stream is known by its checkpoint: leave out option producer")
            self._target = SinkTarget.planned(Options.parse(given, also=("stage",)), _stage(given), schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteCounts:
        with one_line():
            task = _task()
            query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
            if query is None or batch is None:
                raise InvalidInput("Spark does not say which batch this is: use version 4.2 or later")
            return self._target.push(f"spark-{query}.{batch}.{task.partitionId()}", iterator)


def _stage(given: Mapping[str, str]) -> str:
    return str(given.get("stage") or "synced").strip()


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise AssertionError("rows are written by tasks")
    return task
