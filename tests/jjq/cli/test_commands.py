"""The client commands, end to end: results for people, JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.jjq.cli.command import Command


def test_a_queue_is_created_listed_and_shown(jjq: Command, queue: str) -> None:
    made = jjq.ok("queue", "create", "notes", "--content", "text", "--block-bytes", "1MiB", "--json").json
    assert (made["content"], made["block_bytes"], made["created"][-1]) == ("text", 1 << 20, "Z")
    listed = {found["name"]: found for found in jjq.ok("queue", "list", "--json").json}
    assert {"notes", queue} <= set(listed)
    table = jjq.ok("queue", "list").lines
    assert table[0].split()[:3] == ["QUEUE", "CONTENT", "ELEMENTS"]
    assert ["notes", "text", "0"] in [line.split()[:3] for line in table]
    assert "1.0 MiB or 300 s" in jjq.ok("queue", "show", "notes").text
    assert all(line == line.rstrip() for line in table)


def test_subscribers_are_created_moved_put_to_sleep_and_deleted(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, "a", "b", "c")
    made = jjq.ok("subscriber", "create", queue, "s", "--start", "last:2", "--json").json
    assert (made["id"], made["offset"], made["resolved"]["rule"]) == (f"{queue}/s", 1, "last")
    dry = jjq.ok("subscriber", "seek", f"{queue}/s", "beginning", "--dry-run", "--json").json
    assert dry["offset"] == 0
    assert jjq.ok("subscriber", "show", f"{queue}/s", "--json").json["offset"] == 1
    assert (
        "offset 0 (ago: before all → beginning)" in jjq.ok("subscriber", "seek", f"{queue}/s", "ago:1h").text
    )
    assert jjq.ok("subscriber", "sleep", f"{queue}/s", "--json").json["asleep"] is True
    assert jjq.ok("subscriber", "wakeup", f"{queue}/s", "--json").json["asleep"] is False
    assert [s["id"] for s in jjq.ok("subscriber", "list", queue, "--json").json] == [f"{queue}/s"]
    assert f"{queue}/s" in jjq.ok("subscriber", "list").text
    assert jjq.ok("subscriber", "delete", f"{queue}/s").text == ""
    assert jjq.ok("subscriber", "list", queue, "--json").json == []


def test_values_are_pushed_from_arguments_and_popped(jjq: Command, queue: str) -> None:
    jjq.ok("subscriber", "create", queue, "s", "--start", "beginning")
    pushed = jjq.ok("push", queue, "one", "--key", "k", "--header", "a=1", "--header", "b=2=3").text
    assert pushed.startswith("pushed 1 element, offset 0, synced at 20")
    assert jjq.ok("push", queue, "two", "-3", "--json").json["last_offset"] == 2
    peeked = jjq.ok("peek", f"{queue}/s", "--json").json
    assert (peeked["key"], peeked["value"], peeked["headers"]) == ("k", "one", {"a": "1", "b": "2=3"})
    assert jjq.ok("pop", f"{queue}/s", "--max", "2").lines == ["one", "two"]
    assert [
        json.loads(line)["offset"] for line in jjq.ok("pop", f"{queue}/s", "-n", "9", "--json").lines
    ] == [2]
    assert jjq.ok("pop", f"{queue}/s", "--wait", "0.01").output == b""


def test_lines_are_pushed_from_standard_input_and_from_a_file(
    jjq: Command, queue: str, tmp_path: Path
) -> None:
    assert "2 elements, offsets 0 to 1" in jjq.ok("push", queue, input=b"a\n\nb"[:2] + b"b\r\n").text
    (tmp_path / "lines").write_bytes(b"c\n\nno newline")
    assert jjq.ok("push", queue, "--file", "lines", "--json").json["count"] == 3
    assert jjq.ok("replay", queue).output == b"a\nb\r\nc\n\nno newline\n"
    assert jjq.ok("push", queue, input=b"").text == "nothing to push\n"
    assert jjq.ok("push", queue, "--json", input=b"").json == {"count": 0}


def test_what_is_printed_as_json_can_be_pushed_again_byte_for_byte(jjq: Command, queue: str) -> None:
    lines: list[dict[str, Any]] = [
        {"value": "plain"},
        {"value": "ä", "key": "k", "headers": {"h": "1"}},
        {"value_base64": "/w==", "key_base64": "/wA=", "headers_base64": {"h": "/w=="}},
        {"value": {"an": ["object", 1]}},
    ]
    jjq.ok("push", queue, "--jsonl", input="\n\n".join(map(json.dumps, lines)).encode())
    first = jjq.ok("replay", queue, "--json")
    jjq.ok("queue", "create", f"{queue}-copy")
    assert jjq.shell(f"jjq replay {queue} --json | jjq push {queue}-copy --jsonl").code == 0
    again = jjq.ok("replay", f"{queue}-copy", "--json")
    said = [[json.loads(line) for line in ran.lines] for ran in (first, again)]
    for element in (element for half in said for element in half):
        del element["timestamp"], element["offset"]
    assert said[0] == said[1]
    assert said[0][:3] == [lines[0], lines[1], {**lines[2], "headers": {}}]
    assert json.loads(said[0][3]["value"]) == {"an": ["object", 1]}


def test_replay_and_tail_take_ranges(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, *map(str, range(20)))
    assert jjq.ok("replay", queue, "--start", "offset:2", "--end", "offset:5").lines == ["2", "3", "4"]
    assert jjq.ok("replay", queue, "--start", "ago:1h", "--values").lines == [str(n) for n in range(20)]
    assert jjq.ok("tail", queue).lines == [str(n) for n in range(10, 20)]
    assert jjq.ok("tail", queue, "-n", "1", "--json").json["value"] == "19"


def test_blocks_are_listed(jjq: Command, queue: str) -> None:
    jjq.ok("push", queue, "a")
    (block,) = jjq.ok("blocks", queue, "--json").json
    assert (block["kind"], block["count"], block["key"], block["min_timestamp"][-1]) == (
        "hot-hot",
        1,
        None,
        "Z",
    )
    assert jjq.ok("blocks", queue).lines[1].split()[:3] == ["0", "hot-hot", "1"]


def test_bench_prints_rates_in_process_and_of_a_server(jjq: Command, alone: Command) -> None:
    rows = jjq("bench", "--server", jjq.server or "", "--elements", "2000", "--json").json
    assert [row["measure"].split(",")[0] for row in rows] == ["push", "producer", "pop", "replay"]
    assert all(row["elements_per_second"] > 0 for row in rows)
    table = alone.ok("bench", "--elements", "2000").lines
    assert table[0].split() == ["MEASURE", "ELEMENTS/S", "MB/S"]
    assert len(table) == 5
