"""The commit of blocks: data first, then metadata, whose put-if-absent is the commit point.

Let P be the offset after all blocks, F the offset after the final ones (F ≤ P; young blocks lie
between). D is `data/F.parquet`. Two rules make every order of any writers' steps safe:

**1. New elements are committed at P by putting `meta/P.young.json` if absent**, and in no other way. All
writers that go on at P try for the same key, so one wins, and blocks never fork. A young block does
just this, after its data file, whose name has a random tag. A final block with new elements does it
too: between D and its own metadata it puts a *claim*, young metadata that names D (or the copy below)
as the file of its elements. From then on they are part of the queue, whatever becomes of the rest.

**2. A final block holds only elements that are committed already**, so its metadata,
`meta/F.final.json`, put if absent, merely regroups them. F is the end of committed final blocks, which
never change, so all writers try for the same key. A writer that loses it loses nothing: it looks at the
queue again and finds its elements there.

    young block                        final block, with new elements and young ones before them
    1. put young/P-tag.parquet         1. put D if absent          (all elements from F on)
    2. put meta/P.young.json           2. put meta/P.young.json    the claim; not if nothing is new
    3. see that P is not final yet     3. put meta/F.final.json
                                       4. delete the claim, which is covered now

A crash between any two steps leaves a file that no metadata names, or a claim that the next writer
finds among the young blocks; never a hole. (3 on the left: sweep deletes `meta/P.young.json` once it
is merged, and then the key is free again for a writer that slept all the while. It finds P below
the end of the final blocks, as does every reader, and is `Fenced`.)

**D is there already** when step 1 is tried: left by a writer that died, or by one that is about to go
on. If its metadata is there as well, look at the queue again. Else compare elements:

    adopt     D holds a prefix of ours that ends after the last young block, or with one of them, and not at
              an offset that quarantine.py forbids: go on with step 2, with D as it is. What is left of
              ours is for the next block.
    wait      we only merge, and D goes on after what we have: its writer may yet claim that. Merge later.
    replace   else: put our file as a *copy* into `young/`, do 2 and 3 naming our sha256 and the copy, and
              only then put it over D by compare-and-swap; what D held before is kept (quarantine.py).

D is replaced only when its writer cannot commit it any more: it begins as the committed elements do
and has other new ones, then we hold the claim that it needs; or it differs from committed elements,
then it lost that claim before. Between 3 and the swap readers find a D with the wrong digest and read
the copy. The next writer finishes the swap first (`settle`), so D is right before another file
appears in `data/`. D changes at most once, from an uncommitted file to the committed one:

    absent ──put if absent──▶ X, uncommitted ──metadata names X──▶ committed
                                └──metadata names Y and a copy──▶ swap X for Y ──▶ committed

**Two owners, A deposed and B new.** Where A stands when B comes, and what becomes of A's block:

    before 1, or after D       B commits at P first: A's claim conflicts, A is Fenced; B has adopted or
                               replaced D. Or A claims first: B finds the block when it looks again
    after the claim            the elements are committed; B's next final block adopts D
    after the final metadata   the block is committed

An owner must not *count on* its commits after it was deposed, but needs no lock to be safe: nothing
that was committed is ever lost, by either. tests/coldstore/queue/test_owners.py runs all orders.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from coldstore.block import encode as blocks
from coldstore.block.draft import Draft
from coldstore.block.encode import Encoded
from coldstore.block.files import BlockFiles, unpacked_bytes_max
from coldstore.block.read import BlockFile
from coldstore.layout import metadata, paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.objects.port import Object
from coldstore.objects.swap import Change, swap
from coldstore.queue import quarantine
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import Conflict, DataLoss, Fenced, JjqError

log = logging.getLogger("jjq.coldstore")

Step = Literal["block", "merge"]  # which fail points are reached
_TAG_CHARS: Final = 16


class Moved(Exception):
    """The queue is not as the caller knows it: look again, then decide."""


class Blocked(Exception):
    """A file stands in the way that its writer may yet commit: try again later."""


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """Who commits: the tenure and the attempt."""

    epoch: int
    put_id: str
    step: Step = "block"

    @property
    def tag(self) -> str:
        """Makes the name of a young data file unique."""
        return self.put_id[:_TAG_CHARS]


def commit_young(
    files: BlockFiles, draft: Draft, before: BlockMetadata | None, final_next: int, writer: BlockWriter
) -> BlockMetadata:
    """Commit `draft` as the young block after `before`; `final_next` is the end of the final blocks known."""
    check_tenure(before, writer.epoch)
    encoded = blocks.encode(draft.table, files.settings)
    path = paths.young_path(draft.first, writer.tag)
    files.objects.put_if_absent(files.key(path), encoded)
    failpoint.reach("block.data_put")
    block = BlockMetadata(kind="young", path=path, **_common(files, draft, encoded, before, writer))
    _put_metadata(files, block, writer)
    _check_not_overtaken(files, block, final_next)
    return block


def _check_not_overtaken(files: BlockFiles, block: BlockMetadata, final_next: int) -> None:
    """Follow final blocks that we have not seen: merges, no harm, unless they hold our offsets already."""
    while (final := files.find(final_next, "final")) is not None:
        if final.last >= block.first:
            raise fenced(final)
        final_next = final.next


def commit_final(
    files: BlockFiles,
    draft: Draft,
    young: Sequence[BlockMetadata],
    before: BlockMetadata | None,
    writer: BlockWriter,
    avoided: AbstractSet[int] = frozenset(),
) -> BlockMetadata:
    """Commit `draft`, or a prefix of it, as the final block after `before`, and return what was committed.

    The draft begins with the elements of `young`, all or the first of the young blocks after `before`.
    No block ends at an offset that is `avoided` (quarantine.py); the draft does not.
    """
    check_tenure(young[-1] if young else before, writer.epoch)
    final = _Final(files, draft, young, before, writer, avoided)
    encoded = blocks.encode(draft.table, files.settings)
    try:
        files.objects.put_if_absent(final.key, encoded)
    except Conflict:
        return _contested(final, encoded)
    failpoint.reach(f"{writer.step}.data_put")
    return final.commit(draft, encoded)


@dataclass(frozen=True, slots=True)
class _Final:
    """A final block in the making."""

    files: BlockFiles
    draft: Draft
    young: Sequence[BlockMetadata]
    before: BlockMetadata | None
    writer: BlockWriter
    avoided: AbstractSet[int]

    @property
    def key(self) -> str:
        return paths.data(self.files.name, self.draft.first)

    @property
    def new_first(self) -> int:
        """Where the elements begin that are in no block yet."""
        return self.young[-1].next if self.young else self.draft.first

    def may_end(self, end: int) -> bool:
        """Whether a block of ours may end there: no young block is ever merged in part."""
        if end in self.avoided:
            return False
        whole = end >= self.new_first or any(block.next == end for block in self.young)
        return self.draft.first < end <= self.draft.next and whole

    def leaves_to_others(self, count: int) -> bool:
        """Whether a file that holds what we have, `count` elements in all, is not ours to replace."""
        return count > self.draft.count and self.new_first == self.draft.next

    def commit(self, prefix: Draft, encoded: Encoded, copy: str | None = None) -> BlockMetadata:
        """Steps 2 to 4 for `prefix`, our draft or the first part of it."""
        block = self._metadata(prefix, encoded, copy)
        claims = [young.first for young in self.young if young.is_claim and young.next <= prefix.next]
        if prefix.next > self.new_first:
            new = prefix.cut(self.new_first, prefix.next)
            tip = self.young[-1] if self.young else self.before
            path = block.path if copy is None else copy
            common = _common(self.files, new, encoded, tip, self.writer)
            _put_metadata(self.files, BlockMetadata(kind="young", path=path, **common), self.writer)
            claims.append(new.first)
        _put_metadata(self.files, block, self.writer)
        settle(self.files, block)
        with suppress(JjqError):  # covered now, and swept if it stays
            for first in claims:
                self.files.objects.delete(paths.meta(self.files.name, first, "young"))
        return block

    def _metadata(self, prefix: Draft, encoded: Encoded, copy: str | None) -> BlockMetadata:
        chain = metadata.genesis(self.files.settings.id) if self.before is None else self.before.chain or ""
        # A merge keeps the epoch of what it merges: the young blocks after it may be no younger.
        merged = next((block for block in self.young if block.next == prefix.next), None)
        writer = self.writer if merged is None else replace(self.writer, epoch=merged.epoch)
        return BlockMetadata(
            kind="final",
            path=paths.data_path(prefix.first),
            chain=metadata.link(chain, prefix.first, prefix.next - 1, encoded.sha256),
            copy=copy,
            **_common(self.files, prefix, encoded, self.before, writer),
        )


def _contested(final: _Final, encoded: Encoded) -> BlockMetadata:
    """Go on where D is there already: adopt it, leave it to its writer, or replace it."""
    files, draft, writer = final.files, final.draft, final.writer
    if files.find(draft.first, "final") is not None:
        raise Moved
    found = files.objects.get(final.key)
    count = _count_if_same(final, found)
    if count is not None:
        if final.may_end(draft.first + count):
            return final.commit(draft.cut(draft.first, draft.first + count), Encoded.of(found.data))
        if final.leaves_to_others(count):
            raise Blocked
    copy = paths.young_path(draft.first, writer.tag)
    files.objects.put_if_absent(files.key(copy), encoded)
    failpoint.reach(f"{writer.step}.data_put")
    return final.commit(draft, encoded, copy)


def _count_if_same(final: _Final, found: Object) -> int | None:
    """How many elements the uncommitted file `found` holds, if they and ours begin alike; else None."""
    files, ours = final.files, final.draft
    try:
        file = BlockFile(found.data, final.key, ours.first, check_pages=True)
        # Nothing proves this file yet, so it must not unpack to more than ours and one row group do.
        bytes_max = unpacked_bytes_max(ours.raw_bytes + limits.ROW_GROUP_BYTES + limits.ELEMENT_BYTES_MAX)
        if (
            file.provenance.get("jjq.queue") == files.settings.id
            and file.unpacked_bytes(ours.count) <= bytes_max
            and file.read(0, ours.count).equals(ours.table.slice(0, file.count))
        ):
            return file.count
    except DataLoss:
        pass  # torn or foreign; it was never committed, so nothing is lost
    return None


def settle(files: BlockFiles, block: BlockMetadata) -> None:
    """Finish the swap of a replaced file, if `block` has one pending. Anyone may, any number of times."""
    if block.copy is None:
        return
    key = files.key(block.path)

    def decide(found: Object | None) -> Change[str | None]:
        if found is None:
            raise DataLoss(f"{key} is missing: it holds block {block.id}", key=key, block=block.first)
        if hashlib.sha256(found.data).hexdigest() == block.sha256:
            return Change(None, None)
        kept = quarantine.keep(files, key, found)
        return Change(memoryview(files.data(block)), kept)

    busy = Conflict(f"block {block.id} is being settled by another writer: open the queue again")
    kept = swap(files.objects, key, decide, busy=busy, tries=2).result
    if kept is not None:
        log.warning("%s is replaced by the block that was committed; what it held is kept as %s", key, kept)


def check_tenure(before: BlockMetadata | None, epoch: int) -> None:
    """Refuse to go on after a block of a later epoch."""
    if before is not None and before.epoch > epoch:
        raise fenced(before)


def fenced(by: BlockMetadata) -> Fenced:
    return Fenced(
        f"block {by.id}, offsets {by.first} to {by.last}, was committed by epoch {by.epoch}: "
        f"open the queue again, and go on only if it is still yours"
    )


def _put_metadata(files: BlockFiles, block: BlockMetadata, writer: BlockWriter) -> None:
    try:
        files.commit(block)
    except Conflict:
        raise Moved from None
    failpoint.reach(f"{writer.step}.metadata_put")


def _common(
    files: BlockFiles, draft: Draft, encoded: Encoded, before: BlockMetadata | None, writer: BlockWriter
) -> dict[str, Any]:
    return {
        "queue": files.settings.id,
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
