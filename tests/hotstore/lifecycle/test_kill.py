"""kill -9 at every named point, in a real process on a real disk; then the audit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coldstore.shared import failpoint

ROOT = Path(__file__).parents[3]
RECOVERY = [name for name in failpoint.NAMES if name.startswith("recovery.")]
POINTS = [name for name in failpoint.NAMES if name not in RECOVERY]


class Victims:
    """Starts victims, and collects what they were promised."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.hotstore.victim"],
            cwd=ROOT,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def live(self, path: Path, do: str, run: int = 0, arm: str = "") -> tuple[int, list[list[Any]]]:
        """One life; returns how it ended and all that was said."""
        said = path / "said"
        before = said.stat().st_size if said.exists() else 0
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"do": do, "path": str(path), "run": run, "arm": arm}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        status = int(self._process.stdout.readline())
        errors = (path / "errors").read_text() if (path / "errors").exists() else ""
        assert status in (0, -signal.SIGKILL), errors
        if not said.exists():
            return status, []
        with said.open() as file:
            file.seek(before)
            return status, [json.loads(line) for line in file]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    made = Victims()
    yield made
    made.close()


class Promises:
    """What a store has promised in all its lives, and whether it keeps it."""

    def __init__(self, victims: Victims, path: Path) -> None:
        self._victims = victims
        self._path = path
        self._pushed: dict[str, dict[int, str]] = {"q": {}, "r": {}}
        self._tried: dict[str, set[tuple[str, ...]]] = {"q": set(), "r": set()}
        self._position: dict[str, int] = {"q": 0, "r": 0}
        self._receipts: dict[tuple[str, str, int], tuple[int, int]] = {}
        self.runs = 0

    def live(self, arm: str = "") -> int:
        status, said = self._victims.live(self._path, "work", self.runs, arm)
        self.runs += 1
        for what, *rest in said:
            match what:
                case "pushing":
                    self._tried[rest[0]].add(tuple(rest[1]))
                case "pushed":
                    queue, first, names, time, producer, sequence = rest
                    for n, name in enumerate(names):
                        assert self._pushed[queue].setdefault(first + n, name) == name, (
                            "an offset given out twice"
                        )
                    if producer is not None:
                        self._receipts[queue, producer, sequence] = (first, time)
                case "popped":
                    assert rest[2] >= self._position[rest[0]], "a position went back"
                    self._position[rest[0]] = rest[2]
        return status

    def audit(self, arm: str = "") -> int:
        status, said = self._victims.live(self._path, "audit", arm=arm)
        for what, queue, *rest in said:
            match what:
                case "log":
                    self._judge_log(queue, rest[0], rest[1])
                case "position":
                    assert self._position[queue] <= rest[1] <= self._position[queue] + 3, "a position moved"
                    self._position[queue] = rest[1]
                case "producers":
                    self._judge_receipts(queue, rest[0])
                case "verified":
                    assert rest[0] == []
        return status

    def _judge_log(self, queue: str, names: list[str], times: list[int]) -> None:
        lost = {
            offset for offset, name in self._pushed[queue].items() if names[offset : offset + 1] != [name]
        }
        assert not lost, f"{queue}: lost or changed {sorted(lost)}"
        assert times == sorted(times)
        assert len(set(names)) == len(names), "an element is there twice"
        # Whatever nobody acknowledged is a push that was under way, whole.
        at = 0
        while at < len(names):
            whole = [push for push in self._tried[queue] if push[0] == names[at]]
            assert whole, "an element comes from nowhere"
            assert tuple(names[at : at + len(whole[0])]) == whole[0], "half a push"
            at += len(whole[0])
        self._pushed[queue] = dict(enumerate(names))  # what was served once must stay

    def _judge_receipts(self, queue: str, rows: list[list[Any]]) -> None:
        known = {(queue, name, r[0]): (r[1], r[3]) for name, receipts in rows for r in receipts}
        for key, receipt in self._receipts.items():
            if key[0] == queue:
                assert known.get(key) == receipt, f"the receipt of {key} is forgotten or another one"


@pytest.fixture(scope="module")
def reached(victims: Victims, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often an undisturbed life reaches each point."""
    status, said = victims.live(tmp_path_factory.mktemp("count"), "work", arm="count")
    assert status == 0
    counts: dict[str, int] = said[-1][1]
    return counts


def test_every_registered_fail_point_is_reached(reached: dict[str, int]) -> None:
    assert {name: count for name, count in reached.items() if count == 0} == {}
    assert set(reached) == set(failpoint.NAMES)


@pytest.mark.parametrize("point", POINTS)
def test_kill_nine_loses_nothing_that_was_acknowledged(
    victims: Victims, reached: dict[str, int], tmp_path: Path, point: str
) -> None:
    # Given several of the times that a life reaches the point; not the last, as the number of groups varies
    times = sorted({1, *(max(1, reached[point] * part // 4) for part in (1, 2, 3))})
    for nth in times:
        path = tmp_path / str(nth)
        path.mkdir()
        store = Promises(victims, path)
        # When it is killed there
        assert store.live(f"{point}:{nth}:kill") == -signal.SIGKILL, "the point was not reached"
        # Then everything is there
        assert store.audit() == 0
        # And it goes on as if nothing had happened
        if nth == times[-1]:
            assert store.live() == 0
            assert store.audit() == 0


@pytest.mark.parametrize("point", RECOVERY)
@pytest.mark.parametrize("before", ["journal.synced:33:kill", "journal.rolled:1:kill"])
def test_killed_again_and_again_while_it_recovers_it_still_loses_nothing(
    victims: Victims, tmp_path: Path, point: str, before: str
) -> None:
    store = Promises(victims, tmp_path)
    assert store.live(before) == -signal.SIGKILL
    for _ in range(2):
        assert store.audit(f"{point}:1:kill") == -signal.SIGKILL
    assert store.audit() == 0


def test_life_after_life_cut_short_at_ever_other_points(victims: Victims, tmp_path: Path) -> None:
    store = Promises(victims, tmp_path)
    script = [
        "journal.written:9:kill",
        "seal.switched:3:kill",
        "journal.segment_created:2:kill",
        "merge.data_put:1:kill",
    ]
    for arm in [*script, "catalog.written:1:kill", "journal.trimmed:1:kill"]:
        store.live(arm)
        assert store.audit() == 0
    assert store.live() == 0
    assert store.audit() == 0
