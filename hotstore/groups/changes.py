"""The verbs on batches of tasks: ack, nack, release, touch, bury, kick, delete. Pure; see live_group.py.

Each task of a batch is judged by itself: those that cannot be changed are named in the outcomes with what to do, the
others are changed. A request that is wrong as a whole raises, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, cast

from coldstore.layout import ledger as events
from coldstore.shared.errors import InvalidInput
from hotstore.groups.drivers import PRIORITY
from hotstore.groups.ledger import LedgerRow
from hotstore.groups.live_group import LiveGroup
from hotstore.groups.open_tasks import BURIED, TAKEN
from hotstore.groups.options import check_priority, check_seconds
from hotstore.groups.order import SECOND_US
from hotstore.groups.timers import EXPIRE, LEASE
from hotstore.groups.values import TASK_VERBS, TaskChange, TaskError, TaskOutcomes, TaskState
from hotstore.limits import CHANGE_TASKS_MAX, REASON_CHARS_MAX, SECONDS_MAX

_ONE_DONE: Final = TaskOutcomes(1, (), MappingProxyType({"done": 1}))
_OF_HOLDER: Final = frozenset({"ack", "nack", "release", "touch"})  # only the session that took may do these


def check_change(change: TaskChange, uses: frozenset[str]) -> None:
    """Refuse a request that is wrong as a whole."""
    verb, ids, attempts = change.verb, change.ids, change.attempts
    if verb not in TASK_VERBS:
        raise InvalidInput(f"verb {verb!r:.40} is not known: use one of {', '.join(TASK_VERBS)}")
    if len(ids) > CHANGE_TASKS_MAX:
        raise InvalidInput(f"{len(ids)} tasks in one request: at most {CHANGE_TASKS_MAX}, split them")
    if attempts is None and verb in _OF_HOLDER:
        raise InvalidInput(f"{verb} needs the attempt of each task: give the tasks as take returned them")
    if attempts is not None and len(attempts) != len(ids):
        raise InvalidInput(f"{len(ids)} tasks but {len(attempts)} attempts: give one for each")
    if (len(ids) != 1 or type(ids[0]) is not int) and any(type(task) is not int for task in ids):
        raise InvalidInput("a task's id is a whole number, the offset of its element")
    if change.delay is not None:
        if verb not in ("nack", "release"):
            raise InvalidInput(f"{verb} takes no delay: leave it out")
        check_seconds("delay", change.delay)
    if change.priority is not None:
        if verb != "release":
            raise InvalidInput(f"{verb} takes no priority: leave it out")
        if PRIORITY not in uses:
            raise InvalidInput("the driver of this group does not use priorities: leave the priority out")
        check_priority(change.priority)
    if verb == "touch":
        check_seconds("seconds", change.seconds)
    elif change.seconds is not None:
        raise InvalidInput(f"{verb} takes no seconds: leave them out")
    if change.reason is not None and not is_text(change.reason):
        raise InvalidInput(f"reason is {change.reason!a:.60}: a reason is text that UTF-8 can hold")


def is_text(given: object) -> bool:
    """Whether the ledger can hold it: half of a surrogate pair, for example, is a `str` and no text."""
    try:
        return isinstance(given, str) and given.encode() is not None
    except UnicodeEncodeError:
        return False


def apply_change(group: LiveGroup, change: TaskChange, spread: Callable[[], float]) -> TaskOutcomes:
    """Apply one request to a group; `spread` gives numbers in [0, 1), for the jitter of delays."""
    if change.verb != "ack" or len(change.ids) != 1 or change.attempts is None:
        return TaskChanges(group, change, spread).apply()
    task, attempt = change.ids[0], change.attempts[0]  # what a worker acks that took one task
    error = _refusal(group, change, task, attempt, holder=True)
    if error is not None:
        return TaskOutcomes(0, (error,))
    _note_ack(group, task, task + 1, attempt, change.session or None)
    return _ONE_DONE


class TaskChanges:
    """Applies one request to a group."""

    def __init__(self, group: LiveGroup, change: TaskChange, spread: Callable[[], float]) -> None:
        self._group = group
        self._change = change
        self._spread = spread
        self._session = change.session or None
        self._reason = None if change.reason is None else change.reason[:REASON_CHARS_MAX]
        self._errors: list[TaskError] = []
        self._states: dict[str, int] = {}

    def apply(self) -> TaskOutcomes:
        change = self._change
        if change.verb == "ack":
            self._ack_all()
        else:
            step = getattr(self, f"_{change.verb}")
            attempts: Sequence[int | None] = change.attempts or [None] * len(change.ids)
            holders_only = change.verb in _OF_HOLDER
            for task, attempt in zip(change.ids, attempts, strict=True):
                error = _refusal(self._group, change, task, attempt, holder=holders_only)
                state = error if error is not None else step(task)
                if isinstance(state, TaskError):
                    self._errors.append(state)
                else:
                    self._states[state] = self._states.get(state, 0) + 1
        return TaskOutcomes(sum(self._states.values()), self._errors, self._states)

    def refusals(self) -> list[TaskError]:
        """The tasks that could not be acked now, before anything is changed."""
        group, change = self._group, self._change
        pairs = zip(change.ids, change.attempts or (), strict=True)
        found = [
            error for task, attempt in pairs if (error := _refusal(group, change, task, attempt, holder=True))
        ]
        twice = len(change.ids) - len(set(change.ids))
        if twice and not found:
            found.append(TaskError(change.ids[0], "Conflict", "a task is named twice: name each once"))
        return found

    def _ack_all(self) -> None:
        """The busiest verb: tasks that are held, in order, become one row."""
        group, change = self._group, self._change
        tasks, holders = group.state.open, group.state.open.holders.pairs
        index, states, tries, holder = tasks.index, tasks.state, tasks.attempt, tasks.holder
        session = change.session
        runs: list[list[int]] = []  # first task, end, attempt
        end = last = -1  # of the run that grows: its end and its attempt
        # Only if an id occurs twice.
        seen: set[int] | None = set() if len(set(change.ids)) < len(change.ids) else None
        for task, attempt in zip(change.ids, change.attempts or (), strict=True):
            slot = index.get(task)
            if (
                slot is None
                or states[slot] != TAKEN
                or tries[slot] != attempt
                or holders[holder[slot]][0] != session
                or (seen is not None and task in seen)
            ):
                self._errors.append(_refusal(group, change, task, attempt, holder=True) or _twice(task))
                continue
            if task == end and attempt == last:
                end += 1
                runs[-1][1] = end
            else:
                runs.append([task, task + 1, attempt])
                end, last = task + 1, attempt
            if seen is not None:
                seen.add(task)
        for start, end, attempt in runs:
            _note_ack(group, start, end, attempt, self._session)
            self._states["done"] = self._states.get("done", 0) + end - start

    # One task each; they return the state that it has then, or why nothing was done --------------------

    def _nack(self, task: int) -> str:
        return self._group.give_back(
            task,
            events.NACK,
            delay_us=self._nack_delay_us(task),
            failed=True,
            session=self._session,
            reason=self._reason,
        )

    def _nack_delay_us(self, task: int) -> int:
        if self._change.delay is not None:
            return round(self._change.delay * SECOND_US)
        state, backoff = self._group.state, self._group.state.settings.backoff
        failures = state.open.failures[state.open.index[task]]
        seconds = min(backoff.max, backoff.base * backoff.factor ** min(failures, 64))
        spread = 1 + backoff.jitter * (2 * self._spread() - 1)
        return round(min(seconds * spread, SECONDS_MAX) * SECOND_US)

    def _release(self, task: int) -> str:
        return self._group.give_back(
            task,
            events.RELEASE,
            delay_us=round((self._change.delay or 0.0) * SECOND_US),
            priority=self._change.priority,
            session=self._session,
            reason=self._reason,
        )

    def _touch(self, task: int) -> str:
        group, tasks = self._group, self._group.state.open
        slot = tasks.index[task]
        more_us = round((self._change.seconds or 0.0) * SECOND_US)
        expires = tasks.expires[slot] and tasks.expires[slot] + more_us
        until = tasks.until[slot] + more_us
        attempt = tasks.attempt[slot]
        group.note(
            LedgerRow(task, 1, events.TOUCH, "taken", attempt, None, self._session, until, expires or None)
        )
        group.timers.add(LEASE, until, task, 1, -1)
        if expires:
            group.timers.add(EXPIRE, expires, task, 1, -1)
        return "taken"

    def _bury(self, task: int) -> str:
        group, tasks = self._group, self._group.state.open
        slot = tasks.index.get(task)
        attempt, expires, priority = 0, 0, None
        if slot is None:
            if task in group.sleeping:
                group.sleeping.discard(task)
            else:
                group.listed.add(task)
            facts = group.facts.get(task)
            priority = None if facts is None else facts.options.priority
        else:
            if tasks.state[slot] == BURIED:
                return "buried"
            if tasks.state[slot] == TAKEN:
                group.driver.free(task)
            attempt, expires = tasks.attempt[slot], tasks.expires[slot]
        group.note(
            LedgerRow(task, 1, events.BURY, "buried", attempt, None, self._session, None, expires or None,
                      priority, self._reason)
        )  # fmt: skip
        return "buried"

    def _kick(self, task: int) -> str | TaskError:
        now = self._group.state_name(task)
        if now != "buried":
            text = f"task {task} is {now}, not buried: there is nothing to revive"
            return TaskError(task, "Conflict", text, cast("TaskState", now))
        return self._group.give_back(task, events.KICK, session=self._session)

    def _delete(self, task: int) -> str:
        self._group.finish(task, events.DELETE, session=self._session, reason=self._reason)
        return "done"


def _note_ack(group: LiveGroup, start: int, end: int, attempt: int, session: str | None) -> None:
    group.note(LedgerRow(start, end - start, events.ACK, "done", attempt, None, session))
    free, facts = group.driver.free, group.facts
    for task in range(start, end):
        free(task)
        if facts:
            group.leave(task)


def _refusal(
    group: LiveGroup, change: TaskChange, task: int, attempt: int | None, *, holder: bool
) -> TaskError | None:
    """Why this task cannot be changed; None: it can."""
    state = group.state
    if not state.first <= task < group.end:
        return TaskError(task, "NotFound", f"no task {task}: the group has {state.first}..{group.end - 1}")
    tasks = state.open
    slot = tasks.index.get(task)
    if slot is None and not state.is_untouched(task):
        return TaskError(task, "Conflict", f"task {task} is done: nothing is left to do", "done")
    if not holder and attempt is None:
        return None
    if slot is None or tasks.state[slot] != TAKEN:
        now = group.state_name(task)
        return TaskError(
            task,
            "Conflict",
            f"task {task} was not taken, it is {now}: its time may be over; take it first",
            cast("TaskState", now),
        )
    if attempt != tasks.attempt[slot]:
        return TaskError(
            task,
            "Conflict",
            f"task {task} is taken as attempt {tasks.attempt[slot]}, and attempt {attempt} is over: leave it "
            f"to who has it now",
            "taken",
        )
    if holder and tasks.holders.pairs[tasks.holder[slot]][0] != change.session:
        return TaskError(
            task,
            "Conflict",
            f"task {task} was taken by another session: only that one may {change.verb} it",
            "taken",
        )
    return None


def _twice(task: int) -> TaskError:
    return TaskError(
        task, "Conflict", f"task {task} is named twice in this request: name each task once", "done"
    )


def kick_oldest(group: LiveGroup, count: int) -> int:
    """Revive up to `count` buried tasks, by priority and then the oldest first."""
    tasks = group.state.open
    buried = sorted(tasks.of_state(BURIED), key=lambda task: (tasks.priority[tasks.index[task]], task))
    for task in buried[:count]:
        group.give_back(task, events.KICK)
    return min(count, len(buried))


def purge(group: LiveGroup) -> int:
    """Every task that is not done is done: one row."""
    state = group.state
    left = group.counts["total"]
    if left:
        first = min([state.floor, *state.open.index])
        group.note(LedgerRow(first, group.end - first, events.PURGE, "done"))
        group.start_anew()
    return left


def release_all(group: LiveGroup, holders: set[int] | None = None, event: str = events.RELEASE) -> int:
    """Every taken task is ready again, or those of some holders; how many."""
    tasks = group.state.open
    taken = sorted(tasks.of_state(TAKEN)) if holders is None else tasks.held_by(holders)
    for task in taken:
        group.give_back(task, event)
    return len(taken)
