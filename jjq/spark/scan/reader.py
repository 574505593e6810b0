"""Reading a range of a queue as a table. The options decide which blocks are opened; Spark filters what they hold.

Spark 4.3 keeps the filters that it once pushed into a Python source, and uses them for every later query of
the same frame. So the reader takes none, unless the user says that the frame is used once. Spark does not
tell a Python source which columns are used: the option `columns` chooses them, or a schema given to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter
from pyspark.sql.types import StructType

from jjq.spark.errors import one_line
from jjq.spark.options import STREAM_NAMES, TABLE_NAMES, Options
from jjq.spark.scan.bounds import ScanBounds
from jjq.spark.scan.partition import Partition, Times
from jjq.spark.scan.plan import OffsetSpan, View
from jjq.spark.schema import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition


def found(given: Mapping[str, str]) -> tuple[StructType, OffsetSpan | None]:
    """The schema of the queue that the options name, without the columns that they leave out; and the range
    that they mean at this moment, where that is certain."""
    options = Options.parse(given, also=(*STREAM_NAMES, *TABLE_NAMES))
    with closing(View(options)) as view:
        # A stream begins there only once; the subscriber may be gone when it is started again.
        span = None if options.start.startswith("subscriber:") else view.span()
        return spark_schema(view.settings.content, options.columns), span


class Reader(DataSourceReader):
    """One query: planned in a Python process of the driver, read on executors."""

    def __init__(self, given: Mapping[str, str], schema: StructType, span: OffsetSpan | None = None) -> None:
        self._options = Options.parse(given, also=TABLE_NAMES)
        self._wanted_schema = schema
        self._span = span
        times = self._options.times
        self._bounds = ScanBounds(times=None if times is None else Times(*times))

    def partitions(self) -> list[InputPartition]:
        with one_line(), closing(View(self._options)) as view:
            wanted = arrow_schema(self._wanted_schema, view.settings.content)
            span = self._bounds.within(self._span or view.span())
            return list(view.partitions(span, wanted, self._bounds.times))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where nothing is to be read Spark makes up a partition of its own.
        if isinstance(partition, Partition):
            with one_line():
                yield from partition.batches()


class OnceReader(Reader):
    """One query of a frame that is used once: filters on offset and timestamp leave out blocks and row groups."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._bounds, left = self._bounds.narrowed(filters)
        return left


def reader(given: Mapping[str, str], schema: StructType, span: OffsetSpan | None) -> Reader:
    """The reader that the options ask for. Spark looks for `pushFilters` in its class, so there are two."""
    once = Options.parse(given, also=TABLE_NAMES).push_filters == "once"
    return (OnceReader if once else Reader)(given, schema, span)
