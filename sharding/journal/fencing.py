"""Becoming a node, and ending the journals of the runs before it.

`begin` makes this process the next run of a node. Every other process of that name is fenced from then on. `begin`
refuses if the tenure is open and its journal is on the disk of another data directory (holder.py): what was
acknowledged there would be missing here. A tenure whose journal is on object storage may go on anywhere.

`FencingWalk` reads a node's journal on object storage and ends it with a fence. For the journal of the runs up to R,
from number `first` on:

    object, no fence           a batch: go on at the next number
    fence of runs before R     a restart: go on at the number that it names
    fence of R or later        the end
    nothing                    put a fence there if absent. Done: the end. Not done: look again

The writer acknowledges in order, and has its puts in flight within JOURNAL_WINDOW numbers. So at the first absent
number nothing was acknowledged, nor behind it. Once the fence is there, nothing ever will be. All walkers of R end at
the same fence, whatever arrives later, because fences are never deleted.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from coldstore.layout import paths
from coldstore.objects.port import Object, ObjectStore
from coldstore.objects.swap import Change, swap
from coldstore.shared import failpoint
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import Conflict, DataLoss, NotFound
from hotstore.journal.port import Damage, JournalPlace
from sharding.documents import tenure
from sharding.documents.holder import Holder
from sharding.documents.liveness import Liveness
from sharding.documents.tenure import JournalKind, OrphanJournal, OwnTenure, StoredTenure, Tenure
from sharding.journal import objects as journal_objects
from sharding.journal.objects import JournalObject
from sharding.limits import JOURNAL_READS_MAX, JOURNAL_WINDOW, LEASE_MARGIN, WATCH_LOOKS

log = logging.getLogger("jjq.sharding")


def begin(
    objects: ObjectStore,
    node: str,
    journal: JournalKind,
    token: str,
    holder: Holder | None = None,
    clock: Clock | None = None,
) -> OwnTenure:
    """Become `node`: every other process of this name is fenced from now on. `Conflict` if that is refused."""
    key = paths.tenure(node)

    def decide(found: Object | None) -> Change[Tenure]:
        if found is None:
            new = Tenure(node=node, run=1, since=1, token=token, journal=journal)
        else:
            old = tenure.decode(found.data, key)
            if holder is not None:
                admit(objects, StoredTenure(old, found.etag), holder, clock or SystemClock())
            new = _next(objects, old, journal, token)
        new = replace(new, holder=holder)
        return Change(tenure.encode(new), new)

    # If another process of this name starts as well, the last one stays.
    busy = Conflict(f"other processes keep starting as node {node}: give every node a name of its own")
    return OwnTenure(objects, swap(objects, key, decide, busy=busy).result)


def admit(objects: ObjectStore, found: StoredTenure, own: Holder, clock: Clock) -> None:
    """Return if the tenure may go on `own`; else `Conflict` names its holder and says what to do."""
    there = found.tenure.holder
    if found.tenure.state != "open" or found.tenure.journal != "disk" or there is None:
        return
    if not there.is_same_store(own):
        log.warning(
            "this store is a copy of another one, which is in use by %s: that does not count here", there
        )
        return
    if there.identity == own.identity:
        if there.inode == own.inode or there.stopped:
            return
        log.warning("data directory %s is a copy: its original may be in use by %s", own.data, there)
        if is_silent(objects, found, clock):
            return
        raise Conflict(
            f"{own.data} is a copy of the data directory that is in use by {there}: stop that first"
        )
    raise Conflict(_refusal(found.tenure, there))


def _refusal(now: Tenure, there: Holder) -> str:
    if now.node == paths.SINGLE_NODE:
        advice = "stop it, or use another store; several servers share one as nodes, each with a --node name"
        if there.stopped:
            advice = (
                "it has elements that are not in the store: start it there with --seal-on-close, then stop it"
            )
        return f"this store is in use by {there}: {advice}; if it is gone for good, see `jjq release --help`"
    return (
        f"node {now.node} is {there}, and its journal is there: start it with that data directory; if that is lost, "
        f"start a node of another name and see `jjq node take-over --help`"
    )


def is_silent(objects: ObjectStore, found: StoredTenure, clock: Clock) -> bool:
    """Watch a tenure for longer than a lease of its holder. True if it did not beat. Blocks for all that time."""
    if found.tenure.holder is None:
        return True  # a tenure of an early release: it names no lease to wait for
    seconds = LEASE_MARGIN * found.tenure.holder.lease_seconds
    pause = seconds / WATCH_LOOKS
    log.warning("waiting for %.0f s to see whether the other process is alive", seconds)
    node = found.tenure.node
    liveness = Liveness(clock, seconds, 2 * pause)
    liveness.look({node: found.etag})
    while not liveness.is_silent(node):
        clock.sleep(pause)
        again = tenure.read(objects, node)
        if again is None or again.etag != found.etag:
            return False
        liveness.look({node: again.etag})
    return True


def _next(objects: ObjectStore, old: Tenure, journal: JournalKind, token: str) -> Tenure:
    run = old.run + 1
    if old.state == "open" and old.journal == journal:
        return replace(old, run=run, token=token, beat=old.beat + 1)
    fresh = Tenure(
        node=old.node,
        run=run,
        since=run,
        token=token,
        journal=journal,
        boundary=old.boundary,
        orphans=old.orphans,
        beat=old.beat + 1,
    )
    if old.journal == "disk":
        return fresh  # what was on its disk is lost, or was taken over with the loss accepted
    walk = FencingWalk(objects, old.node, old.boundary, old.run, bytes.fromhex(token))
    for _ in walk.batches():
        pass
    orphans = old.orphans
    if old.state != "settled":
        orphans = (*orphans, OrphanJournal(old.since, old.run, old.boundary, walk.end))
    return replace(fresh, boundary=walk.next, orphans=orphans)


class FencingWalk:
    """One walk, to be read to its end. Then `end` is the number of the fence, and `next` the number after it."""

    def __init__(self, objects: ObjectStore, node: str, first: int, run: int, token: bytes) -> None:
        self.damage: list[Damage] = []
        self.end = -1
        self.next = -1
        self._objects = objects
        self._node = node
        self._first = first
        self._run = run
        self._token = token

    def batches(self) -> Iterator[JournalObject]:
        """Every object in order, without fences. The fence at the end is put after the last object was read."""
        with ThreadPoolExecutor(JOURNAL_READS_MAX, "jjq-walk") as pool:
            yield from self._batches(pool)

    def _batches(self, pool: ThreadPoolExecutor) -> Iterator[JournalObject]:
        ahead: deque[Future[bytes | None]] = deque()
        at = fetched = self._first
        while True:
            while len(ahead) < JOURNAL_READS_MAX:
                ahead.append(pool.submit(self._get, fetched))
                fetched += 1
            data = ahead.popleft().result()
            while data is None:
                if self._put_fence(at):
                    return
                data = self._get(at)
            found = self._decode(data, at)
            if found is None:
                at += 1
            elif not found.is_fence:
                yield found
                at += 1
            elif found.run >= self._run:
                self.end, self.next = at, found.next
                return
            else:
                at = fetched = found.next
                ahead.clear()

    def _get(self, number: int) -> bytes | None:
        try:
            return self._objects.get(paths.journal(self._node, number)).data
        except NotFound:
            return None

    def _decode(self, data: bytes, number: int) -> JournalObject | None:
        """The object; None if it is damaged, which is added to `damage`."""
        key = paths.journal(self._node, number)
        try:
            return journal_objects.decode(data, number, key)
        except DataLoss as error:
            place = JournalPlace(key, 0, len(data))
            self.damage.append(Damage("corrupt", number, number, (place,), error.message))
            return None

    def _put_fence(self, number: int) -> bool:
        """Put a fence at `number`. False if another object is there already."""
        self._check_no_hole(number)
        next_ = number + JOURNAL_WINDOW
        fence = journal_objects.fence(number, self._run, self._token, next_)
        try:
            self._objects.put_if_absent(paths.journal(self._node, number), fence)
        except Conflict:
            return False
        failpoint.reach("takeover.fenced")
        self.end, self.next = number, next_
        return True

    def _check_no_hole(self, number: int) -> None:
        """Puts in flight lie within the window. So an object behind the window means that `number` was deleted."""
        last = paths.journal(self._node, number + JOURNAL_WINDOW - 1)
        behind = next(self._objects.list(paths.journal_folder(self._node), last), None)
        if behind is not None:
            key = paths.journal(self._node, number)
            raise DataLoss(
                f"journal object {key} is missing, but {behind.key} is there: somebody deleted it; restore it "
                f"from a version or a copy, then start again",
                key=key,
            )
