"""The command line: `jjq --help`. Tables for people, `--json` for programs, exit codes for scripts."""

from __future__ import annotations

import sys


def main() -> None:
    """What the command `jjq` runs."""
    from jjq.cli.app import run

    sys.exit(run(sys.argv[1:]))
