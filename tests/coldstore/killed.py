"""A writer that is killed: run as a process by test_prefix.py.

    python -m tests.coldstore.killed ROOT SEED STEPS

It goes on where the queue ends, with elements that depend on their offsets alone, as an owner does
that has them in its journal; but it cuts them into blocks as its seed says. After every step it says
up to where elements are stored. `JJQ_FAILPOINTS` says where it dies.
"""

from __future__ import annotations

import os
import random  # noqa: TID251 the seed comes from the test
import sys

import pyarrow as pa

from coldstore.objects.local import LocalObjects
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared import failpoint, limits
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from tests.coldstore.making import elements


class AheadClock(SystemClock):
    """Two days ahead of the store's: all young blocks are due, everything merged may be swept."""

    def now_us(self) -> int:
        return super().now_us() + 2 * 86_400 * 1_000_000


def opened(root: str) -> ColdQueue:
    store = ColdStore(LocalObjects(root), AheadClock(), SystemChance())
    return store.create_queue("orders", block_bytes=limits.BLOCK_BYTES_MIN)


def due(first: int, count: int) -> pa.Table:
    return elements(first, count, at_us=1_000 + first)


def main(root: str, seed: int, steps: int) -> None:
    limits.ROLLUP_BLOCKS = 4  # type: ignore[misc]
    failpoint.arm_from(os.environ)
    chance = random.Random(seed)
    queue = opened(root)
    for _ in range(steps):
        act = chance.choice(["young", "young", "final", "merge", "sweep"])
        if act in ("young", "final"):
            queue.write_block(due(queue.next_offset, chance.randint(1, 5)), final=act == "final")
        elif act == "merge":
            queue.merge()
        else:
            queue.sweep()
        print(queue.next_offset, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
