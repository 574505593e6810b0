"""The screens of queues and subscribers: every action, in queues of their own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Locator, expect

from tests.jjq.console.browser.conftest import Visit
from tests.jjq.console.browser.console import Console
from tests.jjq.console.browser.stage import Stage, order

pytestmark = pytest.mark.xdist_group("console")

ELEMENTS = "Elements, newest first"


def make_queue(stage: Stage, name: str, count: int = 60) -> str:
    stage.ask("PUT", f"queues/{name}", {"content": "json"})
    stage.push(name, *map(order, range(count)))
    return f"/queues/{name}"


def field(console: Console, label: str) -> Locator:
    return console.page.get_by_label(label, exact=True)


def test_a_queue_is_made_changed_sealed_and_deleted(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open("/queues", "Queues")
    console.press("Create")
    field(console, "Name").fill("made-here")
    console.confirm("Create")
    expect(console.page.get_by_role("heading", level=1)).to_have_text("made-here")
    console.sees("No element yet")
    console.press("Push")
    field(console, "Value, JSON").fill('{"id": 12345678901234567890, "text": "hello"}')
    field(console, "Key").fill("k-1")
    field(console, "Headers").fill("source: hand")
    console.confirm("Push")
    console.sees("Pushed: offset 0, synced")
    console.press("Show element 0")
    console.sees("12345678901234567890")
    console.sees("hand")
    console.press("Seal now")
    console.sees("All elements are in history")
    console.press("Settings")
    field(console, "Block age, seconds").fill("7")
    console.confirm("Save")
    assert stage.ask("GET", "queues/made-here")["block_seconds"] == 7
    stage.ask("POST", "queues/made-here/subscribers", {"name": "reader", "start": "beginning"})
    console.press("Purge…")
    console.sees("Subscriber reader: 1 element will be passed over.", inside=console.dialog())
    console.confirm("Purge the queue", "made-here")
    console.sees("Nobody has anything left to do in made-here")
    assert stage.ask("GET", "queues/made-here/subscribers/reader")["lag"] == 0
    console.press("Delete…")
    console.sees("made-here", inside=console.dialog())
    console.confirm("Delete the queue", "made-here")
    console.sees(re.compile("it can be brought back"))
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Queues")


def test_what_is_shown_is_exported(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open(make_queue(stage, "exported"), "exported")

    def saved(form: str) -> Path:
        console.press("Export")
        console.dialog().get_by_role("button", name=form, exact=True).click()
        with console.page.expect_download() as waiting:
            console.press("Save the file")
        expect(console.dialog()).to_have_count(0)
        return Path(waiting.value.path())

    assert len(json.loads(saved("JSON").read_text())) == 50
    assert len(saved("NDJSON").read_text().splitlines()) == 50
    assert saved("CSV").read_text().startswith("offset,timestamp,key,value,headers\n10,")
    assert pq.read_table(saved("Parquet")).num_rows == 50


def test_elements_are_found_by_place_text_key_and_sql(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open(make_queue(stage, "found", 120), "found")
    table = console.rows(ELEMENTS)
    expect(table.first).to_contain_text("119")
    console.page.get_by_role("navigation", name="Pages").get_by_role("button", name="Older").click()
    expect(table.first).to_contain_text("69")
    for way, text, offsets in (
        ("Value has", '"id": 77', ["77"]),
        ("Key is", "customer-3", ["118", "95", "72", "49", "26", "3"]),
        ("SQL", "(value->>'id')::INT < 2", ["1", "0"]),
    ):
        field(console, "Find by").select_option(label=way)
        console.page.locator(".finder input").fill(text)
        console.press("Find")
        found = console.region("Elements that were found, newest first").locator("tbody .link")
        expect(found).to_have_text(offsets)
    console.press("Back to all")
    expect(console.button("Back to all")).to_have_count(0)  # it empties the field, too
    field(console, "Find by").select_option(label="Go to")
    console.page.locator(".finder input").fill("5")
    console.press("Go")
    console.sees(re.compile("54 to 5"))


def test_new_elements_are_followed(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open(make_queue(stage, "followed", 3), "followed")
    console.press("Follow live")
    stage.push("followed", {"value": {"new": "just came"}})
    console.sees(re.compile("just came"))
    expect(console.rows(ELEMENTS)).to_have_count(4)


def test_whoever_reads_old_elements_can_go_to_the_newest_and_follow(stage: Stage, visit: Visit) -> None:
    console = visit(stage).open(make_queue(stage, "behind", 120), "behind")
    first = console.rows(ELEMENTS).first
    pages = console.page.get_by_role("navigation", name="Pages")
    stage.push("behind", order(120))
    console.sees("Show 1 new")
    pages.get_by_role("button", name="Newest").click()
    expect(first).to_contain_text("120")
    pages.get_by_role("button", name="Older").click()
    expect(first).to_contain_text("70")
    console.press("Follow live")
    expect(first).to_contain_text("120")
    stage.push("behind", {"value": {"new": "just came"}})
    expect(first).to_contain_text("just came")


def test_blocks_tell_what_they_are(stage: Stage, visit: Visit) -> None:
    make_queue(stage, "blocks", 20)
    stage.ask("POST", "queues/blocks/seal")
    stage.push("blocks", order(20))
    console = visit(stage).open("/queues/blocks", "blocks")
    blocks = console.page.get_by_role("group", name="Blocks, oldest first").get_by_role("button")
    expect(blocks).to_have_count(2)
    blocks.first.click()
    console.sees("SHA-256")
    console.check_access()
    console.press("Verify")
    console.sees("sound", inside=console.dialog())
    console.page.keyboard.press("Escape")
    console.press("Show its elements")
    expect(console.rows(ELEMENTS).last).to_contain_text("0")


def test_a_file_is_pushed_line_by_line(stage: Stage, visit: Visit, tmp_path: Path) -> None:
    lines = tmp_path / "lines.ndjson"
    lines.write_text("".join(f'{{"n": {n}}}\n' for n in range(25)))
    console = visit(stage).open(make_queue(stage, "filed", 1), "filed")
    console.press("Push").press("A file, line by line")
    field(console, "File").set_input_files(lines)
    console.confirm("Push the file")
    console.sees("Pushed 25 elements from lines.ndjson")
    assert stage.ask("GET", "queues/filed")["next_offset"] == 26


def test_a_subscriber_is_made_moved_put_to_sleep_and_deleted(stage: Stage, visit: Visit) -> None:
    make_queue(stage, "read", 30)
    console = visit(stage).open("/subscribers?queue=read", "Subscribers")
    console.press("Create")
    field(console, "Name").fill("reader")
    field(console, "Begin at").select_option("offset")
    field(console, "an offset").fill("12")
    console.sees("It would stand at offset 12", inside=console.dialog())
    console.confirm("Create")
    console.press("reader")
    console.sees("18 elements", inside=console.page.locator(".element"))
    console.press("Move…")
    field(console, "To").select_option("beginning")
    console.sees("It reads 12 elements again.", inside=console.dialog())
    console.confirm("Move to offset 0")
    path = "queues/read/subscribers/reader"
    assert stage.ask("GET", path)["offset"] == 0
    console.press("Sleep")
    console.sees("asleep")
    console.press("Wake")
    console.sees("awake")
    console.check_access()
    console.press("Delete…")
    console.confirm("Delete the subscriber", "reader")
    console.sees("Subscriber reader is deleted")
