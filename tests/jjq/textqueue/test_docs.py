"""docs/textqueue.md: its example is read as it says, its code runs, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jjq.textqueue import TextQueue
from tests.architecture.tree import ROOT
from tests.jjq.cli.command import Command

PAGE = (ROOT / "docs" / "textqueue.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_of_the_page_is_read_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "example.tq"
    path.write_text(block("text"))
    two_lines = "Any message can have multiple lines\nwhere each sequential line begins with a ' ' space"
    with TextQueue(path, strict=True, quiet_seconds=0) as queue:
        items = list(queue.items(done=True, critical=True, comments=True))
        assert [item.value for item in queue] == [
            "A queued message begins with a '-' dash control character",
            two_lines,
            "  I have space padding  ",
            "Blank lines are ingored",
            "Message Variables",
        ]
        last = list(queue)[-1]
        assert [variable.rstrip() for variable in last.variables] == [
            "Message variables are attached after a message",
            "A message can have any number of variables",
            "Message variables are fixed length and editable",
            "Additional space can be reserved for the message variable with trailing spaces",
            "A single message variable cannot span multiple lines",
        ]
        assert len(last.variables[3]) == len(last.variables[3].rstrip()) + 3
        last.set_variable(3, "written over")
        last.mark_done()
    assert [item.status.value for item in items] == [
        "queued", "done", "critical", "queued", "done", "critical", "comment", "comment", "comment", "queued",
        "queued", "done", "queued", "comment",
    ]  # fmt: skip
    assert items[7].value.endswith("starting character on\n each sequential line.")
    assert items[-1].variables == ("Comments can also have message variables",)
    changed = path.read_text()
    assert len(changed) == len(block("text"))
    assert "=Message Variables" in changed


def test_the_program_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(block("python"), {})
    assert capsys.readouterr().out == "send the report\n"
    assert (tmp_path / "jobs.tq").read_bytes() == b"=send the report\n"


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    (tmp_path / "handle.sh").write_text("#!/bin/sh\ncat > handled\n")
    (tmp_path / "handle.sh").chmod(0o755)
    ran = Command(tmp_path).shell(f"set -e; {block('shell')}")
    assert ran.code == 0, ran
    assert (tmp_path / "handled").read_text() == "send the report"
    assert (tmp_path / "jobs.tq").read_bytes() == b"=send the report\n"


def test_every_command_of_the_table_has_help(tmp_path: Path) -> None:
    table = PAGE.split("## Commands")[1].split("## ")[0]
    commands = set(re.findall(r"`jjq text (\w+)", table))
    assert commands == {"list", "append", "done", "error", "set", "work", "import", "export"}
    for command in commands:
        shown = Command(tmp_path).ok("text", command, "--help").text
        row = next(row for row in table.splitlines() if f"`jjq text {command} " in row)
        for option in re.findall(r"`(--[a-z]+)`", row):
            assert option in shown, (command, option)
