"""Verifying a queue: read every file, compare everything with everything, report every defect.

It needs no list of blocks, so it works on a queue that cannot be opened any more, and it changes
nothing. A block whose metadata cannot be read is one defect, not one for every block after it: the
walk goes on with what the next metadata says of itself.

The work is done section by section (sections.py), here one after the other. A job with many processors
does `plan`, `check`, `join_sections` and `finish` by itself, where it likes; only what sections were found to be
travels, and it is small.

**A tail that is cut off is not damage.** A tool that copies a store while a server writes reads one folder
after the other, so the last blocks may have metadata without data, or data without metadata. If that is all
that is wrong, and no final block comes after, the queue is sound up to there: `Report.cut` says where.
Whatever else is wrong is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from coldstore.block.files import BlockFiles
from coldstore.layout import metadata, paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.port import ObjectInfo, ObjectStore
from coldstore.queue.sections import Defect, SectionPlan, SectionReport, broken, check, plan
from coldstore.shared.errors import DataLoss, no_queue

# Called with blocks done, blocks in all, bytes of data read.
Progress = Callable[[int, int, int], None]


Verdict = Literal["ok", "cut off", "damaged"]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of verifying a queue. `chain` is the digest of all its final blocks."""

    queue: str
    blocks: int
    elements: int
    stored_bytes: int
    chain: str
    defects: tuple[Defect, ...]
    notes: tuple[str, ...] = ()  # true and harmless: files that wait to be adopted, merged or swept
    cut: int | None = None  # all that is wrong is that files from this offset on are missing

    @property
    def ok(self) -> bool:
        return not self.defects

    @property
    def verdict(self) -> Verdict:
        if self.ok:
            return "ok"
        return "damaged" if self.cut is None else "cut off"


@dataclass(frozen=True, slots=True)
class MergedSections:
    """All sections of a queue together, before the folder of data is compared with them."""

    report: Report
    end: int  # of the final blocks
    next: int  # of all blocks
    claimed: frozenset[str]


def verify(files: BlockFiles, progress: Progress | None = None) -> Report:
    """Check every file of a queue."""
    files = files.without_cache()
    planned = plan(files)
    done = read = 0

    def tick(stored_bytes: int) -> None:
        nonlocal done, read
        done, read = done + 1, read + stored_bytes
        if progress is not None:
            progress(done, planned.blocks, read)

    parts = [check(files, section, tick) for section in planned.sections]
    return finish(files, join_sections(files, planned, parts))


def unreadable(name: str, loss: DataLoss) -> Report:
    """The report of a queue whose settings cannot be read."""
    defect = Defect("metadata damaged", paths.queue(name), str(loss))
    return Report(name, blocks=0, elements=0, stored_bytes=0, chain="", defects=(defect,))


def without_document(objects: ObjectStore, name: str) -> Report:
    """The report of files under `queues/` that have no queue document; `NotFound` if there are no files of this
    name."""
    place = f"{paths.QUEUES}{name}"
    found = next(objects.list(f"{place}/"), None)
    if found is None:
        if next(objects.list(place), ObjectInfo("", 0, "", 0)).key != place:
            raise no_queue(name)
        defect = Defect("stray file", place, "only folders of queues belong here")
    elif not paths.is_queue_name(name):
        defect = Defect("stray file", found.key, f"it is in a folder {name}, and no queue can have this name")
    else:
        count = sum(1 for info in objects.list(paths.meta_folder(name)) if paths.parse_meta(info.key))
        text = (
            f"metadata of {count} blocks is there, but nothing says what queue it is; restore it from a copy"
        )
        defect = Defect("queue document missing", paths.queue(name), text)
    return Report(name, blocks=0, elements=0, stored_bytes=0, chain="", defects=(defect,))


def not_shown(settings: QueueSettings) -> Report | None:
    """The report of a queue that readers cannot see: it is being imported, or its files are being removed."""
    if settings.importing is not None:
        note = "it is being imported, or an import of it was broken off: nothing of it is shown yet"
    elif settings.deleted is not None and settings.deleted.files != "kept":
        note = "it was deleted: its files are being removed, or are gone"
    else:
        return None
    return Report(settings.name, blocks=0, elements=0, stored_bytes=0, chain="", defects=(), notes=(note,))


def join_sections(files: BlockFiles, planned: SectionPlan, parts: Sequence[SectionReport]) -> MergedSections:
    """Put the parts of all sections together, in their order; reads nothing."""
    defects: list[Defect] = list(planned.defects)
    notes: list[str] = list(planned.notes)
    tip: BlockMetadata | None = None
    last_final: BlockMetadata | None = None
    sure = True
    for section, part in zip(planned.sections, parts, strict=True):
        if part.head is not None and sure:
            defects += broken(files, tip, part.head)
        defects += part.defects
        notes += part.notes
        sure = part.sure and (sure or part.tip is not None)
        tip = part.tip or tip
        if section.kind == "final":
            last_final = tip
    chain = metadata.genesis(files.settings.id) if last_final is None else last_final.chain or ""
    report = Report(
        queue=files.name,
        blocks=sum(part.blocks for part in parts),
        elements=sum(part.elements for part in parts),
        stored_bytes=sum(part.stored_bytes for part in parts),
        chain=chain,
        defects=_once(defects),
        notes=tuple(notes),
    )
    claimed = frozenset(key for part in parts for key in part.claimed)
    return MergedSections(
        report, 0 if last_final is None else last_final.next, 0 if tip is None else tip.next, claimed
    )


def _once(defects: Sequence[Defect]) -> tuple[Defect, ...]:
    """Sections may see the same roll-up, and miss the same metadata."""
    found: dict[tuple[str, str, str], Defect] = {}
    for defect in defects:
        text = "" if defect.kind == "metadata missing" else defect.text
        found.setdefault((defect.kind, defect.key, text), defect)
    return tuple(found.values())


def finish(files: BlockFiles, joined: MergedSections) -> Report:
    """Look for files in `data/` that no block has, and report everything."""
    report = joined.report
    missing = {defect.block for defect in report.defects if defect.kind == "metadata missing"}
    # Data before metadata, as they are written: so what was committed meanwhile has both.
    listed = [info.key for info in files.objects.list(paths.data_folder(files.name))]
    named, ends = _finals_now(files, joined.end)
    defects, notes = list(report.defects), list(report.notes)
    for key in listed:
        first = paths.data_first(key)
        if key in joined.claimed or first in named or first in missing:
            continue
        if first in ends:
            notes.append(f"{key} is not committed: the next owner adopts or replaces it")
        else:
            text = "no metadata names it; engines that read data/ see it"
            defects.append(Defect("stray file", key, text, first))
    notes += [
        f"{info.key} lay in data/ and no metadata named it: it was set aside"
        for info in files.objects.list(paths.quarantine(files.name))
    ]
    cut = _cut(defects, named, max(ends), joined.next)
    return replace(report, defects=tuple(defects), notes=tuple(notes), cut=cut)


def _cut(defects: Sequence[Defect], finals: set[int], final_next: int, end: int) -> int | None:
    """Up to which offset the queue is sound, if files that are missing at its end are all that is wrong."""
    gone = set()
    for defect in defects:
        if defect.block is None:
            return None
        if defect.kind in ("data missing", "metadata missing"):
            gone.add(defect.block)
        elif defect.kind != "stray file" or defect.block < final_next:
            return None
    cut = min([end, *gone])
    return None if not defects or any(first >= cut for first in finals - gone) else cut


def _finals_now(files: BlockFiles, end: int) -> tuple[set[int], set[int]]:
    """Ids of the final blocks as they are now, and where the next one may begin."""
    listed = (paths.parse_meta(info.key) for info in files.objects.list(paths.meta_folder(files.name)))
    named = {key.first for key in listed if key is not None and key.kind == "final"}
    ends = {end}
    if named and max(named) >= end:  # committed since, or it cannot be read
        try:
            last = files.find(max(named), "final")
        except DataLoss:
            last = None
        if last is not None:
            ends.add(last.next)
    return named, ends
