"""Run measurements: `python -m bench [SUITE…] [--quick]`. Ends with 1 if a target was missed."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType

from rich.console import Console
from rich.table import Table

import bench
from bench.row import Row


def main() -> int:
    suites = dict(_suites())
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, and compare with targets.")
    parser.add_argument("suite", nargs="*", help=f"of {', '.join(suites)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller sizes")
    asked = parser.parse_args()
    unknown = sorted(set(asked.suite) - set(suites))
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(suites)}")
    missed = False
    for name in asked.suite or suites:
        rows: list[Row] = suites[name].run(asked.quick)
        Console().print(table(name, rows))
        missed |= any(row.ok is False for row in rows)
    return 1 if missed else 0


def _suites() -> Iterator[tuple[str, ModuleType]]:
    for found in pkgutil.iter_modules(bench.__path__):
        if not found.name.startswith("_"):
            module = importlib.import_module(f"bench.{found.name}")
            if hasattr(module, "run"):
                yield found.name, module


def table(name: str, rows: list[Row]) -> Table:
    table = Table(title=name, title_justify="left")
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("target")
    table.add_column("")
    for row in rows:
        verdict = {None: "", True: "[green]ok[/]", False: "[red]missed[/]"}[row.ok]
        table.add_row(row.name, f"{row.value:,.4g}", row.unit, row.target, verdict)
    return table


if __name__ == "__main__":
    sys.exit(main())
