"""Timers of a group: what is due when, as runs of tasks; and when tasks were pushed.

Most deadlines of one duration come in order: those of tasks that were taken with one ttr, or pushed with one delay.
They make a lane, a FIFO of arrays with 20 bytes for each run. A deadline that does not fit the end of its lane goes
into a heap. Nothing is ever removed before its time: the caller that gets a run that is due checks whether it still
holds.

All times of a group are those of a clock that does not jump (`SteadyClock`). Elements have the time of the wall clock.
`PushTimes` knows what that clock showed more than the steady one when each task was pushed.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from hotstore.limits import TIMER_LANES_MAX

LEASE: Final = 0  # the time of a worker that holds a task is over
WAKE: Final = 1  # a delay is over
EXPIRE: Final = 2  # a ttl is over

_LOADED: Final = -2  # in place of the duration of a lane
NEVER_US: Final = 2**63 - 1
_COMPACT: Final = 1_024  # runs before the head of a lane, after which they are cut off
_SLACK_US: Final = 10_000  # two clocks are not looked at in the same instant


class _Lane:
    """Runs in order of time."""

    __slots__ = ("counts", "firsts", "head", "times")

    def __init__(self) -> None:
        self.times = array("q")
        self.firsts = array("q")
        self.counts = array("i")
        self.head = 0

    def append(self, time_us: int, first: int, count: int) -> bool:
        """False if the run is too early for the end of this lane."""
        times = self.times
        if len(times) > self.head:
            if time_us < times[-1]:
                return False
            if time_us == times[-1] and first == self.firsts[-1] + self.counts[-1]:
                self.counts[-1] += count
                return True
        times.append(time_us)
        self.firsts.append(first)
        self.counts.append(count)
        return True

    def pop(self) -> tuple[int, int]:
        found = self.firsts[self.head], self.counts[self.head]
        self.head += 1
        if self.head >= _COMPACT and 2 * self.head >= len(self.times):
            for column in (self.times, self.firsts, self.counts):
                del column[: self.head]
            self.head = 0
        return found


class Timers:
    """All timers of one group."""

    __slots__ = ("_heap", "_lanes", "soonest_us")  # the last: when the first of all is due, or NEVER_US

    def __init__(self) -> None:
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._heap: list[tuple[int, int, int, int]] = []  # time, kind, first, count
        self.soonest_us = NEVER_US

    def add(self, kind: int, time_us: int, first: int, count: int, duration_us: int) -> None:
        """Give these tasks out at `time_us`; `duration_us` names the lane."""
        self.soonest_us = min(self.soonest_us, time_us)
        lane = self._lanes.get((kind, duration_us))
        if lane is None and len(self._lanes) < TIMER_LANES_MAX:
            lane = self._lanes[kind, duration_us] = _Lane()
        if lane is None or not lane.append(time_us, first, count):
            heapq.heappush(self._heap, (time_us, kind, first, count))

    def add_sorted(self, kind: int, times: array[int], tasks: array[int]) -> None:
        """Many tasks of a group that was loaded, by time: a lane of their own."""
        if times:
            lane = self._lanes[kind, _LOADED] = _Lane()
            lane.times, lane.firsts, lane.counts = times, tasks, array("i", [1]) * len(times)
            self.soonest_us = min(self.soonest_us, times[0])

    def next_us(self) -> int | None:
        """When the first of them is due."""
        return None if self.soonest_us == NEVER_US else self.soonest_us

    def due(self, now_us: int) -> Sequence[tuple[int, int, int]]:
        """The runs that are due, as (kind, first, count); each is given out once. Most calls find none."""
        return () if now_us < self.soonest_us else self._take_due(now_us)

    def _take_due(self, now_us: int) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        soonest = NEVER_US
        for key, lane in list(self._lanes.items()):
            while lane.head < len(lane.times) and lane.times[lane.head] <= now_us:
                found.append((key[0], *lane.pop()))
            if lane.head < len(lane.times):
                soonest = min(soonest, lane.times[lane.head])
            elif len(self._lanes) > TIMER_LANES_MAX // 2:
                del self._lanes[key]  # of an odd duration: its place is wanted
        while self._heap and self._heap[0][0] <= now_us:
            _, kind, first, count = heapq.heappop(self._heap)
            found.append((kind, first, count))
        self.soonest_us = min(soonest, self._heap[0][0]) if self._heap else soonest
        return found


class PushTimes:
    """The shift of the wall clock when tasks were pushed, as a step for each change: the clock is seldom set."""

    __slots__ = ("_firsts", "_seen", "_shifts")

    def __init__(self, shift_us: int = 0) -> None:
        self._seen = 0  # tasks before it were looked at
        self._firsts = array("q", [0])
        self._shifts = array("q", [shift_us])

    def of(self, task: int, stamp_us: int) -> int:
        """When a task was pushed, by the steady clock; its element has the time `stamp_us`."""
        shifts = self._shifts
        if len(shifts) == 1:
            return stamp_us - shifts[0]
        return stamp_us - shifts[bisect_right(self._firsts, task) - 1]

    def note_seen(self, first: int, stamps: Sequence[int], shift_us: int, now_us: int) -> None:
        """Elements from `first` on are looked at for the first time; the wall clock is ahead by `shift_us` now.

        They were pushed with this shift or with the one before it. Of both, that which makes the later time counts: no
        delay ends early. None was pushed in the future: where the wall clock was set back, elements have the time of
        the one before them, which says nothing. Then they count as pushed now.
        """
        last_us = self._shifts[-1]
        if first < self._seen:  # the group begins again
            stamps, first = stamps[self._seen - first :], self._seen
        self._seen = first + len(stamps)
        if not stamps or (shift_us == last_us and stamps[-1] - last_us <= now_us + _SLACK_US):
            return
        before = None
        for task, stamp_us in enumerate(stamps, first):
            if stamp_us == before:
                continue
            before = stamp_us
            found = shift_us if stamp_us - shift_us <= now_us + _SLACK_US else stamp_us - now_us
            if last_us < found and stamp_us - last_us <= now_us + _SLACK_US:
                found = last_us
            if found != last_us:
                last_us = found
                self._firsts.append(task)
                self._shifts.append(found)

    def forget(self, floor: int) -> None:
        """Tasks before `floor` are not asked for any more."""
        if len(self._firsts) > _COMPACT:
            at = bisect_right(self._firsts, floor) - 1
            if at > 0:
                del self._firsts[:at], self._shifts[:at]
