"""Buried tasks by a condition in SQL: `kick(where="reason LIKE '%timeout%' AND since < '2026-01-31'")`.

The condition is judged here, in the client, by DuckDB over the tasks of the group as they are now. Their columns are
those of `tasks_at`: task, attempt, since, worker and reason. The connection reaches no file and no network
(jjq/sql/connection.py).

A file of its own: DuckDB is loaded only when somebody has a condition.
"""

from __future__ import annotations

import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared.errors import InvalidInput
from jjq.limits import SQL_BYTES_MAX, TASKS_MAX


def buried_where(tasks: pa.Table, where: str) -> list[int]:
    """The ids of the buried tasks that fit the condition, in order."""
    from jjq.sql.connection import open_connection, translate

    if not where.strip():
        raise InvalidInput("where is empty: give a condition, for instance reason LIKE '%timeout%'")
    if ";" in where:
        raise InvalidInput("where is one condition, without a semicolon")
    buried = tasks.filter(pc.equal(tasks.column("state"), "buried"))
    connection = open_connection(SQL_BYTES_MAX, 1)
    try:
        connection.register("tasks", buried)
        # In a line of its own: a comment at the end must not hide the bracket.
        query = f"SELECT task FROM tasks WHERE (\n{where}\n) ORDER BY task"
        found = connection.execute(query).fetchall()
    except InvalidInput:
        raise
    except Exception as error:  # noqa: BLE001 - DuckDB's errors become ours
        raise InvalidInput(f"where cannot be judged: {translate(error, SQL_BYTES_MAX).message}") from None
    finally:
        connection.close()
    return [row[0] for row in found]


def in_parts(ids: list[int]) -> list[list[int]]:
    """Ids for several requests."""
    return [ids[at : at + TASKS_MAX] for at in range(0, len(ids), TASKS_MAX)]
