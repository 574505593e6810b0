"""Errors of reads and writes with Spark: shown as one line, or skipped and reported."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from coldstore.shared.errors import DataLoss, JjqError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def one_line() -> Iterator[None]:
    """Around what Spark calls in a Python worker: an error of ours is reported without a traceback.

    The worker looks at this variable when it writes the error to the JVM, and ends right after that; so
    nothing else that it might have run is affected. Errors that are not ours keep their traceback.
    """
    try:
        yield
    except JjqError:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


LOGGING: Final = "spark.sql.pyspark.worker.logging.enabled"
_LOG: Final = logging.getLogger("jjq.spark.skipped")


def report(queue: str, start: int, end: int, loss: DataLoss) -> None:
    """Say that the elements `start`..`end` (exclusive) are left out: to the executor's log, and to Spark's."""
    context = {"queue": queue, "start": str(start), "end": str(end), "key": loss.key or ""}
    message = "skipped elements %d to %d of queue %s: %s"
    _LOG.warning(message, start, end - 1, queue, loss, extra={"context": context})


def skipped(spark: SparkSession) -> DataFrame:
    """The elements that this session's reads have left out: queue, start, end (exclusive), key, why.

    Spark gathers what executors say only while `spark.sql.pyspark.worker.logging.enabled` is true.
    """
    logs = spark.tvf.python_worker_logs().where(f"logger = '{_LOG.name}'")
    return logs.selectExpr(
        "context['queue'] as queue",
        "cast(context['start'] as bigint) as start",
        "cast(context['end'] as bigint) as end",
        "context['key'] as key",
        "msg as why",
    ).distinct()
