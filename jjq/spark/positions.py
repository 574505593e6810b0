"""Subscribers as a table: where each of them is, and how far behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jjq.limits import CALL_SECONDS
from jjq.spark.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jjq.remote.settings import ClientTls

SCHEMA: Final = (
    "queue string, subscriber string, offset bigint, lag bigint, block bigint, start string, "
    "created timestamp, asleep boolean"
)


def subscribers(
    spark: SparkSession,
    server: str,
    queue: str | None = None,
    *,
    tls: ClientTls | None = None,
    seconds: float = CALL_SECONDS,
) -> DataFrame:
    """The subscribers of a queue, or of all queues, as the server sees them at this moment.

    `offset` is the next element that a pop returns, `block` the block that holds it, `lag` the number of
    elements from there to the end of the queue.
    """
    with Server(server, tls, seconds) as asked:
        found = asked.subscribers(queue)
    rows = [(s.queue, s.name, s.offset, s.lag, s.block, s.start, s.created, s.asleep) for s in found]
    return spark.createDataFrame(rows, SCHEMA)
