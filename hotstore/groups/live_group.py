"""A group at work: the folded state, the order of its tasks, and the rows that are not written yet.

Every step makes rows, and each row is folded at once and waits in `outbox` for the next group commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coldstore.layout import ledger as events
from hotstore.groups.drivers import TTL
from hotstore.groups.group import GroupState
from hotstore.groups.keyed import TaskRun
from hotstore.groups.ledger import LedgerRow, LedgerRows
from hotstore.groups.open_tasks import DELAYED, NAMES, READY, TAKEN
from hotstore.groups.order import PLAIN, SECOND_US, TaskOrder
from hotstore.groups.timers import EXPIRE, LEASE, NEVER_US, WAKE


class Handed(NamedTuple):
    """Columns of what a take hands out."""

    ids: list[int]
    attempts: list[int]
    deadlines: list[int]
    priorities: list[int]


class LiveGroup(TaskOrder):
    """The steps that change a group. `advance` comes before each verb, with the time."""

    def __init__(self, state: GroupState, end: int, now_us: int = 0, shift_us: int = 0) -> None:
        super().__init__(state, end, now_us, shift_us)
        self.outbox = LedgerRows()

    def note(self, row: LedgerRow) -> None:
        """Something happened: it is so from now on, and will be written."""
        self.state.fold(self.now_us, row)
        self.outbox.add(row)

    # Time -------------------------------------------------------------------------------------------

    def advance(self, now_us: int) -> None:
        """Do what is due by now. Time never goes back."""
        self.now_us = max(self.now_us, now_us)
        if self.now_us >= self.timers.soonest_us:
            self._do_what_is_due()

    def _do_what_is_due(self) -> None:
        for kind, first, count in self.timers.due(self.now_us):
            for task in range(first, first + count):
                if kind == LEASE:
                    self._end_lease(task)
                elif kind == WAKE:
                    self._wake(task)
                else:
                    self._expire(task)

    def next_us(self) -> int | None:
        """When something is due next. What a rate held back until now is for who takes: that needs no timer."""
        due_us, held_us = self.timers.soonest_us, self.driver.next_us()
        if held_us is not None and self.now_us < held_us < due_us:
            return held_us
        return None if due_us == NEVER_US else due_us

    def _end_lease(self, task: int) -> None:
        tasks = self.state.open
        slot = tasks.index.get(task)
        if slot is not None and tasks.state[slot] == TAKEN and tasks.until[slot] <= self.now_us:
            if tasks.expires[slot] and tasks.expires[slot] <= self.now_us:
                self.finish(task, events.EXPIRE)
            else:
                self.give_back(task, events.TIMEOUT, failed=True, reason="the worker's time was over")

    def _wake(self, task: int) -> None:
        if task in self.sleeping:
            self.sleeping.discard(task)
            if self.state.is_untouched(task):
                self._ready_run(task, 1)
            return
        tasks = self.state.open
        slot = tasks.index.get(task)
        if slot is not None and tasks.state[slot] == DELAYED and tasks.until[slot] <= self.now_us:
            tasks.change(slot, READY)
            tasks.since[slot] = self.now_us
            self.enter(task)

    def _expire(self, task: int) -> None:
        tasks = self.state.open
        slot = tasks.index.get(task)
        if slot is not None:
            expires = tasks.expires[slot]
            # A task that was never taken has no time of its own yet: the timer is that of its push.
            if expires <= self.now_us if expires else not tasks.attempt[slot]:
                self.finish(task, events.EXPIRE)
        elif self.state.is_untouched(task):
            self.finish(task, events.EXPIRE)

    # Handing out ------------------------------------------------------------------------------------

    def take(
        self,
        runs: Sequence[TaskRun],
        stamps: Sequence[int] | None,
        session: str,
        worker: str,
        ttr: float | None,
    ) -> Handed:
        """Hand out chosen tasks; `stamps` are the times of their elements, if a ttl may have ended one."""
        handed = Handed([], [], [], [])
        at = 0
        for first, count in runs:
            if not self.facts and self._take_run(first, count, session, worker, ttr, handed):
                at += count
                continue
            for task in range(first, first + count):
                self._take_one(task, stamps[at] if stamps else 0, session, worker, ttr, handed)
                at += 1
        return handed

    def _take_run(
        self, first: int, count: int, session: str, worker: str, ttr: float | None, handed: Handed
    ) -> bool:
        """Untouched tasks of a group that knows nothing of any: one row. False: they are looked at one by one."""
        state, settings = self.state, self.state.settings
        if (
            settings.ttl is not None
            or first < state.floor
            or (state.ahead.count and not state.ahead.has_none(first, count))
        ):
            return False
        ttr_us = round((settings.ttr if ttr is None else ttr) * SECOND_US)
        until = self.deadline(ttr_us)
        self.note(LedgerRow(first, count, events.TAKE, "taken", 1, worker or None, session or None, until))
        self.timers.add(LEASE, until, first, count, ttr_us)
        handed.ids.extend(range(first, first + count))
        handed.attempts.extend([1] * count)
        handed.deadlines.extend([until] * count)
        handed.priorities.extend([settings.priority] * count)
        return True

    def _take_one(
        self, task: int, stamp_us: int, session: str, worker: str, ttr: float | None, handed: Handed
    ) -> None:
        state = self.state
        tasks, settings = state.open, state.settings
        slot = tasks.index.get(task)
        facts = self.facts.get(task, PLAIN) if self.facts else PLAIN
        if slot is None:
            attempt, expires = 1, 0
            priority = self.priority_of(task, facts)
        else:
            attempt, expires = tasks.attempt[slot] + 1, tasks.expires[slot]
            priority = tasks.priority[slot]
        if (
            attempt == 1 and not expires and TTL in self.kind.uses
        ):  # nobody took it, but it may have been buried
            expires = self.ready_times(self.pushes.of(task, stamp_us), facts)[1]
        if expires and expires <= self.now_us:
            self.driver.free(task)
            self.finish(task, events.EXPIRE)
            return
        if ttr is None:
            ttr = settings.ttr if facts.options.ttr is None else facts.options.ttr
        ttr_us = round(ttr * SECOND_US)
        until = self.deadline(ttr_us)
        if expires and expires < until:
            until = expires
        named = None if priority == settings.priority and slot is None else priority
        self.note(
            LedgerRow(task, 1, events.TAKE, "taken", attempt, worker or None, session or None, until,
                      expires or None, named)
        )  # fmt: skip
        self.timers.add(LEASE, until, task, 1, ttr_us)
        handed.ids.append(task)
        handed.attempts.append(attempt)
        handed.deadlines.append(until)
        handed.priorities.append(priority)

    # Steps that several verbs share -----------------------------------------------------------------

    def finish(self, task: int, event: str, *, session: str | None = None, reason: str | None = None) -> None:
        """The task is done, whatever it was."""
        slot = self.state.open.index.get(task)
        attempt = 0
        if slot is not None:
            attempt = self.state.open.attempt[slot]
            if self.state.open.state[slot] == TAKEN:
                self.driver.free(task)
        elif task in self.sleeping:
            self.sleeping.discard(task)
        self.note(LedgerRow(task, 1, event, "done", attempt, None, session, reason=reason))
        self.leave(task)

    def give_back(
        self,
        task: int,
        event: str,
        *,
        delay_us: int = 0,
        failed: bool = False,
        priority: int | None = None,
        session: str | None = None,
        reason: str | None = None,
    ) -> str:
        """A taken or buried task is ready or delayed again; one that has failed too often is buried or dropped.

        Returns the state that it has now.
        """
        tasks, settings = self.state.open, self.state.settings
        slot = tasks.index[task]
        was_taken = tasks.state[slot] == TAKEN
        if was_taken:
            self.driver.free(task)
        attempt, expires = tasks.attempt[slot], tasks.expires[slot]
        state, until = (DELAYED, self.now_us + delay_us) if delay_us else (READY, 0)
        most = settings.max_attempts
        if failed and most is not None and tasks.failures[slot] + 1 >= most:
            if settings.on_exhausted == "drop":
                self.note(LedgerRow(task, 1, event, "done", attempt, None, session, reason=reason))
                self.leave(task)
                return "done"
            self.note(
                LedgerRow(
                    task, 1, event, "buried", attempt, None, session, None, expires or None, None, reason
                )
            )
            return "buried"
        if expires and delay_us:
            expires += delay_us  # the time that it must wait is not taken from its life
            self.timers.add(EXPIRE, expires, task, 1, 0)
        self.note(
            LedgerRow(task, 1, event, NAMES[state], attempt, None, session, until or None, expires or None, priority,
                      reason)
        )  # fmt: skip
        if state == DELAYED:
            self.timers.add(WAKE, until, task, 1, delay_us)
        else:
            self.enter(task)
        return NAMES[state]
