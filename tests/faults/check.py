"""`python -m tests.faults.check FOLDER…`: judge the histories of runs again, as after a fix of the checker."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson

from tests.faults.report import report


def main(folders: list[str]) -> int:
    bad = 0
    for name in folders:
        folder = Path(name)
        plan = orjson.loads((folder / "run.json").read_bytes())
        found = report(folder, plan["seed"])
        print(f"{folder}\n{found.text()}")
        bad += not found.good
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
