"""Worker groups as tables: the transitions of tasks, and the tasks themselves.

    transitions   the rows of a group's ledger, which is the queue `<queue>~<group>`: one for each run of tasks
    tasks         one row for each task, with its element, as of now or of an earlier time

Both read what is on object storage; with `server` also what is not there yet. A ledger is sealed by itself, as every
queue, so without a server the last minutes may be missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from coldstore.layout import ledger as events
from coldstore.layout.paths import check_name
from coldstore.layout.paths import ledger as ledger_name
from coldstore.objects.settings import S3Settings
from coldstore.shared.batch import LEDGER_FIELDS, to_us
from coldstore.shared.errors import InvalidInput, NotFound
from coldstore.shared.headers import TASK_OPTIONS
from jjq.spark.frame import read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from jjq.remote.settings import ClientTls

_BEGINS = (events.CREATE, events.SEEK, events.REMOVE)  # after these all tasks are new
_DEFINES = (events.CREATE, events.UPDATE)
_WITHOUT_DELAYS = ("fifo", "utube")  # the drivers that leave delays of pushes alone
_FAILED = (events.NACK, events.BURY, events.TIMEOUT)


def transitions(
    spark: SparkSession,
    root: str | os.PathLike[str],
    queue: str,
    group: str,
    start: str = "beginning",
    end: str = "end",
    *,
    server: str | None = None,
    s3: S3Settings | None = None,
    tls: ClientTls | None = None,
) -> DataFrame:
    """What happened in a group: offset and time of each row of its ledger, and its fields.

    A row is about `count` tasks, from `task` on; where `state` is null it is about the group.
    """
    name = ledger_name(check_name(queue), check_name(group, "group"))
    try:
        frame = read(
            spark,
            root,
            name,
            start,
            end,
            columns=("offset", "timestamp", "value"),
            server=server,
            s3=s3,
            tls=tls,
        )
    except NotFound:
        raise NotFound(
            f"queue {queue} has no group {group} there: correct the names, or name a server if it is new"
        ) from None
    fields = [F.col(f"value.{field.name}").alias(field.name) for field in LEDGER_FIELDS]
    return frame.select("offset", F.col("timestamp").alias("time"), *fields)


def tasks(
    spark: SparkSession,
    root: str | os.PathLike[str],
    queue: str,
    group: str,
    at: datetime | None = None,
    *,
    server: str | None = None,
    s3: S3Settings | None = None,
    tls: ClientTls | None = None,
) -> DataFrame:
    """One row for each task of a group, with its element, as it is now or was `at` a time with its zone.

    Columns: task, state, attempts, first_taken, done, wait_seconds (from the push to the first take), run_seconds (from
    the first take until it was done), last_error, worker, pushed, key, value and headers.
    """
    if at is not None and not isinstance(at, datetime):
        raise InvalidInput(f"at is {at!r:.40}: give a datetime with its zone")
    more: dict[str, Any] = {"server": server, "s3": s3, "tls": tls}
    rows = transitions(spark, root, queue, group, **more)
    moment = F.current_timestamp() if at is None else F.timestamp_micros(F.lit(to_us(at)))
    rows = rows.where(F.col("time") <= moment)
    begin = rows.where(F.col("event").isin(*_BEGINS)).orderBy(F.col("offset").desc()).first()
    if begin is None or begin["event"] == events.REMOVE:
        elements = read(spark, root, queue, "end", "end", **more)
        first, since = 0, 0
    else:
        elements = read(spark, root, queue, f"offset:{begin['task']}", "end", **more)
        first, since = begin["task"], begin["offset"]
    lives = _lives(rows.where((F.col("offset") >= since) & F.col("state").isNotNull()), first)
    pushed = elements.where(F.col("timestamp") <= moment).withColumnRenamed("offset", "task")
    joined = pushed.join(lives, "task", "left")
    return joined.select(*_columns(moment, _push_delay(rows))).orderBy("task")


def _push_delay(rows: DataFrame) -> Column:
    """Seconds that a task is delayed by its push, or by the group as it was defined last."""
    said = rows.where(F.col("event").isin(*_DEFINES)).orderBy(F.col("offset").desc()).first()
    settings = {} if said is None else json.loads(said["reason"])["settings"]
    if settings.get("driver") in _WITHOUT_DELAYS:
        return F.lit(0.0)
    own = F.col("headers")[TASK_OPTIONS["delay"]].cast("string").cast("double")
    return F.coalesce(own, F.lit(float(settings.get("delay", 0.0))))


def _lives(rows: DataFrame, first: int) -> DataFrame:
    """What the rows say of each task: the last of them counts."""
    run = F.sequence(F.greatest(F.col("task"), F.lit(first)), F.col("task") + F.col("count") - 1)
    each = rows.where(F.col("task") + F.col("count") > first).withColumn("task", F.explode(run))
    failed = F.col("event").isin(*_FAILED) & F.col("reason").isNotNull()
    return each.groupBy("task").agg(
        F.max_by("state", "offset").alias("last_state"),
        F.max_by("until", "offset").alias("until"),
        F.max("attempt").alias("attempts"),
        F.max_by("worker", F.when(F.col("worker").isNotNull(), F.col("offset"))).alias("worker"),
        F.min(F.when(F.col("event") == events.TAKE, F.col("time"))).alias("first_taken"),
        F.min(F.when(F.col("state") == "done", F.col("time"))).alias("done"),
        F.max_by("reason", F.when(failed, F.col("offset"))).alias("last_error"),
    )


def _columns(moment: Column, delay: Column) -> list[Column]:
    ready_us = F.unix_micros(F.col("timestamp")) + F.round(delay * 1_000_000).cast("long")
    asleep = F.col("last_state").isNull() & (ready_us > F.unix_micros(moment))
    awake = (F.col("last_state") == "delayed") & (F.col("until") <= moment)
    state = F.when(awake, F.lit("ready")).when(asleep, F.lit("delayed"))
    state = state.otherwise(F.coalesce("last_state", F.lit("ready")))
    named: Mapping[str, Column] = {
        "state": state,
        "attempts": F.coalesce("attempts", F.lit(0)),
        "first_taken": F.col("first_taken"),
        "done": F.col("done"),
        "wait_seconds": _seconds(F.col("timestamp"), F.col("first_taken")),
        "run_seconds": _seconds(F.col("first_taken"), F.col("done")),
        "last_error": F.col("last_error"),
        "worker": F.col("worker"),
        "pushed": F.col("timestamp"),
    }
    columns = [column.alias(name) for name, column in named.items()]
    return [F.col("task"), *columns, F.col("key"), F.col("value"), F.col("headers")]


def _seconds(since: Column, until: Column) -> Column:
    return (F.unix_micros(until) - F.unix_micros(since)) / 1_000_000
