"""Tidiness is a test: short files, short functions, nothing unused, limits in their place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.architecture.tree import (
    FOLDERS,
    PACKAGES,
    ROOT,
    Source,
    functions,
    plant,
    pyproject,
    references,
    sources,
)

pytestmark = pytest.mark.xdist_group("tree")  # one worker reads it, once

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
FILE_LINES_MEDIAN_MAX = 200

# Run by name, never imported: by pytest, or by `python -m`.
ENTRY = re.compile(r"(^|/)(test_\w+|conftest|__main__)\.py$")
LIMIT_NAME = re.compile(r"^_?[A-Z0-9_]+_(MAX|MIN|LIMIT)$")


def long_functions(root: Path) -> list[str]:
    every = [function for source in sources(root) for function in functions(source)]
    return [f"{f.where}: {f.lines} lines" for f in every if f.lines > FUNCTION_LINES_MAX]


def long_files(root: Path) -> list[str]:
    return [f"{s.path}: {s.lines} lines" for s in sources(root) if s.lines > FILE_LINES_MAX]


def packaging_faults(root: Path) -> list[str]:
    """The wheel holds the four packages and nothing else; proto/ never becomes a package."""
    listed = pyproject(root)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    present = {path.parent.name for path in root.glob("*/__init__.py")} - {"tests", "bench"}
    faults = [f"{name}/: a package that the wheel does not list" for name in sorted(present - set(listed))]
    faults += [f"{name}/: listed in the wheel, but no package" for name in sorted(set(listed) - present)]
    if "proto" in present:
        faults.append("proto/: the import name belongs to another project; schema only")
    return faults


def entry_points(root: Path) -> set[str]:
    """Modules that users and the Makefile start by name."""
    scripts = pyproject(root)["project"].get("scripts", {})
    started = {target.split(":")[0] for target in scripts.values()}
    for name in ("Makefile", "Dockerfile", "docker-compose.yml"):
        if (root / name).is_file():
            started.update(re.findall(r"-m (\w[\w.]*)", (root / name).read_text("utf-8")))
    return started


def unused_modules(root: Path) -> list[str]:
    """Files that nobody imports: neither the product, nor a test, nor an entry point."""
    every = sources(root)
    used = {name for source in every for name in references(source) if name != source.module}
    used |= entry_points(root)
    # Importing a.b.c runs a and a.b too.
    used |= {
        ".".join(parts[:n]) for parts in (name.split(".") for name in used) for n in range(1, len(parts))
    }
    used |= set(FOLDERS)
    return [
        f"{s.path}: nobody imports it"
        for s in every
        if s.module not in used
        and not (ENTRY.search(s.path.as_posix()) or _only_docstring(s) or _is_suite(s))
    ]


def _is_suite(source: Source) -> bool:
    """A measurement, which `python -m bench` finds by its `run`."""
    names = {node.name for node in source.tree().body if isinstance(node, ast.FunctionDef)}
    return source.path.parts[0] == "bench" and "run" in names


def _only_docstring(source: Source) -> bool:
    return source.path.name == "__init__.py" and len(source.tree().body) <= 1


def limits_elsewhere(root: Path) -> list[str]:
    """Limits live in limits.py, where their relations are checked; elsewhere they would contradict unseen."""
    return [
        f"{source.path}:{line} {name}: belongs in limits.py"
        for source in sources(root, PACKAGES)
        if source.path.name != "limits.py"
        for name, line in _constants(source)
        if LIMIT_NAME.match(name)
    ]


def _constants(source: Source) -> Iterator[tuple[str, int]]:
    for node in source.tree().body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        yield from ((t.id, node.lineno) for t in targets if isinstance(t, ast.Name))


def test_no_function_is_longer_than_a_screen() -> None:
    assert long_functions(ROOT) == []


def test_no_file_is_longer_than_400_lines() -> None:
    assert long_files(ROOT) == []


def test_the_median_file_has_at_most_200_lines() -> None:
    assert median(s.lines for s in sources(ROOT, PACKAGES)) <= FILE_LINES_MEDIAN_MAX


def test_the_wheel_lists_exactly_the_packages() -> None:
    assert packaging_faults(ROOT) == []


def test_every_module_is_imported_or_an_entry_point() -> None:
    assert unused_modules(ROOT) == []


def test_limits_are_defined_in_limits_only() -> None:
    assert limits_elsewhere(ROOT) == []


# Each rule on a tree that breaks it: a check that cannot fail proves nothing.

WHEEL = '[tool.hatch.build.targets.wheel]\npackages = ["jjq"]\n[project.scripts]\njjq = "jjq.cli:main"\n'


def test_a_long_function_is_found_even_when_nested(tmp_path: Path) -> None:
    body = "\n".join(["        pass"] * 70)
    plant(tmp_path, {"jjq/a.py": f"def outer():\n    @staticmethod\n    def inner():\n{body}\n"})
    assert long_functions(tmp_path) == ["jjq/a.py:1 outer: 73 lines", "jjq/a.py:3 inner: 72 lines"]


def test_a_function_of_exactly_70_lines_passes(tmp_path: Path) -> None:
    plant(tmp_path, {"jjq/a.py": "def f():\n" + "    pass\n" * 69})
    assert long_functions(tmp_path) == []


def test_a_long_file_is_found_unless_generated(tmp_path: Path) -> None:
    plant(tmp_path, {"jjq/v1/x_pb2.py": "a = 1\n" * 401, "bench/a.py": "a = 1\n" * 401})
    assert long_files(tmp_path) == ["bench/a.py: 401 lines"]


def test_an_unlisted_package_and_a_missing_one_are_found(tmp_path: Path) -> None:
    plant(tmp_path, {"pyproject.toml": WHEEL, "proto/a.py": "", "tests/a.py": ""})
    assert packaging_faults(tmp_path) == [
        "proto/: a package that the wheel does not list",
        "jjq/: listed in the wheel, but no package",
        "proto/: the import name belongs to another project; schema only",
    ]


def test_an_unused_module_is_found_and_entry_points_are_not(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "pyproject.toml": WHEEL,
            "Makefile": "run:\n\tpython -m jjq.dev_cluster\n",
            "jjq/cli.py": "from jjq import used\nLAZY = 'jjq.lazy:name'\n",
            "jjq/used.py": "",
            "jjq/lazy.py": "",
            "jjq/dev_cluster.py": "",
            "jjq/dead.py": "import jjq.dead\n",
            "jjq/deep/alone/__init__.py": "import os\nX = os\n",
            "tests/test_a.py": "",
            "tests/helper.py": "",
        },
    )
    assert unused_modules(tmp_path) == [
        "jjq/dead.py: nobody imports it",
        "jjq/deep/alone/__init__.py: nobody imports it",
        "tests/helper.py: nobody imports it",
    ]


def test_a_limit_outside_limits_is_found(tmp_path: Path) -> None:
    plant(tmp_path, {"hotstore/a.py": "from typing import Final\nA_BYTES_MAX: Final = 1\nB_MIN = 2\nC = 3\n"})
    plant(tmp_path, {"coldstore/shared/limits.py": "A_BYTES_MAX = 1\n"})
    assert limits_elsewhere(tmp_path) == [
        "hotstore/a.py:2 A_BYTES_MAX: belongs in limits.py",
        "hotstore/a.py:3 B_MIN: belongs in limits.py",
    ]
