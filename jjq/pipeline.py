"""For spark-submit: `spark-submit …/jjq/pipeline.py compact --cold s3://bucket/jjq` is `jjq pipeline compact …`.

It is a file of its own because spark-submit runs files, and it is here, not among the jobs, because the command
line uses those.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the job that the arguments name."""
    # Run as a file, its folder comes first where modules are looked for, and would hide others' names.
    sys.path[:] = [
        entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent
    ]
    from jjq.cli.app import run

    sys.exit(run(["pipeline", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
