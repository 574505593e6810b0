"""Some systems only: `python -m bench.peers [SYSTEM…] [--quick] [--results DIR] [--folder DIR]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench.peers.compare import compared, results
from bench.peers.report import terminal, write
from bench.peers.scale import SCALES
from bench.peers.systems.registry import SYSTEMS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("system", nargs="*", help=f"of {', '.join(SYSTEMS)}; all by default")
    parser.add_argument("--quick", dest="size", action="store_const", const="quick", default="full")
    parser.add_argument("--size", choices=SCALES)
    parser.add_argument("--results", type=Path, help="where the report goes")
    parser.add_argument("--folder", type=Path, help="where data lies meanwhile; must be on a real disk")
    asked = parser.parse_args(arguments)
    unknown = sorted(set(asked.system) - set(SYSTEMS))
    if unknown:
        parser.error(f"no system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    console = Console()
    found = compared(asked.system or SYSTEMS, asked.size, console.log, asked.folder)
    write(found, asked.results or results(asked.size))
    console.print(terminal(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
