"""`jjq sql`: where it asks, what it prints, and its shell."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.defaults import create_pipe_input
from prompt_toolkit.output import DummyOutput

import jjq as product
from jjq.cli.queues import sql_output, sql_shell
from jjq.cli.queues.sql_shell import TableCompleter, run_shell
from tests.jjq.cli.command import Command
from tests.servers.jjq_server import JjqServer

QUERY = "SELECT offset, value->>'item' AS item, key, headers FROM orders ORDER BY offset"


@pytest.fixture(scope="module")
def orders(server: JjqServer) -> JjqServer:
    """Queue orders: two elements in a block, and one behind it."""
    with product.connect(server.address) as client:
        client.create_queue("orders", content="json")
        client.create_queue("orders-eu")
        client.push(
            "orders",
            ['{"item": "milk"}', '{"item": "tea"}'],
            keys=["a", None],
            headers=[{"h": b"\xff"}, None],
        )
        client.seal("orders")
        client.push("orders", ['{"item": "milk"}'])
    return server


def test_every_format(jjq: Command, orders: JjqServer, tmp_path: Path) -> None:
    near = ("--data", str(orders.data))  # in this process, which is quicker
    table = jjq.ok("sql", QUERY, *near).lines
    assert table[0].split() == ["OFFSET", "ITEM", "KEY", "HEADERS"]
    assert table[1].split()[:3] == ["0", "milk", "a"]
    assert len(table) == 4
    rows = list(csv.reader(io.StringIO(jjq.ok("sql", QUERY, "--format", "csv", *near).text)))
    assert rows[0] == ["offset", "item", "key", "headers"]
    assert rows[1] == ["0", "milk", "a", '{"h":{"base64":"/w=="}}']
    assert rows[3] == ["2", "milk", "", ""]
    found = [json.loads(line) for line in jjq.ok("sql", QUERY, "--format", "json", *near).lines]
    assert found[0] == {"offset": 0, "item": "milk", "key": "a", "headers": {"h": {"base64": "/w=="}}}
    assert [row["offset"] for row in found] == [0, 1, 2]
    arrow = pa.ipc.open_stream(jjq.ok("sql", QUERY, "--format", "arrow", *near).output).read_all()
    assert arrow.column("item").to_pylist() == ["milk", "tea", "milk"]
    jjq.ok("sql", QUERY, "--format", "parquet", "-o", "x.parquet", *near)
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 3
    jjq.ok("sql", QUERY, "-o", "x.tsv", *near)
    assert (tmp_path / "x.tsv").read_text().splitlines()[0] == "offset\titem\tkey\theaders"
    assert not list(tmp_path.glob(".x*"))


def test_odd_values_are_written(jjq: Command, orders: JjqServer) -> None:
    odd = """
        SELECT 1.50::DECIMAL(10, 2) AS d, 12345678901234567890123::HUGEINT AS h, DATE '2026-01-02' AS t, [1, NULL] AS l,
               {'a': 1} AS s, true AS b, INTERVAL 1 DAY AS i, TIMESTAMPTZ '2026-01-02 03:04:05.678901Z' AS z,
               '\\xFF'::BLOB AS raw, NULL AS n, 1 AS twice, 2 AS twice
    """
    near = ("--data", str(orders.data))
    (row,) = [json.loads(line) for line in jjq.ok("sql", odd, "--format", "json", *near).lines]
    assert (row["d"], row["h"], row["t"], row["l"], row["s"]) == (
        "1.50", "12345678901234567890123", "2026-01-02", [1, None], {"a": 1},
    )  # fmt: skip
    assert (row["b"], row["z"], row["raw"], row["n"]) == (
        True, "2026-01-02T03:04:05.678901Z", {"base64": "/w=="}, None,
    )  # fmt: skip
    text = jjq.ok("sql", odd, "--format", "csv", *near).text
    assert "2026-01-02T03:04:05.678901Z" in text
    assert text.rstrip().endswith(",1,2")
    assert "2026-01-02T03:04:05.678Z" in jjq.ok("sql", odd, *near).text


def test_where_it_asks(jjq: Command, alone: Command, orders: JjqServer, tmp_path: Path) -> None:
    count = "SELECT count(*) AS n FROM orders"
    cold = str(orders.data / "cold")
    assert jjq.ok("sql", count).lines == ["N", "3"]
    assert jjq.ok("sql", count, "--cold", cold).lines == ["N", "3"]
    assert jjq.ok("sql", input=count.encode()).lines == ["N", "3"]
    assert alone.ok("sql", count, "--cold", cold).lines == ["N", "2"]
    assert alone.ok(
        "sql", "SELECT $1::INT + 1 AS n, $2 AS t", "--param", "41", "--param", "x", "--cold", cold
    ).lines[1].split() == ["42", "x"]
    taken = alone("sql", count, "--data", str(orders.data))
    assert (taken.code, "in use" in taken.errors) == (5, True)
    with product.open(tmp_path / "own") as client:
        client.create_queue("orders")
        client.push("orders", [b"a"])
    assert alone.ok("sql", count, "--data", str(tmp_path / "own")).lines == ["N", "1"]


def test_errors_are_one_line_with_an_exit_code(jjq: Command, alone: Command, orders: JjqServer) -> None:
    near = ("--data", str(orders.data))
    for query, code, said in (
        ("SELECT * FROM ordres", 3, "nearest: orders"),
        ("SELECT vlaue FROM orders", 2, '"value"'),
        ("COPY orders TO 'x'", 2, "refused"),
        ("SELECT 1; SELECT 2", 2, "one at a time"),
        ("SELECT * FROM orders-eu", 2, "double quotes"),
    ):
        ran = jjq("sql", query, *near)
        assert (ran.code, said in ran.errors, len(ran.errors.splitlines())) == (code, True, 1), ran
    assert "not both" in jjq("sql", "SELECT 1", *near, "--cold", "x").errors
    assert "no data directory" in alone("sql", "SELECT 1", "--data", "nowhere").errors
    assert "nothing was ever written" in alone("sql", "SELECT 1", "--cold", "nowhere").errors
    assert (
        "stopped after 0.2 s"
        in jjq("sql", "SELECT sum(hash(x)) FROM range(1000000000000) t(x)", *near, "--seconds", "0.2").errors
    )
    assert "cannot write" in jjq("sql", "SELECT 1", *near, "-o", "/nonexistent/x").errors
    assert (
        "Parquet has no type"
        in jjq("sql", "SELECT INTERVAL 1 DAY", *near, "--format", "parquet", "-o", "x").errors
    )


def test_a_long_table_says_what_it_leaves_out(
    jjq: Command, orders: JjqServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_output, "SQL_TABLE_ROWS_MAX", 5)
    ran = jjq("sql", "SELECT * FROM range(50)", "--data", str(orders.data))
    assert (ran.code, len(ran.lines), "only the first 5 rows" in ran.errors) == (0, 6, True)


# The shell -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ask(orders: JjqServer) -> Any:
    with product.connect(orders.address) as client:
        yield lambda query, params: client.sql(query, params, cold=str(orders.data / "cold"))


def typed(ask: Any, text: str) -> InMemoryHistory:
    """Type `text` into a shell; what it remembers."""
    history = InMemoryHistory()
    with create_pipe_input() as keys:
        keys.send_text(text)
        run_shell(ask, "table", history=history, input=keys, output=DummyOutput())
    return history


def test_the_shell_answers_and_remembers(ask: Any, capfd: pytest.CaptureFixture[str]) -> None:
    history = typed(ask, "SELECT count(*) AS n\rFROM orders;\rSELECT nope;\rhelp\r\rSELECT 1 AS one;\rexit\r")
    output, errors = capfd.readouterr()
    assert output.split() == ["N", "3", "ONE", "1"]
    assert "(1 rows, " in errors
    assert 'jjq: Referenced column "nope"' in errors
    assert errors.count("A query ends with ;") == 2
    assert next(iter(history.get_strings())) == "SELECT count(*) AS n\nFROM orders;"


def test_the_shell_ends_with_the_input(ask: Any) -> None:
    typed(ask, "\x04")
    typed(ask, "SELECT \x03quit\r")


def test_the_shell_completes_tables_columns_and_words(ask: Any) -> None:
    completer = TableCompleter(ask)

    def offered(text: str) -> set[str]:
        return {each.text for each in completer.get_completions(Document(text), CompleteEvent())}

    assert offered("SELECT * FROM ord") == {"orders", '"orders-eu"'}
    assert {"orders", "jjq.subscribers"} <= offered("SELECT * FROM ")
    assert offered("SELECT * FROM jjq.su") == {"jjq.subscribers"}
    assert "timestamp" in offered("SELECT max(time")
    assert "SELECT" in offered("sel")
    completer.forget()
    assert "orders" in offered("DESCRIBE ord")

    def fails(query: str, params: list[Any]) -> Any:
        raise product.Unavailable("no server")

    assert TableCompleter(fails).tables() == []


def test_the_history_is_a_file_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    history = sql_shell._history()
    history.append_string("SELECT 1;")
    file = tmp_path / "jjq" / "sql-history"
    assert "SELECT 1;" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    assert isinstance(sql_shell._history(), InMemoryHistory)
