"""Queries over a store in this process: history and tail as one table, pruned, each element once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import jjq
from coldstore.shared import batch
from coldstore.shared.errors import InvalidInput, NotFound
from coldstore.shared.limits import BLOCK_BYTES_MIN, MIB
from jjq.sql import connection
from jjq.sql.source import StoreAnswers
from tests.jjq.sql.hostile import REFUSED

SMALL = jjq.HotSettings(segment_bytes=32 * MIB, journal_bytes_max=256 * MIB)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[jjq.Client]:
    """Queue orders: two final blocks, a young one, and a tail. Element n says n."""
    with jjq.open(tmp_path_factory.mktemp("store"), settings=SMALL) as made:
        made.create_queue("orders", content="json", block_bytes=BLOCK_BYTES_MIN)
        made.create_queue("orders-eu.v1")
        made.create_queue("Mixed")
        made.create_subscriber("orders", "billing", "beginning")
        for first in range(0, 2_000, 100):
            made.push("orders", [f'{{"n": {n}, "pad": "{"x" * 60}"}}' for n in range(first, first + 100)])
        made.seal("orders")
        made.push("orders", ['{"n": 2000}', '{"n": 2001}'], keys=[b"k", None], headers=[{"h": b"1"}, None])
        made.push("orders-eu.v1", [b"abc"])
        yield made


def ask(client: jjq.Client, query: str, params: Any = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in client.sql(query, params).to_pylist()]


def test_history_and_tail_are_one_table(client: jjq.Client) -> None:
    assert ask(client, "SELECT count(*), min(offset), max(offset) FROM orders") == [(2_002, 0, 2_001)]
    numbers = "SELECT count(DISTINCT (value->>'n')::INT), sum((value->>'n')::INT) FROM orders"
    assert ask(client, numbers) == [(2_002, 2_001 * 2_002 // 2)]
    assert ask(client, "SELECT count(*) FROM orders WHERE (value->>'n')::INT <> offset") == [(0,)]
    kinds = {kind for (kind,) in ask(client, "SELECT DISTINCT kind FROM jjq.blocks WHERE queue = 'orders'")}
    assert {"final", "hot-hot"} <= kinds


def test_columns_have_their_types(client: jjq.Client) -> None:
    schema = client.sql("SELECT * FROM orders LIMIT 1").schema
    assert schema.names == ["offset", "timestamp", "key", "value", "headers"]
    assert schema.field("timestamp").type == batch.TIMESTAMP
    row = client.sql("SELECT * FROM orders WHERE offset = 2000").to_pylist()[0]
    assert (row["key"], row["value"], dict(row["headers"])) == (b"k", '{"n": 2000}', {"h": b"1"})
    assert ask(client, "SELECT headers['h'], decode(key) FROM orders WHERE offset = 2000") == [(b"1", "k")]
    assert ask(client, 'SELECT value FROM "orders-eu.v1"') == [(b"abc",)]
    described = ask(client, "DESCRIBE orders")
    assert [(row[0], row[1]) for row in described][:2] == [
        ("offset", "BIGINT"), ("timestamp", "TIMESTAMP WITH TIME ZONE"),
    ]  # fmt: skip


def test_parameters(client: jjq.Client) -> None:
    assert ask(client, "SELECT value->>'n' FROM orders WHERE offset = $1", [7]) == [("7",)]
    assert ask(client, "SELECT offset FROM orders WHERE offset IN (?, ?)", [3, 2001]) == [(3,), (2001,)]
    assert ask(client, "SELECT offset FROM orders WHERE key = $k", {"k": b"k"}) == [(2000,)]
    assert ask(
        client, "SELECT count(*) FROM orders WHERE timestamp < $1", [datetime(2020, 1, 1, tzinfo=UTC)]
    ) == [(0,)]
    hostile = "x' OR 1 = 1; DROP VIEW orders --"
    assert ask(client, "SELECT count(*) FROM orders WHERE value = $1", [hostile]) == [(0,)]
    with pytest.raises(InvalidInput):
        ask(client, "SELECT $1::INT", [])


def test_tables_are_joined_and_nested(client: jjq.Client) -> None:
    joined = """
        WITH late AS (SELECT * FROM orders WHERE offset >= 1999)
        SELECT a.offset, s.name FROM late a JOIN late b USING (offset) JOIN jjq.subscribers s ON s.queue = 'orders'
        ORDER BY 1
    """
    assert ask(client, joined) == [(1999, "billing"), (2000, "billing"), (2001, "billing")]
    assert ask(client, "WITH orders AS (SELECT 1 AS one) SELECT * FROM orders") == [(1,)]
    assert ask(client, "SELECT (SELECT count(*) FROM orders WHERE offset < 10)") == [(10,)]


def test_all_forms_of_a_result(client: jjq.Client) -> None:
    query = "SELECT offset FROM orders ORDER BY offset"
    assert client.sql(query).to_table().num_rows == 2_002
    assert list(client.sql(query).to_pandas()["offset"]) == list(range(2_002))
    assert sum(found.num_rows for found in client.sql(query)) == 2_002
    with client.sql(query) as rows:
        first = next(rows)
    assert first.num_rows
    assert client.sql("SELECT 1 AS a WHERE false").to_table().schema.names == ["a"]
    assert client.sql("SELECT 1 AS a WHERE false").to_pylist() == []


async def test_the_same_for_asyncio(tmp_path: Path) -> None:
    async with jjq.aio.open(tmp_path, settings=SMALL) as made:
        await made.create_queue("orders", content="text")
        await made.push("orders", ["a", "b"])
        result = made.sql("SELECT value FROM orders ORDER BY offset")
        assert (await result.schema()).names == ["value"]
        assert [b.column(0).to_pylist() async for b in result] == [["a", "b"]]
        assert (await made.sql("SELECT count(*) AS n FROM orders").to_pylist()) == [{"n": 2}]
        async with made.sql("SELECT * FROM orders, range(100000000)") as rows:
            assert (await anext(rows)).num_rows
        with pytest.raises(InvalidInput, match="knows its own"):
            made.sql("SELECT 1", cold="/tmp/x")


def test_system_tables(client: jjq.Client) -> None:
    assert ask(
        client, "SELECT name, content, elements, subscribers FROM jjq.queues WHERE name = 'orders'"
    ) == [("orders", "json", 2_002, 1)]
    (lag,) = ask(client, "SELECT id, queue, offset, lag, lag_seconds > 0 FROM jjq.subscribers")
    assert lag == ("orders/billing", "orders", 0, 2_002, True)
    blocks = ask(client, "SELECT queue, sum(elements) FROM jjq.blocks GROUP BY ALL ORDER BY ALL")
    assert blocks == [("orders", 2_002), ("orders-eu.v1", 1)]
    assert ask(client, "SELECT alive FROM jjq.nodes") == [(True,)]
    assert ask(client, "SELECT queue, first_offset FROM jjq.shards ORDER BY 1")[0] == ("Mixed", 0)
    shown = ask(client, "SHOW TABLES")
    assert ("", "orders", "queue", "json") in shown
    assert ("jjq", "blocks", "system", None) in shown
    assert ask(client, "SELECT count(*) FROM JJQ.Queues") == [(3,)]


def test_names(client: jjq.Client) -> None:
    assert ask(client, "SELECT count(*) FROM ORDERS") == [(2_002,)]
    assert ask(client, "SELECT count(*) FROM mixed") == [(0,)]
    with pytest.raises(NotFound, match=r"no table ordres: the nearest: orders"):
        ask(client, "SELECT * FROM ordres")
    with pytest.raises(NotFound, match=r"jjq\.queues"):
        ask(client, "SELECT * FROM jjq.queue")
    with pytest.raises(NotFound, match="double quotes"):
        ask(client, "SELECT * FROM orders.eu")
    with pytest.raises(InvalidInput, match=r'"vlaue".*"value"'):
        ask(client, "SELECT vlaue FROM orders")
    with pytest.raises(InvalidInput, match="nosuch"):
        ask(client, "SELECT nosuch(1)")
    client.create_queue("mIXED")
    with pytest.raises(NotFound, match="use one of these names"):
        ask(client, "SELECT * FROM mixed")
    with pytest.raises(InvalidInput, match="two queries"):
        ask(client, 'SELECT * FROM "Mixed", "mIXED"')


@pytest.mark.parametrize("query", REFUSED)
def test_hostile_queries_are_refused_in_this_process_too(client: jjq.Client, query: str) -> None:
    with pytest.raises((InvalidInput, NotFound)) as refused:
        client.sql(query).to_table()
    assert str(refused.value)


def test_a_query_of_ones_own_is_stopped_in_time(client: jjq.Client) -> None:
    with pytest.raises(InvalidInput, match=r"stopped after 0\.3 s"):
        client.sql("SELECT sum(hash(x)) FROM range(1000000000000) t(x)", timeout=0.3).to_table()
    assert ask(client, "SELECT 1") == [(1,)]


def test_a_client_over_any_other_store_says_so() -> None:
    from jjq.client.client import AsyncClient
    from tests.jjq.fakestore import FakeStore

    with pytest.raises(InvalidInput, match="does not answer SQL"):
        AsyncClient(FakeStore()).sql("SELECT 1")


def test_a_thousand_queues_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with jjq.open(tmp_path, settings=SMALL) as made:
        for number in range(40):
            made.create_queue(f"q{number}")
        looks: list[str] = []
        looked = StoreAnswers.queue

        async def look(self: StoreAnswers, name: str) -> jjq.QueueInfo:
            looks.append(name)
            return await looked(self, name)

        monkeypatch.setattr(StoreAnswers, "queue", look)
        assert ask(made, "SELECT count(*) FROM q7") == [(0,)]
        assert set(looks) == {"q7"}
        looks.clear()
        assert ask(made, "SELECT count(*) FROM jjq.queues") == [(40,)]
        assert not looks


def test_connections_are_kept_and_clean(client: jjq.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a query is left for the next one, and a query that failed leaves no connection."""
    assert ask(client, "SELECT count(*) FROM orders, jjq.queues") == [(2_002 * len(client.list_queues()),)]
    opened: list[int] = []
    made = connection.open_connection

    def count(*given: int) -> Any:
        opened.append(1)
        return made(*given)

    monkeypatch.setattr(connection, "open_connection", count)
    for _ in range(3):
        assert ask(client, "SELECT count(*) FROM jjq.subscribers") == [(1,)]
        assert ask(client, 'SELECT count(*) FROM "orders-eu.v1"') == [(1,)]
    assert not opened
    with pytest.raises(InvalidInput):
        ask(client, "SELECT nope FROM orders")
    with client.sql("SELECT * FROM range(1000000000)") as rows:
        next(rows)
    assert ask(client, "SELECT count(*) FROM orders") == [(2_002,)]
    assert opened
