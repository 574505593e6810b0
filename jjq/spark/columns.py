"""Columns as users want them: text, JSON with a schema, headers; and subscribers as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import BinaryType

from coldstore.shared.errors import InvalidInput
from jjq.limits import CALL_SECONDS
from jjq.spark.server import ServerConnection

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from jjq.remote.settings import ClientTls

OnError = Literal["fail", "null"]

_UTF8: Final[dict[str, Any]] = {"fail": F.validate_utf8, "null": F.try_validate_utf8}
_JSON: Final = {"fail": "FAILFAST", "null": "PERMISSIVE"}


def to_text(frame: DataFrame, *columns: str, on_error: OnError = "fail") -> DataFrame:
    """`frame` with columns of bytes, by default value and key, as text; what is no UTF-8 fails, or is null."""
    check = _known(_UTF8, on_error)
    names = columns or tuple(name for name in ("key", "value") if name in frame.columns)
    binary = [name for name in names if isinstance(frame.schema[name].dataType, BinaryType)]
    return frame.withColumns({name: check(frame[name].cast("string")) for name in binary})


def from_json(frame: DataFrame, schema: StructType | str, *, on_error: OnError = "fail") -> DataFrame:
    """`frame` with its values read as JSON of this schema; one that does not fit fails, or has null fields."""
    mode = _known(_JSON, on_error)
    parsed = F.from_json(frame["value"].cast("string"), schema, {"mode": mode})
    return frame.withColumn("value", parsed)


def header(name: str) -> Column:
    """A header as text, null where an element has none of this name."""
    return F.try_validate_utf8(F.col("headers")[name].cast("string")).alias(name)


def _known(ways: dict[str, Any], on_error: str) -> Any:
    if on_error not in ways:
        raise InvalidInput(f"on_error is {on_error!r}: use {' or '.join(ways)}")
    return ways[on_error]


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
    with ServerConnection(server, tls, seconds) as connection:
        found = connection.subscribers(queue)
    rows = [(s.queue, s.name, s.offset, s.lag, s.block, s.start, s.created, s.asleep) for s in found]
    return spark.createDataFrame(rows, SCHEMA)
