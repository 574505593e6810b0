"""What reads with `on_damage=skip` left out, told by the executors that did."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from coldstore.shared.errors import DataLoss

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
