"""A DuckDB connection that reaches nothing: no files, no network, no extensions, and no way to change that.

DuckDB never opens a file here: queues are read by our own code (scan.py), and given to DuckDB as Arrow. So nothing of
the file system is allowed at all, not even the store, and DuckDB knows no credentials. There is no folder for what
does not fit into memory: a query that needs more than its limit ends with an error.

FAULTS: DuckDB itself says that this is no sandbox. For queries of other people there is a process around it
(worker.py).
"""

from __future__ import annotations

import re
from typing import Any, Final

import duckdb

from coldstore.shared.errors import InvalidInput, JjqError
from jjq.limits import SQL_CONNECTIONS_KEPT
from jjq.sql.query import QueryLimits, first_line

_SETTINGS: Final = {
    "temp_directory": "",  # a size of 0 does not do: DuckDB 2.0 then writes to a folder .tmp all the same
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
}
# Afterwards, and in this order: without access to files no temporary folder can be set, not even none.
_LAST: Final = "SET TimeZone = 'UTC'; SET enable_external_access = false; SET lock_configuration = true"
# What elements name, as columns: SELECT offset, unnest(object(headers)) FROM photos
_MACRO: Final = """
CREATE MACRO object(headers) AS json_transform(
    decode(coalesce(headers['jjq-object'], headers['jjq-reference'])),
    '{"sha256": "VARCHAR", "size": "BIGINT", "type": "VARCHAR", "name": "VARCHAR", "uri": "VARCHAR"}'
)"""
_KIND: Final = re.compile(r"^[A-Z][\w ]* Error: ")
_CONTEXT: Final = re.compile(r"\n\s*\nLINE \d+:.*", re.DOTALL)


def open_connection(memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """A database in memory, locked; close it."""
    settings: dict[str, Any] = {"threads": str(threads), "memory_limit": f"{int(memory_bytes)}B", **_SETTINGS}
    connection = duckdb.connect(":memory:", config=settings)
    try:
        connection.execute(_MACRO)
        connection.execute(_LAST)
    except BaseException:
        connection.close()
        raise
    return connection


class ConnectionPool:
    """Connections that were used without an error, for the next queries: to open one takes longer than many queries."""

    def __init__(self, limits: QueryLimits, keep: int = SQL_CONNECTIONS_KEPT) -> None:
        self._limits = limits
        self._keep = keep
        self._idle: list[duckdb.DuckDBPyConnection] = []

    def take(self) -> duckdb.DuckDBPyConnection:
        """One for the caller alone. Safe in any thread."""
        try:
            return self._idle.pop()
        except IndexError:
            return open_connection(self._limits.memory_bytes, self._limits.threads)

    def give_back(self, connection: duckdb.DuckDBPyConnection, *, clean: bool) -> None:
        """A `clean` one has no views any more, and no query under way."""
        if clean and len(self._idle) < self._keep:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close those that nobody uses."""
        while self._idle:
            self._idle.pop().close()


def translate(error: Exception, memory_bytes: int) -> JjqError:
    """What an error of DuckDB means to the one who asked."""
    if isinstance(error, JjqError):
        return error
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return out_of_memory(memory_bytes)
    return InvalidInput(describe(error))


def out_of_memory(memory_bytes: int) -> JjqError:
    return InvalidInput(
        f"the query was stopped: it needs more than the {memory_bytes} bytes of memory that it may have; "
        f"ask for fewer rows or columns, or raise sql_bytes_max"
    )


def describe(error: BaseException) -> str:
    """What DuckDB says, in one line: without the query, and without hints about its own settings."""
    text = _CONTEXT.sub("", str(error).strip())
    text = _KIND.sub("", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:900] or first_line(error)
