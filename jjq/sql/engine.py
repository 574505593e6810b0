"""Run one query in this process: check it, make views of the tables that it names, and give its rows in batches.

    Execution(…)   opens a connection that is locked
    open()         checks the query, makes the views, begins; the schema of the result
    batches()      the rows
    interrupt()    from any thread: the query ends soon, with an error
    close()        always

Tables are found when they are named. A queue is found by its exact name, or by the same letters in other case if only
one queue has them: SQL does not distinguish case. An error about a name suggests the nearest ones.

If a file of the snapshot is gone, since it was merged and swept long ago, the query is begun again with a new snapshot,
unless rows were given already.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coldstore.block.files import BlockFiles
from coldstore.history.block_list import BlockList
from coldstore.layout import paths
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, JjqError, NotFound, Unavailable
from coldstore.shared.results import QueueInfo
from jjq.limits import SQL_NAMES_NEAR, SQL_ROWS
from jjq.sql import system_tables
from jjq.sql.connection import ConnectionPool, describe, translate
from jjq.sql.object_files import ScanFailures
from jjq.sql.query import Query, QueryLimits, TableName, decode_params
from jjq.sql.scan import QueueScan, QueueSnapshot, find_file, not_ruled_out, probe_fragment
from jjq.sql.source import EngineSource, OpenQueues
from jjq.sql.statement import Statement, check_statement
from jjq.sql.system_tables import SystemTable

_SYSTEM: Final = "system table "  # begins the name of a view that no queue can have
_TRIES: Final = 2  # of a query whose files were swept
_MERGED: Final = "files were merged while the query read them: run it again"
_GONE: Final = ("No such file", "[errno 2]", "FileNotFound")
_DAMAGED: Final = (
    "crc",
    "checksum",
    "parquet",
    "thrift",
    "corrupt",
    "deserialize",
    "unexpected end of stream",
    "zstd",
)
# DuckDB and Arrow pass errors of each other, and of our own code below them, as any of these.
_ERRORS: Final = (
    JjqError,
    duckdb.Error,
    pa.ArrowException,
    OSError,
    ValueError,
    RuntimeError,
    MemoryError,
    KeyError,
)


class Execution:
    """One query under way."""

    def __init__(
        self,
        query: Query,
        source: EngineSource,
        cold: OpenQueues | None,
        limits: QueryLimits,
        pool: ConnectionPool | None = None,
    ) -> None:
        self._query = query
        self._params = decode_params(query.params)
        self._source = source
        self._cold = cold
        self._limits = limits
        self._failures = ScanFailures()
        self._reader: pa.RecordBatchReader | None = None
        self._pool = pool or ConnectionPool(limits, keep=0)
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._views: list[str] = []
        self._clean = False  # whether all rows were given
        self.scans: dict[str, QueueScan] = {}
        self._rows = SQL_ROWS

    def open(self) -> pa.Schema:
        """Begin; the schema of the rows. Most of the work may be done here: DuckDB looks for the first rows."""
        for _ in range(_TRIES):
            try:
                self._reader = self._begin()
                return self._reader.schema
            except _Swept:
                self.close()
                self._failures = ScanFailures()
        raise Unavailable(_MERGED)

    def _begin(self) -> pa.RecordBatchReader:
        self._connection = self._pool.take()
        self._clean = False
        try:
            statement = check_statement(self._connection, self._query.text)
            self._make_views(self._connection, statement)
            relation = self._connection.sql(self._text(statement), params=self._params)
            if relation is None:
                raise InvalidInput("the query gives no rows: ask for something by SELECT")
            return relation.to_arrow_reader(self._rows)
        except _ERRORS as error:
            raise self._failed(error) from None

    def _text(self, statement: Statement) -> str:
        """What DuckDB is asked. How many elements a queue has is known."""
        if statement.count is None:
            return statement.text
        (scan,) = self.scans.values()
        name = statement.count.replace('"', '""')
        return f'SELECT {scan.rows}::BIGINT AS "{name}"'

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as they are found."""
        given = False
        for _ in range(_TRIES):
            try:
                while (batch := self._next()) is not None:
                    if batch.num_rows:
                        given = True
                        yield batch
            except _Swept:
                self.close()
                if given:
                    break
                self._failures = ScanFailures()
                self.open()
            else:
                return
        raise Unavailable(_MERGED)

    def _next(self) -> pa.RecordBatch | None:
        if self._reader is None:
            return None
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            self._clean = True
            return None
        except _ERRORS as error:
            raise self._failed(error) from None

    def interrupt(self) -> None:
        """Stop soon; from any thread, at any time."""
        connection = self._connection
        if connection is not None:
            with suppress(duckdb.Error):
                connection.interrupt()

    def close(self) -> None:
        """Let go of everything. Closing again does nothing."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection, clean=self._clean and self._drop_views(connection))
        for scan in self.scans.values():
            scan.close()
        self.scans.clear()

    def _drop_views(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Make the connection as good as new; whether that was possible."""
        views, self._views = self._views, []
        try:
            if any(name.startswith(_SYSTEM) for name in views):
                connection.execute(f"DROP SCHEMA IF EXISTS {system_tables.SCHEMA} CASCADE")
            for name in views:
                connection.unregister(name)
        except duckdb.Error:
            return False
        return True

    # Tables -------------------------------------------------------------------------------------------

    def _make_views(self, connection: duckdb.DuckDBPyConnection, statement: Statement) -> None:
        made: dict[str, str] = {}
        for table in statement.tables:
            if table.schema:
                continue
            optional = table.name.lower() in statement.named_results
            found = self._find_queue(table.name, optional=optional)
            if found is None:
                continue
            name = found.name
            before = made.setdefault(name.lower(), name)
            if before != name:
                raise InvalidInput(f"SQL takes {before} and {name} for one name: ask them in two queries")
            if name not in self.scans:
                snapshot = self._snapshot(found)
                self.scans[name] = QueueScan(snapshot, self._failures, edge=statement.edge)
                self._register(connection, name, self.scans[name])
        self._rows = min((scan.batch_rows for scan in self.scans.values()), default=SQL_ROWS)
        self._make_system_views(connection, [table for table in statement.tables if table.schema])

    def _register(self, connection: duckdb.DuckDBPyConnection, name: str, data: ds.Dataset) -> None:
        connection.register(name, data)
        self._views.append(name)

    def _make_system_views(self, connection: duckdb.DuckDBPyConnection, tables: list[TableName]) -> None:
        wanted: dict[str, SystemTable] = {}
        for table in tables:
            found = system_tables.find(table.name) if table.schema.lower() == system_tables.SCHEMA else None
            if found is None:
                raise self._unknown(table)
            wanted[found.name] = found
        if wanted:
            connection.execute(f"CREATE SCHEMA {system_tables.SCHEMA}")
        for name, found in wanted.items():
            inner = f"{_SYSTEM}{name}"
            self._register(connection, inner, SystemScan(found, self._source, self._failures))
            connection.execute(f'CREATE VIEW {system_tables.SCHEMA}.{name} AS SELECT * FROM "{inner}"')

    def _find_queue(self, name: str, *, optional: bool) -> QueueInfo | None:
        """The queue that a query calls `name`; None if it need not be one."""
        if paths.is_name(name) or paths.ledger_parts(name) is not None:
            with suppress(NotFound):
                return self._source.queue(name)
        alike = [known for known in self._source.queue_names() if known.lower() == name.lower()]
        if len(alike) == 1:
            return self._source.queue(alike[0])
        if optional:
            return None
        if alike:
            raise NotFound(f'there is no queue "{name}", but {", ".join(alike)}: use one of these names')
        raise self._unknown(TableName("", name))

    def _unknown(self, table: TableName) -> NotFound:
        queues = self._source.queue_names()
        if str(table) in queues:
            return NotFound(f'no table {table}; the queue is written in double quotes: "{table}"')
        known = [*queues, *(str(name) for name in system_tables.names())]
        near = get_close_matches(str(table), known, SQL_NAMES_NEAR, 0.5)
        near += [name for name in get_close_matches(table.name, known, 1, 0.6) if name not in near]
        hint = f"the nearest: {', '.join(near)}; " if near else ""
        return NotFound(f"no table {table}: {hint}SHOW TABLES lists all, names with . or - in double quotes")

    def _snapshot(self, info: QueueInfo) -> QueueSnapshot:
        """`info` says how far the queue goes. The blocks are read after it, so elements that are sealed in between are
        in one of them."""
        name = info.name
        blocks, files = BlockList.empty(name), None
        if self._cold is not None:
            with suppress(NotFound):  # known to the server, and nothing was ever sealed
                queue = self._cold.open_queue(name)
                if queue.settings.id != info.id:
                    raise Conflict(f"queue {name} of the server is another one than that in the cold store")
                blocks = queue.list_blocks()
                files = BlockFiles(self._cold.objects, queue.settings)
        return QueueSnapshot(
            name,
            info.content,
            blocks,
            info.next_offset,
            files,
            lambda start, end: self._source.read(name, start, end),
        )

    # Errors -------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> Exception:
        """What to raise: our own error, if one is the cause; a file that is gone; or what DuckDB says."""
        if self._failures.first is not None:
            found = self._failures.first
            return _Swept() if isinstance(found, NotFound) and find_file(str(found)) else found
        if isinstance(error, JjqError):
            return error
        text = str(error)
        file = find_file(text)
        if any(sign in text for sign in _GONE) and (file is not None or ".parquet" in text):
            return _Swept()
        if self._is_damage(error, text):
            known = ", ".join(self.scans)
            return DataLoss(
                f"the history of {known} cannot be read ({describe(error)}): run jjq verify, restore it from a copy",
                key=file,
            )
        return translate(error, self._limits.memory_bytes)

    def _is_damage(self, error: Exception, text: str) -> bool:
        read = any(scan.opened for scan in self.scans.values())
        message = text.lower()
        outside = isinstance(
            error, duckdb.IOException | duckdb.InvalidInputException | pa.ArrowException | OSError
        )
        return read and outside and any(sign in message for sign in _DAMAGED)


class _Swept(Exception):
    """A file of the snapshot is gone."""


class SystemScan(ds.Dataset):  # type: ignore[misc]
    """A system table, made when DuckDB reads it."""

    def __init__(self, table: SystemTable, source: EngineSource, failures: ScanFailures) -> None:
        self._table = table
        self._source = source
        self._failures = failures
        self._table_rows: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def scanner(
        self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> ds.Scanner:
        try:
            made = self._rows(filter)
        except JjqError as error:
            self._failures.note(error)
            raise
        return ds.InMemoryDataset(made).scanner(columns=columns, filter=filter)

    def _rows(self, filter: pc.Expression | None) -> pa.Table:
        if self._table_rows is not None:
            return self._table_rows
        if self._table.by_queue and filter is not None:
            return self._source.system(self._table.name, self._queues(filter))
        self._table_rows = self._source.system(self._table.name, None)
        return self._table_rows

    def _queues(self, filter: pc.Expression) -> list[str]:
        """The queues that a filter does not rule out."""
        names = self._source.queue_names()
        probes = {name: probe_fragment(name, pc.field("queue") == name) for name in names}
        return [fragment.path for fragment in not_ruled_out(probes, self._table.schema, filter)]
