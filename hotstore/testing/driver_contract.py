"""The contract of a driver, as a suite for authors of drivers: run it in a test of your own.

    from hotstore.testing.driver_contract import check_driver
    def test_my_driver() -> None:
        check_driver(KIND)

It drives the driver as a group does, with tasks that are added one by one and in runs, taken, given back, freed, and
that stop being ready behind the driver's back; and it makes the driver again while some tasks are out, as a start does.
A driver that breaks a rule raises AssertionError with the rule.
"""

from __future__ import annotations

from collections import Counter

from coldstore.shared.chance import SeededChance
from coldstore.shared.errors import check
from hotstore.groups.drivers import KEY, Driver, DriverKind
from hotstore.groups.values import GroupSettings

_KEYS = (None, b"a", b"b", b"c")
_STEPS = 400


def check_driver(kind: DriverKind, settings: GroupSettings | None = None, seeds: int = 20) -> None:
    """Raise AssertionError if drivers of this kind break a rule."""
    settings = settings or GroupSettings(driver=kind.name)
    check(
        kind.name == settings.driver, f"the kind is called {kind.name}, the settings name {settings.driver}"
    )
    for seed in range(seeds):
        first, second = (_DriverTrial(kind, settings, seed) for _ in range(2))
        check(first.run() == second.run(), "the same calls must give the same answers")


class _DriverTrial:
    """One driver, and what the suite knows of its tasks."""

    def __init__(self, kind: DriverKind, settings: GroupSettings, seed: int) -> None:
        self._driver: Driver = kind.make(settings)
        self._kind, self._settings = kind, settings
        self._keyed = KEY in kind.uses
        self._per_key = settings.per_key if self._keyed else None
        self._chance = SeededChance(seed)
        self._next = 0
        self._waiting: set[int] = set()  # added, and not handed out since
        self._out: set[int] = set()
        self._dead: set[int] = set()  # not ready any more; the driver does not know
        self._keys: dict[int, bytes | None] = {}
        self._priorities: dict[int, int] = {}
        self._now_us = 0
        self._answers: list[list[tuple[int, int]]] = []

    def _pick(self, count: int) -> int:
        return int(self._chance.jitter() * count)

    def run(self) -> list[list[tuple[int, int]]]:
        for _ in range(_STEPS):
            step = (
                self._add,
                self._add_run,
                self._take,
                self._take,
                self._give_back,
                self._finish,
                self._kill,
                self._load,
            )
            step[self._pick(len(step))]()
        self._drain()
        return self._answers

    def _add(self) -> None:
        task, key = self._new(1), _KEYS[self._pick(len(_KEYS))] if self._keyed else None
        self._keys[task] = key
        self._priorities[task] = self._pick(5) - 2
        self._driver.add(task, 1, self._priorities[task], key)

    def _add_run(self) -> None:
        count = 1 + self._pick(5)
        first = self._new(count)
        self._driver.add(first, count, 0, None)

    def _new(self, count: int) -> int:
        first, self._next = self._next, self._next + count
        self._waiting.update(range(first, first + count))
        return first

    def _take(self) -> None:
        self._handed_out(1 + self._pick(6))

    def _handed_out(self, most: int) -> int:
        runs = self._driver.take(most, None, self._now_us, lambda task: task not in self._dead)
        self._answers.append(list(runs))
        tasks = [task for first, count in runs for task in range(first, first + count)]
        check(len(tasks) <= most, f"{len(tasks)} tasks were handed out, at most {most} were asked for")
        check(len(set(tasks)) == len(tasks), "a task was handed out twice in one answer")
        for task in tasks:
            check(task in self._waiting, f"task {task} was handed out, and is not waiting")
            self._waiting.discard(task)
            if task in self._dead:
                self._driver.free(task)  # as a group does with what is not ready
            else:
                self._out.add(task)
        self._check_keys()
        return len(tasks)

    def _check_keys(self) -> None:
        if self._per_key is not None:
            keys = Counter(key for task in self._out if (key := self._keys.get(task)) is not None)
            over = [key for key, count in keys.items() if count > self._per_key]
            check(not over, f"more than per_key={self._per_key} tasks of key {over[:1]} are out")

    def _load(self) -> None:
        """The group is loaded again: what is open comes in the order of its ids, ready or out."""
        if self._pick(4):
            return
        self._driver = self._kind.make(self._settings)
        self._waiting -= self._dead
        for task in sorted(self._waiting | self._out):
            key = self._keys.get(task)
            if task in self._out:
                self._driver.hold(task, key)
            else:
                self._driver.add(task, 1, self._priorities.get(task, 0), key)

    def _give_back(self) -> None:
        if self._out:
            task = sorted(self._out)[self._pick(len(self._out))]
            self._out.discard(task)
            self._waiting.add(task)
            self._driver.free(task)
            self._driver.add(task, 1, self._priorities.get(task, 0), self._keys.get(task))

    def _finish(self) -> None:
        if self._out:
            task = sorted(self._out)[self._pick(len(self._out))]
            self._out.discard(task)
            self._driver.free(task)

    def _kill(self) -> None:
        """A task that waits is deleted: the driver may ask, or hands it out and gets it back."""
        if self._waiting:
            self._dead.add(sorted(self._waiting)[self._pick(len(self._waiting))])

    def _drain(self) -> None:
        """Whatever waits comes out at last, if everything that is out is done."""
        idle = 0
        while self._waiting - self._dead:
            for task in sorted(self._out):
                self._driver.free(task)
            self._out.clear()
            held = self._driver.next_us()
            if held is not None:
                self._now_us = max(self._now_us, held)
            idle = 0 if self._handed_out(7) else idle + 1
            check(idle < 3, f"{len(self._waiting - self._dead)} ready tasks are never handed out")
