"""Mistakes that an engine could make, patched into a server process by `launch`. Each must be caught."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bug:
    """A mistake, and the nemeses that bring it to light."""

    seed: Callable[[], None]
    nemeses: tuple[str, ...]
    properties: frozenset[str]  # one of these must be flagged
    cold: str = "folder"
    progress: int = 20  # pushes between two faults
    nodes: int = 1
    lease: float = 2.0  # seconds
    refusal: str = ""  # with which the next start may refuse to serve, instead of a property that is flagged
    seconds: float = 0.6  # of faults


def patch(owner: object, **names: object) -> None:
    """Put these in the place of what is there."""
    for name, value in names.items():
        getattr(owner, name)  # a name that is no longer there would make no mistake at all
        setattr(owner, name, value)


def ack_before_fsync() -> None:
    """Answer first, sync a little later."""
    from hotstore.journal.disk import RealFile

    real = RealFile.sync

    def later(file: RealFile) -> None:
        with suppress(OSError):  # closed in the meantime
            real(file)

    def sync(file: RealFile) -> None:
        timer = threading.Timer(2.0, later, [file])
        timer.daemon = True
        timer.start()

    patch(RealFile, sync=sync)


def no_directory_fsync() -> None:
    """Sync files, and never the names that lead to them."""
    from hotstore.journal import disk

    patch(disk, _sync_directory=lambda path: None)


def retry_after_failed_fsync() -> None:
    """Take a second fsync that succeeds for a proof."""
    from hotstore.journal.disk import RealFile

    real = RealFile.sync

    def sync(file: RealFile) -> None:
        try:
            real(file)
        except OSError:
            real(file)

    patch(RealFile, sync=sync)


def truncate_on_bad_crc() -> None:
    """Take every damaged record for the torn end of the log, and cut there."""
    from hotstore.journal.reader import JournalWalk

    def judge_gap(walk: Any, index: int, found: Any) -> bool:
        walk.ends_well = False
        return False

    patch(JournalWalk, _judge_gap=judge_gap, next_sequence=property(lambda walk: walk._expected or 0))


def trim_by_the_maximum() -> None:
    """Let the journal go up to what one queue needs no longer, although another still does."""
    from hotstore.checkpoint.checkpointer import Checkpointer

    async def trim(self: Any) -> None:
        floors = [floor for queue in self._registry.queues.values() if (floor := queue.floor()) is not None]
        before = max([self.floor, *floors])
        await self._committer.call(lambda: self._journal.trim(before))

    patch(Checkpointer, trim=trim)


def precondition_taken_for_a_fence() -> None:
    """Take a 412 at its word, although it may answer our own first attempt."""
    from coldstore.objects.port import whole
    from coldstore.objects.s3 import S3Objects
    from coldstore.queue import commit
    from coldstore.shared.errors import Conflict, NotFound

    def put(self: Any, key: str, data: Any, condition: Any) -> str:
        body, put_id = whole(data), self._chance.token()

        def attempt() -> str:
            try:
                etag: str = self._bucket.put(key, body, put_id, condition)
            except (Conflict, NotFound) as refused:
                raise Conflict(f"{key} was written by another owner") from refused
            return etag

        found: str = self._retry.run(f"write {key}", attempt)
        return found

    def put_metadata(files: Any, block: Any, writer: Any) -> None:
        try:
            files.commit(block)
        except Conflict:
            raise commit.fenced(block) from None

    patch(S3Objects, _put=put)
    patch(commit, _put_metadata=put_metadata)


def no_check_after_a_put() -> None:
    """Acknowledge what was put, without asking whether we are still the node."""
    from sharding.documents.tenure import OwnTenure

    patch(OwnTenure, check=lambda held: None)


def attempt_not_checked() -> None:
    """Take the ack of any attempt for that of the last one."""
    from hotstore.groups.changes import TaskChanges

    real = TaskChanges.__init__

    def begin(self: Any, group: Any, change: Any, *rest: Any, **more: Any) -> None:
        index, last = group.state.open.index, group.state.open.attempt
        pairs = zip(change.ids, change.attempts or change.ids, strict=True)
        attempts = [last[index[task]] if task in index else attempt for task, attempt in pairs]
        real(self, group, change._replace(attempts=change.attempts and attempts), *rest, **more)

    patch(TaskChanges, __init__=begin)


def ack_before_the_ledger() -> None:
    """Answer changes of tasks, and durable takes, while the ledger is still being written."""
    from hotstore.work.ledger_writer import Flush

    async def wait(flush: Any, *, written: bool = False) -> None:
        await asyncio.sleep(0)

    patch(Flush, wait=wait)


def timers_lost_at_a_start() -> None:
    """Know that tasks are delayed, and never look at them again."""
    from hotstore.work.work_group import WorkGroup

    real = WorkGroup.prepare

    async def prepare(self: Any) -> None:
        await real(self)
        self.live.timers.__init__()

    patch(WorkGroup, prepare=prepare)


def leases_survive_their_holders() -> None:
    """After a start or takeover, leave what was taken with those who took it, for ever."""
    from hotstore.groups.timers import LEASE, Timers
    from hotstore.work.work_group import WorkGroup

    real, add = WorkGroup.prepare, Timers.add

    async def prepare(self: Any) -> None:
        patch(Timers, add=lambda timers, kind, *rest: kind == LEASE or add(timers, kind, *rest))
        try:
            await real(self)
        finally:
            patch(Timers, add=add)

    patch(WorkGroup, prepare=prepare, release_unknown=lambda group, is_known: {})


def capacity_counted_twice() -> None:
    """Count a push that is in the queue as one on its way as well, for ever."""
    from hotstore.work.capacity import Capacity

    patch(Capacity, leave=lambda capacity, entry: None)


def keys_not_freed() -> None:
    """Keep a key busy after its task was given back or done."""
    from hotstore.groups.keyed import KeyedDriver

    patch(KeyedDriver, free=lambda driver, task: None)


def keys_without_order() -> None:
    """Hand out any number of tasks of a key at a time."""
    from hotstore.groups.keyed import KeyedDriver

    real = KeyedDriver.__init__

    def begin(self: Any, per_key: int, rate: float | None = None) -> None:
        real(self, 1_000_000, rate)

    patch(KeyedDriver, __init__=begin)


_GONE = frozenset(
    {"lost-prefix", "lost-middle", "lost-postfix", "inconsistent-offsets", "phantom", "data-loss"}
)

BUGS = {
    "ack-before-fsync": Bug(ack_before_fsync, ("power",), _GONE),
    "no-directory-fsync": Bug(no_directory_fsync, ("power",), _GONE),
    "retry-after-failed-fsync": Bug(retry_after_failed_fsync, ("fsync", "power"), _GONE),
    "truncate-on-bad-crc": Bug(
        truncate_on_bad_crc,
        ("flip-journal",),
        frozenset({"silent-loss"}),
        refusal="it is an older copy, or its end was deleted",  # the checkpoint knows how far the journal went
    ),
    "trim-by-the-maximum": Bug(trim_by_the_maximum, ("kill",), _GONE | {"unseen"}, progress=250),
    "412-taken-for-a-fence": Bug(
        precondition_taken_for_a_fence,
        ("s3-lost-reply",),
        frozenset({"liveness"}),
        "s3",
        seconds=2.0,  # in which several blocks of a queue become cold
    ),
    "attempt-not-checked": Bug(attempt_not_checked, ("pause",), frozenset({"late-ack"})),
    "ack-before-the-ledger": Bug(ack_before_the_ledger, ("power",), frozenset({"task-again", "task-ledger"})),
    "timers-lost-at-a-start": Bug(timers_lost_at_a_start, ("kill",), frozenset({"task-stuck"})),
    "leases-survive": Bug(leases_survive_their_holders, ("power",), frozenset({"task-stuck"})),
    "capacity-counted-twice": Bug(capacity_counted_twice, ("pause",), frozenset({"liveness"})),
    "keys-not-freed": Bug(keys_not_freed, ("pause",), frozenset({"task-stuck"})),
    "keys-without-order": Bug(keys_without_order, ("kill",), frozenset({"key-order"})),
    "no-check-after-a-put": Bug(
        no_check_after_a_put,
        ("node-ended-early",),
        frozenset({"fence"}),
        "s3",
        nodes=2,
        lease=10.0,  # of which most is left when the tenure is ended, however busy the machine is
    ),
}

# Mistakes of worker groups that one run has together: each is flagged by a property that the others do not touch.
TOGETHER = (
    ("attempt-not-checked", "capacity-counted-twice", "keys-not-freed"),
    ("timers-lost-at-a-start", "keys-without-order"),
    ("ack-before-the-ledger", "leases-survive"),
)
RUNS = (*TOGETHER, *((name,) for name in BUGS if not any(name in some for some in TOGETHER)))


def seed(names: str) -> None:
    """Make these mistakes; plans have them with plus signs between."""
    for name in names.split("+"):
        BUGS[name].seed()
