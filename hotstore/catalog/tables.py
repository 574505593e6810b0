"""The tables of the catalog (catalog.py): their schemas, and the one transaction that changes them.

Every statement is a constant; rows come in as registered Arrow tables, so a hundred thousand of
them cost one merge and no loop in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, Literal

import duckdb
import pyarrow as pa

from coldstore.shared import failpoint, lists
from coldstore.shared.batch import TIMESTAMP
from coldstore.shared.errors import InvalidInput

FORMAT: Final = 1


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])


QUEUES: Final = _schema(
    id=pa.string(), name=pa.string(), content=pa.string(),
    block_bytes=pa.int64(), block_seconds=pa.float64(), created=TIMESTAMP,
    first_offset=pa.int64(), next_offset=pa.int64(), cold_offset=pa.int64(),
)  # fmt: skip
SUBSCRIBERS: Final = _schema(
    id=pa.string(), name=pa.string(), queue_id=pa.string(), block=pa.int64(), offset=pa.int64(),
    previous=pa.int64(), start=pa.string(), created=TIMESTAMP, asleep=pa.bool_(),
)  # fmt: skip
_CHECKPOINT: Final = _schema(format=pa.int32(), journal_sequence=pa.int64(), written=TIMESTAMP)
_IDS: Final = _schema(id=pa.string())

_CREATE: Final = """
CREATE TABLE IF NOT EXISTS checkpoint (
    format INTEGER PRIMARY KEY, journal_sequence BIGINT NOT NULL, written TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS queues (
    id VARCHAR PRIMARY KEY, name VARCHAR NOT NULL UNIQUE, content VARCHAR NOT NULL,
    block_bytes BIGINT NOT NULL, block_seconds DOUBLE NOT NULL, created TIMESTAMPTZ NOT NULL,
    first_offset BIGINT NOT NULL, next_offset BIGINT NOT NULL, cold_offset BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS subscribers (
    id VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, queue_id VARCHAR NOT NULL, block BIGINT NOT NULL,
    "offset" BIGINT NOT NULL, previous BIGINT NOT NULL, start VARCHAR NOT NULL,
    created TIMESTAMPTZ NOT NULL, asleep BOOLEAN NOT NULL);
CREATE VIEW IF NOT EXISTS lag AS
    SELECT s.id AS subscriber, q.name AS queue, s."offset", q.next_offset, q.next_offset - s."offset" AS lag
    FROM subscribers s JOIN queues q ON q.id = s.queue_id;
CREATE VIEW IF NOT EXISTS subscribers_by_block AS
    SELECT q.name AS queue, s.block, count(*) AS subscribers, list(s.name ORDER BY s.name) AS names
    FROM subscribers s JOIN queues q ON q.id = s.queue_id GROUP BY q.name, s.block;
"""
# A queue's name is not updated: it never changes, and an update of a unique column costs an index change.
_MERGE: Final = {
    "new_queues": """MERGE INTO queues t USING new_queues n ON t.id = n.id
    WHEN MATCHED THEN UPDATE SET content = n.content, block_bytes = n.block_bytes,
        block_seconds = n.block_seconds, created = n.created, first_offset = n.first_offset,
        next_offset = n.next_offset, cold_offset = n.cold_offset
    WHEN NOT MATCHED THEN INSERT BY NAME *""",
    "new_subscribers": """MERGE INTO subscribers t USING new_subscribers n ON t.id = n.id
    WHEN MATCHED THEN UPDATE SET name = n.name, queue_id = n.queue_id, block = n.block,
        "offset" = n."offset", previous = n.previous, start = n.start, created = n.created, asleep = n.asleep
    WHEN NOT MATCHED THEN INSERT BY NAME *""",
    "new_checkpoint": "INSERT OR REPLACE INTO checkpoint BY NAME SELECT * FROM new_checkpoint",
}
_DELETE_OTHERS: Final = (
    "DELETE FROM subscribers WHERE id NOT IN (SELECT id FROM new_subscribers)",
    "DELETE FROM queues WHERE id NOT IN (SELECT id FROM new_queues)",
)
_DELETE_GONE: Final = (
    "DELETE FROM subscribers WHERE id IN (SELECT id FROM gone) OR queue_id IN (SELECT id FROM gone)",
    "DELETE FROM queues WHERE id IN (SELECT id FROM gone)",
)
# Enough, for what is not new either stays as it was checked or is deleted with its queue.
_ORPHANS: Final = "SELECT n.id FROM new_subscribers n ANTI JOIN queues q ON q.id = n.queue_id LIMIT 1"
_COLUMNS: Final = """SELECT table_name, column_name, data_type FROM duckdb_columns()
    WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal"""


def incoming(
    queues: pa.Table, subscribers: pa.Table, gone: Sequence[str], sequence: int, written_us: int
) -> dict[str, pa.Table]:
    """What one write brings, by the names under which the statements know it."""
    if not (queues.schema.equals(QUEUES) and subscribers.schema.equals(SUBSCRIBERS)):
        raise InvalidInput("catalog rows must have the schemas catalog.QUEUES and catalog.SUBSCRIBERS")
    checkpoint = {"format": [FORMAT], "journal_sequence": [sequence], "written": [written_us]}
    return {
        "new_queues": queues,
        "new_subscribers": subscribers,
        "new_checkpoint": lists.table(checkpoint, _CHECKPOINT),
        "gone": lists.table({"id": list(gone)}, _IDS),
    }


def change(connection: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table], everything: bool) -> None:
    """One transaction: create what is missing (before everything), delete, merge, check, commit."""
    for name, table in tables.items():
        connection.register(name, table)
    first: tuple[str, ...] = ()
    if everything:
        first = (_CREATE, *_DELETE_OTHERS)
    elif len(tables["gone"]):
        first = _DELETE_GONE
    connection.execute("BEGIN")
    for statement in (*first, *(text for name, text in _MERGE.items() if len(tables[name]))):
        connection.execute(statement)
    for (orphan,) in connection.execute(_ORPHANS).fetchall():
        raise InvalidInput(f"subscriber {orphan} belongs to a queue that the catalog does not have")
    connection.execute("COMMIT")
    failpoint.reach("catalog.written")
    connection.execute("CHECKPOINT")  # says so when it fails; closing would keep silent


def flaw(connection: duckdb.DuckDBPyConnection) -> tuple[Literal["format", "damaged"], str] | None:
    """What makes a sound DuckDB file no catalog of ours; one without any table may become one."""
    columns = set(connection.execute(_COLUMNS).fetchall())
    if ("checkpoint", "format", "INTEGER") in columns:
        formats = [found for (found,) in connection.execute("SELECT format FROM checkpoint").fetchall()]
        if formats and formats != [FORMAT]:
            return "format", f"has format {formats[0]}, this version writes {FORMAT}"
        if not formats:
            return "damaged", "has no checkpoint"
    if columns and _expected() - columns:
        return "damaged", f"has not the tables of format {FORMAT}"
    return None


@functools.cache
def _expected() -> frozenset[tuple[str, ...]]:
    with duckdb.connect() as memory:
        memory.execute(_CREATE)
        return frozenset(memory.execute(_COLUMNS).fetchall())
