"""Load the list of a queue's blocks: from roll-ups, then from the metadata files written since.

No step trusts a listing alone. Every final block must continue the chain of the one before it, and every
young block must start where the one before it ends. So a metadata file that is missing in the middle gives
`DataLoss` instead of a shorter queue. Blocks may be committed, merged and swept during a load. So a gap is
looked at again, and is reported only if nothing has changed in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from coldstore.block.files import BlockFiles
from coldstore.history import rollups
from coldstore.history.block_list import BlockList
from coldstore.history.columns import BlockColumns
from coldstore.history.rollups import Run
from coldstore.layout import metadata, paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.paths import MetaKey, RollupKey
from coldstore.shared.errors import DataLoss

_LOOKS: Final = 5  # at a queue that others change during the load


@dataclass(frozen=True, slots=True)
class Loaded:
    """A queue's blocks, and the roll-ups that helped to load them."""

    blocks: BlockList
    rolled: frozenset[Run]


class _Gap(Exception):
    """A block is missing between others: perhaps merged during the load, perhaps lost."""

    def __init__(self, files: BlockFiles, missing: MetaKey, seen: BlockMetadata | None = None) -> None:
        key = paths.meta(files.name, *missing)
        after = "" if seen is None else f", though block {seen.id} after it is there"
        self.loss = DataLoss(f"{key} is missing{after}; restore it from a copy", key=key, block=missing.first)
        super().__init__(str(self.loss))


def load(files: BlockFiles) -> Loaded:
    """All blocks of a queue."""
    columns, rolled = _load_index(files)
    blocks = BlockList(files.settings.id, columns, columns.count)
    return Loaded(reload(files, blocks), frozenset(rolled))


def reload(files: BlockFiles, known: BlockList) -> BlockList:
    """`known` with the blocks that were committed since; reads only new metadata."""
    seen: list[MetaKey] = []
    for looks_left in reversed(range(_LOOKS)):
        keys = list(_list_metadata(files, known.final_next))
        try:
            return _extend(files, known, keys)
        except _Gap as gap:
            if keys == seen or not looks_left:
                raise gap.loss from None
            seen = keys
    raise AssertionError("the last look returns or raises")


def _list_metadata(files: BlockFiles, start: int, stop: int | None = None) -> Iterator[MetaKey]:
    """Keys of metadata of blocks that start at `start` or later (and before `stop`), in order."""
    folder = paths.meta_folder(files.name)
    for info in files.objects.list(folder, after=paths.meta_before(files.name, start)):
        key = paths.parse_meta(info.key)
        if key is None:
            continue  # not ours; verify reports it
        if stop is not None and key.first >= stop:
            return
        yield key


def _extend(files: BlockFiles, known: BlockList, keys: Sequence[MetaKey]) -> BlockList:
    finals = _read_finals(files, known.last_final, [key for key in keys if key.kind == "final"])
    tip = finals[-1] if finals else known.last_final
    end = 0 if tip is None else tip.next
    young_keys = [key for key in keys if key.kind == "young" and key.first >= end]
    young = _link_young(files, tip, _read_listed(files, young_keys, known.young))
    columns = known.columns.extended(known.final_count, finals)
    return BlockList(files.settings.id, columns, known.final_count + len(finals), young)


def _read_listed(
    files: BlockFiles, keys: Sequence[MetaKey], known: Sequence[BlockMetadata] = ()
) -> list[BlockMetadata]:
    """The metadata with these keys, all of which were listed; those known are not read again."""
    have = {block.first: block for block in known}
    fetched = files.find_all(key for key in keys if key.first not in have)
    for key, block in zip((key for key in keys if key.first not in have), fetched, strict=True):
        if block is None:
            raise _Gap(files, key)  # deleted since it was listed
        have[key.first] = block
    return [have[key.first] for key in keys]


def _read_finals(
    files: BlockFiles, before: BlockMetadata | None, keys: Sequence[MetaKey]
) -> list[BlockMetadata]:
    """The final blocks with these keys, each linked to the one before it."""
    finals = _read_listed(files, keys)
    for block in finals:
        expected = 0 if before is None else before.next
        if block.first > expected:
            raise _Gap(files, MetaKey(expected, "final"), block)
        _check_link(files, before, block)
        before = block
    return finals


def _link_young(
    files: BlockFiles, tip: BlockMetadata | None, found: Sequence[BlockMetadata]
) -> tuple[BlockMetadata, ...]:
    """The young blocks `found`, each linked to the one before it."""
    for block in found:
        end = 0 if tip is None else tip.next
        if block.first > end:
            raise _Gap(files, MetaKey(end, "young"), block)
        _check_link(files, tip, block)
        tip = block
    return tuple(found)


def _check_link(files: BlockFiles, before: BlockMetadata | None, block: BlockMetadata) -> None:
    broken = metadata.broken_link(before, block)
    if broken is not None:
        key = paths.meta(files.name, block.first, block.kind)
        raise DataLoss(f"{key} does not continue the queue: {broken}", key=key, block=block.first)


def _load_index(files: BlockFiles) -> tuple[BlockColumns, set[Run]]:
    """The final blocks that roll-ups cover, with gaps between roll-ups filled from metadata files."""
    keys = _list_rollups(files)
    columns = _Assembly(files)
    while True:
        if any(columns.take(key) for key in keys if key.first == columns.end):
            continue
        later = [key.first for key in keys if key.first > columns.end]
        if not later:
            return columns.concat(), columns.rolled
        columns.bridge(min(later))
        keys = [key for key in keys if key.first >= columns.end]


def _list_rollups(files: BlockFiles) -> list[RollupKey]:
    """Keys of all roll-ups; of those with one start, the longest first."""
    listed = files.objects.list(paths.rollup_folder(files.name))
    keys = [key for key in (paths.parse_rollup(info.key) for info in listed) if key is not None]
    return sorted(keys, key=lambda key: (key.first, -key.next))


class _Assembly:
    """Final blocks from roll-ups and metadata files, put together from the first one on."""

    def __init__(self, files: BlockFiles) -> None:
        self._files = files
        self._parts: list[BlockColumns] = []
        self._rows = 0
        self._tip: BlockMetadata | None = None
        self.rolled: set[Run] = set()

    @property
    def end(self) -> int:
        return 0 if self._tip is None else self._tip.next

    def take(self, key: RollupKey) -> bool:
        """Go on with this roll-up, if it is sound and continues what we have."""
        settings = self._files.settings
        rollup = rollups.read(self._files.objects, settings, key)
        chain = metadata.genesis(settings.id) if self._tip is None else self._tip.chain
        if rollup is None or rollup.row != self._rows or rollup.before != chain:
            return False
        self.rolled.add(Run(self._rows, self._rows + rollup.count))
        self._add(BlockColumns(rollup.arrays))
        return True

    def bridge(self, stop: int) -> None:
        """Go on with metadata files of the final blocks that start before `stop`."""
        keys = [key for key in _list_metadata(self._files, self.end, stop) if key.kind == "final"]
        try:
            if not keys:
                raise _Gap(self._files, MetaKey(self.end, "final"))
            finals = _read_finals(self._files, self._tip, keys)
        except _Gap as gap:  # final metadata is never deleted, so a second look would find the same
            raise gap.loss from None
        self._add(BlockColumns().extended(0, finals))

    def _add(self, columns: BlockColumns) -> None:
        self._parts.append(columns)
        self._rows += columns.count
        self._tip = columns.row(columns.count - 1, self._files.settings.id)

    def concat(self) -> BlockColumns:
        return self._parts[0] if len(self._parts) == 1 else BlockColumns.concat(self._parts)
