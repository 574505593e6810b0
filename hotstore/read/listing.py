"""Lists for people who watch a queue: its blocks with the subscribers in each, and how far subscribers are behind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coldstore.layout.metadata import BlockMetadata
from hotstore.port import BlockInfo
from hotstore.queue.queue import HotQueue
from hotstore.queue.subscriber import Subscriber
from hotstore.queue.tail import TailBlock
from hotstore.read.hot_blocks import HotBlocks


def list_blocks(
    queue: HotQueue,
    blocks: HotBlocks,
    positions: list[int],
    from_offset: int = 0,
    limit: int | None = None,
) -> list[BlockInfo]:
    """Cold blocks, then those being sealed, then the hot-hot block; no offset twice.

    From the block on that holds `from_offset`, at most `limit`: only their metadata is looked at.
    """
    seen = None if limit is None else limit + 1  # where the last one ends, the next one tells
    found: list[BlockMetadata | TailBlock] = [*_cold_page(queue, from_offset, seen)]
    found += [b for b in (*queue.sealing, queue.tail) if b.next > from_offset or b is queue.tail]
    found = found[:seen]
    readers = _count([block.first for block in found], positions)
    return [_info(queue, block, blocks, n) for block, n in zip(found[:limit], readers, strict=False)]


def _cold_page(queue: HotQueue, from_offset: int, limit: int | None) -> list[BlockMetadata]:
    if queue.cold is None:
        return []
    known = queue.cold.list_blocks()
    begin = known.index_for(max(0, from_offset)) if from_offset < known.next_offset else len(known)
    end = len(known) if limit is None else begin + limit
    # The last ones may be there before we know that they are, when a reply of the store was lost.
    return [block for block in known[begin:end] if block.first < queue.cold_offset]


def _count(firsts: list[int], positions: list[int]) -> list[int]:
    """How many of `positions` are in each block, by where blocks begin."""
    if not positions:
        return [0] * len(firsts)
    at = np.searchsorted(np.array(firsts), np.array(positions), side="right") - 1
    counts: list[int] = np.bincount(at[at >= 0], minlength=len(firsts)).tolist()
    return counts


def _info(queue: HotQueue, block: BlockMetadata | TailBlock, blocks: HotBlocks, n: int) -> BlockInfo:
    if isinstance(block, TailBlock):
        return _unsealed(block, "hot-hot" if block is queue.tail else "sealing", n)
    return block.info(queue.name, loaded=blocks.find(queue, block.first) is not None, subscribers=n)


def _unsealed(block: TailBlock, kind: str, subscribers: int) -> BlockInfo:
    return BlockInfo(
        id=block.first,
        first_offset=block.first,
        last_offset=block.next - 1,
        count=len(block),
        kind="sealing" if kind == "sealing" else "hot-hot",
        loaded=True,
        min_timestamp_us=block.min_us,
        max_timestamp_us=block.max_us,
        raw_bytes=block.bytes,
        stored_bytes=None,
        sha256=None,
        key=None,
        subscribers=subscribers,
    )


class Lag(NamedTuple):
    """How far one subscriber is behind the end of its queue.

    Seconds are the age of the first element that the subscriber has not popped. They are exact while that element is
    in memory. If it is only in the cold store, they are the age of the oldest element of its block: too much, by at
    most the time that the block spans. If the block is not known either (nobody has used the queue since the start,
    or the element is lost), they are the age of the queue's newest element: a lower bound.
    """

    queue: str
    subscriber: str
    elements: int
    seconds: float


def lag(subscriber: Subscriber, blocks: HotBlocks, now_us: int) -> Lag:
    """Looks only at memory, by binary search, however far behind the subscriber is."""
    queue = subscriber.queue
    behind = max(0, queue.next - subscriber.offset)
    seconds = max(0, now_us - time_of(queue, blocks, subscriber.offset)) / 1_000_000 if behind else 0.0
    return Lag(queue.name, subscriber.name, behind, seconds)


def time_of(queue: HotQueue, blocks: HotBlocks, offset: int) -> int:
    """When an element was pushed; if it is not in memory, when the first one of its block was."""
    held = queue.in_memory(offset) or blocks.find(queue, offset)
    if held is not None:
        return held.time_of(offset)
    if queue.cold is not None and offset < queue.cold.next_offset:
        return queue.cold.list_blocks().min_timestamp_us(offset)
    return queue.last_us
