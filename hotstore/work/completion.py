"""Ack and push in one journal batch: both are durable, or neither is. An exactly-once hand-off between queues.

All of it is one entry of the committer, so it is in one group commit. When that is formed, the tasks are judged, then
acked, and the pushes get their offsets. If one task cannot be acked, nothing happens at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from coldstore.shared.results import Receipt
from hotstore.groups.changes import TaskChanges
from hotstore.groups.values import TaskChange, TaskOutcomes
from hotstore.queue.queue import HotQueue
from hotstore.work.work_group import WorkGroup
from hotstore.write.push import PushEntry


class Completion:
    """An entry of the committer."""

    def __init__(
        self,
        group: WorkGroup,
        change: TaskChange,
        pushes: Sequence[tuple[HotQueue, PushEntry]],
        spread: Callable[[], float],
    ) -> None:
        self._group = group
        self._change = change
        self._queues = [queue for queue, _ in pushes]
        self._pushes = [push for _, push in pushes]
        self._spread = spread
        self._outcomes: TaskOutcomes | None = None
        self._written = False
        self.bytes = sum(push.bytes for push in self._pushes) + 1_024
        self.reply: asyncio.Future[TaskOutcomes] = asyncio.get_running_loop().create_future()

    def prepare(self) -> None:
        group = self._group
        barred = (queue.state.refusal for queue in self._queues if queue.state.refusal is not None)
        blocked = group.refusal or group.writer.refusal or next(barred, None)
        if blocked is not None:
            self._answer_error(blocked.with_traceback(None))
            return
        live = group.advance()
        changes = TaskChanges(live, self._change, self._spread)
        refusals = changes.refusals()
        if refusals:
            self._outcomes = TaskOutcomes(0, refusals)
        else:
            self._outcomes = changes.apply()
            self._written = True
            group.writer.form_whole()
            for push in self._pushes:
                push.prepare()

    def _answer_error(self, error: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)

    def written(self) -> None:
        return None

    def settle(self, sequence: int) -> None:
        if self._written:
            for push in self._pushes:
                push.settle(sequence)
            self._group.ledger.publish(sequence)
        else:
            self._leave()
        if self._outcomes is not None and not self.reply.done():
            self.reply.set_result(self._outcomes)

    def fail(self, error: Exception) -> None:
        if self._written:
            for push in self._pushes:
                push.fail(error)
            self._group.ledger.discard()
            self._group.writer.fail(error)
        else:
            self._leave()
        self._answer_error(error)

    def _leave(self) -> None:
        """Nothing was written: the room that was admitted is free."""
        for push in self._pushes:
            push.give_up()

    def receipts(self) -> list[Receipt]:
        """Of the pushes, if they were written."""
        return [push.receipt for push in self._pushes if push.receipt is not None] if self._written else []
