"""`jjq.spark.read`: a range of a queue as a native scan of just the files that hold it.

The range is resolved and the blocks are chosen here, in the driver, from their metadata. So errors are
raised here too, and the frame goes on showing the same elements. Files that Spark cannot reach (S3 without
hadoop-aws), the tail of a server, and reads that skip damage go through `format("jjq")`.

A filter of the frame prunes a native scan as it does every Parquet scan, and nothing else. One that is given
here as `where` prunes all ways of reading: it is known before anything is planned, and belongs to this frame alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from coldstore.block.read import COLUMNS
from coldstore.objects.settings import S3Settings
from jjq.spark.options import OnDamage, Options
from jjq.spark.scan.condition import EVERYTHING, judge
from jjq.spark.scan.native import absolute, reachable, scan
from jjq.spark.scan.plan import OffsetSpan, View
from jjq.spark.source import register

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from jjq.remote.settings import ClientTls


def read(
    spark: SparkSession,
    root: str | os.PathLike[str],
    queue: str,
    start: str = "beginning",
    end: str = "end",
    *,
    where: str | Column | None = None,
    columns: Sequence[str] = COLUMNS,
    server: str | None = None,
    on_damage: OnDamage = "fail",
    s3: S3Settings | None = None,
    tls: ClientTls | None = None,
) -> DataFrame:
    """The elements of a queue from `start` up to, not including, `end`, as they are at this moment.

    `root` is a cold store: a folder, or s3://BUCKET/PREFIX. With `server` the elements that are not there
    yet are included. `where` is a condition as for `DataFrame.where`, also on columns that are not chosen;
    blocks that cannot hold such an element are not opened. `on_damage="skip"` leaves damaged blocks out and
    says which (`jjq.spark.skipped`).
    """
    options = Options(
        queue=queue,
        root=absolute(os.fspath(root)),
        server=server,
        start=start,
        end=end,
        columns=tuple(columns),
        on_damage=on_damage,
        s3=s3 or S3Settings(),
        tls=tls,
    )
    with closing(View(options)) as view:
        judged = EVERYTHING if where is None else judge(spark, where, view.settings.content)
        span = judged.bounds.within(view.span())
        needed = tuple(name for name in COLUMNS if name in {*options.columns, *judged.columns})
        asked = replace(options, columns=needed, times=judged.bounds.times)
        base = reachable(spark, options.root or "") if on_damage == "fail" else None
        if base is None:
            frame = _sourced(spark, asked, span)
        else:
            border = max(span.start, min(span.end, view.cold_next))
            frame = scan(spark, view, OffsetSpan(span.start, border), base, judged.bounds.times).select(
                *needed
            )
            if border < span.end:
                tail = _sourced(spark, replace(asked, root=None), OffsetSpan(border, span.end))
                frame = frame.unionAll(tail)
    return (frame if where is None else frame.where(where)).select(*options.columns)


def _sourced(spark: SparkSession, options: Options, span: OffsetSpan) -> DataFrame:
    """The same by the data source, whose executors open S3 and servers by themselves."""
    register(spark)
    chosen = replace(options, start=f"offset:{span.start}", end=f"offset:{span.end}")
    return spark.read.format("jjq").options(**chosen.to_spark()).load()
