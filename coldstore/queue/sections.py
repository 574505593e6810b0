"""Sections: a queue cut into runs of blocks. Each is verified by itself, in any order, on any machine.

`plan` lists the metadata and cuts it into sections. `check` reads every file of one section and compares
everything with everything. The report of a section is small: verify.py joins it with its neighbours by their
first and last block. Blocks that are committed, merged or swept meanwhile are no defects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.block.fetch import fetch
from coldstore.block.files import BlockFiles, check_digest
from coldstore.history import rollups
from coldstore.history.columns import FIELDS, BlockColumns
from coldstore.history.rollups import Rollup
from coldstore.large.download import check_object
from coldstore.layout import metadata, paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.paths import MetaKey
from coldstore.shared import batch
from coldstore.shared.attachments import objects_in
from coldstore.shared.batch import Content
from coldstore.shared.errors import DataLoss, NotFound

DefectKind = Literal[
    "metadata damaged",  # cannot be read, or describes something else
    "metadata missing",  # a block before this one, or between two, has none
    "link broken",  # does not continue the block before it
    "data missing",
    "data damaged",  # size or digest differ from what was committed
    "data wrong",  # digest is right, yet it does not hold what the metadata says
    "object missing",  # a large object that an element names
    "object damaged",  # its size or digest is not what its name and the element say
    "rollup damaged",  # costs time when the queue is opened, nothing else
    "stray file",  # a file that does not belong there
    "queue document missing",  # the files of a queue are there, `queue.json` is not
]

# Called after each block, with the bytes of its data.
Tick = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong."""

    kind: DefectKind
    key: str
    text: str
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks of one kind with ids from `start` up to `stop`. The last section also covers everything after `stop`."""

    kind: paths.Kind
    start: int
    stop: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class SectionPlan:
    """The sections of a queue, final blocks first, and the defects that its listing alone shows."""

    sections: tuple[Section, ...]
    blocks: int
    defects: tuple[Defect, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SectionReport:
    """The result of checking one section."""

    blocks: int = 0
    elements: int = 0
    stored_bytes: int = 0
    head: BlockMetadata | None = None  # the first block, unless one that cannot be read is before it
    tip: BlockMetadata | None = None  # the last block that can be read
    sure: bool = True  # that no block which cannot be read comes after `tip`
    defects: tuple[Defect, ...] = ()
    notes: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()  # files in data/ that young blocks name


def plan(files: BlockFiles, most: int | None = None) -> SectionPlan:
    """Cut a queue into sections of at most `most` final blocks each; the young ones are one section."""
    keys: list[MetaKey] = []
    strays: list[Defect] = []
    for info in files.objects.list(paths.meta_folder(files.name)):
        key = paths.parse_meta(info.key)
        if key is None:
            strays.append(Defect("stray file", info.key, "no metadata file has such a name"))
        else:
            keys.append(key)
    finals = [key.first for key in keys if key.kind == "final"]
    end = _end(files, finals)
    young = [key.first for key in keys if key.kind == "young"]
    merged = [first for first in young if first < end]
    notes = [f"young block {metadata.block_id(first)} was merged and waits to be swept" for first in merged]
    stop = max([end, *(first + 1 for first in finals[-1:])])
    cuts = [0, *(finals[most::most] if most else ()), stop]
    sections = [Section("final", low, high, last=high == stop) for low, high in pairwise(cuts)]
    if len(young) > len(merged):
        sections.append(Section("young", end, young[-1] + 1))
    return SectionPlan(tuple(sections), len(keys) - len(merged), tuple(strays), tuple(notes))


def _end(files: BlockFiles, finals: list[int]) -> int:
    """The offset after the last final block that can be read."""
    for first in reversed(finals):
        try:
            block = files.find(first, "final")
        except DataLoss:
            continue
        if block is not None:
            return block.next
    return 0


def check(files: BlockFiles, section: Section, tick: Tick = lambda _: None) -> SectionReport:
    """Read every file of a section."""
    return _Check(files.without_cache(), section, tick).run()


@dataclass
class _Check:
    files: BlockFiles
    section: Section
    tick: Tick
    defects: list[Defect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    objects: set[str] = field(default_factory=set)  # large objects that were looked at
    blocks: int = 0
    elements: int = 0
    stored_bytes: int = 0

    def run(self) -> SectionReport:
        keys = list(self._keys())
        head, tip, sure = self._walk(keys)
        return SectionReport(
            self.blocks, self.elements, self.stored_bytes, head, tip, sure,
            tuple(self.defects), tuple(self.notes), tuple(self.claimed),
        )  # fmt: skip

    def _keys(self) -> Iterator[MetaKey]:
        section, name = self.section, self.files.name
        for info in self.files.objects.list(paths.meta_folder(name), paths.meta_before(name, section.start)):
            key = paths.parse_meta(info.key)
            if key is not None and key.first >= section.stop:
                return
            if key is not None and key.kind == section.kind:
                yield key

    def _walk(self, keys: Iterable[MetaKey]) -> tuple[BlockMetadata | None, BlockMetadata | None, bool]:
        head: BlockMetadata | None = None
        tip: BlockMetadata | None = None
        sure = True  # that `tip` is the block before the one at hand
        end = self.section.start
        finals: list[BlockMetadata] = []
        named = set()
        for key in keys:
            named.add(key.first)
            if key.kind == "young" and key.first < end:
                continue  # within another young block: of a writer that came too late
            block = self._metadata(key)
            if block is None:
                sure = False
                continue
            if sure and tip is not None:
                self.defects += broken(self.files, tip, block)
            elif sure:
                head = block
            self._data(block)
            if block.kind == "final":
                finals.append(block)
            else:
                self.claimed.append(self.files.key(block.path))
            tip, end, sure = block, block.next, True
        if self.section.kind == "final":
            self._rollups(finals, named)
        return head, tip, sure

    def _metadata(self, key: MetaKey) -> BlockMetadata | None:
        try:
            return self.files.find(*key)  # None: swept since it was listed
        except DataLoss as loss:
            self._report("metadata damaged", loss.key or "", str(loss), key.first)
            return None

    def _data(self, block: BlockMetadata) -> None:
        key = self.files.key(block.path)
        data = self._read(block, key)
        if data is not None:
            try:
                table = self.files.open(block, data).read(block.first - block.file_first)
                wrong = list(_contradictions(table, block, self.files.settings.content))
                self._objects(table, block)
            except DataLoss as loss:
                wrong = [str(loss)]
            for text in wrong:
                self._report("data wrong", key, text, block.first)
        self.blocks += 1
        self.elements += block.count
        self.stored_bytes += block.stored_bytes
        self.tick(block.stored_bytes)

    def _objects(self, table: pa.Table, block: BlockMetadata) -> None:
        """Read the large objects that elements of a block name, each once in a section."""
        for ref in objects_in(table):
            if ref.sha256 in self.objects:
                continue
            self.objects.add(ref.sha256)
            try:
                check_object(self.files.objects, self.files.name, ref.sha256, ref.size)
            except DataLoss as loss:
                kind: DefectKind = "object missing" if " is gone" in loss.message else "object damaged"
                self._report(kind, loss.key or "", f"an element of block {block.id} names it", block.first)

    def _read(self, block: BlockMetadata, key: str) -> pa.Buffer | None:
        """The bytes that were committed, else None after a report."""
        try:
            fetched = fetch(self.files.objects, key, block.stored_bytes)
            check_digest(fetched, block, key)
            return fetched.data
        except NotFound:
            if block.kind == "final" or self.files.find(block.first, "young") is not None:
                self._report("data missing", key, f"it holds block {block.id}", block.first)
        except DataLoss as loss:
            if self._waits_for_swap(block):
                self.notes.append(f"{key} waits to be replaced by {block.copy}, which is sound")
            else:
                self._report("data damaged", key, str(loss), block.first)
        return None

    def _waits_for_swap(self, block: BlockMetadata) -> bool:
        """Whether the committed bytes are in the copy that commit.py makes of a replaced file."""
        if block.copy is None:
            return False
        try:
            key = self.files.key(block.copy)
            check_digest(fetch(self.files.objects, key, block.stored_bytes), block, block.copy)
        except (NotFound, DataLoss):
            return False
        return True

    def _rollups(self, finals: list[BlockMetadata], named: set[int]) -> None:
        """Compare the rows of roll-ups that lie in this section with its metadata files."""
        ours = BlockColumns().extended(0, finals)
        section = self.section
        for info in self.files.objects.list(paths.rollup_folder(self.files.name)):
            key = paths.parse_rollup(info.key)
            if key is None:
                if section.last:
                    self._report("stray file", info.key, "no roll-up has such a name")
                continue
            if key.next <= section.start or (key.first >= section.stop and not section.last):
                continue
            rollup = rollups.read(self.files.objects, self.files.settings, key)
            if rollup is None:
                self._report("rollup damaged", info.key, "it cannot be read; the next commit repairs it")
                continue
            if not _agree(ours, rollup):
                self._report("rollup damaged", info.key, "it contradicts the metadata files")
            self._missing(rollup, named)

    def _missing(self, rollup: Rollup, named: set[int]) -> None:
        for first in rollup.arrays["first"].tolist():
            inside = first >= self.section.start and (self.section.last or first < self.section.stop)
            if inside and first not in named and not self._is_there(first):
                named.add(first)
                self.defects.append(missing(self.files, first, "final", "a roll-up has it"))

    def _is_there(self, first: int) -> bool:
        """Whether there is metadata by now: the roll-up may be younger than our list."""
        try:
            self.files.objects.head(paths.meta(self.files.name, first, "final"))
        except NotFound:
            return False
        return True

    def _report(self, kind: DefectKind, key: str, text: str, block: int | None = None) -> None:
        self.defects.append(Defect(kind, key, text, block))


def broken(files: BlockFiles, before: BlockMetadata | None, block: BlockMetadata) -> list[Defect]:
    """Defects in the link between a block and the one before it."""
    why = metadata.broken_link(before, block)
    if why is None:
        return []
    due = 0 if before is None else before.next
    if block.first > due:
        return [missing(files, due, block.kind, f"block {block.id} after it is there")]
    return [Defect("link broken", paths.meta(files.name, block.first, block.kind), why, block.first)]


def missing(files: BlockFiles, first: int, kind: paths.Kind, why: str) -> Defect:
    return Defect("metadata missing", paths.meta(files.name, first, kind), why, first)


def _agree(ours: BlockColumns, rollup: Rollup) -> bool:
    """Whether the rows are those of the metadata files, as far as these could be read."""
    count = ours.count
    _, left, right = np.intersect1d(
        ours.array("first", count), rollup.arrays["first"], assume_unique=True, return_indices=True
    )
    return all(bool((ours.array(name, count)[left] == rollup.arrays[name][right]).all()) for name in FIELDS)


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
