"""What a query may say, and which tables it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import duckdb
import pytest

from coldstore.shared.errors import InvalidInput
from jjq.sql.connection import open_connection
from jjq.sql.query import Query, QueryLimits, TableName, decode_params, encode_params, make_query
from jjq.sql.statement import check_statement


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_connection(1 << 28, 1) as made:
        yield made


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM orders", ["orders"]),
        ("FROM orders", ["orders"]),
        ("TABLE orders", ["orders"]),
        ("VALUES (1), (2)", []),
        ('SELECT * FROM "orders-eu" o JOIN "a.b" USING (key)', ["orders-eu", "a.b"]),
        ("SELECT * FROM orders WHERE key IN (SELECT key FROM other)", ["orders", "other"]),
        ("WITH recent AS (SELECT * FROM orders) SELECT * FROM recent", ["orders", "recent"]),
        ("SELECT * FROM jjq.queues q, jjq.subscribers s", ["jjq.queues", "jjq.subscribers"]),
        ("DESCRIBE orders", ["orders"]),
        ("SUMMARIZE orders", ["orders"]),
        ("EXPLAIN ANALYZE SELECT * FROM orders", ["orders"]),
        ("/* hm */ -- hm\n EXPLAIN (FORMAT json) SELECT * FROM orders;", ["orders"]),
        ("SHOW TABLES", ["jjq.tables"]),
        ("SHOW ALL TABLES", ["jjq.tables"]),
        ("SELECT * FROM orders, range(3), unnest([1, 2]), json_each('[1]')", ["orders"]),
        ("SELECT x FROM orders SELECT", None),
    ],
)
def test_the_tables_of_a_query(
    connection: duckdb.DuckDBPyConnection, query: str, tables: list[str] | None
) -> None:
    if tables is None:
        with pytest.raises(InvalidInput, match="cannot be parsed"):
            check_statement(connection, query)
        return
    assert sorted(str(table) for table in check_statement(connection, query).tables) == sorted(tables)


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("SELECT count(*) FROM orders", "count_star()"),
        ('FROM orders AS o SELECT count() AS "a ""b"', 'a "b'),
        ("SELECT count(*) FROM orders WHERE key IS NULL", None),
        ("SELECT count(*) FROM orders LIMIT 0", None),
        ("SELECT count(*) FROM orders TABLESAMPLE 10%", None),
        ("SELECT count(*) FROM orders GROUP BY key", None),
        ("SELECT count(*) FROM orders HAVING count(*) > 5", None),
        ("SELECT count(*) FROM orders, orders AS o", None),
        ("SELECT count(*) FROM jjq.queues", None),
        ("SELECT count(*) FILTER (WHERE key IS NULL) FROM orders", None),
        ("SELECT count(*) OVER () FROM orders", None),
        ("SELECT count(*) + 1 FROM orders", None),
        ("SELECT count(*), max(offset) FROM orders", None),
        ("SELECT count(key) FROM orders", None),
        ("SELECT DISTINCT count(*) FROM orders", None),
        ("SELECT count(*) FROM orders UNION ALL SELECT 1", None),
        ("WITH orders AS (SELECT 1) SELECT count(*) FROM orders", None),
        ("EXPLAIN SELECT count(*) FROM orders", None),
        ("DESCRIBE SELECT count(*) FROM orders", None),
    ],
)
def test_a_query_that_is_the_number_of_elements(
    connection: duckdb.DuckDBPyConnection, query: str, column: str | None
) -> None:
    assert check_statement(connection, query).count == column


@pytest.mark.parametrize(
    "query",
    [
        "SELECT offset FROM orders",
        "SELECT offset, value FROM orders WHERE offset > 5",
        "SELECT max(offset) FROM orders LIMIT 5 OFFSET 3",
        "SELECT offset + 1 AS next FROM orders ORDER BY offset DESC",
        "SELECT o.offset FROM orders AS o WHERE offset BETWEEN 1 AND 2 OR offset = 7",
        "SELECT 'ä offset', offset FROM orders -- offset\n WHERE OFFSET = 3",
        'SELECT "offset" FROM orders OFFSET 1',
    ],
)
def test_the_word_offset_is_a_column(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    found = check_statement(connection, query)
    assert found.tables == (TableName("", "orders"),)
    assert connection.extract_statements(found.text)
    assert found.text.replace('"', "") == query.replace('"', "")


def test_what_is_wrong_with_a_query_is_said_as_it_was_written(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(InvalidInput, match='near "garbage"'):
        check_statement(connection, "SELECT offset FROM orders LIMIT 1 OFFSET 2 garbage")
    with pytest.raises(InvalidInput, match="in double quotes"):
        check_statement(connection, "SELECT * FROM orders-eu")


@pytest.mark.parametrize("depth", [500, 5_000, 30_000])
def test_deep_queries_are_refused_or_answered(connection: duckdb.DuckDBPyConnection, depth: int) -> None:
    for query in ("SELECT " + "(" * depth + "1" + ")" * depth, "SELECT 1" + " + 1" * depth):
        with suppress(InvalidInput):
            assert check_statement(connection, query).tables == ()


def test_parameters_keep_their_types() -> None:
    from datetime import UTC, datetime
    from decimal import Decimal

    values = [1, 2.5, "ä", b"\x00\xff", True, None, datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.50"), [1, 2]]
    assert decode_params(encode_params(values)) == values
    assert decode_params(encode_params({"a": 1, "b": "x"})) == {"a": 1, "b": "x"}
    assert encode_params(None) == encode_params([]) == b""
    assert decode_params(b"") is None


@pytest.mark.parametrize("wrong", [5, "abc", b"x", [object()], {"a": 2**70}])
def test_parameters_that_sql_has_no_type_for(wrong: object) -> None:
    with pytest.raises(InvalidInput, match=r"param"):
        encode_params(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [b"x", b"\xff" * 100])
def test_parameters_that_are_no_arrow(wrong: bytes) -> None:
    with pytest.raises(InvalidInput, match="Arrow"):
        decode_params(wrong)


def test_a_query_has_limits() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        Query("  ")
    with pytest.raises(InvalidInput, match="bytes"):
        make_query("SELECT " + "x" * 300_000)
    with pytest.raises(InvalidInput, match="above 0"):
        make_query("SELECT 1", seconds=0)
    limits = QueryLimits(seconds=60)
    assert limits.seconds_of(Query("SELECT 1")) == 60
    assert limits.seconds_of(Query("SELECT 1", seconds=5)) == 5
    assert limits.seconds_of(Query("SELECT 1", seconds=500)) == 60
    assert QueryLimits(seconds=None).seconds_of(Query("SELECT 1")) is None
    for wrong in ({"seconds": 0}, {"memory_bytes": 1}, {"queries": -1}, {"threads": 0}):
        with pytest.raises(InvalidInput):
            QueryLimits(**wrong)


def test_the_connection_itself_reaches_nothing(tmp_path: object) -> None:
    """The second wall, if the first one had a hole."""
    with open_connection(1 << 28, 1) as locked:
        for query in (
            "SELECT * FROM read_text('/etc/passwd')",
            "SELECT * FROM '/etc/passwd'",
            f"COPY (SELECT 1) TO '{tmp_path}/x'",
            f"ATTACH '{tmp_path}/x.db'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "SET memory_limit = '100GB'",
            "SET lock_configuration = false",
            "RESET enable_external_access",
        ):
            with pytest.raises(duckdb.Error):
                locked.execute(query)


def test_what_is_wrong_is_told_with_its_place(connection: duckdb.DuckDBPyConnection) -> None:
    for query, place in (
        ("SELECT count(* FROM orders", "line 1, column 16"),
        ("SELECT 'ä', offset\nFROM orders\nWHERE offset = 1 garbage more", "line 3, column 18"),
    ):
        with pytest.raises(InvalidInput, match=place):
            check_statement(connection, query)
