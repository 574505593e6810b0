"""Groups on their way into a journal that takes several at once: appended in turn, settled in order.

    append   in the journal's thread. The next group is formed once it has returned: a group that was refused
             for certain is undone before others build on it
    sync     in a thread of its own; it covers every group that was appended before it began
    settle   on the event loop, oldest first. A group that failed waits for those before it, and nothing is
             settled after it

Where the journal takes one group at a time nothing of this is used: see the committer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Protocol

from coldstore.shared.clock import Clock
from hotstore.journal.port import Journal, Record


class Entry(Protocol):
    """Something to be made durable. All its methods run on the event loop."""

    bytes: int

    def prepare(self) -> None:
        """The group is being formed: assign what must be assigned, in this order."""
        ...

    def written(self) -> None:
        """The group is in the page cache."""
        ...

    def settle(self, sequence: int) -> None:
        """The group is durable as journal batch `sequence`."""
        ...

    def fail(self, error: Exception) -> None:
        """The group was not written, or its outcome is unknown, as `error` says."""
        ...


class Group:
    """Entries that share one batch of the journal. Groups are numbered as they are formed."""

    sequence = -1
    error: Exception | None = None
    ended = False  # durable, or failed

    def __init__(self, number: int, entries: list[Entry], size: int) -> None:
        self.number = number
        self.entries = entries
        self.bytes = size

    def written(self) -> None:
        for entry in self.entries:
            entry.written()


class GroupsInFlight:
    """The groups between forming and settling, at most `limit`."""

    def __init__(self, journal: Journal, clock: Clock, limit: int) -> None:
        self._journal = journal
        self._clock = clock
        self._limit = limit
        self._groups: deque[Group] = deque()
        self._appended: SimpleQueue[int | None] = SimpleQueue()  # numbers of groups to be synced
        self._thread: threading.Thread | None = None
        self.seconds = 0.0  # spent in syncs

    def start(
        self, on_appended: Callable[[Group, Exception | None], None], on_synced: Callable[[], None]
    ) -> None:
        """Both are called on the running loop, in the order of the groups, `on_appended` first."""
        self._loop = asyncio.get_running_loop()
        self._on_appended = on_appended
        self._on_synced = on_synced
        self._thread = threading.Thread(target=self._serve, name="jjq-journal-sync", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Once nothing is under way any more."""
        if self._thread is not None:
            self._appended.put(None)
            self._thread.join()

    # On the event loop ----------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._groups)

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self._groups)

    @property
    def full(self) -> bool:
        """Whether the next group has to wait: for room, or until one that failed is undone."""
        groups = self._groups
        return bool(groups) and (len(groups) >= self._limit or groups[-1].error is not None)

    def add(self, group: Group) -> None:
        self._groups.append(group)

    def ended(self) -> Iterator[Group]:
        """Take out, oldest first, the groups whose outcome is known, as long as the outcome of all before them is
        known, too."""
        while self._groups and self._groups[0].ended:
            yield self._groups.popleft()

    def clear(self) -> list[Group]:
        """Take out all of them: one before them failed."""
        groups = list(self._groups)
        self._groups.clear()
        return groups

    def _synced(self, number: int, seconds: float, error: Exception | None) -> None:
        self.seconds += seconds
        for group in self._groups:
            if group.number <= number and not group.ended:
                group.ended, group.error = True, error
        self._on_synced()

    # In the journal's thread ----------------------------------------------------------------------

    def append(self, group: Group, records: Sequence[Record], notify: bool) -> None:
        """Append the group, and have it synced; `notify` its entries in between."""
        error: Exception | None = None
        try:
            group.sequence = self._journal.append(records)
        except Exception as failed:  # noqa: BLE001 - whatever the journal raises decides the fate of the group
            error = failed
        if notify and error is None:
            self._post(group.written)
        self._post(self._on_appended, group, error)
        if error is None:
            self._appended.put(group.number)

    # In the thread that syncs ---------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            numbers = [self._appended.get()]
            while not self._appended.empty():
                numbers.append(self._appended.get())
            groups = [number for number in numbers if number is not None]
            if groups:
                self._sync(groups[-1])
            if None in numbers:
                return

    def _sync(self, number: int) -> None:
        started = self._clock.monotonic()
        error: Exception | None = None
        try:
            self._journal.sync()
        except Exception as failed:  # noqa: BLE001 - as above
            error = failed
        self._post(self._synced, number, self._clock.monotonic() - started, error)

    def _post(self, call: Callable[..., None], *args: object) -> None:
        if not self._loop.is_closed():  # a loop that was torn down has nobody left to tell
            self._loop.call_soon_threadsafe(call, *args)
