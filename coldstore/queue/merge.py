"""The policy of merging young blocks: when a merge is due, and which blocks make the next final block.

A merge takes blocks from the front, so that `data/` stays a gapless prefix. It never takes part of a young
block. It takes about one block's worth of bytes at a time, so that memory stays bounded and
blocks are about as large as was asked for.

A file of its own, although small: pure functions, tested without a store, beside a `cold_queue` that is near
its limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from coldstore.layout.metadata import BlockMetadata
from coldstore.shared import limits


def due(young: Sequence[BlockMetadata], block_bytes: int, oldest_age_seconds: float) -> bool:
    """Whether young blocks should be merged now: enough bytes, too many of them, or too old."""
    if not young:
        return False
    return (
        total_bytes(young) >= block_bytes
        or len(young) >= limits.YOUNG_BLOCKS_MAX
        or oldest_age_seconds >= limits.YOUNG_SECONDS_MAX
    )


def front(
    young: Sequence[BlockMetadata], block_bytes: int | None, avoided: AbstractSet[int] = frozenset()
) -> Sequence[BlockMetadata]:
    """The shortest run of young blocks from the front that fills a block, or all of them (without `block_bytes`
    always). The last of them stays out if it were too much, and the others are enough.

    The run never ends at an offset that is `avoided`: no final block may begin there (quarantine.py).
    """
    taken = allowed = 0
    for count, block in enumerate(young, start=1):
        before, taken = taken, taken + block.raw_bytes
        if block_bytes is not None and allowed:
            too_much = taken > limits.BLOCK_SHARE_MAX * block_bytes
            if too_much and is_enough(before, block_bytes):
                break
        if block.next in avoided:
            continue
        allowed = count
        if block_bytes is not None and taken >= block_bytes:
            break
    return young[:allowed]


def is_enough(size: int, block_bytes: int) -> bool:
    """Whether so many bytes may be a final block by themselves."""
    return size >= limits.BLOCK_SHARE_MIN * block_bytes


def share(size: int, block_bytes: int) -> int:
    """What one block takes of so many bytes: all, or an equal part that is nearest to the size asked for."""
    parts = max(1, round(size / block_bytes), math.ceil(size / (limits.BLOCK_SHARE_MAX * block_bytes)))
    return math.ceil(size / parts)


def total_bytes(young: Sequence[BlockMetadata]) -> int:
    return sum(block.raw_bytes for block in young)
