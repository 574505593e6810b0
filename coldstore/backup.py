"""Backups: the history of a store, copied so that the copy is a sound prefix at every instant.

What is copied, and in which order, queue by queue:

    1. jjq.json, queue.json      the same store, the same queue: identities stay
    2. a look at the metadata    which blocks there are now; whatever is committed later is for the next backup
    3. final blocks, in order    large objects that elements name, data, checked against its digest, then metadata
    4. young blocks, in order    likewise; those of an earlier backup that final blocks hold by now are swept
    5. roll-ups                  made again from the metadata
    6. the copy is verified

The source may be written to meanwhile, by any number of servers: metadata is read before the data that it names, data
is put before the metadata that names it, and nothing that is final ever changes. A young block may be merged while we
copy; then we look again, and copy the final block. Blocks that the target has are not read again, so the next backup
costs only what was added since. One that was broken off continues when the command is given again.

Not copied: `shards.json`, `state/`, `cluster/` and `journals/`, which say who serves this place at this moment, and
what is not history yet; they are of no use anywhere else, and wrong a second later. Nor `quarantine/`.

**A restore** is the same in the other direction, into an empty place. All epochs become 0 there: they count the
owners of the old place, and the first owner of the new one begins to count again. A source that is cut off or
damaged is copied up to the first block that is not sound, and the error says so.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import pyarrow as pa

from coldstore.block.files import BlockFiles
from coldstore.history import load, rollups
from coldstore.history.block_list import BlockList
from coldstore.large.upload import copy_object
from coldstore.layout import metadata, paths
from coldstore.layout import queue_settings as queue
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.paths import MetaKey
from coldstore.objects.port import ObjectStore
from coldstore.queue.cold_queue import ColdQueue
from coldstore.queue.verify import Progress as VerifyProgress
from coldstore.queue.verify import Report, verify
from coldstore.shared import limits
from coldstore.shared.attachments import objects_in
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, JjqError, NotFound
from coldstore.store import ColdStore

_LOOKS: Final = 8  # at young blocks that others merge while we copy
_READERS: Final = 4

# Called with the bytes that were copied and the bytes that there are to copy.
Progress = Callable[[int, int], None]
Check = Literal["all", "copied"]  # what is read back in the end


@dataclass(frozen=True, slots=True)
class Copied:
    """The result for one queue. `next` is the offset up to which the copy reaches."""

    queue: str
    blocks: int = 0  # copied this time
    stored_bytes: int = 0
    next: int = 0
    report: Report | None = None  # of the copy, if all of it was verified
    problem: JjqError | None = None  # why it does not reach further
    cut: int | None = None  # the source is only cut off there, and the copy has everything before that


class Copying(NamedTuple):
    """From where to where."""

    source: ColdStore
    target: ObjectStore
    clock: Clock
    chance: Chance
    check: Check = "all"
    fresh: bool = False  # a restore: the place has had no owner yet


class Unsound(NamedTuple):
    """Blocks of a source, and why there are no more of them."""

    blocks: BlockList
    loss: DataLoss | None


def prepare(work: Copying, *, empty: bool) -> None:
    """Check that the target is the right place. With `empty` it must hold nothing at all."""
    if work.source.id is None:
        raise NotFound(f"nothing was ever written to {work.source.objects}: correct the source")
    found = next(work.target.list(""), None)
    if found is not None and empty:
        raise Conflict(
            f"{work.target} is not empty, it holds {found.key}: restore into an empty place, and start servers on that "
            f"one; or continue an interrupted restore with --resume"
        )
    theirs = ColdStore(work.target, work.clock, work.chance).id
    if found is not None and theirs is None:
        raise Conflict(f"{work.target} holds {found.key}, and no jjq.json: choose an empty place")
    if theirs not in (None, work.source.id):
        raise Conflict(f"{work.target} holds another store, {theirs}: choose an empty place")
    if theirs is not None and _is_same_place(work):
        raise Conflict("source and target are the same place: choose another target")
    for prefix in ("cluster/", "journals/"):
        if (used := next(work.target.list(prefix), None)) is not None:
            raise Conflict(f"{work.target} holds {used.key}: servers have used it, so it is no backup now")
    with suppress(Conflict):  # there already, and the same
        work.target.put_if_absent(paths.STORE, work.source.objects.get(paths.STORE).data)


def _is_same_place(work: Copying) -> bool:
    """Whether an object that is put here appears there: one place may have several names, by links or endpoints."""
    key = f"same-place-{work.chance.token()}"
    work.target.put(key, b"")
    try:
        work.source.objects.head(key)
    except NotFound:
        return False
    finally:
        work.target.delete(key)
    return True


def copy_queue(
    work: Copying,
    name: str,
    progress: Progress = lambda done, total: None,
    checking: VerifyProgress | None = None,
) -> Copied:
    """Copy the part of a queue that the target lacks, and read it back. The result says what went wrong."""
    judged = work.source.judge(name)
    if isinstance(judged, Report):
        if judged.ok:
            why: JjqError = Conflict(
                f"queue {name} is being imported: nothing of it is shown yet, so nothing is copied"
            )
        else:
            why = DataLoss(f"{judged.defects[0].key}: {judged.defects[0].kind}; {judged.defects[0].text}")
        return Copied(name, problem=why)
    try:
        files = _begin(work, judged)
        copy = _Copy(judged, files, work.fresh, progress)
        problem: JjqError | None = copy.run() or copy.lost
        end = _tidy(work, files)
        report = None
        if work.check == "all":
            report = verify(files, checking)
        else:
            copy.read_back()
    except JjqError as error:
        return Copied(name, problem=error)
    cut = work.source.verify(name).cut if isinstance(problem, DataLoss) else None
    return Copied(name, len(copy.copied), copy.done_bytes, end, report, problem, cut)


def _begin(work: Copying, source: BlockFiles) -> BlockFiles:
    """The target's queue: made, or found to be the same one."""
    name = source.name
    with suppress(NotFound):
        work.target.head(paths.shards(name))
        raise Conflict(
            f"{work.target} holds {paths.shards(name)}: servers have used it, so it is no backup now"
        )
    data = queue.encode(source.settings)
    try:
        work.target.put_if_absent(paths.queue(name), data)
    except Conflict:
        there = queue.decode(work.target.get(paths.queue(name)).data, paths.queue(name))
        if there != source.settings:
            raise Conflict(f"{work.target} holds another queue {name}: choose an empty place") from None
    return BlockFiles(work.target, source.settings)


def _tidy(work: Copying, files: BlockFiles) -> int:
    """Sweep young blocks that final ones hold by now, write the roll-ups that are missing; where the copy ends."""
    loaded = load.load(files)
    ColdQueue(files, work.clock, work.chance, loaded).sweep(grace_seconds=0.0)
    for run in rollups.runs(loaded.blocks.final_count):
        if run not in loaded.rolled:
            rollups.write(files.objects, files.settings, loaded.blocks, run)
    return loaded.blocks.next_offset


def sound_prefix(files: BlockFiles) -> Unsound:
    """The blocks of a queue before the first one that is missing."""
    try:
        return Unsound(load.load(files).blocks, None)
    except DataLoss as loss:
        why = loss
    found: list[BlockMetadata] = []
    keys = [paths.parse_meta(info.key) for info in files.objects.list(paths.meta_folder(files.name))]
    for kind in ("final", "young"):
        for key in keys:
            tip = found[-1] if found else None
            if (
                key is None
                or key.kind != kind
                or (key.kind == "young" and key.first < (tip.next if tip else 0))
            ):
                continue
            try:
                block = files.find(*key)
            except DataLoss:
                break
            if block is None or metadata.broken_link(tip, block) is not None:
                break
            found.append(block)
    blocks = BlockList.empty(files.settings.id).with_finals([b for b in found if b.kind == "final"])
    for block in found[blocks.final_count :]:
        blocks = blocks.with_young(block)
    return Unsound(blocks, why)


class _Copy:
    """One queue on its way."""

    def __init__(self, source: BlockFiles, target: BlockFiles, fresh: bool, progress: Progress) -> None:
        self._source = source.without_cache()
        self._target = target
        self._fresh = fresh
        self._progress = progress
        self.copied: list[BlockMetadata] = []
        self.done_bytes = 0
        self.lost: DataLoss | None = None  # the first large object that could not be copied

    def run(self) -> DataLoss | None:
        """Copy what is missing; why it does not reach further, if the source is not sound."""
        problem: DataLoss | None = None
        for _ in range(_LOOKS):
            blocks, problem = sound_prefix(self._source)
            there = self._there()
            self._check_prefix(there, blocks)
            missing = [
                b for b in blocks[there.final_count :] if b.kind == "final" or b.first >= there.next_offset
            ]
            try:
                self._copy_all(missing)
                return problem
            except _Gone:
                continue  # merged meanwhile: the final block is there by now
            except DataLoss as loss:
                return loss
        raise Conflict(f"queue {self._source.name} keeps changing: give the command again")

    def _there(self) -> BlockList:
        try:
            return load.load(self._target).blocks
        except DataLoss as loss:
            raise DataLoss(
                f"the target is damaged: {loss.message}; or choose another", key=loss.key
            ) from None

    def _check_prefix(self, there: BlockList, blocks: BlockList) -> None:
        """The target must hold the beginning of what the source holds, and nothing else."""
        last = there.last_final
        if last is None:
            return
        same = blocks[there.final_count - 1] if blocks.final_count >= there.final_count else None
        if same is None or same.chain != last.chain:
            raise Conflict(
                f"queue {self._source.name} of the target does not go on as the source does, from block {last.id} or "
                f"before: choose another target, and keep this one"
            )

    def _copy_all(self, missing: Sequence[BlockMetadata]) -> None:
        total = self.done_bytes + sum(block.stored_bytes for block in missing)
        self._progress(self.done_bytes, total)
        with ThreadPoolExecutor(_READERS, "jjq-backup") as pool:
            for block, data in _ahead(pool, missing, self._read):
                self._put(block, data)
                self.copied.append(block)
                self.done_bytes += block.stored_bytes
                self._progress(self.done_bytes, total)

    def _read(self, listed: BlockMetadata) -> tuple[BlockMetadata, pa.Buffer]:
        """A block of the source: metadata as it was committed, and data that has its digest."""
        try:
            block = self._source.committed(listed)
            return block, self._source.data(block)
        except DataLoss:
            if listed.kind == "young" and self._merged(listed):
                raise _Gone from None
            raise

    def _merged(self, young: BlockMetadata) -> bool:
        return sound_prefix(self._source).blocks.final_next >= young.next

    def _put(self, block: BlockMetadata, data: pa.Buffer) -> None:
        """Objects before data, data before metadata. What lies there is of a backup that was broken off, and is
        replaced. An object that is lost keeps nothing else from being copied."""
        table = self._source.open(block, data).read(block.first - block.file_first, columns=["headers"])
        for ref in objects_in(table):
            try:
                copy_object(
                    self._source.objects, self._target.objects, self._source.name, ref.sha256, ref.size
                )
            except DataLoss as loss:
                self.lost = self.lost or loss
        self._ensure(self._target.key(block.path), memoryview(data), block.sha256)
        if self._fresh:
            block = replace(block, epoch=0, copy=None)
        try:
            self._target.commit(block)
        except Conflict:
            if self._target.find(*MetaKey(block.first, block.kind)) != block:
                raise

    def _ensure(self, key: str, data: memoryview, sha256: str) -> None:
        objects = self._target.objects
        try:
            objects.put_if_absent(key, data)
        except Conflict:
            found = objects.get(key)
            if hashlib.sha256(found.data).hexdigest() != sha256:
                objects.put_if_match(key, data, found.etag)

    def read_back(self) -> None:
        """Read what was copied this time, and compare it with what the source committed."""
        for block in self.copied:
            self._target.data(block)


class _Gone(Exception):
    """A young block was merged and swept since it was listed."""


def _ahead(
    pool: ThreadPoolExecutor,
    blocks: Iterable[BlockMetadata],
    read: Callable[[BlockMetadata], tuple[BlockMetadata, pa.Buffer]],
) -> Iterator[tuple[BlockMetadata, pa.Buffer]]:
    """The blocks in order, a few of them read ahead: as many as fit into memory that is bounded."""
    waiting: deque[tuple[int, Future[tuple[BlockMetadata, pa.Buffer]]]] = deque()
    held = 0
    for block in blocks:
        while waiting and held + block.stored_bytes > limits.BACKUP_BYTES_AHEAD:
            size, future = waiting.popleft()
            yield future.result()
            held -= size
        waiting.append((block.stored_bytes, pool.submit(read, block)))
        held += block.stored_bytes
    while waiting:
        yield waiting.popleft()[1].result()
