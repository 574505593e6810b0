"""The rows of a query, printed or written: a table for people; CSV, JSON, Arrow or Parquet for programs.

All forms but the table are written while rows come, so a result may be larger than memory.
"""

from __future__ import annotations

import base64
import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import orjson

from coldstore.shared.errors import InvalidInput
from jjq.cli.output import note, print_table, time_text
from jjq.limits import SQL_TABLE_ROWS_MAX

if TYPE_CHECKING:
    import pyarrow as pa

    from jjq.blocking import SqlResult

Format = Literal["table", "csv", "json", "arrow", "parquet"]

Write = Callable[["SqlResult"], int]


@contextmanager
def open_output(format: Format, path: Path | None) -> Iterator[Write]:
    """Something that writes rows, and says how many; a file appears whole or not at all."""
    if path is None:
        if format in {"arrow", "parquet"} and sys.stdout.isatty():
            raise InvalidInput(f"{format} is not for a terminal: give a file with -o, or use a pipe")
        yield lambda rows: _write(rows, format, sys.stdout.buffer, on_screen=True)
        sys.stdout.flush()
        return
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as sink:
            yield lambda rows: _write(rows, format, sink, on_screen=False)
        part.replace(path)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}; choose another file") from None
    finally:
        part.unlink(missing_ok=True)


def _write(rows: SqlResult, format: Format, sink: IO[bytes], *, on_screen: bool) -> int:
    if format == "table":
        return print_rows(rows) if on_screen else _write_csv(rows, sink, delimiter="\t")
    if format == "csv":
        return _write_csv(rows, sink)
    if format == "json":
        return _write_json(rows, sink)
    return _write_arrow(rows, sink) if format == "arrow" else _write_parquet(rows, sink)


def print_rows(rows: SqlResult) -> int:
    """Print a table, and say if rows were left out."""
    shown: list[list[str | None]] = []
    names = list(rows.schema.names)
    for batch in rows:
        shown += [[_shown(value) for value in row] for row in _rows(batch)]
        if len(shown) > SQL_TABLE_ROWS_MAX:
            note(
                f"jjq: only the first {SQL_TABLE_ROWS_MAX:,} rows are shown; --format csv writes all of them"
            )
            break
    print_table([name.upper() if name.isidentifier() else name for name in names], shown[:SQL_TABLE_ROWS_MAX])
    return len(shown)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """By place, as columns may share a name."""
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _shown(value: Any) -> str | None:
    """A value for people."""
    return time_text(value) if isinstance(value, datetime) and value.tzinfo is not None else _text(value)


def _text(value: Any) -> str | None:
    """A value for CSV. Bytes are nearly always text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict | tuple):
        return orjson.dumps(_json_value(value)).decode()
    return str(value)


def _json_value(value: Any) -> Any:
    """A value as JSON knows it; bytes that are no text are an object with `base64`."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if (
        isinstance(value, list)
        and value
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    ):
        return {str(name): _json_value(each) for name, each in value}  # a map
    if isinstance(value, list | tuple):
        return [_json_value(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _json_value(each) for name, each in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 2**53 else str(value)
    if isinstance(value, timedelta | date | time):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _write_csv(rows: SqlResult, sink: IO[bytes], delimiter: str = ",") -> int:
    count = 0
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(rows.schema.names)
    for batch in rows:
        writer.writerows([_text(value) for value in row] for row in _rows(batch))
        count += batch.num_rows
        sink.write(text.getvalue().encode("utf-8", "replace"))
        text.seek(0)
        text.truncate()
    sink.write(text.getvalue().encode("utf-8", "replace"))
    return count


def _write_json(rows: SqlResult, sink: IO[bytes]) -> int:
    count, names = 0, list(rows.schema.names)
    for batch in rows:
        lines = [
            orjson.dumps({name: _json_value(value) for name, value in zip(names, row, strict=True)})
            for row in _rows(batch)
        ]
        count += len(lines)
        sink.write(b"".join(line + b"\n" for line in lines))
    return count


def _write_arrow(rows: SqlResult, sink: IO[bytes]) -> int:
    import pyarrow as pa

    count = 0
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _write_parquet(rows: SqlResult, sink: IO[bytes]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 0
    try:
        with pq.ParquetWriter(sink, rows.schema, compression="zstd") as writer:
            for batch in rows:
                writer.write_batch(batch)
                count += batch.num_rows
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InvalidInput(
            f"Parquet has no type for a column of this result ({error}): cast it, or choose another format"
        ) from None
    return count
