"""The state of a group: a fold of its ledger over the queue's elements. No clock, no I/O.

    floor     tasks before it were touched: each is open, or done
    ahead     tasks behind the floor that were touched: priorities, keys and single deletes go out of order
    open      tasks that were touched and are not done, as columns
    the rest  was never touched: ready, or still delayed by what was said with the push

So a backlog of ten million ready tasks is two numbers, and a task that is done costs nothing. A start, a takeover and
a failed group commit use the same `fold` as every verb: there is no second way to change the state.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from coldstore.layout import ledger as events
from coldstore.shared.errors import check
from hotstore.groups.ledger import LedgerRow
from hotstore.groups.open_tasks import BURIED, DELAYED, DONE, NAMES, NOBODY, NUMBERS, READY, TAKEN, OpenTasks
from hotstore.groups.settings import Definition, read_definition
from hotstore.groups.task_set import TaskSet
from hotstore.groups.values import GroupSettings

_COUNTS_FAILURE = frozenset({events.NACK, events.TIMEOUT})
_RATE_US: Final = 60_000_000  # rates are of the last minute …
_SPAN_US: Final = 5_000_000  # … in spans of so much


class GroupState:
    """What the ledger says so far."""

    def __init__(self) -> None:
        self.settings = GroupSettings()
        self.start = ""
        self.queue_id = ""
        self.exists = False  # created, and not deleted since
        self.paused = False
        self.created_us = 0
        self.first = 0
        self.floor = 0
        self.ahead = TaskSet()
        self.open = OpenTasks()
        self.calls: dict[str, int] = {}
        # The calls before the first row of each span of time, for rates.
        self.marks: deque[tuple[int, dict[str, int]]] = deque()
        self._mark_us = 0  # when the next one is due
        self.sessions: dict[str, int] = {}  # that have taken: their ttr in milliseconds
        # Time, first task and count, as far back as a rate asks for.
        self.takes: deque[tuple[int, int, int]] = deque()
        self.rows = 0  # of the ledger, that are folded in: known when the group was loaded, and in a copy

    # Questions ------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        return self.floor - self.first + self.ahead.count - len(self.open)

    def untouched(self, end: int) -> int:
        """How many tasks up to the queue's end were never touched."""
        return max(0, end - self.floor - self.ahead.count)

    def is_untouched(self, task: int) -> bool:
        return task >= self.floor and task not in self.ahead

    @property
    def definition(self) -> Definition:
        return Definition(self.settings, self.start, self.queue_id)

    def define(self, definition: Definition) -> None:
        self.settings, self.start, self.queue_id = definition

    # The fold -------------------------------------------------------------------------------------

    def fold(self, time_us: int, row: LedgerRow) -> None:
        """Apply one row."""
        if row.state is None:
            self._fold_group(time_us, row)
            return
        if time_us >= self._mark_us:
            self._mark(time_us)
        self.calls[row.event] = self.calls.get(row.event, 0) + row.count
        if row.event == events.TAKE and self.settings.rate is not None:
            self._note_take(time_us, row, self.settings.rate)
        if row.event == events.PURGE:
            self._restart(row.task + row.count, self.first)
        elif row.state == "done":
            self._finish(row.task, row.count)
        elif row.count == 1:
            self._set(time_us, row, row.task)
        else:
            self._set_run(time_us, row)

    def _fold_group(self, time_us: int, row: LedgerRow) -> None:
        match row.event:
            case events.CREATE:
                self.define(read_definition(row.reason or ""))
                self.exists, self.paused, self.created_us = True, False, time_us
                self.calls, self.sessions = {}, {}
                self.marks, self._mark_us = deque(), 0
                self._restart(row.task, row.task)
            case events.UPDATE:
                self.define(read_definition(row.reason or ""))
            case events.PAUSE:
                self.paused = True
            case events.RESUME:
                self.paused = False
            case events.SEEK:
                self._restart(row.task, row.task)
            case events.REMOVE:
                self.exists = False
                self._restart(self.first, self.first)
            case events.SESSION:
                self.sessions[row.session or ""] = row.attempt
            case _:
                return  # of a later version, or a placeholder: it is about no task

    def _mark(self, time_us: int) -> None:
        start_us = time_us - time_us % _SPAN_US
        self._mark_us = start_us + _SPAN_US
        self.marks.append((start_us, dict(self.calls)))
        while self.marks[0][0] < start_us - _RATE_US:
            self.marks.popleft()

    def rates(self, now_us: int) -> dict[str, float]:
        """Calls a second of the last minute, or of a few seconds less: whole spans, and the one that is not over."""
        since_us = now_us - _RATE_US + _SPAN_US
        since_us -= since_us % _SPAN_US
        before = next((calls for start_us, calls in self.marks if start_us >= since_us), self.calls)
        seconds = (now_us - since_us) / 1_000_000
        return {verb: (count - before.get(verb, 0)) / seconds for verb, count in self.calls.items()}

    def come_to(self, now_us: int, shift_us: int) -> None:
        """After a load: times of the ledger become those of this run's clock; see `OpenTasks.come_to`."""
        self.open.come_to(now_us, shift_us)
        self.marks = deque((time_us - shift_us, calls) for time_us, calls in self.marks)
        self._mark_us = 0

    def _note_take(self, time_us: int, row: LedgerRow, rate: float) -> None:
        """The rate of keys goes on after a restart: so the takes must be known that it still counts."""
        takes, oldest_us = self.takes, time_us - round(1_000_000 / rate)
        takes.append((time_us, row.task, row.count))
        while takes[0][0] < oldest_us:
            takes.popleft()

    def _restart(self, floor: int, first: int) -> None:
        """Nothing is open, and what lies before `floor` is done."""
        self.first, self.floor = first, floor
        ahead, self.ahead = self.ahead, TaskSet()
        for start, count in ahead.runs():
            if start + count > floor:
                self._touch(max(start, floor), start + count - max(start, floor))
        self.open = OpenTasks()

    def _touch(self, first: int, count: int) -> None:
        """These tasks, which were untouched, are open or done from now on."""
        if first != self.floor:
            self.ahead.add_run(first, count)
            return
        floor = first + count
        ahead = self.ahead
        if ahead.count:
            next_ = ahead.first_missing(floor)
            if next_ > floor:
                ahead.discard_run(floor, next_ - floor)
                floor = next_
        self.floor = floor

    def _finish(self, first: int, count: int) -> None:
        if count == 1:
            if first in self.open.index:
                self.open.remove(first)
            else:
                self._touch_all(first, first + 1)
            return
        slots = self.open.remove_run(first, count)
        if -1 not in slots:
            return
        start = first  # of a run of untouched tasks
        for task, slot in enumerate([*slots, 0], first):
            if slot >= 0:
                if start < task:
                    self._touch_all(start, task)
                start = task + 1

    def _touch_all(self, first: int, end: int) -> None:
        """Those of the tasks that were untouched are touched now."""
        first = max(first, self.floor)
        if first < end and self.ahead.has_none(first, end - first):
            self._touch(first, end - first)
            return
        for task in range(first, end):
            if self.is_untouched(task):
                self._touch(task, 1)

    def _set(self, time_us: int, row: LedgerRow, task: int) -> None:
        tasks = self.open
        slot, state = tasks.index.get(task), NUMBERS[row.state or ""]
        if slot is None:
            if task > self.floor:
                self.ahead.add(task)  # which may have it
            elif task == self.floor:
                self._touch(task, 1)
            slot = tasks.put(task, self.settings.priority, state)
            tasks.since[slot] = time_us
        elif tasks.state[slot] != state:
            tasks.change(slot, state)
            tasks.since[slot] = time_us
        event = row.event
        tasks.attempt[slot] = row.attempt
        tasks.until[slot] = row.until or 0
        tasks.expires[slot] = row.expires or 0
        if row.priority is not None:
            tasks.priority[slot] = row.priority
        if state != TAKEN:
            tasks.holder[slot] = NOBODY
        elif event == events.TAKE:
            tasks.holder[slot] = tasks.holders.number(row.session or "", row.worker or "")
            tasks.since[slot] = time_us
        if event in _COUNTS_FAILURE:
            tasks.failures[slot] += 1
        elif event == events.KICK:
            tasks.failures[slot] = 0
        if row.reason is not None:
            tasks.reasons[slot] = row.reason

    def _set_run(self, time_us: int, row: LedgerRow) -> None:
        """As `_set`; a run that was untouched is written column by column."""
        first, count, tasks = row.task, row.count, self.open
        fresh = first >= self.floor and self.ahead.has_none(first, count)
        at = tasks.run_of_slots(count) if fresh and row.event == events.TAKE else None
        if at is None:
            one = row._replace(count=1)
            for task in range(first, first + count):
                self._set(time_us, one, task)
            return
        self._touch(first, count)
        priority = self.settings.priority if row.priority is None else row.priority
        holder = tasks.holders.number(row.session or "", row.worker or "")
        times = row.until or 0, row.expires or 0, time_us
        tasks.put_run(first, count, at, TAKEN, (row.attempt, holder, priority), times)

    def copy(self, rows: int) -> GroupState:
        """The state as it is now, after so many rows of the ledger; for a snapshot."""
        other = GroupState()
        other.__dict__.update(self.__dict__)
        other.rows, other.calls, other.sessions = rows, dict(self.calls), dict(self.sessions)
        other.takes, other.marks = self.takes.copy(), self.marks.copy()
        other.ahead, other.open = self.ahead.copy(), self.open.copy()
        return other

    def check_counts(self) -> None:
        """The invariants that the state rests on; tests and loads call it."""
        slots = np.fromiter(self.open.index.values(), np.int64, len(self.open))
        states = np.frombuffer(self.open.state, np.uint8)[slots] if len(slots) else slots
        counted = np.bincount(states, minlength=4).tolist()
        check(counted == self.open.by_state, f"{counted} open tasks by state, counted {self.open.by_state}")
        check(self.done >= 0, f"{self.done} tasks are done")
        check(
            not any(task >= self.floor and task not in self.ahead for task in self.open.index),
            "a task is open and untouched at once",
        )


def state_counts(group: GroupState, end: int, sleeping: int = 0) -> dict[str, int]:
    """Tasks by state, with the total of those that are not done; `sleeping` untouched ones are still delayed."""
    by_state = group.open.by_state
    counts = dict.fromkeys(NAMES, 0)
    counts["ready"] = by_state[READY] + group.untouched(end) - sleeping
    counts["taken"] = by_state[TAKEN]
    counts["delayed"] = by_state[DELAYED] + sleeping
    counts["buried"] = by_state[BURIED]
    counts["total"] = sum(counts.values())
    counts[NAMES[DONE]] = group.done
    return counts
