"""Tables in a DuckDB file, and back: the form of a checkpoint that any DuckDB tool reads.

    checkpoint    format · journal · sequence · begin · written                    one row
    …             the tables of the parts, by their forms (registry_part.py)
    subscribers   number · id · name · queue · block · offset · previous · start · clamp · created · asleep         view
    lag           subscriber · queue · offset · next_offset · lag                                                   view
    subscribers_by_block     queue · block · subscribers · names                   view; sleeping ones included

A table is written whole, from memory. A file that is there already keeps the tables that did not change. When the file
is let go, there is no log beside it. DuckDB is imported when it is first needed. It can do nothing else: it may open
files of one folder, no extension, and has a bound on memory. One instance of it is kept for writing, and the file is
attached to it: to start one takes as long as to write a hundred thousand positions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from coldstore.shared import lists
from coldstore.shared.batch import TIMESTAMP
from coldstore.shared.errors import Conflict, DataLoss, Unavailable
from hotstore.checkpoint.part import TableForm
from hotstore.limits import CHECKPOINT_MEMORY

if TYPE_CHECKING:
    import duckdb

FORMAT: Final = 1

_HEAD: Final = pa.schema(
    {
        "format": pa.int64(),
        "journal": pa.string(),
        "sequence": pa.int64(),
        "begin": pa.int64(),
        "written": TIMESTAMP,
    }
)
_STORAGE: Final = "v1.4.0"  # any DuckDB from 1.4 on opens the file
_SETTINGS: Final[dict[str, str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "memory_limit": CHECKPOINT_MEMORY,
    "threads": "1",
    "async_threads": "1",
    "max_temp_directory_size": "0KB",
    # Commit by checkpoint instead of by WAL: half the writing.
    "checkpoint_threshold": "1KB",
    "auto_checkpoint_skip_wal_threshold": "0",
}
_OPTIONAL: Final = frozenset({"async_threads", "auto_checkpoint_skip_wal_threshold"})  # unknown to DuckDB 1.4
_FIRST: Final = (
    "SET enable_progress_bar = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_VIEWS: Final = """
CREATE VIEW subscribers AS
    SELECT s.number, q.name || '/' || s.name AS id, s.name, q.name AS queue, p.block, p."offset", p.previous,
        s.start, s.clamp, s.created, p.asleep
    FROM subscriptions s JOIN positions p USING (number) JOIN queues q ON q.number = s.queue_number;
CREATE VIEW lag AS
    SELECT s.id AS subscriber, s.queue, s."offset", q.next_offset, q.next_offset - s."offset" AS lag
    FROM subscribers s JOIN queues q ON q.name = s.queue;
CREATE VIEW subscribers_by_block AS
    SELECT queue, block, count(*) AS subscribers, list(name ORDER BY name) AS names
    FROM subscribers GROUP BY queue, block;
"""
_TABLES: Final = "SELECT table_name FROM duckdb_tables() WHERE NOT internal"


@dataclass(frozen=True, slots=True)
class CheckpointHead:
    """What a checkpoint says of itself."""

    journal: int
    sequence: int  # the journal goes on here
    begin: int  # a journal that is there from here on tells everything by itself
    written_us: int


class CheckpointCodec(Protocol):
    """Writes and reads the file of a checkpoint. In a worker thread."""

    def write(self, path: Path, head: CheckpointHead, tables: Mapping[str, pa.Table]) -> None:
        """Make a file at `path`; where there is one, replace these tables in it."""
        ...

    def read(self, path: Path, forms: Sequence[TableForm]) -> tuple[CheckpointHead, dict[str, pa.Table]]:
        """What was written; `DataLoss` if it is no checkpoint, `Conflict` if a newer version wrote it."""
        ...


class DuckDbCodec:
    """See the module's docstring. One thread at a time writes."""

    def __init__(self) -> None:
        self._writer: tuple[Path, duckdb.DuckDBPyConnection] | None = None  # with the folder of its files

    def write(self, path: Path, head: CheckpointHead, tables: Mapping[str, pa.Table]) -> None:
        rows: dict[str, list[Any]] = {
            "format": [FORMAT],
            "journal": [f"{head.journal:016x}"],
            "sequence": [head.sequence],
            "begin": [head.begin],
            "written": [head.written_us],
        }
        fresh = not path.exists()
        try:
            with _our_errors():
                self._fill(path, {"checkpoint": lists.table(rows, _HEAD), **tables}, fresh)
        except BaseException:
            self._writer = None  # whatever state it is in
            raise

    def _fill(self, path: Path, tables: Mapping[str, pa.Table], fresh: bool) -> None:
        connection = self._connection(path.parent)
        connection.execute(f"ATTACH {_quoted(path)} AS made (STORAGE_VERSION '{_STORAGE}')")
        connection.execute("USE made")
        connection.execute("BEGIN")
        for name, table in tables.items():
            connection.register("incoming", table)
            connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM incoming')
            connection.unregister("incoming")
        if fresh:
            connection.execute(_VIEWS)
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT made")  # says so when it fails
        connection.execute("USE memory")
        connection.execute("DETACH made")

    def _connection(self, folder: Path) -> duckdb.DuckDBPyConnection:
        if self._writer is None or self._writer[0] != folder:
            import duckdb

            connection = duckdb.connect(config=dict(_settings()))
            connection.execute(f"SET allowed_directories = [{_quoted(folder)}]")
            for statement in _FIRST:
                connection.execute(statement)
            self._writer = folder, connection
        return self._writer[1]

    def read(self, path: Path, forms: Sequence[TableForm]) -> tuple[CheckpointHead, dict[str, pa.Table]]:
        with open_reader(path) as connection:
            names = {name for (name,) in connection.execute(_TABLES).fetchall()}
            if "checkpoint" not in names:
                raise DataLoss("it is a DuckDB file, but not a checkpoint")
            head = _read_head(connection)
            unknown = names.difference(["checkpoint"], (form.name for form in forms))
            if unknown:
                raise Conflict(f"it has tables that this jjq does not know ({', '.join(sorted(unknown))})")
            return head, {form.name: _read_table(connection, form, names) for form in forms}


def _read_head(connection: duckdb.DuckDBPyConnection) -> CheckpointHead:
    text = "SELECT format, journal, sequence, begin, epoch_us(written) FROM checkpoint"
    rows: list[tuple[Any, ...]] = connection.execute(text).fetchall()
    if len(rows) != 1:
        raise DataLoss("it does not say which checkpoint it is")
    format_, journal, sequence, begin, written_us = rows[0]
    if format_ != FORMAT:
        raise Conflict(f"it has format {format_}, this jjq reads {FORMAT}")
    return CheckpointHead(int(journal, 16), sequence, begin, written_us)


def _read_table(connection: duckdb.DuckDBPyConnection, form: TableForm, names: set[str]) -> pa.Table:
    if form.name not in names:
        return form.empty()  # a checkpoint of a version that did not have it
    columns = ", ".join(f'"{name}"' for name in form.schema.names)
    return connection.sql(f'SELECT {columns} FROM "{form.name}"').to_arrow_table().cast(form.schema)


@contextmanager
def open_reader(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that reads the file and nothing else."""
    import duckdb

    with _our_errors(), duckdb.connect(str(path), read_only=True, config=dict(_settings())) as connection:
        for statement in _FIRST:
            connection.execute(statement)
        yield connection


def _quoted(path: Path) -> str:
    return "'" + str(path.absolute()).replace("'", "''") + "'"


@contextmanager
def _our_errors() -> Iterator[None]:
    """The machine's fault, or the file's."""
    import duckdb

    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise Unavailable(f"DuckDB: {first_line(error)}") from error
    except duckdb.Error as error:
        raise DataLoss(f"DuckDB: {first_line(error)}") from error


@functools.cache
def _settings() -> dict[str, str]:
    """Without what the installed DuckDB does not know."""
    import duckdb

    with duckdb.connect() as memory:
        known = {name for (name,) in memory.execute("SELECT name FROM duckdb_settings()").fetchall()}
    return {name: value for name, value in _SETTINGS.items() if name in known or name not in _OPTIONAL}


def first_line(error: BaseException) -> str:
    """What an error says, without the stack traces that DuckDB appends."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
