"""The source tree as data: files, functions, imports. Every reader takes a root, so that a rule can be
tried on a synthetic tree that breaks it."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("jjq", "sharding", "hotstore", "coldstore")
FOLDERS = (*PACKAGES, "tests", "bench")
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")


@dataclass(frozen=True)
class Source:
    """One hand-written Python file."""

    path: Path  # relative to the root
    text: str

    @property
    def module(self) -> str:
        """The dotted name it is imported by."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))


@dataclass(frozen=True)
class Function:
    """One function or method, decorators included."""

    where: str
    lines: int


def sources(root: Path, folders: tuple[str, ...] = FOLDERS) -> list[Source]:
    """Every hand-written Python file of `folders`."""
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return [
        Source(path.relative_to(root), path.read_text("utf-8"))
        for path in paths
        if not GENERATED.search(path.name)
    ]


@functools.cache
def _walked(source: Source) -> tuple[list[Function], list[str]]:
    """What several rules ask of every file: its functions and its references. The trees themselves are not kept."""
    found: list[Function] = []
    named: list[str] = []
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            last = node.end_lineno or node.lineno
            found.append(Function(f"{source.path}:{node.lineno} {node.name}", last - first + 1))
        elif isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            named += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            named.append(node.value.split(":")[0])
    return found, named


def functions(source: Source) -> list[Function]:
    """Every function of a file, nested ones too."""
    return _walked(source)[0]


def references(source: Source) -> list[str]:
    """Dotted names that may be modules: imports, and strings that read like one (`-m` arguments, lazy
    exports, fork targets)."""
    return _walked(source)[1]


def pyproject(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


def plant(root: Path, files: dict[str, str]) -> Path:
    """Write a synthetic tree; every folder of Python files becomes a package."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if path.suffix == ".py" and path.parent != root:
            (path.parent / "__init__.py").touch()
    return root
