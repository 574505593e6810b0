"""The command line: `jjq --help`. Tables for people, `--json` for programs, exit codes for scripts."""

from __future__ import annotations

import sys


def main() -> None:
    """What the command `jjq` runs."""
    from jjq.cli.app import run
    from jjq.cli.lean import without_pandas

    arguments = sys.argv[1:]
    if arguments[:1] != ["pipeline"]:
        without_pandas()
    sys.exit(run(arguments))
