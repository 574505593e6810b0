"""The checklist of docs/security.md, and the promises of docs/faults.md, name tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+)(…?))?`")


def missing(text: str) -> list[str]:
    """Tests that a page names and that do not exist; a name may be cut by an ellipsis."""
    wrong = []
    for path, test, cut in NAMED.findall(text):
        file = ROOT / path
        found = re.compile(rf"def {test}{'' if cut else chr(40)}".replace("(", r"\("))
        if not file.is_file() or (test and not found.search(file.read_text("utf-8"))):
            wrong.append(f"{path}::{test}")
    return wrong


@pytest.mark.parametrize("page", ["security.md", "faults.md"])
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert len(NAMED.findall(text)) > 30
    assert missing(text) == []


def test_every_row_of_the_checklist_names_a_test() -> None:
    text = (ROOT / "docs" / "security.md").read_text("utf-8").partition("## Checklist")[2]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 19
    assert [row for row in rows if not all(test for _, test, _ in NAMED.findall(row) or [("", "", "")])] == []


def test_a_test_that_is_gone_is_found() -> None:
    here = "tests/jjq/access/test_checklist.py"
    assert missing(f"`{here}::test_a_test_that…` `{here}`") == []
    assert missing(f"`{here}::test_nothing` `tests/no_file.py`") == [
        f"{here}::test_nothing",
        "tests/no_file.py::",
    ]
    assert missing(f"`{here}::test_a_test`") == [f"{here}::test_a_test"]
