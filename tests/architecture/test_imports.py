"""The contracts of pyproject.toml hold for the tree, and each of them is able to fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.architecture.tree import PACKAGES, ROOT, plant

LINT = "import sys; from importlinter.cli import lint_imports_command as run; sys.exit(run())"


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts on the packages below `root`, in a process that sees those and no others."""
    command = [sys.executable, "-c", LINT, "--no-cache", "--no-logo", "--config", "pyproject.toml"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def cycle(packages: tuple[str, ...]) -> list[str]:
    """One cycle of modules, if there is any. The contract compares siblings only; this sees, too, a module
    that imports from the package it is part of."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    try:
        TopologicalSorter(
            {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
        ).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def synthetic(root: Path, files: dict[str, str]) -> Path:
    shutil.copy(ROOT / "pyproject.toml", root)
    return plant(root, {f"{package}/__init__.py": "" for package in PACKAGES} | files)


def test_every_contract_holds() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_module_imports_itself_through_others() -> None:
    assert cycle(PACKAGES) == []


def test_a_clean_synthetic_tree_passes(tmp_path: Path) -> None:
    files = {
        "jjq/server.py": "import grpc, sharding.routing.router, jjq.wire",
        "jjq/wire.py": "import google.protobuf",
        "jjq/spark/read.py": "import pyspark, coldstore.block.encode",
        "sharding/routing/router.py": "import hotstore",
        "coldstore/block/encode.py": "import pyarrow",
    }
    result = lint(synthetic(tmp_path, files))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("contract", "files"),
    [
        ("Imports point the way elements age", {"coldstore/a.py": "import hotstore"}),
        ("Imports point the way elements age", {"hotstore/a.py": "def f():\n    from jjq import b"}),
        ("The stores know nothing of the wire", {"hotstore/a.py": "import grpc"}),
        ("The stores know nothing of the wire", {"coldstore/a.py": "from google.protobuf import message"}),
        ("The stores know nothing of the wire", {"sharding/a.py": "from pyspark.sql import Row"}),
        ("it never opens a hot store", {"jjq/spark.py": "import hotstore"}),
        (
            "it never opens a hot store",
            {"jjq/spark/read.py": "import jjq.local", "jjq/local.py": "import sharding"},
        ),
        (
            "No cycles between the modules of a package",
            {"coldstore/a.py": "import coldstore.b", "coldstore/b.py": "import coldstore.a"},
        ),
        (
            "The rooms of the cold store import downwards",
            {"coldstore/block/a.py": "import coldstore.queue.b", "coldstore/queue/b.py": ""},
        ),
        (
            "The rooms of sharding import downwards",
            {"sharding/journal/a.py": "import sharding.takeover.b", "sharding/takeover/b.py": ""},
        ),
    ],
    ids=[
        "upward",
        "upward-lazy",
        "grpc",
        "protobuf",
        "pyspark",
        "spark",
        "spark-indirect",
        "cycle",
        "rooms",
        "sharding-rooms",
    ],
)
def test_a_breach_is_found(tmp_path: Path, contract: str, files: dict[str, str]) -> None:
    result = lint(synthetic(tmp_path, files))
    broken = [line for line in result.stdout.splitlines() if contract in line and "BROKEN" in line]
    assert result.returncode == 1, result.stdout
    assert broken, result.stdout


def test_a_module_that_imports_its_own_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, {"ring/a.py": "from ring import X"})
    (tmp_path / "ring/__init__.py").write_text("from ring import a\nX = a\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(cycle(("ring",))) == {"ring", "ring.a"}
