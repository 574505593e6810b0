"""Workers and a server that are killed: the run of `python -m tests.faults.work`, in small; and its judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coldstore.shared.chance import SeededChance
from tests.faults.work.judge import judge_ledger, judge_notes
from tests.faults.work.run import WorkPlan, WorkRun
from tests.faults.work.worker import Note, read_notes


def row(event: str, task: int, state: str, count: int = 1, attempt: int = 1) -> dict[str, Any]:
    return {"event": event, "task": task, "count": count, "state": state, "attempt": attempt}


GOOD = [row("take", 0, "taken", 2), row("ack", 0, "done"), row("timeout", 1, "ready"), row("take", 1, "taken", 1, 2),
        row("ack", 1, "done", 1, 2)]  # fmt: skip


@pytest.mark.timeout(300)
def test_workers_and_server_are_killed_and_every_task_is_done_once(tmp_path: Path) -> None:
    plan = WorkPlan(kills=("worker", "server"), processes=2, callers=8)
    report = WorkRun(tmp_path, plan, SeededChance(1)).run()
    assert report.defects == []
    assert (report.server_kills, report.worker_kills) == (1, 1)
    assert report.tasks >= 100


def test_the_ledger_is_judged() -> None:
    assert judge_ledger(GOOD, 2) == []
    assert "2 of 3 tasks" in judge_ledger(GOOD, 3)[0]
    assert "take of tasks that were done: [1]" in judge_ledger([*GOOD, row("take", 1, "taken", 1, 3)], 2)[0]
    assert "ack of tasks that were done: [0]" in judge_ledger([*GOOD, row("ack", 0, "done")], 2)[0]
    assert "ended by delete" in judge_ledger([row("delete", 0, "done")], 1)[0]


def test_what_workers_noted_is_judged() -> None:
    good = read_notes(
        "take 1.0 0 1\nack 1.5 0 1\ntake 1.2 1 1\ntake 4.0 1 2\nack 4.5 1 2\nlate 4.6 1 1\ntake 9"
    )
    assert len(good) == 6
    assert judge_notes(good, GOOD) == []
    assert "0.500 s after its ack" in judge_notes([*good, Note("take", 2.0, 0, 2)], GOOD)[0]
    assert judge_notes([*good, Note("ack", 2.0, 0, 1)], GOOD) == ["a task was acked by two workers"]
    assert "the ledger has 1" in judge_notes([Note("ack", 1.0, 0, 7)], GOOD)[0]
