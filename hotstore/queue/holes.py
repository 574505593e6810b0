"""Joining what the journal kept of a queue with what the cold store has of it, and what is missing between them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared.errors import DataLoss
from hotstore.queue import placeholders
from hotstore.queue.queue import HotQueue
from hotstore.queue.state import DAMAGED_FILES
from hotstore.queue.tail import TailBlock

log = logging.getLogger("jjq.hotstore")

RECORDS_LOST = "journal records that had been synced are damaged or missing"
NOWHERE = "were acknowledged but are neither in the journal nor in the cold store"
JOURNAL_OLDER = "the cold store is ahead of what the journal has: the journal seems to be an older copy"


def reconcile(queue: HotQueue, cold: ColdQueue, positions: Iterable[int] = ()) -> None:
    """Join the two.

    The journal is trimmed only after a commit in the cold store, so they overlap or touch. Should
    there be a hole between them, elements are lost: the queue says so and takes no pushes, since new
    elements behind a hole could never become blocks. Holes that an operator has accepted are filled.
    """
    if cold.settings.id != queue.settings.id:
        queue.state.report_damage(
            DataLoss(
                f"queue {queue.name} in the cold store has id {cold.settings.id}, but this journal wrote to "
                f"{queue.settings.id}: is this the right cold store?"
            )
        )
    reached, last = cold.next_offset, cold.list_blocks().last
    last_us = last.max_timestamp_us if last is not None else 0
    queue.first = cold.first_offset
    blocks = [*queue.sealing, queue.tail]
    unsealed = max((block.next for block in blocks if len(block)), default=reached)
    if unsealed < reached and queue.cold is None:  # nothing is sealed that was not in the journal before
        queue.suspect(JOURNAL_OLDER)
    for block in blocks:
        block.drop_before(reached)
    kept = [block for block in blocks if len(block)]
    # Nobody is ahead of what was acknowledged.
    promised = max(
        [reached, queue.next, queue.promised, *positions, *(fill.next for fill in queue.fills)]
        + [block.next for block in kept]
    )
    queue.sealing, holes = _filled(queue, kept, reached, promised, last_us)
    queue.state.report_holes(holes, hole(queue.name, holes))
    queue.next = promised
    queue.last_us = max(queue.last_us, last_us)
    queue.start_tail()
    queue.cold = cold
    if queue.state.doubt is not None:
        queue.suspect(queue.state.cause)  # now that it is known how far the queue goes
    for lost in (queue.state.damage, queue.state.doubt):
        if lost is not None:
            log.error("DATA_LOSS: %s", lost)


def _filled(
    queue: HotQueue, kept: Sequence[TailBlock], reached: int, promised: int, last_us: int
) -> tuple[list[TailBlock], list[tuple[int, int]]]:
    """The unsealed blocks, with placeholders where a loss was accepted; and the holes that stay."""
    blocks: list[TailBlock] = []
    holes: list[tuple[int, int]] = []
    expected = reached
    for block in (*kept, None):
        start = promised if block is None else block.first
        for part in placeholders.parts(expected, start, queue.fills):
            if part.fill is None:
                holes.append((part.first, part.next))
                continue
            # Times never go back from one element to the next, so that a start by time finds its place.
            last_us = blocks[-1].max_us if blocks else last_us
            before = part.fill.accepted_us if block is None else min(part.fill.accepted_us, block.min_us)
            stamp, now = max(last_us, before), queue.now()
            blocks += placeholders.blocks(part, part.fill, queue.content, stamp, now)
        if block is not None:
            blocks.append(block)
            expected = max(expected, block.next)
    return blocks, holes


def extend(queue: HotQueue, fills: Sequence[placeholders.Fill]) -> None:
    """Placeholders behind the last element."""
    queue.freeze()
    for fill in fills:
        part = placeholders.GapPart(fill.first, fill.next, fill)
        stamp = max(queue.last_us, fill.accepted_us)
        queue.sealing += placeholders.blocks(part, fill, queue.content, stamp, queue.now())
        queue.next, queue.last_us = fill.next, stamp
    queue.start_tail()


def hole(name: str, holes: Sequence[tuple[int, int]]) -> DataLoss:
    shown = ", ".join(f"{first}..{next - 1}" for first, next in holes[:5]) + (", …" if len(holes) > 5 else "")
    return DataLoss(
        f"queue {name}: elements {shown} {NOWHERE}. Put the journal's files back ({DAMAGED_FILES}). Reads around them "
        f"go on, pushes are refused until the files are back or the loss is accepted: jjq queue accept-loss {name}"
    )
