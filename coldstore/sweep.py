"""Sweeping: young files whose elements are in final blocks, orphans beside them, superseded roll-ups.

What may go, and only after the grace period, so that a job that listed files before can finish:

    a young block     when final blocks hold all of its offsets; its metadata first, then its data, so
                      that a crash in between leaves an orphan and never metadata without data
    a young data file that no metadata names, when its first offset is inside a final block
    a roll-up         when a longer one that covers it is there and sound

The final blocks in question must be *proven* at that moment: metadata in place and as listed, data
file in place with the committed digest. The period counts from their commit. Nothing goes because
metadata for it is missing or damaged: a young file at or after the end of the final blocks always
stays, and so does everything whose metadata cannot be read. The copies of replaced files (commit.py)
are named by final metadata and stay for good; they are as rare as owners that die while writing.
"""

from __future__ import annotations

from dataclasses import dataclass

from coldstore import failpoint, index, paths
from coldstore.blocks import BlockList
from coldstore.errors import DataLoss, NotFound
from coldstore.metadata import BlockMetadata
from coldstore.objects.port import ObjectInfo
from coldstore.paths import RollupKey
from coldstore.shelf import Shelf, check_digest


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep deleted, and how many files it left because something about them is not right."""

    young: int = 0
    orphans: int = 0
    rollups: int = 0
    doubtful: int = 0


def sweep(shelf: Shelf, blocks: BlockList, before_us: int) -> Swept:
    """Delete what was superseded before `before_us`; `blocks` is the queue as it is now."""
    return _Sweep(shelf.without_cache(), blocks, before_us).run()


class _Sweep:
    def __init__(self, shelf: Shelf, blocks: BlockList, before_us: int) -> None:
        self._shelf = shelf
        self._objects = shelf.objects
        self._blocks = blocks
        self._before_us = before_us
        self._proofs: dict[int, bool] = {}
        self._young = self._orphans = self._doubtful = 0

    def run(self) -> Swept:
        for info in self._objects.list(paths.young_folder(self._shelf.name)):
            first = paths.young_first(info.key)
            if first is not None and first < self._blocks.final_next and info.modified_us < self._before_us:
                self._judge(info.key, first)
        return Swept(self._young, self._orphans, self._sweep_rollups(), self._doubtful)

    def _judge(self, key: str, first: int) -> None:
        """Decide on a young data file that starts below the end of the final blocks."""
        try:
            young = self._shelf.find(first, "young")
            if young is not None and self._shelf.key(young.path) == key:
                self._sweep_young(young)
            else:
                self._sweep_orphan(key, first)
        except DataLoss:
            self._doubtful += 1

    def _sweep_young(self, young: BlockMetadata) -> None:
        if young.next > self._blocks.final_next:
            return  # of a deposed owner, and longer than what is final yet: later
        low, high = self._blocks.index_for(young.first), self._blocks.index_for(young.last)
        if not all(self._proven(block) for block in self._blocks[low : high + 1]):
            return
        self._objects.delete(paths.meta(self._shelf.name, young.first, "young"))
        failpoint.reach("sweep.metadata_deleted")
        self._objects.delete(self._shelf.key(young.path))
        failpoint.reach("sweep.data_deleted")
        self._young += 1

    def _sweep_orphan(self, key: str, first: int) -> None:
        final = self._blocks.block_for(first)
        if not self._proven(final):
            return
        copy = self._shelf.committed(final).copy
        if copy is not None and self._shelf.key(copy) == key:
            return
        self._objects.delete(key)
        failpoint.reach("sweep.data_deleted")
        self._orphans += 1

    def _proven(self, block: BlockMetadata) -> bool:
        """Whether a final block is really there, whole, and has been for the grace period."""
        if block.first not in self._proofs:
            self._proofs[block.first] = self._prove(block)
        return self._proofs[block.first]

    def _prove(self, block: BlockMetadata) -> bool:
        info = self._shelf.info(block)
        if info is None or info.modified_us >= self._before_us:
            return False
        key = self._shelf.key(block.path)
        try:
            self._shelf.committed(block)
            check_digest(self._objects.get(key).data, block, key)
        except (DataLoss, NotFound):
            self._doubtful += 1
            return False
        return True

    def _sweep_rollups(self) -> int:
        listed = self._objects.list(paths.rollup_folder(self._shelf.name))
        found = [(key, info) for info in listed if (key := paths.parse_rollup(info.key)) is not None]
        found.sort(key=lambda item: (item[0].first, -item[0].next))  # a longer one before those inside it
        swept = 0
        cover: RollupKey | None = None
        for key, info in found:
            if cover is not None and key.next <= cover.next:
                if info.modified_us < self._before_us:
                    self._objects.delete(info.key)
                    swept += 1
            elif self._covers(key, info):
                cover = key
        return swept

    def _covers(self, key: RollupKey, info: ObjectInfo) -> bool:
        return info.modified_us < self._before_us and (
            index.read(self._objects, self._shelf.settings, key) is not None
        )
