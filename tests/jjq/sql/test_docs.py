"""The queries of docs/sql.md run as they are written, and find something."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import jjq
from coldstore.shared.limits import MIB
from jjq.sql import system_tables
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text("utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[jjq.Client]:
    settings = jjq.HotSettings(segment_bytes=32 * MIB, journal_bytes_max=256 * MIB)
    with jjq.open(tmp_path_factory.mktemp("docs"), settings=settings) as made:
        made.create_queue("orders", content="json")
        made.create_subscriber("orders", "billing", "beginning")
        items = ["milk", "tea", "jam"]
        values = [f'{{"item": "{items[n % 3]}", "price": {n % 3 + 0.5}}}' for n in range(30)]
        made.push("orders", values, keys=[f"k{n % 10}" for n in range(30)], headers=[{"source": "web"}] * 30)
        made.seal("orders")
        made.push("orders", ['{"item": "milk", "price": 1.2}'])
        yield made


def test_there_are_ten() -> None:
    assert len(QUERIES) == 10


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_a_query_of_the_page_finds_something(client: jjq.Client, query: str) -> None:
    rows = client.sql(query).to_pylist()
    assert rows
    assert all(value is not None for value in rows[0].values())


def test_the_page_lists_the_tables_and_their_columns(client: jjq.Client) -> None:
    for table in system_tables.names():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{table}`"))
        columns = [each["column_name"] for each in client.sql(f"DESCRIBE {table}").to_pylist()]
        assert re.findall(r"`(\w+)`", row.split("|")[2]) == columns
