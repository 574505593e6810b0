"""What the documents say about files, settings, codes and metrics is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from jjq.cli import exits
from jjq.node.settings import NAMES, Settings
from tests.architecture.tree import ROOT

DOCS = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]


def text(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


@pytest.mark.parametrize("path", DOCS, ids=[str(path.relative_to(ROOT)) for path in DOCS])
def test_every_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def anchors(path: Path) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    prose = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCS, ids=[str(path.relative_to(ROOT)) for path in DOCS])
def test_every_link_to_a_heading_leads_there(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text("utf-8"))
    wrong = [
        (page, anchor)
        for page, anchor in links
        if anchor not in anchors(path.parent / page if page else path)
    ]
    assert wrong == []


@pytest.mark.parametrize(("page", "least"), [("docs/architecture.md", 40), ("CONTRIBUTING.md", 20)])
def test_every_file_that_a_page_names_exists(page: str, least: int) -> None:
    named = set(re.findall(r"`([\w./]+(?:\.(?:py|yml|proto)|/))`", (ROOT / page).read_text("utf-8")))
    assert len(named) > least
    assert {name for name in named if "/" in name and not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("path", DOCS, ids=[str(path.relative_to(ROOT)) for path in DOCS])
def test_every_python_file_and_test_that_a_page_names_exists(path: Path) -> None:
    named = re.findall(r"`([\w/]+/\w+\.py)(?:::(\w+)(…?))?", path.read_text("utf-8"))
    for name, function, cut in named:
        assert (ROOT / name).exists(), name
        end = "" if cut else r"\("
        assert not function or re.search(rf"def {function}{end}", (ROOT / name).read_text("utf-8")), function


def test_every_setting_is_in_the_table_with_its_default() -> None:
    table = text("operations.md").split("## Settings")[1].split("## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(NAMES)
    for name in ("idle_seconds", "producer_seconds", "grace_seconds"):
        default = getattr(Settings, name)
        assert re.search(rf"`{name}` \| {default:g} \|", table), name


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    def codes(document: str, row: str) -> set[int]:
        return {int(code) for code in re.findall(row, document, re.MULTILINE)}

    assert exits.__doc__ is not None
    told = codes(text("operations.md").split("## Exit codes")[1].split("## ")[0], r"^\| (\d+) \|")
    assert told == codes(exits.__doc__, r"^ *(\d+)  ")


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.match(r"[\w-]+", line).group() for line in project["dependencies"]}  # type: ignore[union-attr]
    table = text("decisions.md").split("## Dependencies")[1]
    missing = {name for name in names if name not in table and name.removeprefix("grpcio") not in table}
    assert missing == set()


def test_the_metrics_to_watch_exist() -> None:
    told = set(re.findall(r"`(jjq_\w+)`", text("operations.md")))
    sources = [
        ROOT / "hotstore/store.py",
        *(ROOT / "jjq/server").glob("*.py"),
        *(ROOT / "jjq/http").rglob("*.py"),
    ]
    code = "".join(source.read_text() for source in sources)
    missing = {name for name in told if name.removeprefix("jjq_").removesuffix("_total") not in code}
    assert missing == set()
