"""The SQL screen: run, cancel, table, plot, files, errors with their place."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.console import Console
from tests.jjq.console.browser.stage import Stage

pytestmark = pytest.mark.xdist_group("console")

ITEMS = """SELECT value->>'item' AS item, count(*) AS orders, sum((value->>'price')::DOUBLE) AS revenue
FROM orders GROUP BY item ORDER BY item"""


@pytest.fixture
def console(stage: Stage, visit: Visit) -> Console:
    return visit(stage).open("/sql", "SQL")


def editor(console: Console) -> Locator:
    return console.page.get_by_role("textbox", name="Query")


def run(console: Console, query: str) -> None:
    editor(console).fill(query)
    console.page.keyboard.press("Control+Enter")


def saved(console: Console, button: str) -> Path:
    with console.page.expect_download() as waiting:
        console.press(button)
    return Path(waiting.value.path())


def test_rows_as_a_table_a_plot_and_files(console: Console) -> None:
    run(console, ITEMS)
    console.sees("7 rows")
    expect(console.rows("Rows")).to_have_count(7)
    console.rows("Rows").first.click()
    console.sees("apples", inside=console.dialog())
    console.page.keyboard.press("Escape")
    with saved(console, "CSV").open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["item", "orders", "revenue"]
    assert (len(lines), lines[1][0]) == (8, "apples")
    rows = json.loads(saved(console, "JSON").read_text())
    assert [row["item"] for row in rows] == sorted(row["item"] for row in rows)
    console.press("Plot")
    expect(console.page.locator(".bars li")).to_have_count(7)
    assert (
        console.page.get_by_label("Up", exact=True).evaluate("box => box.selectedOptions[0].text") == "orders"
    )
    console.choose("Across", "1")
    expect(console.page.get_by_role("img", name="revenue by orders")).to_be_visible()
    console.check_access()


def test_an_error_shows_its_place(console: Console) -> None:
    console.visit.expected += ["400", "404"]
    run(console, "SELECT offset,\n  count(* FROM orders")
    console.sees("line 2, column 11")
    expect(console.page.locator("mark")).to_have_text("FROM")
    chosen = "const e = document.querySelector('.editor'); e.value.slice(e.selectionStart, e.selectionEnd)"
    assert console.page.evaluate(chosen) == "FROM"
    run(console, "SELECT * FROM ordrs")
    console.sees("the nearest: orders")
    expect(console.page.locator("mark")).to_have_text("ordrs")
    console.check_access()


def test_examples_no_rows_and_too_many(console: Console) -> None:
    console.visit.expected.append("400")
    console.choose("Examples", "4")
    console.press("Run")
    console.sees("buried")
    run(console, "SELECT * FROM orders WHERE offset < 0")
    console.sees("nothing fits it")
    run(console, "SELECT * FROM range(20000)")
    console.sees("Too many rows to show")
    lines = saved(console, "Download all rows as lines of JSON").read_text().splitlines()
    assert (len(lines), json.loads(lines[-1])) == (20_000, {"range": 19_999})


def test_a_query_is_cancelled(console: Console) -> None:
    run(console, "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range * b.range = 7")
    expect(console.button("Cancel")).to_be_visible()
    console.sees("runs for")
    console.press("Cancel")
    console.sees("The server has stopped the query.")
    expect(console.button("Run")).to_be_enabled()


def test_names_of_tables_are_inserted(console: Console) -> None:
    editor(console).fill("SELECT * FROM ")
    console.page.keyboard.press("End")
    console.page.get_by_label("Search tables").fill("ord")
    console.press("orders")
    expect(editor(console)).to_have_value("SELECT * FROM orders")
