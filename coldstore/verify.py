"""Verifying a queue: read every file, compare everything with everything, report every defect.

It needs no list of blocks, so it works on a queue that cannot be opened any more, and it changes
nothing. A block whose metadata cannot be read is one defect, not one for every block after it: the
walk goes on with what the next metadata says of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coldstore import batch, index, metadata, paths
from coldstore.batch import Content
from coldstore.columns import FIELDS, Columns
from coldstore.errors import DataLoss, NotFound
from coldstore.fetch import fetch
from coldstore.index import Rollup
from coldstore.metadata import BlockMetadata
from coldstore.paths import MetaKey
from coldstore.shelf import Shelf, check_digest

# Called with blocks done, blocks in all, bytes of data read.
Progress = Callable[[int, int, int], None]

Kind = Literal[
    "metadata damaged",  # cannot be read, or describes something else
    "metadata missing",  # a block before this one, or between two, has none
    "link broken",  # does not continue the block before it
    "data missing",
    "data damaged",  # size or digest differ from what was committed
    "data wrong",  # digest is right, yet it does not hold what the metadata says
    "rollup damaged",  # costs time when the queue is opened, nothing else
    "stray file",  # a file that does not belong there
]


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong."""

    kind: Kind
    key: str
    text: str
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a queue was found to be. `chain` stands for all of its final blocks."""

    queue: str
    blocks: int
    elements: int
    stored_bytes: int
    chain: str
    defects: tuple[Defect, ...]
    notes: tuple[str, ...] = ()  # true and harmless: files that wait to be adopted, merged or swept

    @property
    def ok(self) -> bool:
        return not self.defects


def verify(shelf: Shelf, progress: Progress | None = None) -> Report:
    """Check every file of a queue."""
    return _Walk(shelf.without_cache(), progress).run()


class _Walk:
    def __init__(self, shelf: Shelf, progress: Progress | None) -> None:
        self._shelf = shelf
        self._objects = shelf.objects
        self._progress = progress
        self._defects: list[Defect] = []
        self._notes: list[str] = []
        self._missing: set[int] = set()
        self._claimed: set[str] = set()  # files in data/ that young blocks name
        self._finals = Columns()
        self._chain = metadata.genesis(shelf.settings.id)
        self._blocks = self._elements = self._bytes = self._total = 0

    def run(self) -> Report:
        keys = self._list_metadata()
        tip = self._walk_finals([key for key in keys if key.kind == "final"])
        self._walk_young([key for key in keys if key.kind == "young"], tip)
        named = {key.first for key in keys if key.kind == "final"}
        self._check_data_folder(named, tip)
        self._check_rollups(named)
        return Report(
            queue=self._shelf.name,
            blocks=self._blocks,
            elements=self._elements,
            stored_bytes=self._bytes,
            chain=self._chain,
            defects=tuple(self._defects),
            notes=tuple(self._notes),
        )

    def _list_metadata(self) -> list[MetaKey]:
        keys = []
        for info in self._objects.list(paths.meta_folder(self._shelf.name)):
            key = paths.parse_meta(info.key)
            if key is None:
                self._report("stray file", info.key, "no metadata file has such a name")
            else:
                keys.append(key)
        self._total = len(keys)
        return keys

    def _walk_finals(self, keys: Iterable[MetaKey]) -> BlockMetadata | None:
        tip: BlockMetadata | None = None
        sure = True  # that `tip` is the block before the one at hand
        for key in keys:
            block = self._read_metadata(key)
            if block is None:
                sure = False
                continue
            if sure:
                self._check_link(tip, block)
            self._finals = self._finals.extended(self._finals.count, [block])
            self._check_data(block)
            tip, sure = block, True
        self._chain = self._chain if tip is None else tip.chain or ""
        return tip

    def _read_metadata(self, key: MetaKey) -> BlockMetadata | None:
        try:
            block = self._shelf.find(*key)
        except DataLoss as loss:
            self._report("metadata damaged", loss.key or "", str(loss), key.first)
            return None
        if block is None:  # swept since it was listed
            self._total -= 1
        return block

    def _check_link(self, before: BlockMetadata | None, block: BlockMetadata) -> None:
        broken = metadata.broken_link(before, block)
        if broken is None:
            return
        due = 0 if before is None else before.next
        if block.first > due:
            self._report_missing(due, block.kind, f"block {block.id} after it is there")
        else:
            key = paths.meta(self._shelf.name, block.first, block.kind)
            self._report("link broken", key, broken, block.first)

    def _walk_young(self, keys: Iterable[MetaKey], tip: BlockMetadata | None) -> None:
        end = 0 if tip is None else tip.next
        sure = not any(defect.kind == "metadata damaged" for defect in self._defects)
        for key in keys:
            if key.first < end:
                self._notes.append(
                    f"young block {metadata.block_id(key.first)} was merged and waits to be swept"
                )
                self._total -= 1
                continue
            block = self._read_metadata(key)
            if block is None:
                sure = False
                continue
            if sure:
                self._check_link(tip, block)
            self._check_data(block)
            self._claimed.add(self._shelf.key(block.path))
            tip, end, sure = block, block.next, True

    def _check_data(self, block: BlockMetadata) -> None:
        key = self._shelf.key(block.path)
        data = self._read_data(block, key)
        if data is not None:
            try:
                table = self._shelf.open(block, data).read(block.first - block.file_first)
                wrong = list(_contradictions(table, block, self._shelf.settings.content))
            except DataLoss as loss:
                wrong = [str(loss)]
            for text in wrong:
                self._report("data wrong", key, text, block.first)
        self._blocks += 1
        self._elements += block.count
        self._bytes += block.stored_bytes
        if self._progress is not None:
            self._progress(self._blocks, self._total, self._bytes)

    def _read_data(self, block: BlockMetadata, key: str) -> pa.Buffer | None:
        """The bytes that were committed, else None after a report."""
        try:
            fetched = fetch(self._objects, key, block.stored_bytes)
            check_digest(fetched, block, key)
            return fetched.data
        except NotFound:
            self._report("data missing", key, f"it holds block {block.id}", block.first)
        except DataLoss as loss:
            if self._waits_for_swap(block):
                self._notes.append(f"{key} waits to be replaced by {block.copy}, which is sound")
            else:
                self._report("data damaged", key, str(loss), block.first)
        return None

    def _waits_for_swap(self, block: BlockMetadata) -> bool:
        """Whether the committed bytes are in the copy that commit.py makes of a replaced file."""
        if block.copy is None:
            return False
        try:
            check_digest(
                fetch(self._objects, self._shelf.key(block.copy), block.stored_bytes), block, block.copy
            )
        except (NotFound, DataLoss):
            return False
        return True

    def _check_data_folder(self, named: set[int], tip: BlockMetadata | None) -> None:
        end = 0 if tip is None else tip.next
        for info in self._objects.list(paths.data_folder(self._shelf.name)):
            first = paths.data_first(info.key)
            if info.key in self._claimed:
                continue
            if first == end:
                self._notes.append(f"{info.key} is not committed: the next owner adopts or replaces it")
            elif first not in named and first not in self._missing:
                self._report(
                    "stray file", info.key, "no metadata names it; engines that read data/ see it", first
                )

    def _check_rollups(self, named: set[int]) -> None:
        missing: set[int] = set()
        for info in self._objects.list(paths.rollup_folder(self._shelf.name)):
            key = paths.parse_rollup(info.key)
            if key is None:
                self._report("stray file", info.key, "no roll-up has such a name")
                continue
            rollup = index.read(self._objects, self._shelf.settings, key)
            if rollup is None:
                self._report("rollup damaged", info.key, "it cannot be read; the next commit repairs it")
                continue
            if not self._agrees(rollup):
                self._report("rollup damaged", info.key, "it contradicts the metadata files")
            missing.update(first for first in rollup.arrays["first"].tolist() if first not in named)
        for first in sorted(missing - self._missing):
            self._report_missing(first, "final", "a roll-up has it")

    def _agrees(self, rollup: Rollup) -> bool:
        """Whether the rows are those of the metadata files, as far as these could be read."""
        count = self._finals.count
        _, ours, theirs = np.intersect1d(
            self._finals.array("first", count),
            rollup.arrays["first"],
            assume_unique=True,
            return_indices=True,
        )
        return all(
            bool((self._finals.array(name, count)[ours] == rollup.arrays[name][theirs]).all())
            for name in FIELDS
        )

    def _report_missing(self, first: int, kind: paths.Kind, why: str) -> None:
        self._missing.add(first)
        self._report("metadata missing", paths.meta(self._shelf.name, first, kind), why, first)

    def _report(self, kind: Kind, key: str, text: str, block: int | None = None) -> None:
        self._defects.append(Defect(kind, key, text, block))


def _contradictions(table: pa.Table, block: BlockMetadata, content: Content) -> Iterator[str]:
    """Where the elements are not what the metadata says."""
    if not table.schema.equals(batch.schema(content)):
        yield f"its columns are not those of a {content} queue"
        return
    offsets = table.column("offset").to_numpy()
    if not np.array_equal(offsets, np.arange(block.first, block.next)):
        yield f"its offsets are not {block.first} to {block.last}, each once and in order"
    times = pc.min_max(table.column("timestamp").cast(pa.int64())).as_py()
    if (times["min"], times["max"]) != (block.min_timestamp_us, block.max_timestamp_us):
        yield "its timestamps are not within those of the metadata"
