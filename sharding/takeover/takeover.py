"""Taking over from a dead node: its journal is fenced and replayed, and each of its queues moves to this node.

    1  the tenure is ended: no acknowledgement any more, no trim                      (tenure.py)
    2  the journal is fenced: it ends, at the same place for everyone                 (fencing.py)
    3  it is replayed into memory, from its checkpoint on (checkpoint_objects.py). Then for each queue that is the
       dead node's by its shards document
       a  what is not in the cold store is sealed there
       b  the state document is put
       c  the shards document is swapped: the next epoch, this node                   the queue has moved
    4  the tenure is settled: the journal is not needed any more, and deleted but for its fences

Any number of nodes may do this at once, or again after one of them died. They find the same elements and put the same
blocks and the same state; one of their swaps takes effect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

from coldstore.layout import paths
from coldstore.shared import failpoint
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, JjqError
from coldstore.store import ColdStore
from hotstore.checkpoint.duckdb_file import DuckDbCodec
from hotstore.checkpoint.registry_part import RegistryPart
from hotstore.checkpoint.restore import CheckpointPlace, CheckpointRestore
from hotstore.journal import records
from hotstore.journal.port import Damage, Journal, JournalBatch
from hotstore.lifecycle.departure import state_of
from hotstore.lifecycle.replay import JournalReplay
from hotstore.queue.holes import reconcile
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.queue.tail import fills
from hotstore.runner import InlineRunner
from hotstore.write.admission import Usage
from hotstore.write.committer import Committer
from sharding.documents import queue_state, shards, tenure
from sharding.documents.shards import Shards
from sharding.documents.tenure import OrphanJournal
from sharding.journal import objects
from sharding.journal.checkpoint_objects import ObjectCheckpoints
from sharding.journal.fencing import FencingWalk
from sharding.journal.objects import JournalObject
from sharding.limits import TAKERS
from sharding.takeover.claims import Claims

log = logging.getLogger("jjq.sharding")


class DeadNodeJournal:
    """The journal of a dead node, to be read once."""

    in_flight: Final = 1  # nothing is ever appended

    def __init__(self, walk: FencingWalk, since: int) -> None:
        self._walk = walk
        self.identity = since
        self.numbers: list[int] = []

    @property
    def next_sequence(self) -> int:
        return self._walk.next

    @property
    def damage(self) -> Sequence[Damage]:
        return self._walk.damage

    def recover(self) -> Iterator[JournalBatch]:
        yield from objects.batches(self._noted(), records.KINDS)

    def _noted(self) -> Iterator[JournalObject]:
        for found in self._walk.batches():
            self.numbers.append(found.number)
            yield found


class TakeoverWorker:
    """Takes over queues for this node, the one of `claims`. Blocks: for a worker thread."""

    def __init__(self, cold: ColdStore, claims: Claims, clock: Clock) -> None:
        self._cold = cold
        self._claims = claims
        self._objects = claims.objects
        self._clock = clock

    def take(self, node: str) -> list[str]:
        """Take over all orphan journals of `node`. Returns the queues that are ours now."""
        found = tenure.read(self._objects, node)
        if found is None:
            return []
        now = found.tenure
        orphans = list(now.orphans)
        if now.state == "ended" and now.journal == "s3":
            orphans.append(OrphanJournal(now.since, now.run, now.boundary, -1))
        return [name for orphan in orphans for name in self._take(node, orphan)]

    def _take(self, node: str, orphan: OrphanJournal) -> list[str]:
        walk = FencingWalk(self._objects, node, orphan.first, orphan.run, self._claims.held.token)
        journal = DeadNodeJournal(walk, orphan.since)
        committer = Committer(cast("Journal", journal), self._clock, 1, threaded=False)
        registry = Registry(self._cold, committer, InlineRunner(), self._clock, Usage())
        try:
            self._replay(registry, journal, ObjectCheckpoints(self._objects, node, orphan.since))
        except DataLoss:
            if not self._is_left(node, orphan):
                return []  # another node has taken it over meanwhile, and deleted what we read
            raise
        failpoint.reach("takeover.replayed")
        for damage in journal.damage:
            log.error("journal of node %s: %s", node, damage)
        with ThreadPoolExecutor(TAKERS, "jjq-take") as pool:
            queues = [queue for queue in registry.queues.values() if paths.ledger_parts(queue.name) is None]
            outcomes = list(pool.map(lambda queue: self._try(queue, registry, node, orphan), queues))
        moved = [queue.name for queue, outcome in zip(queues, outcomes, strict=True) if outcome]
        if all(outcome is not None for outcome in outcomes) and not journal.damage:
            tenure.settle(self._objects, node, orphan._replace(end=walk.end))
            self._delete(node, journal.numbers, orphan)
        log.info("took over %d queues of node %s", len(moved), node)
        return moved

    def _replay(self, registry: Registry, journal: DeadNodeJournal, kept: ObjectCheckpoints) -> None:
        with TemporaryDirectory(prefix="jjq-takeover-") as folder:
            place = CheckpointPlace(kept, DuckDbCodec(), Path(folder))
            restore = CheckpointRestore(place, [RegistryPart(registry, InlineRunner())])
            replay = JournalReplay(registry, self._clock, restore)
            replay.run(cast("Journal", journal))
        if replay.lost:
            raise DataLoss(
                f"{replay.describe_loss()}; put a checkpoint back to its place, from a version or a copy"
            )

    def _is_left(self, node: str, orphan: OrphanJournal) -> bool:
        """Whether the orphan journal is still to be taken over."""
        found = tenure.read(self._objects, node)
        if found is None:
            return False
        now = found.tenure
        return (now.state == "ended" and now.run == orphan.run) or any(
            each.run == orphan.run for each in now.orphans
        )

    def _try(self, queue: HotQueue, registry: Registry, node: str, orphan: OrphanJournal) -> bool | None:
        """Whether the queue moved to us. None if that could not be decided: then the orphan journal stays."""
        try:
            return self._take_queue(queue, registry, node, orphan)
        except JjqError as error:
            log.error("queue %s of node %s is not taken over yet: %s", queue.name, node, error)
            return None

    def _take_queue(self, queue: HotQueue, registry: Registry, node: str, orphan: OrphanJournal) -> bool:
        states: list[str] = []  # the name of the queue's state, once it is preserved

        def take(now: Shards) -> Shards:
            states.clear()
            if now.owner != node or now.epoch != queue.epoch or not orphan.since <= now.run <= orphan.run:
                return now  # the queue left before, or another node was quicker
            states.append(self._preserve(queue, registry))
            return now.moved(self._claims.held.node, self._claims.held.run, states[0])

        if shards.read(self._objects, queue.name) is None:
            return False  # nobody ever served it
        busy = Conflict(f"queue {queue.name} keeps changing hands: try again")
        shards.change(self._objects, queue.name, take, busy=busy)
        if not states:
            return False
        failpoint.reach("move.swapped")
        queue_state.sweep(self._objects, queue.name, states[0])
        return True

    def _preserve(self, queue: HotQueue, registry: Registry) -> str:
        """Seal everything of the queue and of its ledgers in the cold store. Returns the name of its state document."""
        for ledger in registry.ledgers_of(queue.name):
            self._seal(ledger, registry, queue.epoch + 1)
        self._seal(queue, registry, queue.epoch + 1)
        failpoint.reach("move.sealed")
        name = queue_state.put(self._objects, queue.name, queue.epoch + 1, state_of(queue, registry))
        failpoint.reach("move.state_put")
        return name

    def _seal(self, queue: HotQueue, registry: Registry, epoch: int) -> None:
        if queue.state.doubt is not None:
            raise queue.state.doubt.with_traceback(None)
        cold = self._cold.open_queue(queue.name)
        reconcile(queue, cold, [subscriber.offset for subscriber in registry.of(queue).values()])
        lost = queue.state.loss
        if lost is not None:
            raise DataLoss(f"{lost.message}; mend the journal of its node, it is kept")
        for block in queue.sealing:
            table = block.table()
            final = fills(block, table, queue.settings.block_bytes)
            cold.write_block(table, final=final, epoch=epoch)

    def _delete(self, node: str, numbers: Sequence[int], orphan: OrphanJournal) -> None:
        with suppress(JjqError):  # what stays is swept when the node starts again
            kept = ObjectCheckpoints(self._objects, node, orphan.since)
            for name in kept.names():
                kept.remove(name)
            for number in numbers:
                self._objects.delete(paths.journal(node, number))
