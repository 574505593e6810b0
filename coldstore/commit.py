"""The commit of a block: data first, then metadata, whose put-if-absent is the commit point.

For a final block that starts at F, D is `data/F.parquet` and M is `meta/F.final.json`. A writer

    1. puts D if absent;
    2. puts M, which names the sha256 of D, if absent.

A crash before 2 leaves an uncommitted D and no hole. F is the end of committed final blocks, whose
metadata never changes, so every writer that tries for the next final block tries for the same F: the
put of M lets one of them win, and final blocks are one line without forks, whoever writes.

**D is there already** (step 1 conflicts). If M is there too, the block is committed: see below. Else
D was left by a writer that died, or is about to go on. Its elements are compared with ours:

    adopt      D holds a prefix of ours (and ends where one of our young blocks does, or after all of
               them): put M naming D as it is. What is left of ours is for the next block.
    replace    else: put our file as a *copy* in `young/`, put M naming our sha256 and the copy, and
               only then put our file over D by compare-and-swap.

D is replaced after M was won and never before, so whoever left D cannot commit it any more: its put
of M conflicts. The reverse order would let it commit a file that is being overwritten. Between the
two puts readers that follow the metadata find a D with the wrong digest and read the copy; whoever
writes next finishes the swap first (`settle`), so D is right before the next file appears in
`data/`. D thus changes at most once, from an uncommitted file to the committed one:

    absent ──put if absent──▶ X, uncommitted ──M names X──▶ committed
                                   └──M names Y and a copy──▶ swap X for Y ──▶ committed

**M is there already** (either put conflicts), named by a writer that was quicker, or by our own
earlier attempt whose reply was lost. If that block holds a prefix of ours, cut as above, and is not
of a later epoch, it is as good as ours and taken for it: the writer's elements are committed. Else
`Fenced`: nothing of ours was committed.

**Two owners, A deposed and B new,** in every order of their steps:

    A: D, B: D conflicts, finds no M, and adopts, if it has the same elements; then
        A: M first   B takes A's block if it has the same elements, else Fenced: B opens the queue anew
        B: M first   A's M conflicts: the same elements, but of a later epoch: Fenced
    A: D, B: D conflicts, finds no M, and replaces (other elements):
        A: M first   B's M conflicts: Fenced, D untouched, only B's copy is an orphan
        B: M first   A's M conflicts: Fenced; D is swapped by B, or after B's death by its successor
    A: D, A: M, then B: D conflicts, M is there: as above
    A pauses anywhere and comes back later, even after B's death: as above, M decides

**Young blocks** have a random tag in the name of the data file, so that D never conflicts; their M is
`meta/F.young.json`. They need one more check. If B has merged A's young blocks *together with new
elements* into a final block, A may still put a young block for the same offsets: its key is free. So
after its put A looks whether final blocks overtook it; if so, `Fenced`. The block that A put stays
behind as a dead file: readers ignore young blocks below the end of the final ones, or of an epoch
older than the block before them.

One window is left open here on purpose: B looks for A's young block, A puts it and looks for B's
final block, B puts that. Closing it takes one object that both must change. That object exists, it
is the epoch of `shards.json`: an owner opens the queue *after* it has raised the epoch, and acts on
a commit (acknowledges it as cold, trims the journal) only after it has seen its epoch unchanged
*after* the commit. Then A's block was put before B opened the queue, and B has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from coldstore import block as blocks
from coldstore import failpoint, metadata, paths
from coldstore.block import BlockFile, Encoded
from coldstore.draft import Draft
from coldstore.errors import Conflict, DataLoss, Fenced, NotFound
from coldstore.metadata import BlockMetadata
from coldstore.objects.port import Object
from coldstore.shelf import Shelf, unpacked_bytes_max

Step = Literal["block", "merge"]  # which fail points are reached
_TAG_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class Writer:
    """Who commits: the tenure and the attempt."""

    epoch: int
    put_id: str
    step: Step = "block"

    @property
    def tag(self) -> str:
        """Makes the name of a young data file unique."""
        return self.put_id[:_TAG_CHARS]


def commit_young(
    shelf: Shelf, draft: Draft, before: BlockMetadata | None, final_next: int, writer: Writer
) -> BlockMetadata:
    """Commit `draft`, or a prefix of it that an earlier attempt has put, as the young block after `before`.

    `final_next` is the end of the final blocks known to the caller.
    """
    check_tenure(before, writer.epoch)
    encoded = blocks.encode(draft.table, shelf.settings)
    path = paths.young_path(draft.first, writer.tag)
    shelf.objects.put_if_absent(shelf.key(path), encoded)
    failpoint.reach("block.data_put")
    block = BlockMetadata(kind="young", path=path, **_common(shelf, draft, encoded, before, writer))
    try:
        shelf.commit(block)
    except Conflict:
        block = _contested_young(shelf, draft, block, before)
    failpoint.reach("block.metadata_put")
    _check_not_overtaken(shelf, block, final_next)
    return block


def _contested_young(
    shelf: Shelf, draft: Draft, ours: BlockMetadata, before: BlockMetadata | None
) -> BlockMetadata:
    key = paths.meta(shelf.name, ours.first, "young")
    found = shelf.objects.get(key)
    theirs = metadata.decode(found.data, key, ours.queue)
    if before is not None and theirs.epoch < before.epoch:
        # Dead: put by a deposed owner after the queue had gone on without it (see above). No reader
        # will ever take it for a block, but it stands where ours must.
        with suppress(Conflict):
            shelf.objects.put_if_match(key, metadata.encode(ours), found.etag)
            return ours
    elif theirs.epoch <= ours.epoch and _is_prefix(shelf, theirs, draft):
        return theirs
    raise fenced(theirs)


def _check_not_overtaken(shelf: Shelf, block: BlockMetadata, final_next: int) -> None:
    """Follow final blocks committed since we looked; those that end before `block` are merges, no harm."""
    while (final := shelf.find(final_next, "final")) is not None:
        if final.last >= block.first:
            raise fenced(final)
        final_next = final.next


@dataclass(frozen=True, slots=True)
class _Final:
    """A final block in the making: `draft` begins with the elements of `young`, and follows `before`."""

    shelf: Shelf
    draft: Draft
    young: Sequence[BlockMetadata]
    before: BlockMetadata | None
    writer: Writer

    @property
    def new_first(self) -> int:
        """Where the elements begin that are in no block yet."""
        return self.young[-1].next if self.young else self.draft.first

    def may_end(self, end: int) -> bool:
        """Whether a block of ours may end there: no young block is ever merged in part."""
        whole = end >= self.new_first or any(block.next == end for block in self.young)
        return self.draft.first < end <= self.draft.next and whole

    def metadata(self, draft: Draft, encoded: Encoded, copy: str | None = None) -> BlockMetadata:
        """The metadata of `draft`, a prefix of ours, in this file."""
        chain = metadata.genesis(self.shelf.settings.id) if self.before is None else self.before.chain or ""
        # Nothing new in it: it keeps the epoch of its parts, or young blocks after it would look dead.
        merged = next((block for block in self.young if block.next == draft.next), None)
        writer = self.writer if merged is None else replace(self.writer, epoch=merged.epoch)
        return BlockMetadata(
            kind="final",
            path=paths.data_path(draft.first),
            chain=metadata.link(chain, draft.first, draft.next - 1, encoded.sha256),
            copy=copy,
            **_common(self.shelf, draft, encoded, self.before, writer),
        )


def commit_final(
    shelf: Shelf,
    draft: Draft,
    young: Sequence[BlockMetadata],
    before: BlockMetadata | None,
    writer: Writer,
) -> BlockMetadata:
    """Commit `draft`, or a prefix of it, as the final block after `before`, and return what was committed.

    The draft begins with the elements of `young`, all young blocks from the end of `before` on.
    """
    check_tenure(young[-1] if young else before, writer.epoch)
    final = _Final(shelf, draft, young, before, writer)
    encoded = blocks.encode(draft.table, shelf.settings)
    try:
        shelf.objects.put_if_absent(paths.data(shelf.name, draft.first), encoded)
    except Conflict:
        return _contested_final(final, encoded)
    failpoint.reach(f"{writer.step}.data_put")
    return _publish(final, final.metadata(draft, encoded))


def _publish(final: _Final, block: BlockMetadata) -> BlockMetadata:
    _check_no_unknown_young(final)
    try:
        final.shelf.commit(block)
    except Conflict:
        theirs = final.shelf.find(block.first, "final")
        if theirs is None:
            raise  # it was there a moment ago: somebody deletes metadata
        return _take(final, theirs)
    failpoint.reach(f"{final.writer.step}.metadata_put")
    return block


def _check_no_unknown_young(final: _Final) -> None:
    """New elements must not be put over those of a young block that appeared since we looked."""
    if final.new_first == final.draft.next:
        return
    tip = final.young[-1] if final.young else final.before
    theirs = final.shelf.find(final.new_first, "young")
    if theirs is None or (tip is not None and theirs.epoch < tip.epoch):
        return
    ours = final.draft.cut(final.new_first, final.draft.next)
    if theirs.epoch > final.writer.epoch or not _is_prefix(final.shelf, theirs, ours):
        raise fenced(theirs)


def _take(final: _Final, theirs: BlockMetadata) -> BlockMetadata:
    """The block that another attempt committed, if it is what we were about to commit."""
    if theirs.epoch > final.writer.epoch or not final.may_end(theirs.next):
        raise fenced(theirs)
    if not _is_prefix(final.shelf, theirs, final.draft):
        raise fenced(theirs)
    settle(final.shelf, theirs)
    return theirs


def _contested_final(final: _Final, encoded: Encoded) -> BlockMetadata:
    shelf, draft, writer = final.shelf, final.draft, final.writer
    theirs = shelf.find(draft.first, "final")
    if theirs is not None:
        return _take(final, theirs)
    found = shelf.objects.get(paths.data(shelf.name, draft.first))
    adopted = _adoptable(final, found)
    if adopted is not None:
        return _publish(final, final.metadata(adopted, Encoded.of(found.data)))
    copy = paths.young_path(draft.first, writer.tag)
    shelf.objects.put_if_absent(shelf.key(copy), encoded)
    failpoint.reach(f"{writer.step}.data_put")
    block = _publish(final, final.metadata(draft, encoded, copy))
    settle(shelf, block)
    return block


def _adoptable(final: _Final, found: Object) -> Draft | None:
    """The prefix of our draft that the uncommitted file `found` holds, if it holds one whole and sound."""
    shelf, draft = final.shelf, final.draft
    try:
        file = BlockFile(found.data, paths.data(shelf.name, draft.first), draft.first, check_pages=True)
        end = draft.first + file.count
        if file.provenance.get("jjq.queue") != shelf.settings.id or not final.may_end(end):
            return None
        ours = draft.cut(draft.first, end)
        if file.unpacked_bytes > unpacked_bytes_max(ours.raw_bytes) or not file.read().equals(ours.table):
            return None
        return ours
    except DataLoss:
        return None  # torn or foreign; it was never committed, so nothing is lost


def settle(shelf: Shelf, block: BlockMetadata) -> None:
    """Finish the swap of a replaced file, if `block` has one pending. Anyone may, any number of times."""
    if block.copy is None:
        return
    key = shelf.key(block.path)
    for _ in range(2):
        try:
            found = shelf.objects.get(key)
        except NotFound:
            raise DataLoss(
                f"{key} is missing: it holds block {block.id}", key=key, block=block.first
            ) from None
        if hashlib.sha256(found.data).hexdigest() == block.sha256:
            return
        with suppress(Conflict):  # another writer settles it: look again
            shelf.objects.put_if_match(key, memoryview(shelf.data(block)), found.etag)
            return
    raise Conflict(f"block {block.id} is being settled by another writer: open the queue again")


def _is_prefix(shelf: Shelf, theirs: BlockMetadata, draft: Draft) -> bool:
    """Whether `theirs` holds the first elements of `draft`, or all of them."""
    if theirs.next > draft.next:
        return False
    return bool(shelf.read(theirs).equals(draft.cut(draft.first, theirs.next).table))


def check_tenure(before: BlockMetadata | None, epoch: int) -> None:
    """Refuse to go on after a block of a later epoch."""
    if before is not None and before.epoch > epoch:
        raise fenced(before)


def fenced(by: BlockMetadata) -> Fenced:
    return Fenced(
        f"block {by.id}, offsets {by.first} to {by.last}, was committed by epoch {by.epoch}: "
        f"open the queue again, and go on only if it is still yours"
    )


def _common(
    shelf: Shelf, draft: Draft, encoded: Encoded, before: BlockMetadata | None, writer: Writer
) -> dict[str, Any]:
    return {
        "queue": shelf.settings.id,
        "first": draft.first,
        "last": draft.next - 1,
        "min_timestamp_us": draft.min_timestamp_us,
        "max_timestamp_us": draft.max_timestamp_us,
        "stored_bytes": encoded.size,
        "raw_bytes": draft.raw_bytes,
        "sha256": encoded.sha256,
        "previous": None if before is None else before.first,
        "epoch": writer.epoch,
        "put_id": writer.put_id,
    }
