"""Quarantine: where files go that lie in `data/` although no metadata names them. Nothing is deleted.

    queues/<name>/data/<file>  ──▶  queues/<name>/quarantine/<file>.<first 16 digits of its sha256>

A writer that keeps to commit.py leaves at most one such file, at F, the end of the final blocks (D there).
More of them come with a copy that another tool took while a server was at work: it read `meta/` first
and `data/` later. A final block would grow over them one day, and engines that read `data/`
would see elements twice. So each writer looks once, before it writes anything for the first time:

    D              stays: its writer may be alive, and about to name it. But the first block that we write is
                   a final one, whatever its size, so that commit.py adopts D or replaces it (which
                   puts a copy of it here) in the same step. Until then D is the last file of a prefix
    all others     are moved here, the last one first

**A move is copy, then delete, and no store deletes on a condition.** What if another writer puts a
block of its own under that name, between our look and our delete? That cannot be: no writer ever begins
a final block at an offset whose name was moved. It knows them all, since it lists `data/` and then
the quarantine before its first write, and a file is in one of the two at every instant. (A name before F
that is no block's cannot become one's any more.)

**No file is taken that was being committed.** `data/` is listed first and the metadata after that. A file
for an offset is put only when all before it is committed, so it is named, or at F, or a stray.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from coldstore.block.files import BlockFiles
from coldstore.history.block_list import BlockList
from coldstore.layout import metadata, paths
from coldstore.objects.port import Object
from coldstore.shared.errors import Conflict, NotFound

log = logging.getLogger("jjq.coldstore")

_DIGITS: Final = 16  # of the digest: two files of one name are both kept


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a look at `data/` found."""

    avoided: frozenset[int] = frozenset()  # offsets at which no final block may begin
    in_the_way: bool = False  # there is a file where the next final block goes, and nothing names it


def clear(files: BlockFiles, look: Callable[[], BlockList]) -> Cleared:
    """Move files of `data/` that nothing names out of the way; `look` gives the blocks as they are now."""
    files = files.without_cache()
    listed = [info.key for info in files.objects.list(paths.data_folder(files.name))]
    blocks = look()
    for key in reversed([key for key in listed if _is_stray(key, blocks)]):
        _move(files, key)
    _tell_missing(files, blocks, listed)
    due = paths.data(files.name, blocks.final_next)
    claimed = any(files.key(young.path) == due for young in blocks.young)
    kept = (paths.quarantined_first(info.key) for info in files.objects.list(paths.quarantine(files.name)))
    return Cleared(frozenset(first for first in kept if first is not None), due in listed and not claimed)


def keep(files: BlockFiles, key: str, found: Object) -> str:
    """Put a copy of a file of `data/` into quarantine; returns its key there."""
    digest = hashlib.sha256(found.data).hexdigest()[:_DIGITS]
    kept = paths.quarantined(files.name, key, digest)
    try:
        files.objects.put_if_absent(kept, found.data)
    except Conflict:
        if files.objects.head(kept).size != len(found.data):  # cut short by the tool that copied the store
            files.objects.put(kept, found.data)
    return kept


def _is_stray(key: str, blocks: BlockList) -> bool:
    first = paths.data_first(key)
    return first is None or not (first == blocks.final_next or blocks.has_final(first))


def _move(files: BlockFiles, key: str) -> None:
    try:
        kept = keep(files, key, files.objects.get(key))
    except NotFound:
        return  # another writer was quicker
    files.objects.delete(key)
    log.warning("%s was moved to %s: no metadata names it, and engines would read it as history", key, kept)


def _tell_missing(files: BlockFiles, blocks: BlockList, listed: Sequence[str]) -> None:
    """Log which final blocks have no data. Our readers notice when they reach such a block; other engines never do."""
    there = {paths.data_first(key) for key in listed}
    missing = [first for first in blocks.final_firsts() if first not in there and not _exists(files, first)]
    if missing:
        log.error(
            "queue %s: the data of %d final blocks is missing, from block %s on; see `jjq verify`, and restore it",
            files.name,
            len(missing),
            metadata.block_id(missing[0]),
        )


def _exists(files: BlockFiles, first: int) -> bool:
    """Whether a file is there by now: its block may have been committed since `data/` was listed."""
    try:
        files.objects.head(paths.data(files.name, first))
    except NotFound:
        return False
    return True
