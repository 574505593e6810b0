"""`export`: a range of a queue as partitioned Parquet, or as JSON lines.

    <to>/date=2026-01-31/hour=12/part-<first offset>.parquet      or .jsonl.gz
    <to>/_export.json      the range, resolved once: a job that runs again goes on with this range
    <to>/_done/<part>      a complete piece, with its counts; its files are not written again
    <to>/_SUCCESS          the export is complete

Executors write by themselves, to a folder or to S3, without jars. The files of a piece are named by its first
offset. So a task that runs again writes the same files again and adds nothing twice. Engines ignore names
that begin with `_`.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, get_args

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coldstore.objects.port import ObjectStore
from coldstore.objects.settings import S3Settings
from coldstore.shared import batch
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from jjq.client.element_json import as_json
from jjq.spark import cold
from jjq.spark.jobs import ranges, tasks
from jjq.spark.jobs.ranges import OffsetRange
from jjq.spark.jobs.tasks import Progress, silent
from jjq.spark.scan.partition import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Format = Literal["parquet", "jsonl"]
By = Literal["hour", "date", "none"]

_PLAN: Final = "_export.json"
_DONE: Final = "_done/"
_SUCCESS: Final = "_SUCCESS"
_FOLDERS: Final[dict[str, str]] = {"hour": "date=%Y-%m-%d/hour=%H/", "date": "date=%Y-%m-%d/", "none": ""}


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: of this run, and of interrupted runs before it."""

    queue: str
    start: int
    end: int
    files: int
    elements: int
    bytes: int


class ExportTarget(NamedTuple):
    """Where to, and in which form."""

    url: str
    s3: S3Settings
    format: Format
    by: By

    @property
    def objects(self) -> ObjectStore:
        return cold.objects(self.url, self.s3)


def export(
    spark: SparkSession,
    root: str,
    queue: str,
    to: str,
    *,
    start: str = "beginning",
    end: str = "end",
    format: Format = "parquet",
    by: By = "hour",
    s3: S3Settings | None = None,
    progress: Progress = silent,
) -> Exported:
    """Export the elements from `start` up to `end` into `to`, a folder or s3://BUCKET/PREFIX."""
    target = ExportTarget(to, s3 or S3Settings(), format, by)
    options, found = _find(target, root, queue, start, end)
    if options is not None:
        target.objects.put(_PLAN, orjson.dumps(options))
    done = {info.key.removeprefix(_DONE) for info in target.objects.list(_DONE)}
    left = [piece for piece in found.pieces if _name(piece) not in done]
    work = partial(_write, target, found)
    tasks.raise_failures(tasks.run(spark, "export", left, work, progress))
    written = [orjson.loads(target.objects.get(info.key).data) for info in target.objects.list(_DONE)]
    sums = {name: sum(each[name] for each in written) for name in ("files", "elements", "bytes")}
    exported = Exported(found.settings.name, found.start, found.end, **sums)
    target.objects.put(_SUCCESS, orjson.dumps(asdict(exported)))
    return exported


def check_export(
    root: str, queue: str, to: str, start: str, end: str, format: Format, by: By, s3: S3Settings
) -> None:
    """Refuse what `export` would refuse now; nothing is written, and Spark is not needed."""
    _find(ExportTarget(to, s3, format, by), root, queue, start, end)


def _find(
    target: ExportTarget, root: str, queue: str, start: str, end: str
) -> tuple[dict[str, Any] | None, OffsetRange]:
    """The range, as it was resolved by the first run; its pieces are cut as they were then.

    Of the first run also the plan, which is to be written before anything else.
    """
    if target.format not in get_args(Format) or target.by not in get_args(By):
        raise InvalidInput(
            f"format is {target.format!r} by {target.by!r}: use parquet or jsonl, by hour, date or none"
        )
    cold.store(root, target.s3)
    objects = target.objects
    options = {"queue": queue, "start": start, "end": end, "format": target.format, "by": target.by}
    try:
        plan = orjson.loads(objects.get(_PLAN).data)
    except NotFound:
        if next(objects.list(""), None) is not None:
            raise Conflict(f"{target.url} is not empty: export to a new folder") from None
        found = ranges.find(root, target.s3, queue, start, end)
        cuts = [piece[0].start for piece in found.pieces]
        return {**options, "range": [found.start, found.end], "cuts": cuts}, found
    if next(objects.list(_SUCCESS), None) is not None:
        raise Conflict(f"{target.url} has a complete export: choose another folder")
    if {name: plan.get(name) for name in options} != options:
        raise Conflict(f"{target.url} has another export, not complete: give its options, or another folder")
    first, last = plan["range"]
    found = ranges.find(root, target.s3, queue, known=(first, last))
    return None, _cut(found, [*plan["cuts"], last])


def _cut(found: OffsetRange, cuts: Sequence[int]) -> OffsetRange:
    """The same range in other pieces: blocks may have been merged since they were cut."""
    parts = [part for piece in found.pieces for part in piece]
    pieces: list[tuple[Slice, ...]] = []
    for low, high in pairwise(cuts):
        inside = (Slice(part.block, max(low, part.start), min(high, part.end)) for part in parts)
        pieces.append(tuple(part for part in inside if part.start < part.end))
    return OffsetRange(found.options, found.settings, found.start, found.end, tuple(pieces))


def _name(piece: Sequence[Slice]) -> str:
    return f"part-{piece[0].start:020d}"


def _write(target: ExportTarget, found: OffsetRange, piece: Sequence[Slice]) -> None:
    """One task: write the files of a piece, then mark it as complete."""
    name = _name(piece)
    files: dict[str, _File] = {}
    for table in found.blocks(piece):
        for folder, rows in _by_folder(table, _FOLDERS[target.by]):
            if folder not in files:
                files[folder] = _Parquet(rows.schema) if target.format == "parquet" else _Lines()
            files[folder].add(rows)
    size = 0
    for folder, file in files.items():
        data = file.end()
        size += len(data)
        target.objects.put(f"{folder}{name}{file.suffix}", data)
    elements = sum(part.end - part.start for part in piece)
    counts = {"files": len(files), "elements": elements, "bytes": size}
    target.objects.put(_DONE + name, orjson.dumps(counts))


def _by_folder(table: pa.Table, form: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each folder, in order."""
    if not form:
        yield "", table
        return
    folders = pc.strftime(table.column("timestamp").cast(pa.timestamp("s", "UTC"), safe=False), form)
    for folder in pc.unique(folders).to_pylist():
        yield folder, table.filter(pc.equal(folders, folder))


class _File(Protocol):
    suffix: str

    def add(self, rows: pa.Table) -> None: ...

    def end(self) -> memoryview: ...


class _Parquet:
    suffix = ".parquet"

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd")

    def add(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def end(self) -> memoryview:
        self._writer.close()
        return memoryview(self._sink.getvalue())


class _Lines:
    suffix = ".jsonl.gz"

    def __init__(self) -> None:
        self._sink = io.BytesIO()
        # No time of writing in it: the same elements give the same bytes.
        self._writer = gzip.GzipFile(fileobj=self._sink, mode="wb", mtime=0)

    def add(self, rows: pa.Table) -> None:
        for element in batch.elements(rows):
            self._writer.write(orjson.dumps(as_json(element), option=orjson.OPT_APPEND_NEWLINE))

    def end(self) -> memoryview:
        self._writer.close()
        return self._sink.getbuffer()
