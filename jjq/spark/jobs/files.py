"""Files with history, as Spark reads them: Parquet, JSON lines, CSV with a header."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from coldstore.shared.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["parquet", "jsonl", "csv"]


def read(
    spark: SparkSession, sources: Sequence[str], format: Format, text: Collection[str] = ()
) -> DataFrame:
    """The rows of all sources. In CSV, columns named in `text` are text; the types of others are inferred."""
    from pyspark.errors import PySparkException

    if not sources:
        raise InvalidInput("give the files or folders to import from")
    reader = spark.read.option("mode", "FAILFAST")
    try:
        if format == "parquet":
            return reader.parquet(*sources)
        if format == "jsonl":
            return reader.json(list(sources))
        reader = reader.option("header", True)
        inferred = reader.option("inferSchema", True).csv(list(sources)).schema
        # A value "007" is not the number 7, and its column might hold nothing else.
        fields = [
            f"`{each.name}` {'string' if each.name in text else each.dataType.simpleString()}"
            for each in inferred
        ]
        return reader.option("inferSchema", False).schema(", ".join(fields)).csv(list(sources))
    except PySparkException as error:
        line = str(error).splitlines()[0]
        raise InvalidInput(f"Spark cannot read the source: {line[:300]}") from None
