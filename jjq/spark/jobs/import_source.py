"""Look at the source of an import before Spark starts: a mistake is then said at once, and not after half a minute.

What is looked at: whether the files are there, what their first bytes say of their format, which columns they have
(the footer of Parquet, the header of CSV, all lines of a short file of JSON lines), of which type, and the first times.

What cannot be known here is left to Spark: other places than folders and s3://, patterns with braces, compressed files
that are not gzip, columns that only a later JSON line may have, and every value after the first ones.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from coldstore.objects.object_reader import ObjectReader
from coldstore.objects.port import ObjectStore
from coldstore.objects.settings import S3Settings
from coldstore.shared.errors import InvalidInput
from jjq.spark import cold
from jjq.spark.jobs.import_columns import TIMES, Format, Shape
from jjq.spark.limits import SOURCE_FILES, SOURCE_LINE_BYTES, SOURCE_LINES

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PARQUET: Final = b"PAR1"
_UNREAD: Final = (".bz2", ".zst", ".zstd", ".snappy", ".lz4", ".deflate", ".xz")  # only Spark unpacks these
_PARTITION: Final = re.compile(r"([^/=]+)=[^/]*")  # a folder of partitioned files; its name is a column
_MAYBE_TIME: Final = re.compile(r"[+-]?\d{4,7}(?!\d)|T?\d{1,2}:")
_EPOCH: Final = re.compile(r"-?\d{8,}(\.\d+)?")


class SourceFile(NamedTuple):
    """A file of the source."""

    name: str
    open: Callable[[], IO[bytes]]


def check_source(sources: Sequence[str], format: Format, shape: Shape, s3: S3Settings) -> None:
    """Refuse a source that cannot be imported, as far as its first files tell."""
    if not sources:
        raise InvalidInput("give the files or folders to import from")
    known: list[SourceFile] = []
    for source in sources:
        files = files_of(source, s3)
        if files is None:
            return  # some of the columns may be there
        first = list(itertools.islice(files, SOURCE_FILES))
        if not first:
            raise InvalidInput(
                f"Spark cannot read the source: there is no file {source}, and no folder with files"
            )
        known += first
    looked = [_look(file, format) for file in known[:SOURCE_FILES]]
    heads = [head for head in looked if head is not None]
    if len(heads) == len(looked):
        _check_names(shape, heads)
    for head in heads:
        _check_types(shape, head)
        if shape.time is not None and shape.time_unit is None:
            _check_times(shape.time, head)


def files_of(source: str, s3: S3Settings) -> Iterator[SourceFile] | None:
    """The files of a source; none where only Spark can tell."""
    scheme = _SCHEME.match(source)
    if scheme is not None and scheme[1] == "s3":
        return None if set(source) & set("*?[{") else _objects(source, s3)
    if scheme is not None and scheme[1] != "file":
        return None
    path = Path(unquote(urlsplit(source).path) if scheme is not None else source)
    if path.exists():
        return _local([path])
    if "{" in source:
        return None
    pattern = path.absolute()
    return _local(sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))))


def _local(paths: Sequence[Path]) -> Iterator[SourceFile]:
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for each in found:
            inner = each.relative_to(path).parts
            if each.is_file() and not any(part.startswith(("_", ".")) for part in inner):
                yield SourceFile(str(each), partial(_open_file, each))


def _open_file(path: Path) -> IO[bytes]:
    return path.open("rb")


def _objects(source: str, s3: S3Settings) -> Iterator[SourceFile]:
    parts = urlsplit(source)
    objects = cold.objects(f"s3://{parts.netloc}", s3)
    prefix = unquote(parts.path).strip("/")
    for info in objects.list(prefix):
        inner = info.key[len(prefix) :]
        hidden = any(part.startswith(("_", ".")) for part in inner.split("/") if inner)
        if info.size and not hidden and (not inner or inner.startswith("/") or not prefix):
            yield SourceFile(
                f"s3://{parts.netloc}/{info.key}", partial(_open_object, objects, info.key, info.size)
            )


def open_source(name: str, s3: S3Settings) -> IO[bytes]:
    """Open a file by the name that `files_of` gave it, in another process."""
    if not name.startswith("s3://"):
        return _open_file(Path(name))
    parts = urlsplit(name)
    key = name.removeprefix(f"s3://{parts.netloc}/")
    objects = cold.objects(f"s3://{parts.netloc}", s3)
    return _open_object(objects, key, objects.head(key).size)


def _open_object(objects: ObjectStore, key: str, size: int) -> IO[bytes]:
    return io.BufferedReader(ObjectReader(objects, key, size), SOURCE_LINE_BYTES)


class Head(NamedTuple):
    """What the beginning of a file tells."""

    file: str
    columns: dict[str, pa.DataType | None]  # no type where the format has none
    complete: bool  # the file can have no other columns
    rows: list[dict[str, object]]  # the first ones, as far as they are read


def _look(file: SourceFile, format: Format) -> Head | None:
    """The head of a file; none if only Spark can read it. `InvalidInput` if it is of another format."""
    try:
        with file.open() as opened:
            start = opened.read(len(_PARQUET))
        if format == "parquet":
            if start != _PARQUET:
                raise InvalidInput(f"{file.name} is no Parquet: {_advice(file, start)}")
            return _look_at_parquet(file)
        if start == _PARQUET:
            raise InvalidInput(f"{file.name} is Parquet, and not {format}: say --format parquet")
        if file.name.endswith(_UNREAD):
            return None
        return _look_at_csv(file) if format == "csv" else _look_at_json(file)
    except (OSError, EOFError, pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise InvalidInput(f"{file.name} cannot be read as {format}: {line[:200]}") from None


def _advice(file: SourceFile, start: bytes) -> str:
    """What the file may be instead."""
    if not start:
        return "it is empty"
    if start[:2] == b"\x1f\x8b" or file.name.endswith(_UNREAD):
        return "it is compressed text, it seems; say --format csv or --format jsonl"
    lines, _ = _lines(file)
    line = lines[0] if lines else ""
    if line.lstrip().startswith("{"):
        return "it seems to be JSON lines; say --format jsonl"
    if line.isprintable() and re.search(r"\w", line):
        return f"it seems to be CSV, its first line is {line[:60]!r}; say --format csv"
    return "say with --format what it is: parquet, jsonl or csv"


def _lines(file: SourceFile) -> tuple[list[str], bool]:
    """The first lines, and whether they are all."""
    with ExitStack() as stack:
        raw: IO[bytes] = stack.enter_context(file.open())
        if file.name.endswith(".gz"):
            raw = cast("IO[bytes]", stack.enter_context(gzip.open(raw)))
        data = b""
        while len(data) < SOURCE_LINE_BYTES and (piece := raw.read(SOURCE_LINE_BYTES - len(data))):
            data += piece
    whole = len(data) < SOURCE_LINE_BYTES
    text = data.decode("utf-8-sig", errors="strict" if whole else "ignore")
    lines = text.splitlines()
    if not whole:
        lines = lines[:-1]  # cut off
    return lines[:SOURCE_LINES], whole and len(lines) <= SOURCE_LINES


def _look_at_parquet(file: SourceFile) -> Head:
    with file.open() as opened, pq.ParquetFile(opened) as parquet:
        schema = parquet.schema_arrow
        texts = [field.name for field in schema if _is_text(field.type)]
        first = next(parquet.iter_batches(1, columns=texts), None) if texts and not _is_remote(file) else None
    columns = dict(zip(schema.names, schema.types, strict=True))
    return Head(file.name, columns, True, first.to_pylist() if first is not None else [])


def _is_remote(file: SourceFile) -> bool:
    return file.name.startswith("s3://")


def _look_at_csv(file: SourceFile) -> Head | None:
    lines, whole = _lines(file)
    if not lines:
        if whole:
            raise InvalidInput(f"{file.name} is empty: CSV has a header line")
        return None  # a line longer than we read
    rows = list(csv.reader(lines[:2]))
    if lines[0].lstrip().startswith("{"):
        raise InvalidInput(f"{file.name} seems to be JSON lines, and not CSV: say --format jsonl")
    return Head(file.name, dict.fromkeys(rows[0]), True, [dict(zip(rows[0], row)) for row in rows[1:]])  # noqa: B905


def _look_at_json(file: SourceFile) -> Head:
    lines, whole = _lines(file)
    rows: list[dict[str, object]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            raise InvalidInput(
                f"{file.name} is no file of JSON lines: line {number} is {line[:60]!r}, and not an object; "
                f"correct it, or say with --format what the file is"
            )
        rows.append(row)
    return Head(file.name, dict.fromkeys(name for row in rows for name in row), whole, rows)


def _check_names(shape: Shape, heads: Sequence[Head]) -> None:
    if not all(head.complete for head in heads):
        return
    names = dict.fromkeys(name for head in heads for name in head.columns)
    names |= dict.fromkeys(name for head in heads for name in _PARTITION.findall(head.file))
    missing = [name for name in shape.named if name not in names]
    if missing:
        raise InvalidInput(f"there is no column {missing[0]}: the source has {', '.join(names)}")


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_scalar(type_: pa.DataType) -> bool:
    """Numbers, truth values and times: neither text nor bytes, and nothing that holds others."""
    return bool(pa.types.is_primitive(type_) or pa.types.is_decimal(type_))


def _check_types(shape: Shape, head: Head) -> None:
    for name, role in ((shape.value, "value"), (shape.key, "key")):
        type_ = head.columns.get(name or "")
        if type_ is not None and _is_scalar(type_):
            raise InvalidInput(f"column {name} is {type_}; a {role} is text or bytes: cast it first")
    type_ = head.columns.get(shape.headers or "")
    if type_ is not None and not pa.types.is_map(type_):
        raise InvalidInput(f"column {shape.headers} is {type_}; headers are a map of texts or bytes")
    for name in shape.order:
        type_ = head.columns.get(name)
        if type_ is not None and pa.types.is_nested(type_):
            raise InvalidInput(f"column {name} is {type_}, by which nothing can be ordered: choose another")


def _check_times(name: str, head: Head) -> None:
    """The first times, if they are text; and numbers, of which nobody said what they count."""
    type_ = head.columns.get(name)
    numeric = type_ is not None and (pa.types.is_integer(type_) or pa.types.is_floating(type_))
    sample = next((row[name] for row in head.rows if row.get(name) not in {None, ""}), None)
    if (
        numeric
        or isinstance(sample, int | float)
        or (isinstance(sample, str) and _EPOCH.fullmatch(sample.strip()))
    ):
        shown = "" if sample is None else f", for instance {sample}"
        raise InvalidInput(
            f"column {name} has numbers{shown}: say with --time-unit s, ms or us what they count"
        )
    if isinstance(sample, str) and not _MAYBE_TIME.match(sample.strip()):
        raise InvalidInput(f"column {name} is no time, for instance {sample[:60]!r}: {TIMES}")
