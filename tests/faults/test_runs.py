"""Real servers, real clients, real faults, and the checker's verdict; short runs of what `make soak` does at length.

The seeds are fixed, so that every run of the tests suffers the same faults in the same order. A run that
finds something prints its folder; `python -m tests.faults.check FOLDER` judges it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.bugs import BUGS, RUNS
from tests.faults.check import main as check
from tests.faults.nemeses.all import NEMESES
from tests.faults.plan import Plan
from tests.faults.report import Report
from tests.faults.run import Run
from tests.faults.shim import MISSING, can_build
from tests.servers.s3 import S3Server

SHIM = pytest.mark.skipif(not can_build(), reason=MISSING)
CLUSTER = pytest.mark.xdist_group("faults-cluster")  # one at a time: each keeps the machine busy
TRIES = 5  # runs in which a seeded mistake must be found
LONG = 400  # seconds; a run takes 15, but a busy machine may pause a process for a minute


def suffer(plan: Plan, folder: Path, s3: S3Server | None = None) -> Report:
    report = Run(plan, folder, s3).run()
    print(report.text())
    return report


def judged(report: Report, folder: Path, *kinds: str) -> None:
    assert report.findings == [], f"see {folder}"
    assert report.lost == 0
    assert report.acknowledged > 50, "the clients got nothing done"
    assert report.read >= report.acknowledged
    assert set(report.faults) == set(kinds)
    assert min(report.doors.values()) > 0, f"nobody was answered at some door: {report.doors}"


def faults(folder: Path) -> list[dict[str, Any]]:
    """What was done in a run."""
    return [orjson.loads(line) for line in (folder / "faults.jsonl").read_bytes().splitlines()]


@pytest.mark.timeout(LONG)
def test_killed_paused_and_cut_off_nothing_is_lost(tmp_path: Path) -> None:
    kinds = ("kill", "pause", "cut", "lost-replies", "partition")
    report = suffer(Plan(11, kinds, 5.0, longest=1.0), tmp_path)
    judged(report, tmp_path, *kinds)
    assert set(report.doors) == {"grpc", "socket", "http", "connect"}
    assert min(report.changed.values()) > 0, f"no task was changed in some way: {report.changed}"
    # And the history that is left tells the same once more
    assert check([str(tmp_path)]) == 0


@SHIM
@pytest.mark.timeout(LONG)
def test_whatever_the_disk_and_the_clock_do_nothing_is_lost(tmp_path: Path) -> None:
    kinds = ("power", "fsync", "disk-full", "slow-fsync", "clock")
    report = suffer(Plan(12, kinds, 5.0, longest=1.0), tmp_path)
    judged(report, tmp_path, *kinds)
    failed = [fault for fault in faults(tmp_path) if fault.get("failed")]
    assert failed
    assert all(fault["died"] for fault in failed), "a server outlived a failed fsync"


@pytest.mark.timeout(LONG)
def test_a_flipped_bit_is_reported_or_healed_and_never_read(tmp_path: Path) -> None:
    kinds = tuple(kind for kind in NEMESES if kind.startswith("flip-"))
    report = suffer(Plan(17, kinds, 1.5, longest=0.5, clients=1, progress=40), tmp_path)
    judged(report, tmp_path, *kinds)
    assert {fault["kind"] for fault in faults(tmp_path) if "flipped" in fault} == set(kinds)


@pytest.mark.timeout(LONG)
def test_whatever_object_storage_does_nothing_is_lost(tmp_path: Path, seaweed: S3Server) -> None:
    kinds = tuple(kind for kind, nemesis in NEMESES.items() if nemesis.s3 and not nemesis.nodes)
    report = suffer(Plan(14, (*kinds, "kill"), 6.0, longest=1.0, cold="s3"), tmp_path, seaweed)
    judged(report, tmp_path, *kinds, "kill")


@CLUSTER
@pytest.mark.timeout(LONG)
def test_nodes_die_stop_and_lose_each_other_and_nothing_is_lost(tmp_path: Path, seaweed: S3Server) -> None:
    # And moves; the others take longer
    kinds = ("node-pause", "node-ended-early", "node-roll", "link-one-way", "s3-lost-reply")
    plan = Plan(61, kinds, 4.5, longest=1.5, cold="s3", clients=2, nodes=3, moves=2.0)
    report = suffer(plan, tmp_path, seaweed)
    judged(report, tmp_path, *kinds)
    done = {fault["kind"]: fault for fault in faults(tmp_path)}
    zombies = [fault for fault in done.values() if fault.get("taken") and "died" in fault]
    assert report.ended >= len(zombies) > 0, "nobody was taken over while it lived"
    assert all(fault["died"] for fault in zombies), "a zombie did not notice"
    assert 0 in done["node-roll"]["codes"]


@SHIM
@pytest.mark.timeout(LONG)
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(some, marks=[CLUSTER] if BUGS[some[0]].nodes > 1 else [], id="+".join(some))
        for some in RUNS
    ],
)
def test_a_mistake_in_the_engine_is_caught(
    names: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    some = [BUGS[name] for name in names]
    first = some[0]
    s3 = request.getfixturevalue("seaweed") if first.cold == "s3" else None
    wanted, reports = dict(zip(names, some, strict=True)), []
    for seed in range(3, 3 + TRIES):  # a fault has to come at the moment at which the mistake matters
        plan = Plan(
            seed, first.nemeses, first.seconds, longest=1.0, bug="+".join(wanted), cold=first.cold, clients=1,
            progress=first.progress, nodes=first.nodes, lease=first.lease,
        )  # fmt: skip
        try:
            report = suffer(plan, tmp_path / str(seed), s3)
        except AssertionError as error:
            if first.refusal and first.refusal in str(error):
                return
            raise
        wanted = {name: bug for name, bug in wanted.items() if not bug.properties & set(report.properties)}
        if not wanted:
            return
        reports.append(report.text())
    pytest.fail(f"not caught: {', '.join(wanted)}\n" + "\n".join(reports))
