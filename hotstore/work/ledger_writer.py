"""The rows of a group on their way into the journal.

All rows that wait when a group commit is formed become one push record of the ledger, however many verbs made them. A
verb that must be durable waits for the next commit; takes ride with it, and are written soon even if nobody waits.

    outbox   rows that were folded and are in no commit yet
    flush    an entry of the committer: everything in the outbox when its group is formed
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from coldstore.shared.clock import SteadyClock
from coldstore.shared.errors import JjqError, check
from coldstore.shared.push import Push
from hotstore.groups.ledger import LedgerRows, encode_rows
from hotstore.journal.port import Record
from hotstore.limits import JOURNAL_BATCH_BYTES_MAX, LEDGER_PUSH_BYTES
from hotstore.queue.queue import HotQueue
from hotstore.write.committer import Committer
from hotstore.write.push import PushEntry

# Rows that nobody waits for are written after this time, with what comes meanwhile.
LAZY_SECONDS: Final = 0.02
_FLUSH_BYTES: Final = 1_024  # about what the rows of one flush need

Waiting = tuple[bool, asyncio.Future[None]]  # whether it is enough that rows are written, and the reply


class Flush:
    """An entry of the committer; see the module's docstring."""

    __slots__ = ("_waiting", "_writer", "bytes", "ended", "error", "formed")

    def __init__(self, writer: LedgerWriter) -> None:
        self._writer = writer
        self._waiting: list[Waiting] = []
        self.bytes = _FLUSH_BYTES
        self.formed = False
        self.ended = False
        self.error: Exception | None = None

    def prepare(self) -> None:
        self.formed = True
        self._writer.form(self)
        if any(written for written, _ in self._waiting):
            self._writer.committer.want_written()
        if len(self._waiting) > 1:
            self._writer.committer.want_company()

    def written(self) -> None:
        for only_written, reply in self._waiting:
            if only_written and not reply.done():
                reply.set_result(None)

    def settle(self, sequence: int) -> None:
        self.ended = True
        self._writer.ledger.publish(sequence)
        for _, reply in self._waiting:
            if not reply.done():
                reply.set_result(None)

    def fail(self, error: Exception) -> None:
        self._writer.ledger.discard()
        self.end(error)
        self._writer.fail(error)

    def end(self, error: Exception) -> None:
        """It will not be written; the calls that wait for it raise `error`."""
        self.ended, self.error = True, error
        for _, reply in self._waiting:
            if not reply.done():
                reply.set_exception(error)

    def hand_over(self) -> list[Waiting]:
        """Those who wait, to wait for another one."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def take_over(self, waiting: list[Waiting]) -> None:
        self._waiting += waiting
        if self.error is not None:
            self.end(self.error)
        elif self.ended:
            for _, reply in waiting:
                if not reply.done():
                    reply.set_result(None)

    def wait(self, *, written: bool = False) -> asyncio.Future[None]:
        """Await this until it is durable, or only written."""
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.ended:
            self._waiting.append((written, reply))
        elif self.error is not None:
            reply.set_exception(self.error.with_traceback(None))
        else:
            reply.set_result(None)
        return reply


class LedgerWriter:
    """Writes the outbox of one group. `on_failed` is called when rows that were folded could not be written."""

    def __init__(
        self,
        ledger: HotQueue,
        outbox: LedgerRows,
        committer: Committer,
        clock: SteadyClock,
        on_failed: Callable[[Exception], None],
        lazy_seconds: float = LAZY_SECONDS,
    ) -> None:
        self.ledger = ledger
        self.committer = committer
        self._outbox = outbox
        self._clock = clock
        self._on_failed = on_failed
        self._next: Flush | None = None  # submitted, and not formed yet
        self._last: Flush | None = None  # the one that was formed last
        self._timer: asyncio.Task[None] | None = None
        self._lazy_seconds = lazy_seconds
        self._whole = False  # the group that is being formed must have all rows
        self._failed: Exception | None = None
        # Called with the ledger's offset when the state is next that of a row of the ledger.
        self.capture: Callable[[int], None] | None = None

    def flush(self) -> Flush:
        """Write what there is with the next group commit."""
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        if not self._outbox.rows:
            last = self._next or self._last
            if last is not None:
                return last
        return self._next or self._submit(Flush(self))

    def _submit(self, flush: Flush) -> Flush:
        self._next = flush
        try:
            self.committer.submit(flush)  # which may write it before it returns
        except JjqError:
            self._next = None
            raise
        return flush

    @property
    def is_idle(self) -> bool:
        """Whether everything that was folded is durable."""
        return not self._outbox.rows and self._next is None and (self._last is None or self._last.ended)

    def flush_soon(self) -> None:
        """Write what there is with the next group commit that somebody else needs, or soon."""
        if self._timer is None and self._next is None and self._outbox.rows and self._failed is None:
            self._timer = asyncio.create_task(self._flush_later(), name=f"jjq-flush-{self.ledger.name}")

    async def _flush_later(self) -> None:
        await asyncio.sleep(self._lazy_seconds)
        self._timer = None
        if self._outbox.rows and self._failed is None:
            try:
                self.flush()
            except JjqError:
                return  # the store is closing or has failed: a call that needs these rows raises it

    def form(self, flush: Flush) -> None:
        """The group of this entry is being formed."""
        if flush is self._next:
            self._next, self._last = None, flush
        if self.refusal is not None:
            flush.end(self.refusal)
        elif self._outbox.rows:
            self.committer.touch(self)

    def form_whole(self) -> None:
        """Called by an entry that is being prepared: all rows so far must be in this group, however many they are.

        Only if there is no `refusal`.
        """
        self._whole = True
        self.committer.touch(self)

    @property
    def refusal(self) -> Exception | None:
        """Why no row may be written any more: rows before it were lost, or the journal says that the queue leaves.

        A verb that waited for something while its queue left makes rows that come too late. Nobody got an answer that
        says they are durable, so they are dropped, and the next owner goes by what the ledger has.
        """
        if self._failed is None and self.ledger.state.refusal is not None:
            self.fail(self.ledger.state.refusal)
        return self._failed

    def records(self) -> list[Record]:
        """The rows as one push of the ledger, in the group that is being formed."""
        rows = self._outbox.take(JOURNAL_BATCH_BYTES_MAX if self._whole else LEDGER_PUSH_BYTES)
        self._whole = False
        if not rows:
            return []
        if self._outbox.rows and self._last is not None:  # too many for one: who waits, waits for the rest
            asyncio.get_running_loop().call_soon(self._go_on, self._last.hand_over())
        ledger = self.ledger
        shift_us = self._clock.shift_at(ledger.forming_stage().stamped_us)
        entry = PushEntry(ledger, Push(ledger.name, encode_rows(rows, shift_us)))
        # The flush was prepared, and so accepted, before the queue began to leave in the same group.
        ledger.assign(entry, accepted=True)
        check(entry.error is None, f"ledger {ledger.name} refused rows of its group: {entry.error}")
        if self.capture is not None and not self._outbox.rows:
            # Now, and only now, the state is that of a row of the ledger: nothing is folded that has no offset.
            capture, self.capture = self.capture, None
            capture(entry.first + entry.payload.num_rows)
        return ledger.records()

    def _go_on(self, waiting: list[Waiting]) -> None:
        try:
            self.flush().take_over(waiting)
        except JjqError as error:
            for _, reply in waiting:
                if not reply.done():
                    reply.set_exception(error)

    def fail(self, error: Exception) -> None:
        """Rows are lost that the group rests on: it must be loaded again."""
        if self._failed is not None:
            return
        self._failed = error
        self._outbox.clear()
        self.stop()
        if self._next is not None:
            self._next.end(error)
        self._on_failed(error)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
