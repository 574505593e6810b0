"""The order of a group's tasks: which is ready, which is delayed, which is next; and what is due when.

None of it is in the ledger. It follows from the folded state and from what the elements say (keys and options), and is
made again when a group is loaded. Elements are looked at only if the driver uses something of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hotstore.groups.drivers import KEY, Driver, find_driver
from hotstore.groups.group import GroupState, state_counts
from hotstore.groups.keyed import KeyedDriver, TaskRun
from hotstore.groups.open_tasks import DELAYED, NAMES, READY, TAKEN
from hotstore.groups.options import TaskOptions
from hotstore.groups.task_set import TaskSet
from hotstore.groups.timers import EXPIRE, LEASE, WAKE, PushTimes, Timers

SECOND_US: Final = 1_000_000
_KEYS: Final = frozenset({KEY})
_GRAIN_US: Final = 1_000  # of deadlines: tasks that are taken at about the same time share a row and a timer


class TaskFacts(NamedTuple):
    """What an element says of its task, if it says something."""

    key: bytes | None = None
    options: TaskOptions = TaskOptions()


PLAIN: Final = TaskFacts()


class TaskOrder:
    """`end` is the queue's end: tasks before it can be taken. `now_us` is the time of the last look at the clock, which
    never jumps; the wall clock was `shift_us` ahead of it then."""

    def __init__(self, state: GroupState, end: int, now_us: int = 0, shift_us: int = 0) -> None:
        self.state = state
        self.end = end
        self.scanned = state.floor  # elements before it were looked at
        self.facts: dict[int, TaskFacts] = {}
        self.timers = Timers()
        self.sleeping = TaskSet()  # untouched tasks that are delayed
        self.kind = find_driver(state.settings.driver)
        self._only_keys = self.kind.uses == _KEYS
        self.driver = self.kind.make(state.settings)
        self.listed: set[int] = set()  # open tasks that the driver has, ready or not any more
        self._known_ready = -1  # the task that the driver asked about last, if it is ready
        self.now_us = now_us
        self.pushes = PushTimes(shift_us)

    # What elements say ------------------------------------------------------------------------------

    @property
    def waits_for_elements(self) -> bool:
        """Whether there are elements to be looked at before it is known which task is next."""
        return self.scanned < self.end

    def grow(self, end: int) -> None:
        """The queue has elements up to `end`."""
        self.end = end
        if not self.kind.looks and self.scanned < end:
            self._ready_run(self.scanned, end - self.scanned)
            self.scanned = end

    def look(
        self,
        first: int,
        times: Sequence[int],
        facts: Sequence[TaskFacts | None] | None,
        shift_us: int = 0,
    ) -> None:
        """Elements from `first` on, which is where the last look ended: when they were pushed, and what they say."""
        settings = self.state.settings
        self.pushes.note_seen(first, times, shift_us, self.now_us)
        self.pushes.forget(self.state.floor)
        plain = not settings.delay and settings.ttl is None
        if plain and facts is None:
            self._ready_run(first, len(times))
        elif plain and facts is not None and self._only_keys:
            self._look_keys(first, facts)
        else:
            at = 0
            for at, end in _equal_runs(times, facts):
                self._look_run(first + at, end - at, times[at], facts[at] if facts else None)
        self.scanned = first + len(times)

    def _look_keys(self, first: int, facts: Sequence[TaskFacts | None]) -> None:
        """As below, of elements that can say no more than their keys: all are ready."""
        state, known, add = self.state, self.facts, self.driver.add
        priority, all_untouched = state.settings.priority, first >= state.floor and not state.ahead.count
        for task, said in enumerate(facts, first):
            if all_untouched or state.is_untouched(task):
                if said is not None:
                    known[task] = said
                add(task, 1, priority, None if said is None else said.key)

    def _look_run(self, first: int, count: int, stamp_us: int, facts: TaskFacts | None) -> None:
        """Tasks of one push that say the same; several only if they say nothing."""
        pushed_us = self.pushes.of(first, stamp_us)
        if facts is not None and self._must_remember(facts) and self.state.is_untouched(first):
            self.facts[first] = facts
        ready_us, expires_us, lives_us = self.ready_times(pushed_us, facts or PLAIN)
        if expires_us:
            self.timers.add(EXPIRE, expires_us, first, count, lives_us)
        if ready_us > self.now_us:
            for start, some in self._untouched_runs(first, count):
                self.sleeping.add_run(start, some)
            self.timers.add(WAKE, ready_us, first, count, ready_us - pushed_us)
        else:
            self._ready_run(first, count)

    def _must_remember(self, facts: TaskFacts) -> bool:
        """Whether a task needs an entry of its own. One that is only delayed does not: the timer knows all of it."""
        options = facts.options
        if facts.key is not None or options.priority is not None or options.ttr is not None:
            return True
        return options.ttl is not None or (options.delay is not None and self.state.settings.ttl is not None)

    def ready_times(self, pushed_us: int, facts: TaskFacts) -> tuple[int, int, int]:
        """When an untouched task is ready, when its ttl ends (0: never), and the time between push and that end."""
        settings, options = self.state.settings, facts.options
        delay = settings.delay if options.delay is None else options.delay
        ttl = settings.ttl if options.ttl is None else options.ttl
        delay_us = round(delay * SECOND_US)
        lives_us = 0 if ttl is None else delay_us + round(ttl * SECOND_US)
        return pushed_us + delay_us, pushed_us + lives_us if lives_us else 0, lives_us

    def _untouched_runs(self, first: int, count: int) -> Iterator[TaskRun]:
        state = self.state
        if first >= state.floor and state.ahead.has_none(first, count):
            yield first, count
            return
        for task in range(first, first + count):
            if state.is_untouched(task):
                yield task, 1

    def _ready_run(self, first: int, count: int) -> None:
        for start, some in self._untouched_runs(first, count):
            facts = self.facts.get(start) if self.facts else None
            self.driver.add(start, some, self.priority_of(start, facts), facts.key if facts else None)

    def priority_of(self, task: int, facts: TaskFacts | None = None) -> int:
        """Of an untouched task: its own, or the group's."""
        own = None if facts is None else facts.options.priority
        return self.state.settings.priority if own is None else own

    def enter(self, task: int) -> None:
        """An open task is ready: put it where the driver finds it, unless it is there since it was last ready."""
        if task in self.listed:
            return
        self.listed.add(task)
        facts = self.facts.get(task) if self.facts else None
        slot = self.state.open.index[task]
        self.driver.add(task, 1, self.state.open.priority[slot], facts.key if facts else None)

    def leave(self, task: int) -> None:
        """A task is done."""
        if self.facts:
            self.facts.pop(task, None)

    def resume_open(self, facts: dict[int, TaskFacts], pushed: Mapping[int, int] | None = None) -> None:
        """After a load: order, timers and facts of the open tasks; with the times when they were pushed."""
        self.facts.update(facts)
        tasks = self.state.open
        if not self.kind.looks:
            self._resume_plain()
            return
        for task in sorted(tasks.index):
            slot = tasks.index[task]
            state, until = tasks.state[slot], tasks.until[slot]
            expires = tasks.expires[slot]
            if not expires and not tasks.attempt[slot] and pushed and task in pushed:
                # Buried before anybody took it.
                pushed_us = min(self.pushes.of(task, pushed[task]), self.now_us)
                expires = self.ready_times(pushed_us, facts.get(task, PLAIN))[1]
            if expires:
                self.timers.add(EXPIRE, expires, task, 1, 0)
            if state == TAKEN:
                known = facts.get(task)
                self.driver.hold(task, known.key if known else None)
                self.timers.add(LEASE, until, task, 1, 0)
            elif state == DELAYED:
                self.timers.add(WAKE, until, task, 1, 0)
            elif state == READY:
                self.enter(task)

    def resume_rate(self, takes: Sequence[tuple[int, int]], facts: Mapping[int, TaskFacts]) -> None:
        """After a load: when tasks were taken, and what their elements say. The rate of their keys goes on."""
        for time_us, task in takes:
            key = facts[task].key if task in facts else None
            if key is not None and isinstance(self.driver, KeyedDriver):
                self.driver.took(key, time_us)

    def _resume_plain(self) -> None:
        """As above, if elements say nothing: by columns, since there may be a million."""
        tasks = self.state.open
        ids = np.fromiter(tasks.index.keys(), np.int64, len(tasks))
        slots = np.fromiter(tasks.index.values(), np.int64, len(tasks))
        state = np.frombuffer(tasks.state, np.uint8)[slots] if len(tasks) else slots
        until = np.frombuffer(tasks.until, np.int64)[slots] if len(tasks) else slots
        for kind, wanted in ((LEASE, TAKEN), (WAKE, DELAYED)):
            chosen = np.flatnonzero(state == wanted)
            chosen = chosen[np.argsort(until[chosen], kind="stable")]
            self.timers.add_sorted(
                kind, array("q", until[chosen].tobytes()), array("q", ids[chosen].tobytes())
            )
        for task in np.sort(ids[state == READY]).tolist():
            self.enter(task)

    def start_anew(self, pushed: Mapping[int, int] | None = None) -> None:
        """The state was changed as a whole, or the driver's settings were: order and timers are made again.

        `pushed` has the times of elements whose tasks are open, although nobody took them.
        """
        state = self.state
        self.facts = {task: facts for task, facts in self.facts.items() if task in state.open.index}
        self.timers, self.sleeping, self.listed = Timers(), TaskSet(), set()
        self.kind = find_driver(state.settings.driver)
        self._only_keys = self.kind.uses == _KEYS
        old, self.driver = self.driver, self.kind.make(state.settings)
        if isinstance(old, KeyedDriver) and isinstance(self.driver, KeyedDriver):
            self.driver.inherit(old, self.now_us)
        self.scanned = state.floor
        self.resume_open(self.facts, pushed)
        self.grow(self.end)

    def state_name(self, task: int) -> str:
        """What a task of this group is now."""
        slot = self.state.open.index.get(task)
        if slot is not None:
            return NAMES[self.state.open.state[slot]]
        if not self.state.is_untouched(task):
            return "done"
        return "delayed" if task in self.sleeping else "ready"

    def deadline(self, ttr_us: int) -> int:
        """Of a task that is taken now: rounded up, so that nobody has less time than was promised."""
        return -(-(self.now_us + ttr_us) // _GRAIN_US) * _GRAIN_US

    # Which is next ------------------------------------------------------------------------------------

    @property
    def counts(self) -> dict[str, int]:
        return state_counts(self.state, self.end, self.sleeping.count)

    @property
    def ready(self) -> int:
        """How many tasks could be taken, but for keys and rates."""
        return self.state.open.by_state[READY] + self.state.untouched(self.end) - self.sleeping.count

    def choose(self, most: int, keys: Collection[bytes] | None) -> list[TaskRun]:
        """The next tasks, out of the driver. The caller takes them, or puts them back."""
        if most == 1:
            return self._choose_one(keys)
        found: list[TaskRun] = []
        while most > 0:
            runs = self.driver.take(most, keys, self.now_us, self._comes_out)
            if not runs:
                break
            parts = [part for run in runs for part in self.still_ready(*run)]
            for at, (first, count) in enumerate(parts):
                if self._is_last_attempt(
                    first
                ):  # alone, so that nothing else suffers if the worker dies of it
                    self.put_back(parts[at:] if found else parts[at + 1 :])
                    return found or [(first, count)]
                found.append((first, count))
                most -= count
        return found

    def _choose_one(self, keys: Collection[bytes] | None) -> list[TaskRun]:
        self._known_ready = -1
        while runs := self.driver.take(1, keys, self.now_us, self._comes_out):
            task = runs[0][0]
            if task == self._known_ready or self._comes_out(task):
                return runs
            self.driver.free(task)
        return []

    def is_ready(self, task: int) -> bool:
        """Whether a task can be taken, but for its key."""
        state, sleeping = self.state, self.sleeping
        slot = state.open.index.get(task)
        if slot is not None:
            return state.open.state[slot] == READY
        if task < state.floor or (state.ahead.count and task in state.ahead):
            return False
        return not sleeping.count or task not in sleeping

    def _comes_out(self, task: int) -> bool:
        """The driver has this task no more, and asks whether to hand it out."""
        self.listed.discard(task)
        is_ready = self.is_ready(task)
        self._known_ready = task if is_ready else -1
        return is_ready

    def still_ready(self, first: int, count: int) -> Iterator[TaskRun]:
        """Which of the tasks that the driver handed out are ready; the driver gets the others back."""
        state = self.state
        if (
            first >= state.floor
            and state.ahead.has_none(first, count)
            and self.sleeping.has_none(first, count)
        ):
            yield first, count
            return
        for task in range(first, first + count):
            self.listed.discard(task)
            if self.is_ready(task):
                yield task, 1
            else:
                self.driver.free(task)

    def _is_last_attempt(self, task: int) -> bool:
        most = self.state.settings.max_attempts
        slot = self.state.open.index.get(task) if most is not None else None
        if slot is None or most is None:
            return False
        failures = self.state.open.failures[slot]
        return failures > 0 and failures >= most - 1

    def are_next(self, driver: Driver, runs: Sequence[TaskRun], left: Sequence[TaskRun]) -> bool:
        """Whether tasks that `driver` gave out a while ago may be taken now; `left` may not. If not, all are put back.

        Meanwhile they may be done or taken, an earlier task of a key may have come back, or the order may have been
        made again: then the new driver has them, and nothing must be put back.
        """
        if driver is not self.driver:
            return False
        still = [part for run in runs for part in self.still_ready(*run)]
        if still == runs and not any(self._is_overtaken(first) for first, _ in still):
            return True
        self.put_back([*still, *left])
        return False

    def _is_overtaken(self, task: int) -> bool:
        if not isinstance(self.driver, KeyedDriver):
            return False
        slot = self.state.open.index.get(task)
        own = self.priority_of(task, self.facts.get(task)) if slot is None else self.state.open.priority[slot]
        return self.driver.is_overtaken(task, own)

    def put_back(self, runs: Sequence[TaskRun]) -> None:
        """Tasks that were chosen and not taken."""
        for first, count in runs:
            for start, some in list(self.still_ready(first, count)):
                for task in range(start, start + some):
                    self.driver.free(task)
                    if task in self.state.open.index:
                        self.enter(task)
                if start not in self.state.open.index:
                    self._ready_run(start, some)


def _equal_runs(times: Sequence[int], facts: Sequence[TaskFacts | None] | None) -> Iterator[TaskRun]:
    """Runs (start, end) of elements that were pushed at one time and say nothing; each other element is its own."""
    start = 0
    for at in range(1, len(times) + 1):
        if (
            at == len(times)
            or times[at] != times[start]
            or (facts is not None and (facts[at] is not None or facts[start] is not None))
        ):
            yield start, at
            start = at
