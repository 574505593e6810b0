"""What blocks a queue has, and how many subscribers are in each."""

from __future__ import annotations

import numpy as np

from coldstore.metadata import BlockMetadata
from hotstore.hotblocks import HotBlocks
from hotstore.port import BlockInfo
from hotstore.queue import HotQueue
from hotstore.tail import TailBlock


def list_blocks(queue: HotQueue, blocks: HotBlocks, positions: list[int]) -> list[BlockInfo]:
    """Cold blocks, then those being sealed, then the hot-hot block; no offset twice."""
    cold = [] if queue.cold is None else [b for b in queue.cold.list_blocks() if b.first < queue.cold_offset]
    firsts = [b.first for b in cold] + [b.first for b in queue.sealing] + [queue.tail.first]
    readers = _count(firsts, positions)
    found = [_cold(queue, b, blocks, n) for b, n in zip(cold, readers, strict=False)]
    found += [_unsealed(b, "sealing", n) for b, n in zip(queue.sealing, readers[len(cold) :], strict=False)]
    return [*found, _unsealed(queue.tail, "hot-hot", readers[-1])]


def _count(firsts: list[int], offsets: list[int]) -> list[int]:
    if not offsets:
        return [0] * len(firsts)
    at = np.searchsorted(np.array(firsts), np.array(offsets), side="right") - 1
    counts: list[int] = np.bincount(np.maximum(at, 0), minlength=len(firsts)).tolist()
    return counts


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
