"""`python -m tests.faults --minutes N [--seed S] [--folder DIR] [--only kill,power]`: runs with ever new seeds.

Each run suffers a mix of all nemeses, in turn with history in a folder and on S3. The first bad one ends
it, and what it left is kept; of good ones the report stays.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from coldstore.chance import SystemChance
from coldstore.clock import SystemClock
from tests.faults.nemeses.all import NEMESES
from tests.faults.run import Plan, Run
from tests.faults.shim import MISSING, can_build
from tests.servers.s3 import S3Server
from tests.servers.seaweed import command, running_seaweed

RUN_SECONDS = 60.0


def plans(seed: int, only: list[str], *, s3: bool) -> Iterator[Plan]:
    """Plans for ever. A skewed clock and signed requests do not go together, so it stays out of S3's."""
    shim = can_build()
    while True:
        for cold in ("folder", "s3") if s3 else ("folder",):
            kinds = tuple(
                kind
                for kind, nemesis in NEMESES.items()
                if (not only or kind in only)
                and (shim or not nemesis.shim)
                and (cold == "s3" or not nemesis.s3)
                and (cold == "folder" or not kind.startswith(("flip", "clock")))
            )
            if kinds:
                yield Plan(seed, kinds, RUN_SECONDS, longest=3.0, cold=cold)
                seed += 1


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.faults")
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--folder", type=Path, default=Path("build/soak"))
    options.add_argument("--only", default="", help="nemeses, with commas between")
    given = options.parse_args()
    clock = SystemClock()
    end = clock.monotonic() + 60 * given.minutes
    seed = int(SystemChance().jitter() * 10**6) if given.seed is None else given.seed
    only = [kind for kind in given.only.split(",") if kind]
    if not can_build():
        print(MISSING)
    with ExitStack() as stack:
        storage: S3Server | None = None
        if command().is_file():
            shutil.rmtree(given.folder / "s3", ignore_errors=True)
            storage = stack.enter_context(running_seaweed((given.folder / "s3").absolute()))
        for plan in plans(seed, only, s3=storage is not None):
            if clock.monotonic() > end:
                return 0
            folder = (given.folder / f"run-{plan.seed}").absolute()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            report = Run(plan, folder, storage).run()
            print(f"{folder}\n{report.text()}", flush=True)
            if not report.good:
                return 1
            shutil.rmtree(folder / "node")
            shutil.rmtree(folder / "history")
    return 0


if __name__ == "__main__":
    sys.exit(main())
