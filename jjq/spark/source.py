"""`format("jjq")`: Spark's data source, whose parts are loaded where they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from jjq.spark.errors import one_line
from jjq.spark.interpreter import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from jjq.spark.scan.plan import OffsetSpan


class JjqDataSource(DataSource):
    """A queue as a table, a stream, or the place to write to. Options: jjq/spark/options.py."""

    @classmethod
    def name(cls) -> str:
        return "jjq"

    _span: OffsetSpan | None = None  # what a frame shows; Spark keeps it with the frame

    def schema(self) -> StructType:
        from jjq.spark.scan.reader import found

        with one_line():
            schema, self._span = found(self.options)
            return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from jjq.spark.scan.reader import reader

        with one_line():
            return reader(self.options, schema, self._span)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from jjq.spark.stream.stream import StreamReader

        with one_line():
            return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from jjq.spark.write.sink import SinkWriter

        with one_line():
            return SinkWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from jjq.spark.write.sink import StreamWriter

        with one_line():
            return StreamWriter(self.options, schema, overwrite)


def register(spark: SparkSession) -> None:
    """Make `format("jjq")` known to this session, and see to it that its workers run a Python that has jjq.

    No setting of the session is changed.
    """
    use_this_python(spark)
    spark.dataSource.register(JjqDataSource)
