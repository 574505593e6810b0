"""How far subscribers are behind, in elements and in seconds, for whoever watches them.

Seconds are the age of the first element that a subscriber has not popped. They are exact while that
element is in memory. Where it is only in the cold store they are the age of the oldest element of its
block, too much by the time that the block spans at most: nobody reads a block to know more. Where not
even the block is known, as nobody has used the queue since the start, or the element is lost, they
are the age of the queue's newest element: at least so much.
"""

from __future__ import annotations

from typing import NamedTuple

from hotstore.queue.queue import HotQueue
from hotstore.queue.subscriber import Subscriber
from hotstore.read.hot_blocks import HotBlocks


class Lag(NamedTuple):
    """How far one subscriber is behind the end of its queue."""

    queue: str
    subscriber: str
    elements: int
    seconds: float


def lag(subscriber: Subscriber, blocks: HotBlocks, now_us: int) -> Lag:
    """Found in memory alone, by binary search, however far behind it is."""
    queue = subscriber.queue
    behind = max(0, queue.next - subscriber.offset)
    seconds = max(0, now_us - _time_of(queue, blocks, subscriber.offset)) / 1_000_000 if behind else 0.0
    return Lag(queue.name, subscriber.name, behind, seconds)


def _time_of(queue: HotQueue, blocks: HotBlocks, offset: int) -> int:
    held = queue.in_memory(offset) or blocks.find(queue, offset)
    if held is not None:
        return held.time_of(offset)
    if queue.cold is not None and offset < queue.cold.next_offset:
        return queue.cold.list_blocks().min_timestamp_us(offset)
    return queue.last_us
