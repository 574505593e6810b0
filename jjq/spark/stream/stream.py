"""`readStream.format("jjq")`: a queue as a stream whose progress is an offset.

Spark keeps one such reader in a process of the driver, asks it how far the next batch goes and how that is
cut, and writes both down before it runs the batch. Executors read: history from the cold store, only what
is not cold yet from the server. So a stream that lags behind reads at the speed of Parquet, and a batch that
is run again, in whatever process, holds the same elements: they never change, and their offsets are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import Conflict, InvalidInput, OutOfRange
from jjq.spark.errors import one_line
from jjq.spark.limits import LOOK_SECONDS
from jjq.spark.options import STREAM_NAMES, Options
from jjq.spark.scan.partition import Partition
from jjq.spark.scan.plan import OffsetSpan, View
from jjq.spark.schema import arrow_schema
from jjq.spark.stream.progress import Progress, plan_cut, plan_partitions
from jjq.spark.stream.rate_limit import RateLimit

_NOWHERE: Final = "end"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream. What it opens it opens when it is first asked: Spark pickles it before."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        # Nothing is checked here: Spark would not show the error of a reader that was never made.
        self._given = dict(given)
        self._wanted_schema = schema
        self._opened: View | None = None
        self._target: int | None = None  # with Trigger.AvailableNow: what was there when the query began
        self._clock: Clock = SystemClock()
        self._looked = -LOOK_SECONDS

    # How far --------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where the starting point leads; asked once, from then on the checkpoint rules."""
        with one_line():
            view = self._view()
            start = view.options.start
            return Progress(view.resolve(start), view.settings.id, start).document()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the batch ends that begins at `start`; `start` itself if there is nothing new."""
        with one_line():
            view, begin = self._view(), self._progress(start)
            span = OffsetSpan(begin.offset, max(begin.offset, self._available(view, begin.offset)))
            end = RateLimit.parse(self._given).under(limit).end(view, span, self._wanted())
            if end == begin.offset and begin.start is None:
                return start
            span = OffsetSpan(begin.offset, end)
            return Progress(end, begin.queue, cut=plan_cut(view, span)).document()

    def getDefaultReadLimit(self) -> ReadLimit:
        with one_line():
            return RateLimit.parse(self._given).as_read_limit()

    def prepareForTriggerAvailableNow(self) -> None:
        with one_line():
            self._target = self._view().refresh()

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the queue, so that Spark's progress shows how far behind the stream is."""
        with one_line():
            view = self._view()
            return Progress(view.next_offset, view.settings.id).document()

    # What to read ---------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Partition]:
        """The work of each task, for a new batch or for one that is run again."""
        with one_line():
            begin, until = self._progress(start), self._progress(end)
            span = OffsetSpan(begin.offset, until.offset)
            if span.start >= span.end:
                return []
            view = self._view()
            if span.end > view.next_offset and span.end > view.refresh():
                raise OutOfRange(
                    f"the checkpoint goes up to offset {span.end}, but only {view.next_offset} are there: "
                    f"{_advice(view.options)}",
                    first=view.first_offset,
                    next=view.next_offset,
                )
            cut = until.cut or plan_cut(view, span)
            return plan_partitions(view, span, cut, self._wanted())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The elements of a partition; called on an executor."""
        with one_line():
            if isinstance(partition, Partition):
                yield from partition.batches()

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _available(self, view: View, position: int) -> int:
        """How far the queue goes, or goes for this query."""
        if self._target is not None and position >= self._target:
            return self._target
        if view.options.server is None and position >= view.next_offset:
            # Spark asks an idle stream a hundred times a second, and listings of object storage cost money.
            self._clock.sleep(max(0.0, self._looked + LOOK_SECONDS - self._clock.monotonic()))
        self._looked = self._clock.monotonic()
        return view.refresh() if self._target is None else min(view.refresh(), self._target)

    def _view(self) -> View:
        if self._opened is None:
            options = Options.parse(self._given, also=STREAM_NAMES)
            if options.end != _NOWHERE:
                raise InvalidInput(
                    "a stream has no end: leave out option end, or read the range with spark.read"
                )
            self._opened = View(options)
        return self._opened

    def _wanted(self) -> pa.Schema:
        return arrow_schema(self._wanted_schema, self._view().settings.content)

    def _progress(self, document: Mapping[str, Any]) -> Progress:
        found, settings = Progress.of(document), self._view().settings
        if found.queue != settings.id:
            raise Conflict(
                f"the checkpoint is that of another queue ({found.queue}), not of {settings.name} ({settings.id}): "
                f"correct queue, root or server, or begin with a new checkpoint"
            )
        return found


def _advice(options: Options) -> str:
    if options.server is None:
        return "add option server, which has the rest, or wait until it is in the cold store"
    return f"{options.server} does not have what it had; ask its operator"
