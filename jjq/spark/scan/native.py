"""Spark's own Parquet scan over cold blocks, where Spark can reach their files.

Spark checks every path that it is given, with a task for each if there are many. So a long run of final
blocks is named by their folder and a pattern, which costs one listing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from coldstore.block.files import BlockFiles
from coldstore.layout.metadata import block_id
from coldstore.objects.settings import S3Settings
from jjq.spark.limits import NAMED_FILES_MAX
from jjq.spark.scan.partition import Slice, Times
from jjq.spark.scan.plan import OffsetSpan, View
from jjq.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Every page has a checksum. With this setting Spark checks it; without, a flipped bit of a value goes unnoticed.
_CHECKED: Final = "parquet.page.verify-checksum.enabled"


def reachable(spark: SparkSession, root: str) -> str | None:
    """How Spark's own readers name the root; None if they cannot reach it."""
    parts = urlsplit(root)
    if parts.scheme == "s3":
        return f"s3a://{parts.netloc}{parts.path.rstrip('/')}" if _knows_s3a(spark) else None
    return Path(unquote(parts.path) if parts.scheme == "file" else root).as_uri()


def absolute(root: str) -> str:
    """`root` as every process understands it, whatever its working directory."""
    return root if urlsplit(root).scheme else str(Path(root).expanduser().absolute())


def _knows_s3a(spark: SparkSession) -> bool:
    """Whether Spark was given hadoop-aws, or something else that serves s3a://."""
    with suppress(Exception):  # a session of Spark Connect has no JVM to ask; the JVM's errors have no types
        context: Any = spark.sparkContext
        system = context._jvm.org.apache.hadoop.fs.FileSystem
        system.getFileSystemClass("s3a", context._jsc.hadoopConfiguration())
        return True
    return False


def scan(
    spark: SparkSession, view: View, span: OffsetSpan, base: str, times: Times | None = None
) -> DataFrame:
    """The elements of cold blocks inside `span`, with all columns; those of other `times` may be left out."""
    schema = spark_schema(view.settings.content)
    slices = view.slices(span, times)
    if not slices:
        return spark.createDataFrame([], schema)
    files = data_files(slices, view.files)
    folder = f"{base}/queues/{view.settings.name}"
    reader = spark.read.schema(schema).option(_CHECKED, "true").options(**s3a(view.options.s3))
    if len(files.paths) <= NAMED_FILES_MAX:
        frame = reader.parquet(*(f"{folder}/{path}" for path in files.paths))
    else:
        firsts = [part.block.first for part in slices if part.block.kind == "final"]
        frames = [
            reader.option("pathGlobFilter", names).parquet(f"{folder}/{within}")
            for within, names in _patterns(files.paths, firsts)
        ]
        frame = reduce(lambda left, right: left.unionAll(right), frames)
    if not files.begins:
        frame = frame.where(frame["offset"] >= span.start)
    return frame if files.ends else frame.where(frame["offset"] < span.end)


def _patterns(paths: Sequence[str], firsts: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Folders and patterns that match these files and no others; `firsts` are the first ones', all final."""
    if len(firsts) > 1:
        # Names are offsets there, so consecutive blocks are a range of names. The last one's file may be a copy.
        yield "data", glob_between(firsts[0], firsts[-2])
    rest = [path.split("/") for path in paths[max(len(firsts) - 1, 0) :]]
    for folder in sorted({folder for folder, _ in rest}):
        yield folder, "{" + ",".join(name for within, name in rest if within == folder) + "}"


def s3a(s3: S3Settings) -> dict[str, str]:
    """Settings with which hadoop-aws reaches the same S3."""
    settings = {
        "fs.s3a.endpoint": s3.endpoint,
        "fs.s3a.endpoint.region": s3.region,
        "fs.s3a.access.key": s3.access_key,
        "fs.s3a.secret.key": s3.secret_key,
        "fs.s3a.session.token": s3.session_token,
    }
    if s3.addressing == "path" or (s3.addressing == "auto" and s3.endpoint is not None):
        settings["fs.s3a.path.style.access"] = "true"
    return {key: value for key, value in settings.items() if value is not None}


def glob_between(low: int, high: int) -> str:
    """A glob for the names of final blocks that start at `low`..`high`, both included."""
    return "{" + ",".join(f"{digits}.parquet" for digits in _cover(block_id(low), block_id(high))) + "}"


def _cover(low: str, high: str) -> Iterator[str]:
    """Patterns that together match the numbers `low`..`high`, written with equally many digits."""
    if low == high:
        yield low
    elif set(low) == {"0"} and set(high) == {"9"}:
        yield "?" * len(low)
    elif low[0] == high[0]:
        yield from (low[0] + rest for rest in _cover(low[1:], high[1:]))
    else:
        yield from (low[0] + rest for rest in _cover(low[1:], "9" * len(low[1:])))
        if int(high[0]) - int(low[0]) > 1:
            yield f"[{int(low[0]) + 1}-{int(high[0]) - 1}]" + "?" * len(low[1:])
        yield from (high[0] + rest for rest in _cover("0" * len(high[1:]), high[1:]))


class DataFiles(NamedTuple):
    """Paths relative to the queue's folder; whether they begin and end exactly where the range does."""

    paths: list[str]
    begins: bool
    ends: bool


def data_files(slices: Sequence[Slice], files: BlockFiles) -> DataFiles:
    """The files that together hold every element of `slices` once, and perhaps some before and after."""
    kept: list[Slice] = []
    for part in slices:
        # A claim's file begins before its block, with the elements of the young blocks before it.
        while kept and kept[-1].block.first >= part.block.file_first:
            kept.pop()
        kept.append(part)
    paths = [part.block.path for part in kept]
    finals = [at for at, part in enumerate(kept) if part.block.kind == "final"]
    if finals:
        # Only the last final block can be one whose file is still to be put in its place. Until it is,
        # and for ever after, its copy has the same bytes (commit.py).
        last_final = kept[finals[-1]].block
        paths[finals[-1]] = files.committed(last_final).copy or last_final.path
    return DataFiles(
        paths, kept[0].block.file_first == slices[0].start, slices[-1].end == kept[-1].block.next
    )
