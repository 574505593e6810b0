"""What blocks a queue has, and how many subscribers are in each."""

from __future__ import annotations

import numpy as np

from coldstore.layout.metadata import BlockMetadata
from hotstore.port import BlockInfo
from hotstore.queue.queue import HotQueue
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
    return _cold(queue, block, blocks, n)


def _cold(queue: HotQueue, block: BlockMetadata, blocks: HotBlocks, subscribers: int) -> BlockInfo:
    return BlockInfo(
        id=block.first,
        first_offset=block.first,
        last_offset=block.last,
        count=block.count,
        kind=block.kind,
        loaded=blocks.find(queue, block.first) is not None,
        min_timestamp_us=block.min_timestamp_us,
        max_timestamp_us=block.max_timestamp_us,
        raw_bytes=block.raw_bytes,
        stored_bytes=block.stored_bytes,
        sha256=block.sha256,
        key=f"queues/{queue.name}/{block.path}",
        subscribers=subscribers,
    )


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
