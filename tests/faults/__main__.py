"""`python -m tests.faults --minutes N [--seed S] [--folder DIR] [--only kill,power] [--nodes N] [--journal disk]`.

Ever new seeds. Each run suffers a mix of all nemeses, in turn with one node whose history is in a folder, one whose
history is on S3, three nodes that share queues and have journals on S3, and three with journals on disks; `--nodes` and
`--journal` choose. The first bad one ends it, and what it left is kept; of good ones the report stays.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from tests.faults.nemeses.all import NEMESES, fits
from tests.faults.plan import Plan
from tests.faults.run import Run
from tests.faults.shim import MISSING, can_build
from tests.servers.s3 import S3Server
from tests.servers.seaweed import command, running_seaweed

RUN_SECONDS = 60.0
MOVE_SECONDS = 3.0  # between two planned moves of a queue


WORLDS = (
    ("folder", 1, "disk"),
    ("s3", 1, "disk"),
    ("s3", 3, "s3"),
    ("s3", 3, "disk"),
)  # history, nodes, journals


def plans(seed: int, only: list[str], nodes: list[int], journals: list[str], *, s3: bool) -> Iterator[Plan]:
    """Plans for ever."""
    worlds = [
        (cold, count, journal)
        for cold, count, journal in WORLDS
        if count in nodes and journal in journals and (s3 or cold != "s3")
    ]
    shim = can_build()
    while worlds:
        found = False
        for cold, count, journal in worlds:
            kinds = tuple(
                kind
                for kind in NEMESES
                if (not only or kind in only)
                and fits(kind, shim=shim, s3=cold == "s3", nodes=count, journal=journal)
            )
            if kinds:
                found = True
                moves = MOVE_SECONDS if count > 1 else 0.0
                yield Plan(
                    seed, kinds, RUN_SECONDS, longest=3.0, cold=cold, nodes=count, journal=journal, moves=moves
                )  # fmt: skip
                seed += 1
        if not found:
            return


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.faults")
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--folder", type=Path, default=Path("build/soak"))
    options.add_argument("--only", default="", help="nemeses, with commas between")
    options.add_argument("--nodes", type=int, choices=(1, 3), default=None, help="only such runs")
    options.add_argument("--journal", choices=("disk", "s3"), default=None, help="only such runs")
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
        nodes = [1, 3] if given.nodes is None else [given.nodes]
        journals = ["disk", "s3"] if given.journal is None else [given.journal]
        for plan in plans(seed, only, nodes, journals, s3=storage is not None):
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
