"""Listing in the order of whole keys, folder by folder.

A folder's entries are ordered as if every subfolder's name ended in '/', because the keys below it go on with
'/': `a-b/x`, `a.b`, `a/x`, `a0`. A store that sorts bare names has `a/x` first. Directories do, and so does
SeaweedFS. If a listing is to start after a key, SeaweedFS also uses that order, and silently leaves out keys
that are greater. So no store's own order is trusted: `walk` reads one folder at a time, and `in_order` sorts
a folder's pages while they stream by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from coldstore.layout.paths import check_key
from coldstore.objects.port import ObjectInfo
from coldstore.shared.errors import InvalidInput


class FolderEntry(NamedTuple):
    """What a folder holds: an object, or a subfolder, whose name ends in '/' and which has no info."""

    name: str
    info: ObjectInfo | None


# (folder, stem, after): the entries of `folder` whose name starts with `stem`, in order. Those whose
# keys are all up to `after` may be left out; the others may not.
ReadFolder = Callable[[str, str, str], Iterable[FolderEntry]]


def is_key(name: str) -> bool:
    """Whether an object of ours may have this name. Other objects in a store are not listed."""
    try:
        check_key(name)
    except InvalidInput:
        return False
    return True


def walk(read_folder: ReadFolder, prefix: str, after: str) -> Iterator[ObjectInfo]:
    """The objects under `prefix` with a key greater than `after`, in order; skips folders that cannot hold one."""
    if after > prefix and not after.startswith(prefix):
        return iter(())  # beyond the last key that could start so
    slash = prefix.rfind("/") + 1
    return _walk(read_folder, prefix[:slash], prefix[slash:], after)


def _walk(read_folder: ReadFolder, folder: str, stem: str, after: str) -> Iterator[ObjectInfo]:
    for name, info in read_folder(folder, stem, after):
        key = folder + name
        if info is not None:
            if key > after:
                yield info
        elif key > after or after.startswith(key):
            yield from _walk(read_folder, key, "", after)


def in_order(pages: Iterable[Iterable[FolderEntry]]) -> Iterator[FolderEntry]:
    """A folder's entries in order, from pages sorted either way, holding back only what must wait.

    Entries after a page are greater than its last entry in one of the two orders. In both orders, their names cannot
    be less than the bare name of that entry. So all entries up to there may be yielded.
    """
    held: dict[str, FolderEntry] = {}
    last = ""
    for page in pages:
        names = {entry.name: entry for entry in page}
        if not names:
            continue
        if min(names) <= last:
            raise InvalidInput(
                f"the store lists {min(names)!r} after {last!r}: its order cannot be relied on"
            )
        held |= names
        bound = min(max(names).rstrip("/"), max(name.rstrip("/") for name in names))
        for last in sorted(name for name in held if name <= bound):
            yield held.pop(last)
    yield from (held[name] for name in sorted(held))


def start_of(folder: str, after: str) -> str:
    """The greatest key from which listing `folder` in either order misses nothing greater than `after`.

    Let `p` be the shortest beginning of after's name in this folder that a subfolder `p/` could
    follow: up to the first character less than '/', else the whole name. A store that sorts bare
    names has `p` before the name itself, so we start just before `p`, which costs at most a few
    entries too many. Empty means from the folder's beginning.
    """
    name = after[len(folder) :].split("/", 1)[0] if after.startswith(folder) else ""
    p = name[: next((i for i, character in enumerate(name) if character < "/"), len(name))]
    if not p:
        return ""
    # No name has a character beyond 'z', nor one between '.' and '0'.
    before = "." if p[-1] == "0" else chr(min(ord(p[-1]) - 1, ord("z")))
    return f"{folder}{p[:-1]}{before}~"
