"""What a store that is killed again and again has promised, and whether it keeps it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]


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

    def live(
        self, path: Path, do: str, run: int = 0, arm: str = "", node: str = ""
    ) -> tuple[int, list[list[Any]]]:
        """One life; returns how it ended and all that was said."""
        said = path / "said"
        before = said.stat().st_size if said.exists() else 0
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"do": do, "path": str(path), "run": run, "arm": arm, "node": node}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        status = int(self._process.stdout.readline())
        errors = (path / "errors").read_text() if (path / "errors").exists() else ""
        assert status in (0, -signal.SIGKILL), errors
        if not said.exists():
            return status, []
        with said.open() as file:
            file.seek(before)
            return status, [json.loads(line) for line in file]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class Promises:
    """What a store has promised in all its lives, and whether it keeps it."""

    def __init__(self, victims: Victims, path: Path, node: str = "") -> None:
        self._victims = victims
        self._node = node  # of a cluster, with its journal on object storage; "": one with its disk
        self._path = path
        self._pushed: dict[str, dict[int, str]] = {"q": {}, "r": {}}
        self._tried: dict[str, set[tuple[str, ...]]] = {"q": set(), "r": set()}
        self._position: dict[str, int] = {"q": 0, "r": 0}
        self._receipts: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._acked: set[int] = set()
        self.runs = 0

    def live(self, arm: str = "") -> int:
        status, said = self._victims.live(self._path, "work", self.runs, arm, self._node)
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
                case "taken":
                    assert not self._acked & set(rest[1]), "a task that was acked is handed out again"
                case "acked":
                    self._acked |= set(rest[1])
                case "popped":
                    assert rest[2] >= self._position[rest[0]], "a position went back"
                    self._position[rest[0]] = rest[2]
        return status

    def audit(self, arm: str = "", *, taker: str = "") -> int:
        """See what is there; `taker` is a node that takes over first."""
        status, said = self._victims.live(self._path, "audit", arm=arm, node=taker or self._node)
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
                case "open":
                    assert not self._acked & set(rest[0]), "a task that was acked is not done"
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
