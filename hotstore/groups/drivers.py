"""Drivers: which ready task is next. A driver is pure: no clock, no I/O, no asyncio.

The group tells its driver which tasks became ready, and asks for some. It does not tell the driver that a task was
deleted or buried meanwhile: it may ask, or it hands the task out, and the group, which knows better, asks for another.
So a driver has five verbs and no state to keep true but its own order.

Shipped are `fifo`, `fifottl`, `limfifottl`, `arrival` (this file), `utube` and `utubettl` (keyed.py): one engine with
parts switched on. Others come by the entry point `jjq.drivers`, which names a `DriverKind`; the suite for their
authors is hotstore.testing.driver_contract.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

from coldstore.shared.errors import InvalidInput
from hotstore.groups.keyed import KeyedDriver, TaskRun
from hotstore.groups.values import GroupSettings

PRIORITY: Final = "priority"
TTL: Final = "ttl"
DELAY: Final = "delay"
KEY: Final = "key"
CAPACITY: Final = "capacity"
USES: Final = frozenset({PRIORITY, TTL, DELAY, KEY, CAPACITY})
OPTIONS: Final = frozenset(
    {PRIORITY, TTL, DELAY}
)  # a driver that uses one of them looks at the options of each task


class Driver(Protocol):
    """The order of ready tasks."""

    def add(self, first: int, count: int, priority: int, key: bytes | None) -> None:
        """These tasks are ready; a run of several has no key. A task may be added again after it was handed out."""
        ...

    def take(
        self, most: int, keys: Collection[bytes] | None, now_us: int, is_ready: Callable[[int], bool]
    ) -> list[TaskRun]:
        """Up to `most` tasks, best first, out of the driver. With `keys`: only tasks of these sub-queues.

        `is_ready` tells whether a task is still ready, for a driver whose next choice depends on that. Ask it of a task
        that leaves the driver, whatever the answer.
        """
        ...

    def free(self, task: int) -> None:
        """A task that was handed out is not taken any more, or was not ready; called once for each."""
        ...

    def hold(self, task: int, key: bytes | None) -> None:
        """This task is out already, since before the group was loaded; `free` is called for it, too."""
        ...

    def next_us(self) -> int | None:
        """When tasks that are held back by a rate may be taken; None: none are."""
        ...


@dataclass(frozen=True, slots=True)
class DriverKind:
    """A driver by its name: what it uses of tasks and settings, and how one is made."""

    name: str
    uses: frozenset[str]  # of USES; elements are looked at only for what is named here
    make: Callable[[GroupSettings], Driver]

    @property
    def looks(self) -> bool:
        """Whether the driver has to know something of each element."""
        return bool(self.uses & (OPTIONS | {KEY}))


class RunDriver:
    """By priority, then by age. Neighbours without a priority of their own are one run, however many they are."""

    def __init__(self) -> None:
        self._heap: list[list[int]] = []  # [priority, first, end]: the first of all is the next
        # The run that was added last: its end may grow while it is in the heap.
        self._last: list[int] | None = None

    def add(self, first: int, count: int, priority: int, key: bytes | None) -> None:
        last = self._last
        if last is not None and last[2] == first and last[0] == priority and last[1] < last[2]:
            last[2] += count
            return
        self._last = run = [priority, first, first + count]
        heapq.heappush(self._heap, run)

    def take(
        self, most: int, keys: Collection[bytes] | None, now_us: int, is_ready: Callable[[int], bool]
    ) -> list[TaskRun]:
        found: list[TaskRun] = []
        heap = self._heap
        while heap and most > 0:
            run = heap[0]
            _, first, end = run
            count = min(most, end - first)
            found.append((first, count))
            most -= count
            if first + count == end:
                run[1] = end  # as the last run it must not grow any more
                heapq.heappop(heap)
            else:
                # A larger first keeps the heap in order unless another run of this priority lies in between.
                run[1] = first + count
                heapq.heapreplace(heap, run)
        return found

    def free(self, task: int) -> None:
        return None

    def hold(self, task: int, key: bytes | None) -> None:
        return None

    def next_us(self) -> int | None:
        return None


class ArrivalDriver(RunDriver):
    """By priority, then by when tasks became ready: one that comes back goes behind those that wait already.

    After a start of the node the ready tasks are in the order of their age: no row tells when a delay was over.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0  # of the run that was added last

    def add(self, first: int, count: int, priority: int, key: bytes | None) -> None:
        last = self._last
        if last is not None and last[3] == first and last[0] == priority and last[2] < last[3]:
            last[3] += count
            return
        self._turn += 1
        self._last = run = [priority, self._turn, first, first + count]
        heapq.heappush(self._heap, run)

    def take(
        self, most: int, keys: Collection[bytes] | None, now_us: int, is_ready: Callable[[int], bool]
    ) -> list[TaskRun]:
        found: list[TaskRun] = []
        while self._heap and most > 0:
            run = self._heap[0]
            count = min(most, run[3] - run[2])
            found.append((run[2], count))
            most -= count
            run[2] += count  # its place in the heap does not depend on it
            if run[2] == run[3]:
                heapq.heappop(self._heap)
        return found


def _runs(settings: GroupSettings) -> Driver:
    return RunDriver()


def _arrival(settings: GroupSettings) -> Driver:
    return ArrivalDriver()


def _keyed(settings: GroupSettings) -> Driver:
    return KeyedDriver(settings.per_key or 1, settings.rate)


_SHIPPED: Final = {
    kind.name: kind
    for kind in (
        DriverKind("fifo", frozenset(), _runs),
        DriverKind("fifottl", OPTIONS, _runs),
        DriverKind("limfifottl", OPTIONS | {CAPACITY}, _runs),
        DriverKind("arrival", OPTIONS, _arrival),
        DriverKind("utube", frozenset({KEY}), _keyed),
        DriverKind("utubettl", OPTIONS | {KEY}, _keyed),
    )
}


@cache
def _installed() -> dict[str, Any]:
    """Entry points by name; loaded when a group asks for one."""
    from importlib.metadata import entry_points  # with email and others, which nothing else needs

    return {point.name: point for point in entry_points(group="jjq.drivers")}


def find_driver(name: str) -> DriverKind:
    """The driver of this name, or `InvalidInput` that names all there are."""
    kind = _SHIPPED.get(name) if isinstance(name, str) else None
    if kind is not None:
        return kind
    point = _installed().get(name) if isinstance(name, str) else None
    if point is None:
        known = ", ".join([*_SHIPPED, *sorted(_installed())])
        raise InvalidInput(
            f"driver {name!r:.60} is not known: use one of {known}, or install the package that has it "
            f"(entry point jjq.drivers)"
        )
    loaded = point.load()
    if not isinstance(loaded, DriverKind) or not loaded.uses <= USES:
        raise InvalidInput(
            f"entry point {name} of jjq.drivers is {loaded!r:.60}: it must be a DriverKind that uses some of "
            f"{', '.join(sorted(USES))}"
        )
    return loaded
