"""Sweeping: young files whose elements are in final blocks, orphans beside them, superseded roll-ups.

What may go, and only after the grace period, so that a job that listed files before can finish:

    a young block     when final blocks hold all of its offsets; its metadata first, then its data, so
                      that a crash in between leaves an orphan and never metadata without data
    a young data file that no metadata names, when its first offset is inside a final block
    a claim           (commit.py) that its writer did not come to delete, when it is covered likewise
    a roll-up         when a longer one that covers it is there and sound

The final blocks in question must be *proven* at that moment: metadata in place and as listed, data
file in place with the committed digest. The period counts from their commit. Nothing goes because
metadata for it is missing or damaged: a young file at or after the end of the final blocks always
stays, and so does everything whose metadata cannot be read. The copies of replaced files (commit.py)
are named by final metadata and stay for good; they are as rare as owners that die while writing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coldstore.block.fetch import fetch
from coldstore.block.files import BlockFiles, check_digest
from coldstore.history import rollups as index
from coldstore.history.block_list import BlockList
from coldstore.layout import paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.paths import RollupKey
from coldstore.objects.port import ObjectInfo
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import DataLoss, NotFound


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep deleted, and how many files it left because something about them is not right."""

    young: int = 0
    orphans: int = 0
    rollups: int = 0
    doubtful: int = 0


def sweep(files: BlockFiles, blocks: BlockList, before_us: int) -> Swept:
    """Delete what was superseded before `before_us`; `blocks` is the queue as it is now."""
    return _Sweep(files.without_cache(), blocks, before_us).run()


class _Sweep:
    def __init__(self, files: BlockFiles, blocks: BlockList, before_us: int) -> None:
        self._files = files
        self._objects = files.objects
        self._blocks = blocks
        self._before_us = before_us
        self._live = {
            files.key(young.path) for young in blocks.young
        }  # claims may name files that begin earlier
        self._proofs: dict[int, bool] = {}
        self._young = self._orphans = self._doubtful = 0

    def run(self) -> Swept:
        for info in self._objects.list(paths.young_folder(self._files.name)):
            first = paths.young_first(info.key)
            if first is not None and self._may_go(first, info):
                self._judge_file(info.key, first)
        for info in self._recent_metadata():
            key = paths.parse_meta(info.key)
            if key is not None and key.kind == "young" and self._may_go(key.first, info):
                self._judge_claim(key.first)
        return Swept(self._young, self._orphans, self._sweep_rollups(), self._doubtful)

    def _may_go(self, first: int, info: ObjectInfo) -> bool:
        return first < self._blocks.final_next and info.modified_us < self._before_us

    def _recent_metadata(self) -> Iterator[ObjectInfo]:
        """Metadata from a little before the end of the final blocks: claims are left where writers died."""
        recent = max(0, self._blocks.final_count - limits.ROLLUP_BLOCKS)
        start = self._blocks[recent].first if self._blocks else 0
        folder = paths.meta_folder(self._files.name)
        return self._objects.list(folder, after=paths.meta_before(self._files.name, start))

    def _judge_file(self, key: str, first: int) -> None:
        """Decide on a young data file that starts below the end of the final blocks."""
        try:
            young = self._files.find(first, "young")
            if key in self._live or self._is_copy(key, first):
                return
            if young is not None and self._files.key(young.path) == key:
                self._sweep_young(young)
            elif self._proven(self._blocks.block_for(first)):
                self._objects.delete(key)
                failpoint.reach("sweep.data_deleted")
                self._orphans += 1
        except DataLoss:
            self._doubtful += 1

    def _judge_claim(self, first: int) -> None:
        try:
            young = self._files.find(first, "young")
            if young is None:
                return
            claim = young.is_claim or self._is_copy(self._files.key(young.path), first)
            if claim and self._covered(young):
                self._objects.delete(paths.meta(self._files.name, first, "young"))
                failpoint.reach("sweep.metadata_deleted")
                self._orphans += 1
        except DataLoss:
            self._doubtful += 1

    def _is_copy(self, key: str, first: int) -> bool:
        """Whether final metadata names this file as the copy of a replaced one: those stay."""
        final = self._files.find(first, "final")
        return final is not None and final.copy is not None and self._files.key(final.copy) == key

    def _sweep_young(self, young: BlockMetadata) -> None:
        if not self._covered(young):
            return
        self._objects.delete(paths.meta(self._files.name, young.first, "young"))
        failpoint.reach("sweep.metadata_deleted")
        self._objects.delete(self._files.key(young.path))
        failpoint.reach("sweep.data_deleted")
        self._young += 1

    def _covered(self, young: BlockMetadata) -> bool:
        """Whether proven final blocks hold all offsets of a young one."""
        if young.next > self._blocks.final_next:
            return False  # of a deposed owner, and longer than what is final yet: later
        low, high = self._blocks.index_for(young.first), self._blocks.index_for(young.last)
        return all(self._proven(block) for block in self._blocks[low : high + 1])

    def _proven(self, block: BlockMetadata) -> bool:
        """Whether a final block is really there, whole, and has been for the grace period."""
        if block.first not in self._proofs:
            self._proofs[block.first] = self._prove(block)
        return self._proofs[block.first]

    def _prove(self, block: BlockMetadata) -> bool:
        info = self._files.info(block)
        if info is None or info.modified_us >= self._before_us:
            return False
        key = self._files.key(block.path)
        try:
            self._files.committed(block)
            check_digest(fetch(self._objects, key, block.stored_bytes), block, key)
        except (DataLoss, NotFound):
            self._doubtful += 1
            return False
        return True

    def _sweep_rollups(self) -> int:
        listed = self._objects.list(paths.rollup_folder(self._files.name))
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
            index.read(self._objects, self._files.settings, key) is not None
        )
