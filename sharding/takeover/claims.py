"""Which node owns a queue, by its shards document. The hot store asks when it opens a queue (`hotstore.queue.owners`).

the document names                  then the queue is
nothing: there is no document       nobody's: put one, and own the queue at epoch 1
this node, in its present tenure    ours; its state is in the state document, since the journal does not name it
a tenure that is over               if the journal of that tenure was taken over in full, the queue was never served
                                    in it: swap the document, and own the queue
another node                        that node's: `Fenced`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coldstore.layout import paths
from coldstore.layout.queue_settings import decode as decode_queue
from coldstore.objects.port import ObjectStore
from coldstore.queue.deletion import describe_deletion
from coldstore.shared.errors import Exhausted, Fenced, NotFound, Unavailable, no_queue
from hotstore.queue.owners import Claim, QueueState, Retired
from hotstore.runner import Runner
from sharding.documents import queue_state as state
from sharding.documents import shards, tenure
from sharding.documents.shards import Shards
from sharding.documents.tenure import OwnTenure
from sharding.limits import RETRY_SECONDS


class Claims:
    """The `Owners` of a node of a cluster. It remembers the documents of the queues that are ours."""

    def __init__(self, objects: ObjectStore, held: OwnTenure, runner: Runner) -> None:
        self.objects = objects
        self.held = held
        self.known: dict[str, Shards] = {}
        self._runner = runner

    async def claim(self, queue: str) -> Claim:
        return await self._runner.run(lambda: self._claim(queue))

    async def confirm(self, queue: str, epoch: int) -> int:
        return await self._runner.run(lambda: self._confirm(queue, epoch))

    def doubts(self, epoch: int) -> bool:
        """True for a queue of the time before the cluster; or, on a disk, of a tenure that another node ended."""
        now = self.held.tenure
        return epoch == 0 or (now.journal == "disk" and now.since > 1)

    async def retire(self, queue: str, epoch: int, state: QueueState) -> Retired | None:
        return Retired(await self._runner.run(lambda: self._retire(queue, epoch, state)))

    def is_ours(self, found: Shards) -> bool:
        now = self.held.tenure
        return found.owner == now.node and now.since <= found.run <= now.run

    def forget(self, queue: str) -> None:
        self.known.pop(queue, None)

    # In a worker thread -----------------------------------------------------------------------------

    def _claim(self, queue: str) -> Claim:
        ours = self._settle(queue, self._take_orphan)
        # What a ledger is besides its elements, the group makes of them.
        kept = None if paths.ledger_parts(queue) else ours.state
        return Claim(ours.epoch, state.read(self.objects, queue, kept), owned_before=ours.run < self.held.run)

    def _confirm(self, queue: str, epoch: int) -> int:
        ours = self._settle(queue, lambda now: self._keep(now, epoch))
        if epoch and ours.epoch not in (epoch, epoch + 1):
            raise self._fenced(ours)
        return ours.epoch

    def _retire(self, queue: str, epoch: int, kept: QueueState) -> int:
        """The next epoch, of the same owner: who finds an earlier one in a journal knows that it is not the last."""
        if paths.ledger_parts(queue):
            return epoch  # its document is that of its queue
        name = state.put(self.objects, queue, epoch + 1, kept)

        def next_epoch(now: Shards) -> Shards:
            if self.is_ours(now) and now.epoch == epoch + 1 and now.state == name:
                return now  # by an attempt that seemed to fail
            if not self.is_ours(now) or now.epoch != epoch:
                raise self._fenced(now)
            return now.moved(now.owner, now.run, name)

        return self._settle(queue, next_epoch).epoch

    def _settle(self, name: str, make: Callable[[Shards], Shards]) -> Shards:
        """Make the document say that the queue is ours: `make` changes it, leaves it, or raises."""

        def first() -> Shards:
            return Shards(name, self._queue_id(paths.worked_queue(name)), 1, self.held.node, self.held.run)

        busy = Unavailable(f"queue {name} keeps changing hands: ask again")
        ours = self.known[name] = shards.change(self.objects, name, make, missing=first, busy=busy)
        return ours

    def _queue_id(self, name: str) -> str:
        key = paths.queue(name)
        try:
            settings = decode_queue(self.objects.get(key).data, key)
        except NotFound:
            raise no_queue(name) from None
        if settings.deleted is not None:
            raise NotFound(describe_deletion(settings))  # its files may be going: none is to come back
        return settings.id

    def _take_orphan(self, now: Shards) -> Shards:
        if self.is_ours(now):
            return now
        owner = tenure.read(self.objects, now.owner)
        if owner is None or not owner.tenure.is_over(now.run):
            raise self._fenced(now)
        last = owner.tenure
        if last.journal != "s3":
            raise self._fenced(
                now, f"; that node is dead, and only `jjq node take-over {now.owner}` can move it"
            )
        is_orphaned = any(orphan.since <= now.run <= orphan.run for orphan in last.orphans)
        if is_orphaned or (last.state == "ended" and last.since <= now.run):
            raise Exhausted(
                f"queue {now.name} is being taken over from node {now.owner}: retry in a moment",
                retry_after=RETRY_SECONDS,
            )
        return now.moved(self.held.node, self.held.run, now.state)

    def _keep(self, now: Shards, epoch: int) -> Shards:
        """Is it still ours? Then write it again, with the next version, so that no swap on its way can still arrive."""
        if self.is_ours(now):
            return replace(now, version=now.version + 1)
        if now.owner == self.held.node and now.run < self.held.tenure.since and now.epoch == epoch:
            # Our own tenure was ended and nobody has taken this queue: our disk still has all of it.
            return now.moved(self.held.node, self.held.run, now.state)
        raise self._fenced(now)

    def _fenced(self, by: Shards, more: str = "") -> Fenced:
        return Fenced(f"queue {by.name} is served by node {by.owner}, epoch {by.epoch}{more}", owner=by.owner)
