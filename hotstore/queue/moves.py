"""What goes through the journal besides pushes: subscribers' moves, and rows of state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from coldstore.shared.errors import Exhausted, JjqError
from hotstore.journal import records
from hotstore.journal.port import Record
from hotstore.limits import CHECKPOINT_ROWS
from hotstore.queue.queue import HotQueue
from hotstore.queue.subscriber import Subscriber
from hotstore.write.committer import Committer

T = TypeVar("T")


class Moves:
    """Gathers the moves of one group into one record; of several moves of a subscriber the last counts."""

    def __init__(self, committer: Committer, changed: Callable[[Subscriber], None]) -> None:
        self._committer = committer
        self.changed = changed  # called when a move is durable
        self._rows: dict[int, tuple[int, int, int]] = {}

    def note(self, subscriber: Subscriber, previous: int, offset: int) -> None:
        self._rows[subscriber.number] = (subscriber.number, previous, offset)
        self._committer.touch(self)

    def records(self) -> list[Record]:
        rows, self._rows = self._rows, {}
        return [records.positions(rows.values())] if rows else []

    async def commit(self, subscriber: Subscriber, base: int | None = None) -> None:
        """Make the subscriber's present position durable. A move that builds on an earlier one names it: `base`."""
        entry = MoveEntry(self, subscriber, base)
        try:
            self._committer.submit(entry)
        except JjqError:
            entry.undo()
            raise
        await entry.reply


class MoveEntry:
    """A subscriber's new position on its way into the journal.

    Pops do not wait for each other: the second is journalled on top of the first. Should the first
    fail for lack of space, the second no longer follows what the journal has, and fails as well; the
    last of them to fail puts the subscriber back to where the journal has it. So nothing is skipped.
    """

    __slots__ = ("_base", "_error", "_moves", "_offset", "_previous", "_subscriber", "bytes", "reply")

    def __init__(self, moves: Moves, subscriber: Subscriber, base: int | None) -> None:
        self._moves = moves
        self._subscriber = subscriber
        self._base = base
        self._previous = subscriber.previous
        self._offset = subscriber.offset
        self._error: Exception | None = None
        self.bytes = 24
        self.reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def prepare(self) -> None:
        refusal = self._subscriber.queue.state.refusal
        if refusal is not None:
            self._error = refusal.with_traceback(None)
            return
        if self._base is not None and self._base != self._subscriber.noted[1]:
            self._error = Exhausted("an earlier pop of this subscriber failed for lack of space: pop again")
            return
        self._subscriber.noted = (self._previous, self._offset)
        self._moves.note(self._subscriber, self._previous, self._offset)

    def written(self) -> None:
        return None

    def settle(self, sequence: int) -> None:
        if self._error is not None:
            self.fail(self._error)
            return
        self._subscriber.durable = (self._previous, self._offset)
        self._moves.changed(self._subscriber)
        if not self.reply.done():
            self.reply.set_result(None)

    def fail(self, error: Exception) -> None:
        self.undo()
        if not self.reply.done():
            self.reply.set_exception(error)

    def undo(self) -> None:
        subscriber = self._subscriber
        if self._error is None:
            subscriber.noted = subscriber.durable
        if (subscriber.previous, subscriber.offset) == (self._previous, self._offset):
            subscriber.previous, subscriber.offset = subscriber.durable


class StateEntry:
    """Rows of state. They are made when the group is formed, so that their order is the journal's."""

    __slots__ = ("_committer", "_done", "_error", "_make", "_queue", "_undo", "bytes", "reply")

    def __init__(
        self,
        committer: Committer,
        make: Callable[[], list[Record]],
        undo: Callable[[], None] | None,
        queue: HotQueue | None,
        done: Callable[[int], None] | None,
    ) -> None:
        self._committer = committer
        self._make = make
        self._undo = undo
        self._done = done
        self._queue = queue
        self._error: Exception | None = None
        self.bytes = 1_024
        self.reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def prepare(self) -> None:
        if self._queue is not None and self._queue.state.refusal is not None:
            self._error = self._queue.state.refusal.with_traceback(None)
            return
        self._committer.touch(self)

    def records(self) -> list[Record]:
        return self._make()

    def written(self) -> None:
        return None

    def settle(self, sequence: int) -> None:
        if self._error is not None:
            self.fail(self._error)
            return
        try:
            if self._done is not None:
                self._done(sequence)
        except Exception as error:  # noqa: BLE001 - the other entries of the group must be settled all the same
            if not self.reply.done():
                self.reply.set_exception(error)
            return
        if not self.reply.done():
            self.reply.set_result(sequence)

    def fail(self, error: Exception) -> None:
        if self._undo is not None:
            self._undo()
        if not self.reply.done():
            self.reply.set_exception(error)


async def commit_state(
    committer: Committer,
    make: Callable[[], list[Record]],
    undo: Callable[[], None] | None = None,
    queue: HotQueue | None = None,
    done: Callable[[int], None] | None = None,
) -> int:
    """Journal what `make` returns; gives the journal's sequence number of it. Refused if it is about a
    `queue` that leaves.

    If the write fails, `undo` runs before the next group is formed; the caller gets the error later. When it is
    durable, `done` runs at once: a checkpoint that begins then must find in memory what the journal has.
    """
    entry = StateEntry(committer, make, undo, queue, done)
    committer.submit(entry)
    return await entry.reply


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """`items` in pieces that fit one record each."""
    iterator = iter(items)
    while chunk := list(islice(iterator, CHECKPOINT_ROWS)):
        yield chunk
