"""The ledger of a group by itself: every row follows from those before it, and the past is what it says.

task-step    a row that cannot follow: a take of a task that is not ready, or not as its next attempt; an ack, nack,
             release or touch of a task that is not taken as this attempt; anything about a task that is done
key-order    two tasks of a key were taken at a time, or a later one before an earlier one that was ready
tasks-at     what the group says that tasks were at a time is not what the rows up to then say
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from coldstore.layout import ledger
from tests.faults.checker.finding import Finding, found
from tests.faults.checker.tasks import named, spread
from tests.faults.table import NONE, OFFSET_BITS, STATES, Ints, Table

_READY, _TAKEN, _DELAYED, _BURIED, _DONE = range(len(STATES))
_OF_HOLDER = {ledger.ACK, ledger.NACK, ledger.RELEASE, ledger.TOUCH, ledger.TIMEOUT, ledger.ORPHAN}
_OFFSET = (1 << OFFSET_BITS) - 1


def _ledgers(table: Table) -> Iterator[tuple[int, Ints]]:
    """Each queue, and the rows of its group's ledger, in order."""
    rows = table.tasks.of(table, "ledger")
    queues = table.tasks.place[rows] >> OFFSET_BITS
    for queue in np.unique(queues):
        yield int(queue), rows[queues == queue]


class _Keys:
    """The tasks of each key of one queue, and which of them are out."""

    def __init__(self, table: Table, queue: int, count: int) -> None:
        places, values = table.final
        mine = (places >> OFFSET_BITS) == queue
        self._key = dict(zip((places[mine] & _OFFSET).tolist(), (values[mine] % count).tolist(), strict=True))
        self._tasks: dict[int, list[int]] = defaultdict(list)
        for task, key in sorted(self._key.items()):
            self._tasks[key].append(task)
        self._floor: dict[int, int] = defaultdict(int)
        self._out: dict[int, set[int]] = defaultdict(set)

    def may_take(self, task: int, known: dict[int, tuple[int, int]]) -> bool:
        """Whether it is its key's turn, and this task's."""
        key = self._key.get(task)
        if key is None:
            return True  # of a damaged part of the log
        tasks, at = self._tasks[key], self._floor[key]
        while at < len(tasks) and known.get(tasks[at], (_READY, 0))[0] == _DONE:
            at += 1
        self._floor[key] = at
        earlier = tasks[at : max(at, bisect_left(tasks, task))]
        return not self._out[key] and not any(known.get(e, (_READY, 0))[0] == _READY for e in earlier)

    def set(self, task: int, state: int) -> None:
        key = self._key.get(task)
        if key is not None:
            (self._out[key].add if state == _TAKEN else self._out[key].discard)(task)


def _may_follow(event: str, attempt: int, was: int, before: int) -> bool:
    """Whether this may happen to a task that is so, in this attempt."""
    if was == _DONE:
        return False
    if event == ledger.TAKE:
        return was in {_READY, _DELAYED} and attempt == before + 1
    if event in _OF_HOLDER:
        return was == _TAKEN and attempt == before
    return event != ledger.KICK or was == _BURIED


def steps(table: Table) -> list[Finding]:
    """Fold every ledger."""
    tasks = table.tasks
    groups = table.ops.where("group")
    keys = dict(zip(table.ops.queue[groups].tolist(), table.ops.keys[groups].tolist(), strict=True))
    wrong, unordered = [], []
    for queue, rows in _ledgers(table):
        keyed = _Keys(table, queue, keys[queue]) if keys.get(queue, NONE) != NONE else None
        known: dict[int, tuple[int, int]] = {}
        columns = (
            tasks.place[rows] & _OFFSET,
            tasks.count[rows],
            tasks.event[rows],
            tasks.attempt[rows],
            tasks.state[rows],
        )
        for row, first, count, event, attempt, state in zip(
            rows.tolist(), *(column.tolist() for column in columns), strict=True
        ):
            name = ledger.EVENTS[event]
            for task in range(first, first + count):
                if not _may_follow(name, attempt, *known.get(task, (_READY, 0))):
                    wrong.append(row)
                if keyed is not None:
                    if name == ledger.TAKE and not keyed.may_take(task, known):
                        unordered.append(row)
                    keyed.set(task, state)
                known[task] = (state, attempt)
    return [
        *found("task-step", np.array(wrong, np.int64), named(table, "has a row that cannot follow")),
        *found("key-order", np.array(unordered, np.int64), named(table, "was taken out of its key's turn")),
    ]


def moments(table: Table) -> list[Finding]:
    """A delayed task may be called ready: its time may have been over."""
    ops, tasks = table.ops, table.tasks
    ledgers = dict(_ledgers(table))
    wrong: list[int] = []
    for op in ops.where("at").tolist():
        rows = ledgers.get(int(ops.queue[op]), np.zeros(0, np.int64))
        rows = rows[tasks.time[rows] <= ops.time[op]]
        places, mine = spread(table, rows)
        last = dict(zip(places.tolist(), mine.tolist(), strict=True))  # of several, the last one
        for row in np.flatnonzero(tasks.op == op).tolist():
            said = last.pop(int(tasks.place[row]), None)
            state, attempt = (
                (_READY, 0) if said is None else (int(tasks.state[said]), int(tasks.attempt[said]))
            )
            told = int(tasks.state[row])
            same = told == state or (told, state) == (_READY, _DELAYED)
            ended = state == _DONE  # rows that end a task untaken have no attempt
            if not same or (int(tasks.attempt[row]) != attempt and not ended):
                wrong.append(row)
        wrong += last.values()
    return found("tasks-at", np.array(wrong, np.int64), named(table, "was something else at that time"))
