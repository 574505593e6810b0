"""Writes checkpoints, off the path of pushes and pops, and lets the journal forget what they have.

    1  a CHECKPOINT record is journalled. Its sequence is that of the checkpoint: what came before it is durable and in
       memory, and only now are rows taken (part.py says why they may be newer)
    2  the parts say what changed; a worker thread brings it into the image, writes the image as a new DuckDB file, and
       gives that to the store, which syncs it and renames it
    3  of the checkpoints that are there, all but the two newest are removed
    4  the journal is trimmed up to the older of these two, and never beyond the first element that is not cold

A crash between any two steps leaves the checkpoints of before, and a journal that goes on from each of them. If
something fails, the image has the changes already: the next checkpoint has them too. Only one that could not be made
up is taken whole again. While a start without any sound checkpoint has left queues in doubt, none is written and
nothing is trimmed: a file that is put back finds the journal that belongs to it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Sequence
from contextlib import suppress

from coldstore.shared import failpoint
from coldstore.shared.backoff import Backoff
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, JjqError, Unavailable
from hotstore.checkpoint.checkpoint_store import CheckpointName, digest_of, digest_of_file, fresh_file
from hotstore.checkpoint.duckdb_file import CheckpointHead
from hotstore.checkpoint.part import CheckpointImage, CheckpointPart, TableChange
from hotstore.checkpoint.restore import CheckpointPlace, RestoredCheckpoint
from hotstore.journal import records
from hotstore.journal.port import Journal
from hotstore.limits import CHECKPOINTS_KEPT
from hotstore.queue.moves import commit_state
from hotstore.queue.registry import Registry
from hotstore.runner import Runner
from hotstore.write.committer import Committer

log = logging.getLogger("jjq.hotstore")

_BACKOFF = Backoff(1.0, 60.0)
_ANEW = 100  # so many checkpoints after another, one is written whole: a file that is changed may have unused room


def _our_error(error: JjqError | OSError) -> JjqError:
    if isinstance(error, JjqError):
        return error
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Exhausted(
            "the disk is full, so no checkpoint is written and the journal grows", retry_after=5.0
        )
    return Unavailable(f"no checkpoint was written, the journal keeps everything: {error}")


class Checkpointer:
    """Writes the checkpoints of one node and trims its journal."""

    def __init__(
        self,
        parts: Sequence[CheckpointPart],
        place: CheckpointPlace,
        registry: Registry,
        committer: Committer,
        journal: Journal,
        runner: Runner,
        clock: Clock,
        every_bytes: int,
    ) -> None:
        self._parts = parts
        self._store, self._codec, self._folder = place
        self._registry = registry
        self._committer = committer
        self._journal = journal
        self._runner = runner
        self._clock = clock
        self._every_bytes = every_bytes
        self._base_bytes = 0  # what the journal held after the last checkpoint and trim
        self._one_at_a_time = asyncio.Lock()
        self._file: int | None = None  # of the journal that the last checkpoint began in
        self._image = CheckpointImage([form for part in parts for form in part.forms])
        self._kept: list[CheckpointName] = []  # oldest first
        self._begin = 0  # a journal that is there from here on tells everything by itself
        self._floor = 0  # with fewer checkpoints than are to be kept, what the journal has to keep
        self._failures = 0
        self._wanted = False  # whatever changed or not
        self._next = 0.0  # when one is due if anything changed
        self.written = 0

    @property
    def journal_bytes(self) -> int:
        return self._journal.used_bytes

    @property
    def floor(self) -> int:
        """The journal before it has no state that is not in both checkpoints."""
        return self._kept[0].sequence if len(self._kept) == CHECKPOINTS_KEPT else self._floor

    def begin(self, restored: RestoredCheckpoint | None, first_sequence: int) -> None:
        """After a start, which replayed the journal from `first_sequence` on."""
        if restored is None:
            self._begin = self._floor = first_sequence
        else:
            self._begin = restored.head.begin
            self._kept = list(restored.kept)[-CHECKPOINTS_KEPT:]
            self._floor = self._kept[0].sequence
            self._image = CheckpointImage(self._image.forms, restored.tables)
        self._next = self._clock.monotonic() + self._store.every_seconds

    def due(self) -> bool:
        """Whether one is due: by time, or because the journal went on in another file. If a file is lost, the
        checkpoint still has its state."""
        file = self._journal.chapter(0)
        if self._file is None:
            self._file = file
        if self._registry.has_lost_subscribers():
            return False
        now = self._clock.monotonic()
        if self._one_at_a_time.locked() or (self._failures and now < self._next):
            return False
        grown = self._journal.used_bytes - self._base_bytes
        if grown >= self._every_bytes or file != self._file or self._wanted:
            return True
        return now >= self._next and self._changed()

    def _changed(self) -> bool:
        return any(part.changed() for part in self._parts)

    async def close(self) -> None:
        """The last one of a run, if there is anything new: the next start replays nothing."""
        if (self._changed() or self._wanted) and not self._registry.has_lost_subscribers():
            await self.write()

    async def write(self) -> None:
        """Write one now. It goes on if the caller is cancelled: the next one waits for it."""
        writing = asyncio.create_task(self._write_alone(), name="jjq-checkpoint")
        writing.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(writing)

    async def _write_alone(self) -> None:
        async with self._one_at_a_time:
            try:
                await self._write()
            except (JjqError, OSError) as error:
                self._failures, self._wanted = (
                    self._failures + 1,
                    True,
                )  # the parts have given their changes already
                self._next = self._clock.monotonic() + _BACKOFF.pause_after(self._failures)
                raise _our_error(error) from error
            self._failures, self._wanted = 0, False
            self._next = self._clock.monotonic() + self._store.every_seconds

    async def _write(self) -> None:
        self._file = self._journal.chapter(0)
        begun = records.rows(records.CHECKPOINT, [[self._begin]])
        sequence = await commit_state(self._committer, lambda: [begun])
        failpoint.reach("checkpoint.begun")
        whole, self._image.complete = not self._image.complete, False
        collected = [await part.collect(whole=whole) for part in self._parts]
        name = await self._runner.run(
            lambda: self._make(
                sequence, {name: each for changes in collected for name, each in changes.items()}
            )
        )
        self._kept.append(name)
        self.written += 1
        self._base_bytes = self._journal.used_bytes
        await self._runner.run(self._remove_older)

    def _make(self, sequence: int, changes: dict[str, TableChange]) -> CheckpointName:
        """In a worker thread."""
        image = self._image
        image.apply(changes)
        image.complete = True
        path = fresh_file(self._folder)
        head = CheckpointHead(self._journal.identity, sequence, self._begin, self._clock.now_us())
        base = self._base()
        if base is not None:
            path.write_bytes(base)
        tables = image.tables if base is None else {name: image.tables[name] for name in image.dirty}
        try:
            self._codec.write(path, head, tables)
            failpoint.reach("checkpoint.written")
            name = CheckpointName(sequence, head.journal, digest_of_file(path))
            self._store.put(name, path)
            image.dirty.clear()
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        return name

    def _base(self) -> bytes | None:
        """The newest checkpoint, if it is cheaper to change a copy of it. Its digest is looked at again: what is copied
        is what was written, or it is all written again."""
        unchanged = len(self._image.tables) - len(self._image.dirty)
        if not self._kept or not unchanged or self.written % _ANEW == 0:
            return None
        try:
            data = self._store.get(self._kept[-1])
        except (JjqError, OSError):
            return None
        return data if digest_of(data) == self._kept[-1].digest else None

    def _remove_older(self) -> None:
        """Remove all but the newest two. Files of another journal stay, too."""
        kept = self._kept[-CHECKPOINTS_KEPT:]
        if len(kept) < CHECKPOINTS_KEPT:
            return
        for name in self._store.names():
            if name.journal == kept[0].journal and name < kept[0]:
                self._store.remove(name)
                failpoint.reach("checkpoint.older_removed")
        self._kept = kept

    async def trim(self) -> None:
        """Trim what nothing needs any more. Trim nothing while a lost checkpoint may be put back."""
        if self._registry.has_lost_subscribers():
            return
        if not await self._runner.run(lambda: self._store.has(self._kept)):
            log.warning(
                "somebody changed or removed a checkpoint: another one is written, and the journal is kept"
            )
            self._floor, self._kept, self._wanted = self.floor, [], True
            return
        floors = [floor for queue in self._registry.queues.values() if (floor := queue.floor()) is not None]
        held = self._registry.hold()
        before = min([self.floor, *floors] if held is None else [self.floor, held, *floors])
        await self._committer.call(lambda: self._journal.trim(before))
        self._base_bytes = min(self._base_bytes, self._journal.used_bytes)
