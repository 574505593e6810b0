"""Small imports of Parquet: one task reads, sorts and shapes all rows with Arrow, and none passes through Java.

The first query of a session costs Java ten seconds of processor time and more, whatever it does: it loads classes,
makes code for the query and compiles that; asking for the schema of a file alone takes four. A million rows take Arrow
less than two. So files that one task can hold are not read by Spark, as long as every column is of a type that both
read in the same way (`_reads_alike`). `plan_direct` finds out from the footers. It gives None where Spark must do it:
times that are text, nested folders, large files. A data frame that is nothing but such files (`files_of_frame`) is
read in the same way.

The rows come out as Spark would have them: in the same order, with the same times, and refused for the same reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coldstore.objects.settings import S3Settings
from coldstore.shared import lists
from coldstore.shared.batch import Content
from coldstore.shared.errors import InvalidInput, JjqError
from jjq.spark.jobs.import_columns import (
    HEADERS,
    ROW_BYTES,
    UNIT_US,
    WHOLE_ROW,
    Counted,
    Shape,
    refuse_nulls,
)
from jjq.spark.jobs.import_source import SourceFile, files_of, open_source
from jjq.spark.limits import DIRECT_BYTES_MAX, DIRECT_FILES_MAX, DIRECT_TABLE_BYTES_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK: Final = "org.apache.spark.sql.execution.datasources."


class DirectPlan(NamedTuple):
    """What one task imports. It is pickled."""

    files: tuple[str, ...]
    shape: Shape
    content: Content
    now_us: int
    s3: S3Settings
    rows: int


class DirectRows(NamedTuple):
    """Rows in order, with the columns timestamp, key, value and perhaps headers."""

    batches: list[pa.RecordBatch]
    counted: Counted


class FrameFiles(NamedTuple):
    """The Parquet files that a data frame reads as they are, and the types that Spark gave to their columns."""

    names: list[str]
    kinds: dict[str, str]


def files_of_frame(frame: DataFrame) -> FrameFiles | None:
    """None for a frame that is more than its files, or has others: `spark.read` with options, or a step after it."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    if _class(plan) != f"{_SPARK}LogicalRelation" or _class(plan.relation()) != f"{_SPARK}HadoopFsRelation":
        return None
    relation = plan.relation()
    if _class(relation.fileFormat()) != f"{_SPARK}parquet.ParquetFileFormat":
        return None
    if (
        _class(relation.location()) != f"{_SPARK}InMemoryFileIndex"
        or not relation.partitionSchema().isEmpty()
    ):
        return None
    if relation.options().size() > (1 if relation.options().contains("path") else 0):
        return None
    found = relation.location().inputFiles()
    if not 0 < len(found) <= DIRECT_FILES_MAX:
        return None
    places = [urlsplit(name) for name in found]
    if any(place.scheme != "file" for place in places):
        return None
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    return FrameFiles([unquote(place.path) for place in places], kinds)


def _class(found: Any) -> str:
    return str(found.getClass().getName())


def plan_direct(
    sources: Sequence[str],
    shape: Shape,
    content: Content,
    now_us: int,
    s3: S3Settings,
    kinds: Mapping[str, str] | None = None,
) -> DirectPlan | None:
    """How one task can import these Parquet files; None if Spark must. `kinds`: what Spark takes columns for."""
    if shape.value == WHOLE_ROW or not shape.order:
        return None
    names: list[str] = []
    rows = size = 0
    types: set[tuple[pa.DataType, ...]] = set()
    try:
        for source in sources:
            files, before = files_of(source, s3), len(names)
            for file in files or ():
                if len(names) == DIRECT_FILES_MAX or _is_nested(source, file):
                    return None
                with file.open() as opened, pq.ParquetFile(opened) as parquet:
                    found = _types(parquet.schema_arrow, shape)
                    groups = [parquet.metadata.row_group(n) for n in range(parquet.num_row_groups)]
                if found is None:
                    return None
                types.add(found)
                rows += sum(group.num_rows for group in groups)
                size += sum(group.total_byte_size for group in groups)
                names.append(file.name)
            if files is None or len(names) == before or size > DIRECT_BYTES_MAX:
                return None
    except (OSError, pa.ArrowException, JjqError):
        return None  # Spark says what is wrong with it
    if len(types) != 1:
        return None
    columns = dict(zip(shape.named, *types, strict=True))
    if not _reads_alike(columns, shape, content) or not _as_spark_has_them(columns, kinds):
        return None
    return DirectPlan(tuple(names), shape, content, now_us, s3, rows)


def _is_nested(source: str, file: SourceFile) -> bool:
    """Whether a file is in a folder of the source: Spark would make columns of the names of such folders, or stop."""
    if "://" in file.name:
        return "/" in file.name.removeprefix(source).strip("/")
    return Path(file.name).parent != Path(source) and Path(file.name) != Path(source)


def _types(schema: pa.Schema, shape: Shape) -> tuple[pa.DataType, ...] | None:
    if any(schema.names.count(name) != 1 for name in shape.named):
        return None
    return tuple(schema.field(name).type for name in shape.named)


def _reads_alike(types: dict[str, pa.DataType], shape: Shape, content: Content) -> bool:
    """Whether Arrow and Spark read all columns as the same values."""
    is_ = pa.types
    for name in shape.order:
        kind = types[name]
        number = is_.is_signed_integer(kind) or is_.is_float32(kind) or is_.is_float64(kind)
        if not (number or _is_text(kind) or _is_bytes(kind) or is_.is_boolean(kind) or _is_instant(kind)):
            return False
    if shape.time is not None:
        kind = types[shape.time]
        counted = shape.time_unit is not None and is_.is_signed_integer(kind)
        if not counted and not (shape.time_unit is None and _is_instant(kind)):
            return False
    if shape.key is not None and not (_is_text(types[shape.key]) or _is_bytes(types[shape.key])):
        return False
    if shape.headers is not None:
        kind = types[shape.headers]
        if not is_.is_map(kind) or not _is_text(kind.key_type):
            return False
        if not _is_text(kind.item_type) and not _is_bytes(kind.item_type):
            return False
    kind = types[shape.value]
    return _is_text(kind) or (content == "bytes" and _is_bytes(kind))


def _as_spark_has_them(columns: Mapping[str, pa.DataType], kinds: Mapping[str, str] | None) -> bool:
    """Whether the types are those of the frame: its reader may have been given others, or settings that change them."""
    if kinds is None:
        return True
    from pyspark.sql.pandas.types import from_arrow_type

    return all(kinds.get(name) == from_arrow_type(kind).simpleString() for name, kind in columns.items())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_instant(kind: pa.DataType) -> bool:
    """A time in UTC, with no more digits than Spark keeps. One without a zone is something else to Spark."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("s", "ms", "us"))


def read_direct(plan: DirectPlan) -> DirectRows | None:
    """In a task: all rows, checked and in order; None if they take more memory than their files said."""
    tables: list[pa.Table] = []
    size = 0
    for name in plan.files:
        with open_source(name, plan.s3) as opened, pq.ParquetFile(opened) as parquet:
            for group in range(parquet.num_row_groups):
                tables.append(parquet.read_row_group(group, columns=sorted(set(plan.shape.named))))
                size += tables[-1].nbytes
                if size > DIRECT_TABLE_BYTES_MAX:
                    return None
    shaped = _shaped(pa.concat_tables(tables) if tables else pa.table({}), plan)
    # As in Spark: keys that are null come first, and numbers that are none, which Arrow takes for nulls here, last.
    names = [*plan.shape.order_columns, "timestamp", "key", "value"]
    keys = [(name, "ascending", "at_start" if name == "key" else "at_end") for name in names]
    order = pc.sort_indices(shaped, sort_keys=keys)
    kept = shaped.drop_columns(plan.shape.order_columns)
    in_order = kept.take(order).combine_chunks()
    return DirectRows(in_order.to_batches(), Counted(in_order.num_rows, _bytes(in_order)))


def _shaped(table: pa.Table, plan: DirectPlan) -> pa.Table:
    """The columns order0, order1 …, timestamp, key, value and perhaps headers, or why they cannot be."""
    shape, rows = plan.shape, table.num_rows
    if not rows:
        raise InvalidInput("there is nothing to import: the source has no rows")
    columns = {f"order{at}": table.column(name) for at, name in enumerate(shape.order)}
    columns["timestamp"] = _microseconds(table, plan)
    bytes_ = pa.binary()
    columns["key"] = pa.nulls(rows, bytes_) if shape.key is None else table.column(shape.key).cast(bytes_)
    kind = bytes_ if plan.content == "bytes" else pa.string()
    columns["value"] = table.column(shape.value).cast(kind)
    if shape.headers is not None:
        columns[HEADERS] = table.column(shape.headers)
    shaped = pa.table(columns)
    checked = [*shape.order_columns, "timestamp", "value"]
    refuse_nulls(shape, {name: shaped.column(name).null_count for name in checked}, lambda: "")
    return shaped.combine_chunks()


def _microseconds(table: pa.Table, plan: DirectPlan) -> pa.Array | pa.ChunkedArray:
    shape = plan.shape
    if shape.time is None:
        return pa.repeat(_number(plan.now_us), table.num_rows)
    times = table.column(shape.time)
    if shape.time_unit is None:
        return times.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    unit = UNIT_US[shape.time_unit]
    most = (2**63 - 1) // unit
    times = times.cast(pa.int64())
    fits = pc.and_(pc.less_equal(times, _number(most)), pc.greater_equal(times, _number(-most)))
    return pc.multiply(pc.if_else(fits, times, _number(None)), _number(unit))


def _number(value: int | None) -> pa.Scalar:
    return lists.scalar(value, pa.int64())  # pa.scalar imports pandas, for which a first import would wait


def _bytes(table: pa.Table) -> int:
    """As `row_bytes` counts them."""
    size = ROW_BYTES * table.num_rows
    for name in ("key", "value"):
        size += pc.sum(pc.binary_length(table.column(name))).as_py() or 0
    if HEADERS in table.column_names:
        for chunk in table.column(HEADERS).chunks:
            for lengths in (pc.binary_length(chunk.keys), pc.binary_length(chunk.items)):
                size += pc.sum(lengths).as_py() or 0
    return int(size)
