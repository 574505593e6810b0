"""What the queues of this node cost: how much they are used, and how much they hold.

`Traffic` counts the elements that each queue serves, and smooths the rates over about a minute. `Loads` adds the bytes
of history and memory that the engine knows. Heartbeats tell the other nodes the total, plans are made of the loads of
single queues. Both only look things up in memory: no requests.
"""

from __future__ import annotations

from typing import Final

from coldstore.history.block_list import BlockList
from coldstore.shared.clock import Clock
from hotstore.engine import Engine
from hotstore.queue.queue import HotQueue
from sharding.documents.load import Load

_SMOOTHING_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 1.0
_NOTHING: Final = 0.01  # elements a second below which a queue counts as silent


class Traffic:
    """Counts cheaply; works out rates when asked, every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._rates: dict[str, float] = {}
        self._since = clock.monotonic()

    def count(self, queue: str, elements: int) -> None:
        self._counts[queue] = self._counts.get(queue, 0) + elements

    def rates(self) -> dict[str, float]:
        """Elements a second of every queue that is not silent."""
        now = self._clock.monotonic()
        seconds = now - self._since
        if seconds < _STEP_SECONDS:
            return self._rates
        counts, self._counts, self._since = self._counts, {}, now
        share = min(1.0, seconds / _SMOOTHING_SECONDS)
        rates = {
            queue: (1 - share) * self._rates.get(queue, 0.0) + share * counts.get(queue, 0) / seconds
            for queue in self._rates.keys() | counts.keys()
        }
        self._rates = {queue: rate for queue, rate in rates.items() if rate >= _NOTHING}
        return self._rates


class Loads:
    """By queue. What was not opened since the start counts with what is known of it."""

    def __init__(self, engine: Engine, traffic: Traffic) -> None:
        self._engine = engine
        self._traffic = traffic
        self._histories: dict[str, tuple[BlockList, int]] = {}  # counted for this list of blocks

    def of(self, queue: str) -> Load:
        found = self._engine.registry.queues.get(queue)
        if found is None:
            return Load()
        return Load(
            self._whole(found),
            self._traffic.rates().get(queue, 0.0),
            found.unsealed_bytes + self._engine.blocks.bytes_of(found),
        )

    def total(self) -> Load:
        """All of them together."""
        registry, blocks = self._engine.registry, self._engine.blocks
        rates = self._traffic.rates()
        queues = registry.queues.values()
        return Load(
            sum(self._whole(queue) for queue in queues),
            sum(rates.get(queue.name, 0.0) for queue in queues),
            self._engine.usage.unsealed_bytes + blocks.bytes,
            len(queues),
        )

    def _whole(self, queue: HotQueue) -> int:
        if queue.cold is None:
            return 0
        blocks = queue.cold.list_blocks()
        known = self._histories.get(queue.name)
        if known is None or known[0] is not blocks:
            known = self._histories[queue.name] = (blocks, _between(blocks, 0, blocks.next_offset))
        return known[1]

    def history_bytes(self, queue: str, first: int, end: int) -> int:
        """Bytes of the blocks between two offsets."""
        found = self._engine.registry.queues.get(queue)
        return 0 if found is None or found.cold is None else _between(found.cold.list_blocks(), first, end)


def _between(blocks: BlockList, first: int, end: int) -> int:
    last = min(end, blocks.next_offset)
    if first >= last:
        return 0
    low, high = blocks.index_for(first), blocks.index_for(last - 1) + 1
    finals = blocks.columns.array("raw_bytes", blocks.final_count)[low:high].sum()
    young = blocks.young[max(0, low - blocks.final_count) : max(0, high - blocks.final_count)]
    return int(finals) + sum(block.raw_bytes for block in young)
