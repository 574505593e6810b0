"""What must hold of a group after all its tasks are done, whatever was killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.faults.work.worker import Note


def judge_ledger(rows: Iterable[dict[str, Any]], tasks: int) -> list[str]:
    """Every task was acked exactly once, and nothing happened to it afterwards."""
    defects: list[str] = []
    done: set[int] = set()
    for row in rows:
        if row["state"] is None:
            continue
        about = set(range(row["task"], row["task"] + row["count"]))
        if again := about & done:
            defects.append(f"{row['event']} of tasks that were done: {sorted(again)[:5]}")
        if row["state"] == "done":
            if row["event"] != "ack":
                defects.append(f"tasks ended by {row['event']}: {sorted(about)[:5]}")
            done |= about
    if done != set(range(tasks)):
        defects.append(
            f"{len(done)} of {tasks} tasks are done; missing {sorted(set(range(tasks)) - done)[:5]}"
        )
    return defects


def judge_notes(notes: Sequence[Note], rows: Iterable[dict[str, Any]]) -> list[str]:
    """What workers were told: no acked task was handed out again, and every ack that was answered is in the ledger."""
    defects: list[str] = []
    acked = {note.task: note for note in notes if note.verb == "ack"}
    if len(acked) != sum(note.verb == "ack" for note in notes):
        defects.append("a task was acked by two workers")
    for note in notes:
        ack = acked.get(note.task)
        if note.verb == "take" and ack is not None and note.time > ack.time:
            defects.append(f"task {note.task} was handed out {note.time - ack.time:.3f} s after its ack")
    attempts = {
        task: row["attempt"]
        for row in rows
        if row["event"] == "ack"
        for task in range(row["task"], row["task"] + row["count"])
    }
    defects += [
        f"task {note.task}: attempt {note.attempt} was acked, the ledger has {attempts.get(note.task)}"
        for note in acked.values()
        if attempts.get(note.task) != note.attempt
    ]
    return defects
