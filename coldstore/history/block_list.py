"""The list of a queue's blocks in memory: a snapshot that is searched, never changed.

Final blocks come first, as columns; then the young blocks, which are few. A queue replaces its list after a
commit. A reader that holds an old list can go on reading it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from coldstore.history.columns import BlockColumns
from coldstore.layout import metadata
from coldstore.layout.metadata import BlockMetadata
from coldstore.shared.errors import NotFound, OutOfRange, check


class BlockList(Sequence[BlockMetadata]):
    """Blocks without gap or overlap, from offset 0 on. Safe to share between threads."""

    __slots__ = (
        "_columns",
        "_final_count",
        "_final_next",
        "_firsts",
        "_next",
        "_peak",
        "_queue",
        "_young",
        "_young_firsts",
    )

    def __init__(
        self, queue: str, columns: BlockColumns, final_count: int, young: tuple[BlockMetadata, ...] = ()
    ) -> None:
        self._queue = queue
        self._columns = columns
        self._final_count = final_count
        self._firsts = columns.array("first", final_count)
        self._peak = columns.peak(final_count)
        self._young = young
        self._young_firsts = [block.first for block in young]
        self._final_next = columns.array("last", final_count).item(-1) + 1 if final_count else 0
        self._next = young[-1].next if young else self._final_next

    @classmethod
    def empty(cls, queue: str) -> BlockList:
        return cls(queue, BlockColumns(), 0)

    def __len__(self) -> int:
        return self._final_count + len(self._young)

    @overload
    def __getitem__(self, index: int) -> BlockMetadata: ...
    @overload
    def __getitem__(self, index: slice) -> list[BlockMetadata]: ...
    def __getitem__(self, index: int | slice) -> BlockMetadata | list[BlockMetadata]:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"no block {index} in a list of {len(self)}")
        return self._at(at)

    def __iter__(self) -> Iterator[BlockMetadata]:
        return (self._at(i) for i in range(len(self)))

    def _at(self, index: int) -> BlockMetadata:
        if index < self._final_count:
            return self._columns.row(index, self._queue)
        return self._young[index - self._final_count]

    @property
    def final_count(self) -> int:
        return self._final_count

    @property
    def young(self) -> tuple[BlockMetadata, ...]:
        """The young blocks after the final ones, in order."""
        return self._young

    @property
    def columns(self) -> BlockColumns:
        """The final blocks as columns; only the first `final_count` rows are of this list."""
        return self._columns

    def has_final(self, first: int) -> bool:
        """Whether a final block begins at this offset."""
        at = int(self._firsts.searchsorted(first))
        return at < self._final_count and int(self._firsts[at]) == first

    def final_firsts(self) -> Iterator[int]:
        """First offsets of the final blocks, in order."""
        return iter(self._firsts.tolist())

    @property
    def last_final(self) -> BlockMetadata | None:
        return self._at(self._final_count - 1) if self._final_count else None

    @property
    def last(self) -> BlockMetadata | None:
        return self._at(len(self) - 1) if len(self) else None

    @property
    def first_offset(self) -> int:
        return 0

    @property
    def final_next(self) -> int:
        """First offset after the final blocks: what `data/` holds ends there."""
        return self._final_next

    @property
    def next_offset(self) -> int:
        """First offset after all blocks."""
        return self._next

    def index_for(self, offset: int) -> int:
        """Position in this list of the block that holds `offset`."""
        if not 0 <= offset < self._next:
            raise OutOfRange(
                f"offset {offset} is in no block: they hold 0 up to {self._next} (exclusive)",
                first=0,
                next=self._next,
            )
        if self._young and offset >= self._young_firsts[0]:
            return self._final_count + bisect_right(self._young_firsts, offset) - 1
        return self._firsts.searchsorted(offset, side="right").item() - 1

    def block_for(self, offset: int) -> BlockMetadata:
        """The block that holds `offset`; `OutOfRange` if none does."""
        return self._at(self.index_for(offset))

    def min_timestamp_us(self, offset: int) -> int:
        """The least timestamp in the block that holds `offset`, without building its other metadata."""
        at = self.index_for(offset)
        if at < self._final_count:
            return int(self._columns.array("min_timestamp", self._final_count).item(at))
        return self._young[at - self._final_count].min_timestamp_us

    def block_at(self, timestamp_us: int) -> BlockMetadata | None:
        """The block with the first element that is not older than `timestamp_us`; None if all are older.

        Timestamps need not grow along a queue. So the search runs over the greatest timestamp so far: the first
        block where that reaches `timestamp_us` is the first that holds such an element.
        """
        at = self._peak.searchsorted(timestamp_us, side="left").item()
        if at < self._final_count:
            return self._at(at)
        return next((block for block in self._young if block.max_timestamp_us >= timestamp_us), None)

    def index_of(self, first: int) -> int:
        """Position in this list of the block with this id; `NotFound` if no block starts there."""
        at = self.index_for(first) if 0 <= first < self.next_offset else None
        if at is None or self._at(at).first != first:
            raise NotFound(f"no block {metadata.block_id(max(first, 0))}: list the blocks to see their ids")
        return at

    def next_block(self, first: int) -> int | None:
        """Id of the block after the one with id `first`; None after the last."""
        at = self.index_of(first)
        return self._at(at + 1).first if at + 1 < len(self) else None

    def previous_block(self, first: int) -> int | None:
        """Id of the block before the one with id `first`; None before the first."""
        at = self.index_of(first)
        return self._at(at - 1).first if at else None

    def with_young(self, block: BlockMetadata) -> BlockList:
        """This list and one more young block."""
        check(metadata.broken_link(self.last, block) is None, f"young block {block.id} does not follow")
        return BlockList(self._queue, self._columns, self._final_count, (*self._young, block))

    def with_finals(self, blocks: Sequence[BlockMetadata]) -> BlockList:
        """This list and more final blocks, which take the place of the young ones that they cover."""
        before = self.last_final
        for block in blocks:
            check(metadata.broken_link(before, block) is None, f"final block {block.id} does not follow")
            before = block
        covered = before.next if before is not None else 0
        young = tuple(block for block in self._young if block.first >= covered)
        check(not young or young[0].first == covered, f"final blocks end at {covered}, within a young block")
        columns = self._columns.extended(self._final_count, blocks)
        return BlockList(self._queue, columns, self._final_count + len(blocks), young)
