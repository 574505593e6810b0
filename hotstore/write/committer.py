"""Group commit: everything that waits becomes one journal write and one fdatasync.

There is one committer for all queues of a node. On a disk one group is in flight. While the disk works,
the event loop gathers the next group, so a slow disk makes larger groups instead of longer queues. A
journal that is far away takes several groups at once (`Journal.in_flight`): they are settled in their
order all the same, each once it and all before it are durable (in_flight.py).

An entry is prepared when its group is formed (offsets are assigned then), settled once the group is
durable, or failed. A rejection that rests on what is in the group is settled with it, never before.
A write that failed for lack of space was refused before a byte of it was written: its entries fail
for certain. Any other failure poisons the journal: the outcome of the group is unknown, and
everything after it, in flight or not, is refused until the process starts again, since a second fsync
proves nothing. So does a fault of ours while a group is formed: going on could leave a hole in a queue.

A small group is written on the event loop itself while the disk is quick: handing it to a thread and
back costs as much as the write. A disk that stalls gets its thread until it is quick again (disk_pace.py), and
so does a large group: the loop takes in what comes meanwhile. A caller that is alone does not even wait
for the loop to come round. After `_ALONE` immediate writes, the committer yields once so that others can join.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, Unavailable
from coldstore.shared.limits import KIB
from hotstore.journal.port import Journal, Poisoned, Record
from hotstore.write.disk_pace import DiskPace
from hotstore.write.in_flight import Entry, Group, GroupsInFlight

log = logging.getLogger("jjq.hotstore")

T = TypeVar("T")

_SMALL_BYTES: Final = 16 * KIB  # of a group that may be written on the event loop
_FRAME_BYTES: Final = 2 * KIB  # that an entry may need beside its own: at most, in all but odd cases
_ALONE: Final = 8  # entries that go without a look at who else is ready, once a look found nobody


class Source(Protocol):
    """Turns prepared entries into records, all of one queue together; see `HotQueue` and `Moves`."""

    def records(self) -> list[Record]: ...


class Committer:
    """The only user of the journal after recovery."""

    # Without slots, Python is slower at the attributes of an instance with so many.
    __slots__ = (
        "_alone", "_begin_soon", "_busy", "_calls", "_clock", "_closing", "_due", "_group_bytes_max",
        "_groups_in_flight", "_has_company", "_idle", "_inbox", "_journal", "_loop",
        "_notify_written", "_on_poison", "_pace", "_seconds", "_several", "_sources", "_thread",
        "_threaded", "_timer", "_work", "chapter", "every_seconds", "forming", "groups", "pending_bytes",
        "poisoned", "settling", "synced_bytes",
    )  # fmt: skip

    def __init__(
        self, journal: Journal, clock: Clock, group_bytes_max: int, *, threaded: bool = True
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._threaded = threaded  # a simulation does everything inline
        limit = journal.in_flight if threaded else 1
        self._several = limit > 1
        self._groups_in_flight = GroupsInFlight(journal, clock, limit)
        self._group_bytes_max = group_bytes_max // limit  # groups in flight together share the bytes of one
        self._pace = DiskPace()
        self._inbox: deque[Entry] = deque()
        self._sources: dict[Source, None] = {}
        self._calls: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._busy = False  # the journal's thread, or this one, is at a group or a call
        self._alone = 0  # how many entries may be committed at once, because no others came recently
        self._begin_soon = False
        self._notify_written = False
        self._has_company = False  # an entry of the group that is being formed is that of several callers
        self._closing = False
        # Groups begin no quicker after one another than this: for a journal whose writes have a price. One that
        # is full begins at once: it would not become larger, nor cheaper.
        self.every_seconds = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._idle: asyncio.Future[None] | None = None
        # The journal's file that the group being formed goes to; None: a new one, perhaps.
        self.chapter: int | None = 0
        self.forming = 0  # number of the group that is being formed, or was formed last
        self.settling = 0  # … that is being settled or failed
        self.poisoned: Exception | None = None
        self.pending_bytes = 0
        self.groups = 0
        self.synced_bytes = 0
        self._seconds = 0.0

    @property
    def sync_seconds(self) -> float:
        """How long the journal has been waited for."""
        return self._seconds + self._groups_in_flight.seconds

    def start(self, on_poison: Callable[[Exception], None]) -> None:
        self._on_poison = on_poison
        self._loop = asyncio.get_running_loop()
        if self._threaded:
            self._thread = threading.Thread(target=self._serve, name="jjq-journal", daemon=True)
            self._thread.start()
        if self._several:
            self._groups_in_flight.start(self._appended, self._synced)

    def submit(self, entry: Entry) -> None:
        """Queue an entry for the next group. Raises if the journal is poisoned."""
        if self.poisoned is not None:
            raise Unavailable(
                f"the journal failed ({self.poisoned}); start the server again"
            ) from self.poisoned
        if self._closing:
            raise Unavailable("the store is closing; retry when it is back")
        self.pending_bytes += entry.bytes
        self._inbox.append(entry)
        if self._busy:
            return
        if self._alone and entry.bytes <= _SMALL_BYTES and self._pace.quick:
            self._alone -= 1
            self._begin()
        elif not self._begin_soon:  # whatever else is ready on the loop joins the group
            self._begin_soon = True
            self._loop.call_soon(self._begin)

    def touch(self, source: Source) -> None:
        """Called by an entry's `prepare`: `source` has records for the group that is being formed."""
        self._sources[source] = None

    def want_written(self) -> None:
        """Called by an entry's `prepare`: tell this group when it is written, before it is synced."""
        self._notify_written = True

    def want_company(self) -> None:
        """Called by an entry's `prepare`: several callers wait for it, so the next entry waits for others, too."""
        self._has_company = True

    async def call(self, work: Callable[[], T]) -> T:
        """Run `work` on the journal between two appends, off the event loop. A journal that takes several groups
        may be syncing earlier ones meanwhile."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.append((work, future))
        self._begin()
        return await future

    async def close(self) -> None:
        """Commit what waits, then stop. Later submissions are refused."""
        self._closing = True
        while self._busy or self._inbox or self._calls or self._groups_in_flight:
            self._idle = self._loop.create_future()
            await self._idle
        if self._threaded:
            self._work.put(None)
            self._thread.join()
            self._groups_in_flight.close()

    # On the event loop ----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start on the next call or group, unless one is at work or too many are in flight."""
        self._begin_soon = False
        while not self._busy:
            if self._calls:
                work, future = self._calls.popleft()
                self._run(work, lambda result, error, future=future: self._answer(future, result, error))  # type: ignore[misc]
            elif self._inbox and not (self._several and self._groups_in_flight.full):
                if self.every_seconds and self._too_early():
                    return
                self._commit_group()
            else:
                if self._idle is not None and not self._idle.done():
                    self._idle.set_result(None)
                return

    def _too_early(self) -> bool:
        """Whether the next group has to wait; it is begun in time."""
        now = self._loop.time()
        full = self.pending_bytes - self._groups_in_flight.bytes >= self._group_bytes_max
        if now < self._due and not full and not self._closing:
            if self._timer is None:
                self._timer = self._loop.call_at(self._due, self._in_time)
            return True
        self._due = now + self.every_seconds
        return False

    def _in_time(self) -> None:
        self._timer = None
        self._begin()

    def _commit_group(self) -> None:
        looked = not self._alone
        self.forming += 1
        group = Group(self.forming, [], 0)
        try:
            records = self._form(group)
        except Exception as fault:  # a fault of ours: offsets may be given out that no record has
            log.exception("a group commit could not be formed")
            self._sources.clear()
            self._fail(group, Poisoned(f"a group commit could not be formed: {fault!r}"))
            return
        alone = len(group.entries) == 1 and not self._has_company
        self._has_company = False
        if looked or not alone:
            self._alone = _ALONE if alone else 0
        notify, self._notify_written = self._notify_written, False
        if self._several:
            self._send(group, records, notify)
        elif not records:  # a group of rejections alone rests on what is synced already
            self._settle(group)
        elif group.bytes <= _SMALL_BYTES and self._pace.quick and not notify:
            self._commit_inline(group, records)
        else:
            written = group.written if notify else None
            self._run(lambda: self._write(group, records, written), lambda _, error: self._end(group, error))

    def _commit_inline(self, group: Group, records: list[Record]) -> None:
        """On the event loop, by the shortest way: this is what a single push waits for."""
        self._busy = True
        try:
            self._write(group, records, None)
        except Exception as failed:  # noqa: BLE001 - whatever the journal raises decides the fate of the group
            group.error = failed
        self._busy = False
        self._settle(group)

    def _form(self, group: Group) -> list[Record]:
        """Prepare what waits, as much as fits one group. Returns its records."""
        entries, size = group.entries, 0
        while self._inbox and (not entries or size + self._inbox[0].bytes <= self._group_bytes_max):
            entry = self._inbox.popleft()
            entries.append(entry)
            entry.prepare()
            size += entry.bytes
        group.bytes = size
        if not self._several:
            self.chapter = self._journal.chapter(size + _FRAME_BYTES * (len(entries) + 8))
        records = [record for source in list(self._sources) for record in source.records()]
        self._sources.clear()
        return records

    def _send(self, group: Group, records: list[Record], notify: bool) -> None:
        """Into the journal behind other groups. Rejections rest on those groups, so they are answered after them."""
        self._groups_in_flight.add(group)
        if records:
            self._busy = True
            self._work.put(lambda: self._groups_in_flight.append(group, records, notify))
        else:
            group.ended = True
            self._settle_ended()

    def _appended(self, group: Group, error: Exception | None) -> None:
        self._busy = False
        if error is not None:
            group.ended, group.error = True, error
        self._synced()

    def _synced(self) -> None:
        self._settle_ended()
        self._begin()

    def _settle_ended(self) -> None:
        for group in self._groups_in_flight.ended():
            self._settle(group)

    def _end(self, group: Group, error: Exception | None) -> None:
        group.error = error
        self._settle(group)

    def _settle(self, group: Group) -> None:
        if group.error is not None:
            self._fail(group, group.error)
            return
        self.settling = group.number
        self.groups += 1
        sequence = group.sequence
        for entry in group.entries:
            self.pending_bytes -= entry.bytes
            self.synced_bytes += entry.bytes
            entry.settle(sequence)

    def _fail(self, group: Group, error: Exception) -> None:
        if isinstance(error, Exhausted):
            self._undo(group, error)
            return
        unknown = Unavailable(
            f"the journal failed while this was being written, its outcome is unknown: {error}"
        )
        for failed in (group, *self._groups_in_flight.clear()):
            self._undo(failed, unknown)
        self._poison(error)

    def _poison(self, error: Exception) -> None:
        """What waits was not written; nothing more will be."""
        self.poisoned = error
        while self._inbox:
            entry = self._inbox.popleft()
            self.pending_bytes -= entry.bytes
            entry.fail(Unavailable("the journal failed; start the server again, then retry"))
        self._on_poison(error)

    def _undo(self, group: Group, error: Exception) -> None:
        self.settling = group.number
        for entry in group.entries:
            self.pending_bytes -= entry.bytes
            entry.fail(error)

    def _answer(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        """Answers the caller; a journal that failed in a call has failed for all."""
        if isinstance(error, Poisoned) and self.poisoned is None:
            self._poison(error)
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Do `work`, then `done` with its outcome on the event loop."""
        self._busy = True
        if not self._threaded:
            outcome = _outcome(work)
            self._busy = False
            done(*outcome)
            return

        def finish(result: Any, error: Exception | None) -> None:
            self._busy = False
            done(result, error)
            self._begin()

        self._work.put(lambda: self._post(finish, *_outcome(work)))

    # In the journal's thread, or inline -----------------------------------------------------------

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _post(
        self, finish: Callable[[Any, Exception | None], None], result: Any, error: Exception | None
    ) -> None:
        if not self._loop.is_closed():  # a loop that was torn down has nobody left to tell
            self._loop.call_soon_threadsafe(finish, result, error)

    def _write(self, group: Group, records: Sequence[Record], written: Callable[[], None] | None) -> None:
        started = self._clock.monotonic()
        group.sequence = self._journal.append(records)
        if written is not None:
            self._loop.call_soon_threadsafe(written)
        self._journal.sync()
        seconds = self._clock.monotonic() - started
        if group.bytes <= _SMALL_BYTES:
            self._pace.note(seconds)
        self._seconds += seconds


def _outcome(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - whatever the journal raises decides the fate of the group
        return None, error
