"""`BoundedDict`: a dictionary that forgets its oldest entries instead of growing without end.

Oldest is the entry that was set, or marked as used by `use`, longest ago. Not cachetools, which would be one more
dependency: there every `get` counts as a use, and an evicted value cannot be closed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedDict(Generic[K, V]):
    """At most `most` entries; with `weigh`, entries that weigh at most `most` together. Not for several threads."""

    __slots__ = ("_entries", "_evicted", "_most", "_weigh", "_weight")

    def __init__(
        self,
        most: int,
        *,
        weigh: Callable[[V], int] = lambda value: 1,
        evicted: Callable[[V], None] = lambda value: None,
    ) -> None:
        """`evicted` is called with every value that is dropped to make room."""
        self._most = most
        self._weigh = weigh
        self._evicted = evicted
        self._entries: dict[K, V] = {}
        self._weight = 0

    def __setitem__(self, key: K, value: V) -> None:
        """Set the entry, which is the newest now, and drop the oldest ones while there are too many."""
        self.pop(key)
        self._entries[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._most:
            gone = self.pop(next(iter(self._entries)))
            if gone is not None:
                self._evicted(gone)

    def get(self, key: K) -> V | None:
        """The value, or None. Does not count as a use."""
        return self._entries.get(key)

    def use(self, key: K) -> V | None:
        """Like `get`, and the entry is the newest now."""
        if key not in self._entries:
            return None
        value = self._entries[key] = self._entries.pop(key)
        return value

    def pop(self, key: K) -> V | None:
        """Remove the entry, and return its value; None if there is none."""
        if key not in self._entries:
            return None
        value = self._entries.pop(key)
        self._weight -= self._weigh(value)
        return value

    def values(self) -> list[V]:
        """All values, oldest first."""
        return list(self._entries.values())

    def items(self) -> list[tuple[K, V]]:
        """All entries, oldest first."""
        return list(self._entries.items())

    def clear(self) -> list[V]:
        """Forget everything; returns the values, oldest first."""
        values = self.values()
        self._entries.clear()
        self._weight = 0
        return values

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
