"""Look at a query before it runs: one statement that only reads, no functions that reach outside, which tables.

DuckDB parses it, and gives the parsed form as JSON (`json_serialize_sql`). What is allowed:

    SELECT, WITH, VALUES, FROM, TABLE, DESCRIBE, SUMMARIZE, SHOW TABLES, and EXPLAIN [ANALYZE] of these
    tables             queues by their names, and the system tables of the schema jjq
    table functions    those of `_TABLE_FUNCTIONS`: they make rows of their arguments, and read nothing

This is the first of two walls. The second one is the connection (connection.py), which has no access to files,
extensions or settings. Views are made only of the tables that are named here, so 10,000 queues cost nothing.

`offset` is a reserved word of SQL, and a column of ours. Where a query cannot be parsed because of it, the word is
put into quotes: `SELECT offset FROM orders WHERE offset > 5 LIMIT 5 OFFSET 2` means what it seems to mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import duckdb
import orjson

from coldstore.shared.errors import InvalidInput
from jjq.sql.query import TableName, first_line

# Make rows of their arguments, and of nothing else.
_TABLE_FUNCTIONS: Final = frozenset({
    "range", "generate_series", "unnest", "json_each", "json_tree", "repeat", "repeat_row",
})  # fmt: skip
# Of functions that give one value: those that tell of the machine, or change something.
_REFUSED: Final = frozenset({
    "getenv", "current_setting", "getvariable", "write_log", "nextval", "currval", "sleep_ms", "pg_sleep",
    "query", "query_table", "which_secret", "set_config", "add_parquet_key", "in_search_path", "current_query",
    "txid_current", "force_checkpoint", "checkpoint",
})  # fmt: skip
_REFUSED_PREFIXES: Final = ("read_", "parquet_", "pragma_", "duckdb_", "arrow_scan", "python_", "pandas_")

ALLOWED: Final = "only SELECT, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES and EXPLAIN are allowed"
_TABLES: Final = "SELECT * FROM jjq.tables ORDER BY ALL"
_EXPLAIN: Final = re.compile(r"explain\b(\s+analy[sz]e\b)?(\s*\([^)]*\))?", re.IGNORECASE)
_COMMENT: Final = re.compile(r"(\s+|--[^\n]*(\n|$)|/\*.*?\*/)+", re.DOTALL)
_BARE: Final = re.compile(rb"offset\b", re.IGNORECASE)


class Edge(NamedTuple):
    """The last (or first) `rows` elements of a queue."""

    last: bool
    rows: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A query that may run."""

    text: str
    tables: tuple[TableName, ...]  # each once
    named_results: frozenset[str]  # of WITH: a table of such a name need not exist
    count: str | None = None  # it is the number of rows of its one table, in a column of this name
    edge: Edge | None = None  # only the first or last elements of its one table matter


def check_statement(connection: duckdb.DuckDBPyConnection, text: str) -> Statement:
    """The statement in `text`, or `InvalidInput` that says what is wrong with it."""
    text = _parse(connection, text)
    statements = [each for each in connection.extract_statements(text) if each.query.strip(" \n\t;")]
    if len(statements) != 1:
        raise InvalidInput(f"the query has {len(statements)} statements: give one at a time")
    kind = statements[0].type
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        what = "this statement" if kind == duckdb.StatementType.MULTI else kind.name
        raise InvalidInput(f"{what} is refused: {ALLOWED}")
    text = statements[0].query
    asked = text
    if kind == duckdb.StatementType.EXPLAIN:
        begin = _COMMENT.match(text)
        rest = text[begin.end() :] if begin else text
        word = _EXPLAIN.match(rest)
        asked = "" if word is None else rest[word.end() :]
    tree = _tree(connection, asked)
    if _shows_tables(tree):
        return Statement(_TABLES, (TableName("jjq", "tables"),), frozenset())
    tables, results = _walk(tree)
    count = _count(tree) if kind == duckdb.StatementType.SELECT else None
    return Statement(text, tuple(dict.fromkeys(tables)), frozenset(results), count, _edge(tree))


def _tree(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    """The parsed form of one statement that only reads."""
    serialized = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()[0][0]
    try:
        found = orjson.loads(serialized)
    except orjson.JSONDecodeError:
        raise InvalidInput("the query is nested too deeply: make it simpler") from None
    if found["error"]:
        if found.get("error_type") == "not implemented":
            raise InvalidInput(f"this statement is refused: {ALLOWED}")
        raise InvalidInput(f"the query cannot be parsed: {found['error_message']}")
    if len(found["statements"]) != 1:
        raise InvalidInput(f"the query has {len(found['statements'])} statements: give one at a time")
    tree: dict[str, Any] = found["statements"][0]["node"]
    return tree


def _shows_tables(tree: dict[str, Any]) -> bool:
    """Whether all of it is SHOW TABLES."""
    source = tree.get("from_table") or {}
    if source.get("type") != "SHOW_REF" or source.get("show_type") != "SHOW_SPECIAL":
        return False
    return str(source.get("table_name", "")).strip('"') in {"tables", "__show_tables_expanded"}


def _walk(tree: dict[str, Any]) -> tuple[list[TableName], set[str]]:
    """Tables, and names of WITH; refuses what must not be there. Not recursive: a query may be nested deeply."""
    tables: list[TableName] = []
    results: set[str] = set()
    for node in _nodes(tree):
        kind = node.get("type")
        if kind == "BASE_TABLE":
            if node.get("catalog_name"):
                raise InvalidInput(
                    f'{_path(node)} is no table: a queue is named as it is, "quoted" if it has . or - in it'
                )
            tables.append(TableName(node.get("schema_name") or "", node.get("table_name") or ""))
        elif kind == "TABLE_FUNCTION":
            function = node.get("function") or {}
            name = str(function.get("function_name", "")).lower()
            if name not in _TABLE_FUNCTIONS:
                raise InvalidInput(
                    f"the function {name or '?'} is refused in FROM: queues are tables, and "
                    f"{', '.join(sorted(_TABLE_FUNCTIONS))} are allowed"
                )
        elif kind == "SHOW_REF" and node.get("show_type") == "SHOW_SPECIAL":
            raise InvalidInput("SHOW knows TABLES alone: use SHOW TABLES, DESCRIBE a table, or jjq.queues")
        if node.get("class") == "FUNCTION":
            _check_function(str(node.get("function_name", "")).lower())
        for entry in (node.get("cte_map") or {}).get("map") or ():
            results.add(str(entry.get("key", "")).lower())
    return tables, results


def _plain_table(tree: dict[str, Any]) -> dict[str, Any] | None:
    """The one table of a query if that is a queue, all of whose elements count: no condition, no group, no sample."""
    table: dict[str, Any] = tree.get("from_table") or {}
    if tree.get("type") != "SELECT_NODE" or table.get("type") != "BASE_TABLE" or table.get("schema_name"):
        return None
    conditions = ("where_clause", "group_expressions", "group_sets", "having", "sample", "qualify")
    if any(tree.get(part) for part in conditions) or tree.get("aggregate_handling") != "STANDARD_HANDLING":
        return None
    if any(table.get(part) for part in ("sample", "column_name_alias", "at_clause")):
        return None
    return None if (tree.get("cte_map") or {}).get("map") else table


def _count(tree: dict[str, Any]) -> str | None:
    """`SELECT count(*) FROM orders`: the name of its column. DuckDB would look at each row for that."""
    wanted = tree.get("select_list") or []
    if _plain_table(tree) is None or tree.get("modifiers") or len(wanted) != 1:
        return None
    selected = wanted[0]
    if (
        selected.get("function_name") != "count_star"
        or selected.get("class") != "FUNCTION"
        or selected.get("filter")
    ):
        return None
    return (
        None
        if selected.get("arguments") or selected.get("distinct")
        else str(selected.get("alias") or "count_star()")
    )


def _edge(tree: dict[str, Any]) -> Edge | None:
    """Whether a query wants the first or last elements of one queue: `… FROM orders ORDER BY offset DESC LIMIT 10`.

    DuckDB would read everything for that. Anything that could make other rows matter as well gives None.
    """
    table, modifiers = _plain_table(tree), tree.get("modifiers") or []
    if table is None or [each.get("type") for each in modifiers] != ["ORDER_MODIFIER", "LIMIT_MODIFIER"]:
        return None
    order, limit = modifiers[0]["orders"][0], modifiers[1]
    wanted = _constant(limit.get("limit")), _constant(limit.get("offset"))
    if (
        limit.get("limit_type") != "ROW_COUNT"
        or wanted[0] is None
        or (limit.get("offset") and wanted[1] is None)
    ):
        return None
    column = [str(name).lower() for name in order["expression"].get("column_names") or ()]
    named = {str(table.get("alias") or table.get("table_name")).lower()}
    if column[-1:] != ["offset"] or len(column) > 2 or not set(column[:-1]) <= named:
        return None
    if any(_may_need_other_rows(node) for node in _nodes({"list": tree.get("select_list")})):
        return None
    return Edge(order.get("type") == "DESCENDING", wanted[0] + (wanted[1] or 0))


def _constant(node: dict[str, Any] | None) -> int | None:
    """The whole number that a part of a query is."""
    literal = (node or {}).get("literal") or {}
    text = str(literal.get("text", ""))
    return int(text) if literal.get("kind") == "INTEGER" and text.isdigit() and len(text) < 10 else None


def _may_need_other_rows(node: dict[str, Any]) -> bool:
    """Windows and subqueries look at other rows; a column that is called offset may be another one."""
    return (
        node.get("class") in {"WINDOW", "SUBQUERY"}
        or bool(node.get("replace_list") or node.get("rename_list"))
        or str(node.get("alias") or "").lower() == "offset"
    )


def _check_function(name: str) -> None:
    if name in _REFUSED or (name.startswith(_REFUSED_PREFIXES) and name not in _TABLE_FUNCTIONS):
        raise InvalidInput(
            f"the function {name} is refused: a query sees queues and system tables, nothing else"
        )


def _nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    left: list[Any] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _path(node: dict[str, Any]) -> str:
    return ".".join(str(part) for part in (node.get("qualified_name") or {}).get("path") or ())


# Parsing, and the word offset -------------------------------------------------------------------------


def _parse(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    """`text`, or the same with the column offset in quotes; `InvalidInput` if it cannot be parsed.

    Of several attempts, the one that came furthest tells what is wrong.
    """
    asked, furthest, failure = text, -1, InvalidInput("the query cannot be parsed")
    for quoted in range(len(_BARE.findall(text.encode())) + 1):
        try:
            connection.extract_statements(text)
        except duckdb.Error as error:
            place = _place(connection, text)
            if furthest < (place or 0) - 2 * quoted or furthest < 0:
                furthest = max(0, (place or 0) - 2 * quoted)
                where = "" if place is None else _where(asked, furthest)
                failure = InvalidInput(f"the query cannot be parsed: {_explain(error)}{where}")
            found = None if place is None else _bare_offset(text, place)
            if found is None:
                raise failure from None
            text = found
        else:
            return text
    raise failure


def _explain(error: duckdb.Error) -> str:
    """What is wrong with a query, in one line; a name with signs in it is the usual cause."""
    line = first_line(error).removeprefix("Parser Error: ")
    if re.search(r'near "[-.]"', line):
        return f'{line} (a name with - or . in it is written in double quotes: "orders-eu")'
    return line


def _where(text: str, place: int) -> str:
    """A byte of a query, as people find it."""
    before = text.encode()[:place].decode(errors="ignore").split("\n")
    return f" (line {len(before)}, column {len(before[-1]) + 1})"


def _place(connection: duckdb.DuckDBPyConnection, text: str) -> int | None:
    """The byte at which the parser gave up."""
    rows = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    place = orjson.loads(rows[0][0]).get("position")
    return None if place is None else int(place)


def _bare_offset(text: str, place: int) -> str | None:
    """`text` with quotes around the last bare word offset at or before `place`; None if there is none."""
    raw = text.encode()
    words = [at for at, kind in duckdb.tokenize(text) if kind == duckdb.token_type.keyword and at <= place]
    for at in reversed(words):
        if _BARE.match(raw, at):
            return (raw[:at] + b'"' + raw[at : at + 6] + b'"' + raw[at + 6 :]).decode()
    return None
