"""Functions over Arrow batches, as Spark runs them on executors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from jjq.spark.interpreter import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def map_in_arrow(
    frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """`frame.mapInArrow`, without its remark about a release of pandas, which is not used here."""
    use_this_python(frame.sparkSession)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(work, schema)
