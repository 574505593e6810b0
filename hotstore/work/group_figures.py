"""Figures of a group for an operator: its tasks by state, what happened to them, how long they wait and take.

Times are those since the group was loaded. Tasks that are handed out or finished together count with the time of the
first of them, which costs next to nothing and is nearly right: they were pushed, or taken, at about the same time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final, NamedTuple

from hotstore.groups.order import SECOND_US

BOUNDS: Final = (
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0,
)  # fmt: skip


class TaskTimes:
    """How many tasks took how long: a count for each of `BOUNDS`, and one for all that is longer."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, us: int, tasks: int) -> None:
        """So many tasks took so long."""
        seconds = max(0.0, us / SECOND_US)
        self.counts[bisect_left(BOUNDS, seconds)] += tasks
        self.seconds += seconds * tasks


class WorkFigures(NamedTuple):
    """`waits`: from the push of a task to its first take; `runs`: from a take to its ack or nack."""

    queue: str
    group: str
    tasks: Mapping[str, int]
    transitions: Mapping[str, int]
    oldest_ready_seconds: float
    oldest_taken_seconds: float
    waits: TaskTimes
    runs: TaskTimes
