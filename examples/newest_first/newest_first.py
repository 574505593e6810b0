"""A driver of your own: the newest task first, for work whose old results nobody wants.

    pip install ./examples/newest_first
    client.create_group("prices", "quotes", driver="newest-first")

A driver is pure: it is told which tasks are ready, and says which is next. The entry point in pyproject.toml names
`KIND`. Run this file to see it pass the contract of drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from hotstore.groups.drivers import DriverKind
from hotstore.groups.values import GroupSettings
from hotstore.testing.driver_contract import check_driver


class NewestFirst:
    """Ready runs as a stack; its newest run lends its last task first."""

    def __init__(self) -> None:
        self._runs: list[list[int]] = []  # [first, end], the newest last

    def add(self, first: int, count: int, priority: int, key: bytes | None) -> None:
        self._runs.append([first, first + count])
        self._runs.sort()

    def take(
        self, most: int, keys: Collection[bytes] | None, now_us: int, is_ready: Callable[[int], bool]
    ) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        while self._runs and len(found) < most:
            run = self._runs[-1]
            run[1] -= 1
            found.append((run[1], 1))
            if run[0] == run[1]:
                self._runs.pop()
        return found

    def free(self, task: int) -> None:
        """Nothing depends on tasks that are out."""

    def hold(self, task: int, key: bytes | None) -> None:
        """As above."""

    def next_us(self) -> int | None:
        return None


def _make(settings: GroupSettings) -> NewestFirst:
    return NewestFirst()


KIND = DriverKind("newest-first", frozenset(), _make)

if __name__ == "__main__":
    check_driver(KIND)
    print("newest-first keeps the contract of drivers")
