"""Open tasks: those that were touched and are not done, as columns.

A task has a slot; each column is one array of numbers. A million taken tasks are an index of ids and 45 bytes each,
not a million objects. Slots of tasks that are done are used again.

Session and worker of a take are one number, the holder: workers are few, and takes are many.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

import numpy as np

READY: Final = 0
TAKEN: Final = 1
DELAYED: Final = 2
BURIED: Final = 3
DONE: Final = 4  # never in a slot
NAMES: Final = ("ready", "taken", "delayed", "buried", "done")
NUMBERS: Final = {name: number for number, name in enumerate(NAMES)}

NOBODY: Final = 0
_SPARE_SLOTS: Final = 1_024  # free ones that are left alone although they lie scattered


class Holders:
    """Who takes: pairs of session and worker, each with a number. Number 0 is nobody."""

    __slots__ = ("_numbers", "pairs")

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = [("", "")]
        self._numbers: dict[tuple[str, str], int] = {("", ""): NOBODY}

    def number(self, session: str, worker: str) -> int:
        pair = (session, worker)
        found = self._numbers.get(pair)
        if found is None:
            found = self._numbers[pair] = len(self.pairs)
            self.pairs.append(pair)
        return found

    def of_session(self, session: str) -> set[int]:
        """The numbers of all workers of a session."""
        return {number for number, pair in enumerate(self.pairs) if pair[0] == session}


class OpenTasks:
    """The columns. `index` finds the slot of a task."""

    __slots__ = (
        "attempt", "by_state", "expires", "failures", "free", "holder", "holders", "index", "priority", "reasons",
        "since", "state", "until",
    )  # fmt: skip

    def __init__(self) -> None:
        self.index: dict[int, int] = {}
        self.state = bytearray()
        self.attempt = array("i")  # takes so far
        self.failures = array("i")  # of those, how many failed
        self.holder = array("i")
        self.priority = array("i")
        self.until = array("q")  # taken: deadline; delayed: when ready; microseconds, 0: none
        self.expires = array("q")  # end of its ttl; 0: none
        self.since = array("q")  # when it got into its state
        self.reasons: dict[int, str] = {}  # of the last nack or bury, by slot
        self.holders = Holders()
        self.free: list[int] = []
        self.by_state = [0, 0, 0, 0]

    def __len__(self) -> int:
        return len(self.index)

    def put(self, task: int, priority: int, state: int = READY) -> int:
        """A slot for a task that had none."""
        if self.free:
            slot = self.free.pop()
            self.state[slot] = state
            self.attempt[slot] = self.failures[slot] = self.holder[slot] = 0
            self.priority[slot] = priority
            self.until[slot] = self.expires[slot] = self.since[slot] = 0
        else:
            slot = len(self.state)
            self.state.append(state)
            for column in (self.attempt, self.failures, self.holder):
                column.append(0)
            self.priority.append(priority)
            for times in (self.until, self.expires, self.since):
                times.append(0)
        self.index[task] = slot
        self.by_state[state] += 1
        return slot

    def run_of_slots(self, count: int) -> int | None:
        """The first of so many free slots that lie side by side; None: there are enough elsewhere.

        Workers that take batches ack them as they took them, so the slots that were freed last are mostly a run.
        """
        free, slot = self.free, len(self.state)
        if len(free) >= count:
            start = free[-count]
            if free[-count:] == list(range(start, start + count)):
                return start
            if len(free) > max(_SPARE_SLOTS, len(self.index)):
                return None
        return slot

    def put_run(
        self, first: int, count: int, slot: int, state: int, numbers: tuple[int, ...], times: tuple[int, ...]
    ) -> None:
        """A run of tasks that had no slots, into those from `slot` on, as `run_of_slots` found them.

        All have the same `numbers` (attempt, holder, priority) and `times` (until, expires, since).
        """
        end = slot + count
        if slot < len(self.state):
            del self.free[-count:]
        self.state[slot:end] = bytes([state]) * count
        self.failures[slot:end] = array("i", bytes(4 * count))
        for column, number in zip((self.attempt, self.holder, self.priority), numbers, strict=True):
            column[slot:end] = array("i", [number]) * count
        for column, time_us in zip((self.until, self.expires, self.since), times, strict=True):
            column[slot:end] = array("q", [time_us]) * count
        self.index.update(zip(range(first, first + count), range(slot, end), strict=True))
        self.by_state[state] += count

    def change(self, slot: int, state: int) -> None:
        self.by_state[self.state[slot]] -= 1
        self.by_state[state] += 1
        self.state[slot] = state

    def remove(self, task: int) -> None:
        """The task is done."""
        slot = self.index.pop(task)
        self.by_state[self.state[slot]] -= 1
        if self.reasons:
            self.reasons.pop(slot, None)
        self.free.append(slot)
        if not self.index:
            self._shrink()

    def remove_run(self, first: int, count: int) -> list[int]:
        """These tasks are done. Their slots, -1 where a task had none."""
        pop, states = self.index.pop, self.state
        slots = [pop(task, -1) for task in range(first, first + count)]
        freed = [slot for slot in slots if slot >= 0] if -1 in slots else slots
        counted = bytes([states[slot] for slot in freed])
        for state in set(counted):
            self.by_state[state] -= counted.count(state)
        if self.reasons:
            for slot in freed:
                self.reasons.pop(slot, None)
        self.free += freed
        if not self.index:
            self._shrink()
        return slots

    def _shrink(self) -> None:
        """Nothing is open: give the memory of a peak back."""
        if len(self.state) > 1_024 or len(self.holders.pairs) > 1_024:
            self.state.clear()
            for column in (self.attempt, self.failures, self.holder, self.priority):
                del column[:]
            for times in (self.until, self.expires, self.since):
                del times[:]
            self.free.clear()
            self.index = {}
            self.holders = Holders()

    def renumber_holders(self) -> None:
        """Forget holders that have nothing any more, if there are many; called now and then."""
        if len(self.holders.pairs) <= 1_024 + 2 * len(self.index):
            return
        old, self.holders = self.holders, Holders()
        for slot in self.index.values():
            self.holder[slot] = self.holders.number(*old.pairs[self.holder[slot]])

    def copy(self) -> OpenTasks:
        """The same columns once more. Holders are shared: their numbers never change their meaning."""
        other = OpenTasks()
        other.index, other.reasons, other.free = dict(self.index), dict(self.reasons), list(self.free)
        other.state, other.by_state, other.holders = bytearray(self.state), list(self.by_state), self.holders
        for name in ("attempt", "failures", "holder", "priority", "until", "expires", "since"):
            setattr(other, name, getattr(self, name)[:])
        return other

    def come_to(self, now_us: int, shift_us: int) -> None:
        """After a load: times of the ledger, which are those of the wall clock, become those of this run's clock.

        What was written later than now was written while the wall clock was ahead, or had been: of that, what was left
        then counts from now on. A row's times fit that of the row, also where that is not the wall clock's.
        """
        if not self.index:
            return
        since = np.frombuffer(self.since, np.int64)
        ahead = since - shift_us > now_us
        for column in (self.until, self.expires):
            times = np.frombuffer(column, np.int64)
            moved = np.where(ahead, now_us + np.maximum(times - since, 0), times - shift_us)
            times[:] = np.where(times == 0, 0, moved)
        since[:] = np.minimum(since - shift_us, now_us)

    def of_state(self, state: int) -> Iterator[int]:
        """The ids of the tasks in a state, in no order."""
        states = self.state
        return (task for task, slot in self.index.items() if states[slot] == state)

    def taking(self) -> list[int]:
        """The holders that have tasks: by columns, since there may be a million tasks."""
        slots = np.fromiter(self.index.values(), np.int64, len(self.index))
        if not len(slots):
            return []
        taken = slots[np.frombuffer(self.state, np.uint8)[slots] == TAKEN]
        found: list[int] = np.unique(np.frombuffer(self.holder, np.int32)[taken]).tolist()
        return found

    def held_by(self, holders: set[int]) -> list[int]:
        """The ids of the tasks that these holders have, by id."""
        states, holder = self.state, self.holder
        return sorted(
            task for task, slot in self.index.items() if states[slot] == TAKEN and holder[slot] in holders
        )
