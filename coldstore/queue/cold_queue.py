"""A queue in the cold store: its blocks as a list, and the verbs over them.

    write block · list blocks · read block · next block id · previous block id · merge · sweep · verify

Any number of threads and processes may read; one owner at a time writes, and commit.py says what
happens if there are two. `refresh` shows a reader what others have committed since.

New elements go to the end of the queue, and a merge regroups what was committed before: neither waits
for the other, since a merge of large blocks takes long. While one runs, all new blocks are young.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pyarrow as pa

from coldstore.block import draft
from coldstore.block.draft import Draft
from coldstore.block.files import BlockFiles
from coldstore.history import load, rollups
from coldstore.history.block_list import BlockList
from coldstore.history.load import Loaded
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.queue_settings import QueueSettings
from coldstore.queue import commit, merge, quarantine
from coldstore.queue.commit import Blocked, BlockWriter, Moved, Step
from coldstore.queue.quarantine import Cleared
from coldstore.queue.spans import NO_SPANS, Spans
from coldstore.queue.sweep import Swept, sweep
from coldstore.queue.verify import Progress, Report, verify
from coldstore.shared import limits
from coldstore.shared.attachments import objects_in
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, Denied, Exhausted, InvalidInput, Unavailable

_LOOKS: Final = 8  # at a queue that others change meanwhile


class ColdQueue:
    """One queue of a `ColdStore`, opened."""

    def __init__(
        self,
        files: BlockFiles,
        clock: Clock,
        chance: Chance,
        loaded: Loaded | None = None,
        spans: Spans = NO_SPANS,
    ) -> None:
        self._spans = spans
        loaded = loaded or load.load(files)
        self._files = files
        self._clock = clock
        self._chance = chance
        self._blocks = loaded.blocks
        self._rolled = set(loaded.rolled)
        self._cleared: Cleared | None = None  # what the look at `data/` before the first write found
        self._settled = -1  # first offset of the last final block whose swap is known to be finished
        self._writing = threading.Lock()  # held by who adds elements
        self._merging = threading.Lock()  # held by who adds final blocks; taken before the other
        self._replacing = threading.Lock()

    @property
    def settings(self) -> QueueSettings:
        return self._files.settings

    def use(self, settings: QueueSettings) -> None:
        """The queue's settings were changed: cut blocks by these from now on."""
        self._files.settings = settings

    @property
    def name(self) -> str:
        return self._files.name

    @property
    def first_offset(self) -> int:
        return self._blocks.first_offset

    @property
    def next_offset(self) -> int:
        """First offset that is in no block yet."""
        return self._blocks.next_offset

    def list_blocks(self) -> BlockList:
        """All blocks as known here: a snapshot, searched in memory."""
        return self._blocks

    def block_for(self, offset: int) -> BlockMetadata:
        """The block that holds `offset`; `OutOfRange` if none does."""
        return self._blocks.block_for(offset)

    def block_at(self, timestamp_us: int) -> BlockMetadata | None:
        """The block with the first element that is not older than this; None if all are older."""
        return self._blocks.block_at(timestamp_us)

    def next_block(self, first: int) -> int | None:
        """Id of the next block; None after the last."""
        return self._blocks.next_block(first)

    def previous_block(self, first: int) -> int | None:
        """Id of the previous block; None before the first."""
        return self._blocks.previous_block(first)

    def read_block(
        self,
        block: int | BlockMetadata,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The elements of a block, given by its id or metadata: whole, or with offsets `start`..`end`
        (exclusive), all columns or those named. A young block that was merged and swept since it was
        listed is read from the final block that holds its elements now."""
        if isinstance(block, int):
            block = self._blocks[self._blocks.index_of(block)]
        start = block.first if start is None else max(start, block.first)
        end = block.next if end is None else min(end, block.next)
        with self._spans.span("read_cold_block", self.name, first=start, count=end - start):
            try:
                return self._files.read(block, start, end, columns)
            except DataLoss:
                if block.kind == "final" or self.refresh().final_next < block.next:
                    raise
            return self._read_finals(block, start, max(start, end), columns)

    def _read_finals(
        self, block: BlockMetadata, start: int, end: int, columns: Sequence[str] | None
    ) -> pa.Table:
        # Nearly always one final block; several only if an owner died while it merged.
        low, high = self._blocks.index_for(block.first), self._blocks.index_for(block.last)
        parts = [
            self._files.read(final, max(start, final.first), min(end, final.next), columns)
            for final in self._blocks[low : high + 1]
        ]
        return pa.concat_tables(parts)

    def refresh(self) -> BlockList:
        """Look for blocks that others have committed, and return the list with them."""
        while not self._replace(load.reload(self._files, self._blocks)):
            continue  # a commit here and one elsewhere, each seen by one of us only: look again
        return self._blocks

    def _replace(self, blocks: BlockList) -> bool:
        """Show `blocks` from now on, unless newer ones are shown; False if each lacks something."""
        with self._replacing:
            ends = (blocks.final_next, blocks.next_offset)
            shown = (self._blocks.final_next, self._blocks.next_offset)
            if ends[0] >= shown[0] and ends[1] >= shown[1]:
                self._blocks = blocks
                return True
            return ends[0] <= shown[0] and ends[1] <= shown[1]

    def _show(self, added: BlockMetadata) -> None:
        """Show a block that was committed just now, beside whatever else was shown meanwhile."""
        while True:
            shown = self._blocks
            if added.kind == "young" and added.first == shown.next_offset:
                blocks = shown.with_young(added)
            elif added.kind == "final" and added.first == shown.final_next:
                blocks = shown.with_finals([added])
            else:  # others have gone on after it
                self.refresh()
                return
            with self._replacing:
                if self._blocks is shown:
                    self._blocks = blocks
                    return

    def write_block(
        self, elements: pa.RecordBatch | pa.Table, *, final: bool = True, epoch: int = 0
    ) -> list[BlockMetadata]:
        """Commit elements that continue the queue, and return the blocks that now hold them.

        `final`: as a final block, together with the young blocks before it, unless these are being
        merged just now; else as a young one. Several blocks, if one would be much larger than was asked for,
        or if a previous owner left a shorter one with the same elements. After `Unavailable` try again with
        the same elements: what was committed is recognised. After `Fenced` open the queue again, and go on
        only if it is still yours.
        """
        with self._spans.span("seal", self.name, count=elements.num_rows):
            return self._write_block(elements, final, epoch)

    def _write_block(
        self, elements: pa.RecordBatch | pa.Table, final: bool, epoch: int
    ) -> list[BlockMetadata]:
        new = draft.make_draft(elements, self.settings.content)
        final = self._clear().in_the_way or final
        if not (final and self._merging.acquire(blocking=False)):
            return self._write_all(new, False, epoch)
        try:
            committed = self._write_all(new, True, epoch)
            self._roll_up()
        finally:
            self._merging.release()
        return committed

    def _write_all(self, new: Draft, final: bool, epoch: int) -> list[BlockMetadata]:
        committed: list[BlockMetadata] = []
        with self._writing:
            looks = 0
            while looks < _LOOKS:
                # What is left beside a block that we adopted may be too small to be final for ever.
                big = not committed or merge.is_enough(new.raw_bytes, self.settings.block_bytes)
                step = self._write(new, final and big, self._writer(epoch))
                committed += step
                if step and step[-1].next >= new.next:
                    return committed
                if step:
                    new = new.cut(step[-1].next, new.next)
                looks = 0 if step else looks + 1
        raise Conflict(
            f"queue {self.name} keeps changing: open it again, and go on only if it is still yours"
        )

    def _write(self, new: Draft, final: bool, writer: BlockWriter) -> list[BlockMetadata]:
        """One step towards `new` being committed: the blocks that hold its first elements now, if any."""
        known = self._already_committed(new, writer.epoch)
        if known:
            return known
        self._check_continues(new)
        self._settle()
        try:
            block = self._write_final(new, writer) if final else self._write_young(new, writer)
        except Moved:
            self.refresh()
            return []
        return [block] if block.next > new.first else []

    def _already_committed(self, new: Draft, epoch: int) -> list[BlockMetadata]:
        """The blocks that hold the first elements of `new`: of an attempt that failed half-way, or of
        another owner that had the same elements."""
        blocks = self._blocks
        if new.first >= blocks.next_offset:
            return []
        end = min(new.next, blocks.next_offset)
        known = blocks[blocks.index_for(new.first) : blocks.index_for(end - 1) + 1]
        commit.check_tenure(known[-1], epoch)
        parts = [self.read_block(block, new.first, end) for block in known]
        if not pa.concat_tables(parts).equals(new.cut(new.first, end).table):
            raise commit.fenced(known[0])
        return known

    def _check_continues(self, new: Draft) -> None:
        due = self._blocks.next_offset
        if new.first != due:
            raise Conflict(f"queue {self.name} goes on at offset {due}, but the block starts at {new.first}")

    def _writer(self, epoch: int, step: Step = "block") -> BlockWriter:
        if type(epoch) is not int or epoch < 0:
            raise InvalidInput(f"epoch is {epoch!r}; use a whole number from 0 on")
        return BlockWriter(epoch, self._chance.token(), step)

    def _write_young(self, new: Draft, writer: BlockWriter) -> BlockMetadata:
        blocks = self._blocks
        new = new.head(merge.share(new.raw_bytes, self.settings.block_bytes))
        block = commit.commit_young(self._files, new, blocks.last, blocks.final_next, writer)
        self._show(block)
        return block

    def _write_final(self, new: Draft, writer: BlockWriter) -> BlockMetadata:
        self._merge_full(writer.epoch)
        before = merge.total_bytes(self._blocks.young)
        share = merge.share(before + new.raw_bytes, self.settings.block_bytes)
        if share < before + new.raw_bytes and merge.is_enough(before, self.settings.block_bytes):
            with suppress(Blocked):  # the young ones make a block of their own
                self._merge_front(writer.epoch)
                before = merge.total_bytes(self._blocks.young)
                share = merge.share(before + new.raw_bytes, self.settings.block_bytes)
        if self._blocks.next_offset != new.first:
            raise Moved
        new = new.head(max(1, share - before))
        end, avoided = new.next, self._clear().avoided
        while end in avoided:
            end -= 1
        if end <= new.first:
            return self._write_young(new, writer)
        return self._commit_final(self._blocks.young, new.cut(new.first, end), writer)

    def _commit_final(
        self, young: Sequence[BlockMetadata], new: Draft | None, writer: BlockWriter
    ) -> BlockMetadata:
        """Commit young blocks and new elements, or a prefix of both, as one final block."""
        blocks = self._blocks
        try:
            parts = [self._files.read(block) for block in young]
        except DataLoss:
            if self.refresh().final_next > blocks.final_next:
                raise Moved from None  # merged and swept by another writer
            raise
        if new is not None:
            parts.append(new.table)
        whole = new if new is not None and not young else draft.concat(parts, self.settings.content)
        cleared = self._clear()
        block = commit.commit_final(self._files, whole, young, blocks.last_final, writer, cleared.avoided)
        self._settled = block.first
        self._cleared = replace(cleared, in_the_way=False)
        self._show(block)
        return block

    def merge(self, *, epoch: int | None = None, everything: bool = False) -> list[BlockMetadata]:
        """Merge young blocks into final ones, as far as that is due, or all that are there now; returns the
        final blocks."""
        committed: list[BlockMetadata] = []
        with self._merging:
            self._clear()
            self._settle()
            end = self.next_offset if everything else 0
            with suppress(Blocked):
                while self._is_due(end):
                    committed += self._merge_front(epoch)
            self._roll_up()
        return committed

    def _is_due(self, end: int) -> bool:
        """Whether there is something to merge: because it is due, or because it lies before `end`."""
        young = self._blocks.young
        if young and young[0].first < end:
            return True
        return merge.due(young, self.settings.block_bytes, self._oldest_young_age())

    def _merge_full(self, epoch: int) -> None:
        """Before new elements are added to young ones: merge those that fill blocks by themselves."""
        with suppress(Blocked):
            while merge.total_bytes(self._blocks.young) >= self.settings.block_bytes:
                self._merge_front(epoch)

    def _merge_front(self, epoch: int | None) -> list[BlockMetadata]:
        young = self._blocks.young
        writer = self._writer(young[-1].epoch if epoch is None else epoch, "merge")
        avoided = self._clear().avoided
        if not (front := merge.front(young, self.settings.block_bytes, avoided)):
            raise Blocked  # until there is one more
        try:
            try:
                return [self._commit_final(front, None, writer)]
            except Blocked:  # by what another writer has merged, perhaps: then with all of them
                return [self._commit_final(merge.front(young, None, avoided), None, writer)]
        except Moved:
            self.refresh()
            return []

    def _oldest_young_age(self) -> float:
        """Seconds since the oldest young block was committed; by the store's clock and ours."""
        if not self._blocks.young:
            return 0.0
        info = self._files.info(self._blocks.young[0])
        if info is None:  # another writer has merged and swept it
            self.refresh()
            return 0.0
        return (self._clock.now_us() - info.modified_us) / 1_000_000

    def _clear(self) -> Cleared:
        """Before the first write, see that `data/` holds nothing but blocks (quarantine.py)."""
        if self._cleared is None:
            self._cleared = quarantine.clear(self._files, self.refresh)
        return self._cleared

    def _settle(self) -> None:
        """Before the first write, finish what a previous owner may have left half done (commit.py)."""
        last = self._blocks.last_final
        if last is not None and self._settled != last.first:
            commit.settle(self._files, self._files.committed(last))
            self._settled = last.first

    def _roll_up(self) -> None:
        """Write the roll-ups that are missing. Without them the queue is as good, only slower to open."""
        blocks = self._blocks
        with suppress(Unavailable, Exhausted, Denied):
            for run in rollups.runs(blocks.final_count):
                if run not in self._rolled:
                    rollups.write(self._files.objects, self.settings, blocks, run)
                    self._rolled.add(run)

    def sweep(self, grace_seconds: float = limits.SWEEP_GRACE_SECONDS) -> Swept:
        """Delete young files whose elements have been in final blocks for so long, and orphans."""
        return sweep(self._files, self.refresh(), self._clock.now_us() - round(grace_seconds * 1_000_000))

    def named_objects(self, from_offset: int) -> set[str]:
        """The digests of all large objects that elements from `from_offset` on name, in blocks."""
        tables = (
            self.read_block(b, columns=["headers"]) for b in list(self.refresh()) if b.last >= from_offset
        )
        return {ref.sha256 for table in tables for ref in objects_in(table)}

    def verify(self, progress: Progress | None = None) -> Report:
        """Check every file of the queue, and report every defect."""
        return verify(self._files, progress)
