"""Accepting a loss: how an operator lets a queue go on after a hole, or after a doubt.

What is lost stays lost, but it keeps its offsets: placeholders take them (placeholders.py), what is sound stays where
it is, and the queue takes pushes again. How many elements are lost behind the last one that is known cannot be known
here; an operator who knows a higher offset, from a producer's receipt or a reader's position, can say so, and no offset
is given out twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, InvalidInput
from coldstore.shared.limits import OFFSET_MAX
from coldstore.shared.results import Loss
from hotstore.journal import records
from hotstore.journal.port import Record
from hotstore.limits import LOST_ELEMENTS_MAX
from hotstore.queue.holes import NOWHERE, extend, reconcile
from hotstore.queue.moves import commit_state
from hotstore.queue.placeholders import Fill
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.write.admission import Usage
from hotstore.write.committer import Committer

audit = logging.getLogger("jjq.audit")


class Losses:
    """Finds what a queue has lost, and lets an operator accept it."""

    def __init__(self, registry: Registry, committer: Committer, clock: Clock, usage: Usage) -> None:
        self._registry = registry
        self._committer = committer
        self._clock = clock
        self._usage = usage
        self._one_at_a_time = asyncio.Lock()

    async def accept(self, name: str, next_offset: int | None, *, dry_run: bool) -> Loss:
        """What is lost; unless it is a dry run, it is given up. Where nothing is lost, nothing happens."""
        async with self._one_at_a_time:
            queue = await self._registry.queue(name)
            lost = self._lost(queue, next_offset)
            if dry_run or not (lost.ranges or lost.in_doubt):
                return lost
            now_us = self._clock.now_us()

            def apply(sequence: int) -> None:
                self._apply(queue, [Fill(*each, now_us, sequence) for each in lost.ranges])

            await commit_state(
                self._committer, lambda: _records(queue, lost, now_us), queue=queue, done=apply
            )
            _write_audit(lost, queue.next)
            return lost

    def _lost(self, queue: HotQueue, next_offset: int | None) -> Loss:
        if queue.state.damage is not None and not queue.state.holes:
            raise queue.state.damage.with_traceback(
                None
            )  # a wrong store or owner: nothing that could be accepted
        ranges = list(queue.state.holes)
        end = queue.next
        if next_offset is not None and (next_offset > end or queue.state.doubt is not None):
            if not end <= next_offset <= OFFSET_MAX:
                raise InvalidInput(
                    f"queue {queue.name} goes on at offset {end}: give that or a higher next offset, not {next_offset}"
                )
            if queue.state.doubt is None:  # a lower one is what was asked for before, and done
                raise Conflict(
                    f"queue {queue.name} is known to end before offset {end}: its next offset cannot be chosen"
                )
            if next_offset > end:
                ranges.append((end, next_offset))
                end = next_offset
        cause = queue.state.cause or (f"elements {NOWHERE}" if ranges else "")
        lost = Loss(queue.name, tuple(ranges), queue.state.doubt is not None, cause, end)
        if lost.count > LOST_ELEMENTS_MAX:
            raise InvalidInput(
                f"queue {queue.name}: {lost.count} elements would be given up, at most {LOST_ELEMENTS_MAX} are at once"
            )
        return lost

    def _apply(self, queue: HotQueue, fills: Sequence[Fill]) -> None:
        """Show it to readers, all in one step of the event loop."""
        before = queue.unsealed_bytes
        holes, cold = queue.state.holes, queue.cold
        queue.fills += fills
        queue.state.trust()
        if cold is not None and (holes or fills):
            if holes:  # nothing of it is being sealed
                queue.state.repair()
                reconcile(queue, cold, [each.offset for each in self._registry.of(queue).values()])
            else:
                extend(queue, fills)
        self._usage.unsealed_bytes += queue.unsealed_bytes - before
        self._registry.blocks_changed(queue)
        queue.wake()
        self._registry.changes.queues.add(queue)
        self._registry.sealer.seal_due(queue)


def _write_audit(lost: Loss, next_offset: int) -> None:
    """One line of text; logs in JSON get the fields one by one."""
    shown = ",".join(f"{first}..{next - 1}" for first, next in lost.ranges) or "none"
    fields = {
        "queue": lost.queue,
        "elements": shown,
        "count": lost.count,
        "in_doubt": lost.in_doubt,
        "cause": lost.cause,
        "next_offset": next_offset,
    }
    text = " ".join(f"{name}={value!r}" for name, value in fields.items())
    audit.warning("loss accepted: %s", text, extra=fields)


def _records(queue: HotQueue, lost: Loss, now_us: int) -> list[Record]:
    """One batch of the journal. The queue's row tells how far it goes; after it, no earlier loss is its own."""
    queue.promised = max(queue.promised, lost.next_offset)
    result = [records.rows(records.QUEUES, [queue.row()])]
    if lost.ranges:
        rows = [[queue.number, first, next, now_us] for first, next in lost.ranges]
        result.append(records.rows(records.FILLED, rows))
    result.append(records.rows(records.DOUBTS, [[queue.number, queue.name, ""]]))
    return result
