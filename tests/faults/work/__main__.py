"""`python -m tests.faults.work --minutes N [--seed S] [--folder DIR]`: 64 workers; they and the server are killed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from coldstore.shared.chance import SeededChance, SystemChance
from tests.faults.work.run import WorkPlan, WorkRun


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.faults.work")
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--folder", type=Path, default=Path("build/work"))
    given = options.parse_args()
    seed = given.seed if given.seed is not None else int(SystemChance().token(), 16) % 2**32
    folder = given.folder / str(seed)
    report = WorkRun(folder, WorkPlan(given.minutes * 60), SeededChance(seed)).run()
    print(f"seed {seed}, {folder}: {report}")
    return 1 if report.defects else 0


if __name__ == "__main__":
    sys.exit(main())
