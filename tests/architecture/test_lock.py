"""The locks pin every dependency by hash, and say nothing about the machine they were made on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.tree import ROOT, plant, pyproject

PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)( ; [\w .<>='()!]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
EXTRAS: dict[str, tuple[str, ...]] = {
    "serve": (),
    "dev": ("dev", "s3"),
    "spark": ("dev", "s3", "spark"),
    "bench": ("dev", "s3", "bench"),
}


def strange_lines(text: str) -> list[str]:
    """Lines that are neither a pinned name nor a hash: options, addresses, paths, comments."""
    return [line for line in text.splitlines() if not PIN.match(line) and not HASH.match(line)]


def pins(text: str) -> dict[str, set[str]]:
    """Versions by name; more than one where they depend on the Python version."""
    found: dict[str, set[str]] = {}
    for match in filter(None, map(PIN.match, text.splitlines())):
        found.setdefault(match["name"], set()).add(match["version"])
    return found


def unhashed(text: str) -> list[str]:
    lines = text.splitlines()
    followers = [*lines[1:], ""]
    return [
        line
        for line, after in zip(lines, followers, strict=True)
        if PIN.match(line) and not HASH.match(after)
    ]


def unmet(project: dict[str, Any], extras: tuple[str, ...], text: str) -> list[str]:
    """Requirements of pyproject.toml that a lock does not hold, or holds in a version it refuses."""
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    for extra in extras:
        wanted += project["project"]["optional-dependencies"][extra]
    locked = pins(text)
    return [
        str(need)
        for need in map(Requirement, wanted)
        if not (versions := locked.get(canonicalize_name(need.name)))
        or not all(need.specifier.contains(version, prereleases=True) for version in versions)
    ]


def read(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.lock").read_text("utf-8")


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_holds_only_names_versions_and_hashes(name: str) -> None:
    assert strange_lines(read(name)) == []
    assert unhashed(read(name)) == []


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_meets_pyproject(name: str) -> None:
    assert unmet(pyproject(ROOT), EXTRAS[name], read(name)) == [], "run `make lock`"


def test_locks_agree_so_that_they_can_be_layered() -> None:
    widest = pins(read("spark"))
    for name in ("serve", "dev", "bench"):
        known = {k: v for k, v in pins(read(name)).items() if k in widest or name != "bench"}
        assert {k: v for k, v in known.items() if widest.get(k) != v} == {}


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://host/simple",
        "--find-links /somewhere/wheels",
        "a @ file:///somewhere/a.whl",
        "a @ https://host/a.whl \\",
        "-e .",
        "# via something",
        "a>=1",
    ],
)
def test_a_line_about_the_machine_is_found(line: str) -> None:
    good = "b==1.0 ; python_full_version < '3.12' \\\n    --hash=sha256:" + "0" * 64
    assert strange_lines(good) == []
    assert strange_lines(f"{good}\n{line}") == [line]


def test_a_pin_without_hash_is_found() -> None:
    assert unhashed("a==1 \\\nb==2 \\\n    --hash=sha256:" + "0" * 64) == ["a==1 \\"]


def test_a_missing_and_an_outdated_requirement_are_found(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "pyproject.toml": '[project]\ndependencies = ["A_b>=1", "c>=2"]\n'
            '[project.optional-dependencies]\ndev = ["d"]\n[dependency-groups]\nbuild = []\n'
        },
    )
    text = "a-b==1.5 \\\nc==1.0 \\\n"
    assert unmet(pyproject(tmp_path), ("dev",), text) == ["c>=2", "d"]
