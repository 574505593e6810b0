"""Sub-queues: tasks of one key are handed out in order, at most `per_key` at a time and `rate` a second.

Waiting tasks are kept by key; one heap has the best task of each key that may hand one out. A busy key is not in it, so
it is never looked at, however many tasks wait there: the cost is linear where a scan of all ready tasks is quadratic.
A task without a key belongs to no sub-queue and waits for nobody.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from typing import Final

TaskRun = tuple[int, int]  # first task, how many

_SECOND_US: Final = 1_000_000


class _SubQueue:
    """The waiting tasks of one key, and how many of it are out."""

    __slots__ = ("heap", "next_us", "offered", "out")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int]] = []  # priority, task
        self.out = 0
        self.offered: tuple[int, int] | None = None  # the entry of this key in the heap of free keys
        self.next_us = 0  # the next take that the rate allows


class KeyedDriver:
    """See the module's docstring."""

    def __init__(self, per_key: int, rate: float | None = None) -> None:
        self._per_key = per_key
        self._step_us = 0 if rate is None else max(1, round(_SECOND_US / rate))
        self._keys: dict[bytes | None, _SubQueue] = {}
        self._free: list[
            tuple[int, int, bytes | None]
        ] = []  # the best task of each key that may hand one out
        self._held: list[tuple[int, bytes]] = []  # keys that the rate holds back, by time
        self._out: dict[int, bytes] = {}  # keys of tasks that are out
        self._is_ready: Callable[[int], bool] = lambda _task: True

    def add(self, first: int, count: int, priority: int, key: bytes | None) -> None:
        sub = self._keys.get(key)
        if sub is None:
            sub = self._keys[key] = _SubQueue()
        if count == 1:
            heapq.heappush(sub.heap, (priority, first))
        else:
            for task in range(first, first + count):
                heapq.heappush(sub.heap, (priority, task))
        self._offer(key, sub)

    def _offer(self, key: bytes | None, sub: _SubQueue) -> None:
        """Put the key's best task among those that may be taken, if the key may hand one out."""
        if not sub.heap or (key is not None and sub.out >= self._per_key):
            return
        best = sub.heap[0]
        if sub.offered is None or best < sub.offered:
            sub.offered = best
            heapq.heappush(self._free, (*best, key))

    def take(
        self, most: int, keys: Collection[bytes] | None, now_us: int, is_ready: Callable[[int], bool]
    ) -> list[TaskRun]:
        self._is_ready = is_ready
        if self._held:
            self._release_held(now_us)
        if keys is not None:
            return self._take_of(keys, most, now_us)
        found: list[TaskRun] = []
        while self._free and len(found) < most:
            priority, task, key = heapq.heappop(self._free)
            sub = self._keys.get(key)
            if sub is None or sub.offered != (priority, task):
                continue  # the key has offered a better one since, or was asked for by name
            sub.offered = None
            if self._step_us and self._is_held(key, sub, now_us):
                continue
            self._hand_out(key, sub, now_us, found)
        return found

    def _take_of(self, keys: Collection[bytes], most: int, now_us: int) -> list[TaskRun]:
        found: list[TaskRun] = []
        for key in keys:
            sub = self._keys.get(key)
            while sub is not None and sub.heap and sub.out < self._per_key and len(found) < most:
                if self._step_us and sub.next_us > now_us:
                    break
                sub.offered = None
                self._hand_out(key, sub, now_us, found)
                sub = self._keys.get(key)
        return found

    def _hand_out(self, key: bytes | None, sub: _SubQueue, now_us: int, found: list[TaskRun]) -> None:
        _, task = heapq.heappop(sub.heap)
        # It was added twice, or something happened to it since.
        if not self._is_ready(task) or task in self._out:
            self._offer(key, sub)
            return
        found.append((task, 1))
        if key is not None:
            sub.out += 1
            self._out[task] = key
            if self._step_us:
                sub.next_us = max(now_us, sub.next_us) + self._step_us
            if sub.out >= self._per_key:
                return
        self._offer(key, sub)

    def free(self, task: int) -> None:
        key = self._out.pop(task, None)
        if key is None:
            return
        sub = self._keys[key]
        sub.out -= 1
        if sub.out or sub.heap:
            self._offer(key, sub)
        elif self._step_us:
            heapq.heappush(
                self._held, (sub.next_us, key)
            )  # forgotten when its rate holds nothing back any more
        else:
            del self._keys[key]

    def is_overtaken(self, task: int, priority: int) -> bool:
        """Whether one of its key that comes before this task, which is out, was added since. It may not be ready any
        more: a caller that puts this task back and asks again gets the right one."""
        key = self._out.get(task)
        if key is None:
            return False
        heap = self._keys[key].heap
        return bool(heap) and heap[0] < (priority, task)

    def hold(self, task: int, key: bytes | None) -> None:
        if key is None:
            return
        sub = self._keys.get(key)
        if sub is None:
            sub = self._keys[key] = _SubQueue()
        sub.out += 1
        self._out[task] = key
        if sub.out >= self._per_key:
            sub.offered = None  # an earlier task of this key was added before

    def took(self, key: bytes, time_us: int) -> None:
        """A task of this key was handed out at that time, before this driver was made: the rate goes on from there."""
        if not self._step_us:
            return
        sub = self._keys.get(key)
        if sub is None:
            sub = self._keys[key] = _SubQueue()
        sub.next_us = max(time_us, sub.next_us) + self._step_us
        heapq.heappush(self._held, (sub.next_us, key))

    def inherit(self, other: KeyedDriver, now_us: int) -> None:
        """Take the place of a driver with other settings: a key that was used just now waits for its turn."""
        for key, sub in other._keys.items():
            if key is not None and sub.next_us > now_us:
                self.took(key, min(sub.next_us, now_us + self._step_us) - self._step_us)

    def _is_held(self, key: bytes | None, sub: _SubQueue, now_us: int) -> bool:
        """Whether the rate holds the key back; then a timer looks at it again."""
        if key is None or sub.next_us <= now_us:
            return False
        heapq.heappush(self._held, (sub.next_us, key))
        return True

    def _release_held(self, now_us: int) -> None:
        while self._held and self._held[0][0] <= now_us:
            _, key = heapq.heappop(self._held)
            sub = self._keys.get(key)
            if sub is not None:
                if not sub.heap and not sub.out:
                    del self._keys[key]
                else:
                    self._offer(key, sub)

    def next_us(self) -> int | None:
        return self._held[0][0] if self._held else None
