"""Sweeping uploads: objects that were uploaded and that no element named within the grace period.

Only objects with a note are looked at (notes.py), so a sweep costs what was left behind, whatever the queue holds. An
object goes when its note is old and no element from the note's offset on names it, in blocks or in the journal: the
caller says which are named. Then the note is marked, the parts of uploads that were broken off are aborted, the object
is deleted, and the note last. A note whose object turns out to be named is removed, and the object stays for good. A
sweep that was broken off is finished by the next one. Nothing goes because a note cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from coldstore.large.notes import UploadNote, UploadNotes
from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss

# From an offset on: the digests of all objects that elements name, wherever the elements are.
Named = Callable[[int], Collection[str]]


@dataclass(frozen=True, slots=True)
class SweptUploads:
    """Uploads that were removed, notes of objects that turned out to be named, notes that cannot be read."""

    removed: int = 0
    named: int = 0
    doubtful: int = 0


def old_uploads(objects: ObjectStore, queue: str, before_us: int) -> bool:
    """Whether there is a note that a sweep would look at."""
    return any(
        info.modified_us < before_us and paths.upload_sha256(info.key) is not None
        for info in objects.list(paths.upload_folder(queue))
    )


def sweep_uploads(
    objects: ObjectStore, queue: str, clock: Clock, before_us: int, named: Named
) -> SweptUploads:
    """Remove what was last renewed before `before_us` and is named by no element."""
    notes = UploadNotes(objects, queue, clock)
    old: dict[str, UploadNote] = {}
    doubtful = 0
    for info in objects.list(paths.upload_folder(queue)):
        sha256 = paths.upload_sha256(info.key)
        if sha256 is None or info.modified_us >= before_us:
            continue
        try:
            note = notes.read(sha256)
        except DataLoss:
            doubtful += 1
            continue
        if note is not None and note.renewed_us < before_us:
            old[sha256] = note
    if not old:
        return SweptUploads(doubtful=doubtful)
    kept = named(min(note.from_offset for note in old.values()))
    removed = 0
    for sha256, note in old.items():
        if sha256 in kept:
            notes.forget(sha256)
        elif note.sweeping or notes.mark(sha256, note):
            notes.abort_uploads(sha256)
            objects.delete(paths.large(queue, sha256))
            failpoint.reach("object.swept")
            notes.forget(sha256)
            removed += 1
    return SweptUploads(removed, sum(sha256 in kept for sha256 in old), doubtful)
