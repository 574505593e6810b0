"""What an operator does to a queue: change its settings, delete it, bring it back.

Deleting, by the node that serves the queue:

    1  journal: LEAVING. Later requests wait; everything is sealed                    (departure.py)
    2 the state, subscribers and producers, is put where the next owner of the queue looks for it
    3  `queue.json` says that the queue is deleted                                    (coldstore.queue.deletion)
    4  journal: LEFT; waiting requests fail with "no such queue"

If the process dies before 3, nothing has happened, and the journal's LEAVING makes the next start ask. From 3 on
the queue is deleted, all of it is in the cold store, and no journal has anything of it. So any node can bring it
back, until the files are removed.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from coldstore.layout.paths import check_name
from coldstore.layout.queue_settings import Deleted, QueueSettings
from coldstore.queue import deletion
from coldstore.shared import failpoint
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, Fenced, InvalidInput, JjqError, NotFound, Unavailable
from coldstore.shared.limits import DELETE_GRACE_SECONDS, DELETE_GRACE_SECONDS_MAX
from coldstore.shared.results import Deletion, QueueInfo
from coldstore.shared.single_flight import SingleFlight
from coldstore.store import ColdStore
from hotstore.journal import records
from hotstore.lifecycle.departure import Departures
from hotstore.lifecycle.seal import Sealer
from hotstore.queue import state_document
from hotstore.queue.moves import commit_state
from hotstore.queue.owners import Owners, QueueState, Retired
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.runner import Runner
from hotstore.write.committer import Committer

log = logging.getLogger("jjq.hotstore")


class Administration:
    """See the module's docstring."""

    def __init__(
        self,
        registry: Registry,
        committer: Committer,
        sealer: Sealer,
        departures: Departures,
        cold: ColdStore,
        owners: Owners,
        runner: Runner,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._committer = committer
        self._sealer = sealer
        self._departures = departures
        self._cold = cold
        self._owners = owners
        self._runner = runner
        self._clock = clock
        self._deletions: SingleFlight[str, Deletion] = SingleFlight(_log_failure)

    async def update(self, name: str, block_bytes: int | None, block_seconds: float | None) -> QueueInfo:
        """Change when blocks are sealed from now on."""
        if block_bytes is None and block_seconds is None:
            raise InvalidInput("nothing to change: give block_bytes or block_seconds")
        queue = await self._registry.queue(name)
        settings = await self._runner.run(
            lambda: self._cold.update_queue(name, block_bytes=block_bytes, block_seconds=block_seconds)
        )
        if settings.id != queue.settings.id:
            raise Conflict(f"queue {name} is now another queue: look at it again, then decide")
        queue.use(settings)
        self._registry.changes.queues.add(queue)
        await commit_state(
            self._committer, lambda: [records.rows(records.QUEUES, [queue.row()])], queue=queue
        )
        self._sealer.seal_due(queue)  # it may be full by the new size
        return queue.info()

    async def delete(self, name: str, grace_seconds: float | None, dry_run: bool) -> Deletion:
        """Delete; again: the same answer. See the module's docstring."""
        grace = _check_grace(DELETE_GRACE_SECONDS if grace_seconds is None else grace_seconds)
        try:
            queue = await self._registry.queue(name)
        except NotFound:
            found = await self._runner.run(lambda: self._cold.find(check_name(name)))
            if found is None or found.deleted is None or found.deleted.files != "kept":
                raise
            return _answer(found, found.deleted)
        if dry_run:
            return _answer(queue.settings, self._from_now(grace))
        # The caller may go away: the deletion goes on, and a second caller waits for the same one.
        return await self._deletions.run(name, lambda: self._delete(name, grace), f"jjq-delete-{name}")

    def _from_now(self, grace: float) -> Deleted:
        now_us = self._clock.now_us()
        return Deleted(now_us, now_us + round(grace * 1_000_000))

    async def _delete(self, name: str, grace: float) -> Deletion:
        gone = NotFound(f"queue {name} is being deleted")
        queue, state = await self._departures.begin(name, gone)
        marking = False
        try:
            kept = await self._retire(queue, state)
            queue.epoch = kept.epoch
            failpoint.reach("delete.retired")
            marking = True
            wanted = self._from_now(grace)
            marked = await self._runner.run(
                lambda: self._cold.delete_queue(queue.settings, wanted, kept.state)
            )
        except Fenced as lost:
            await self._departures.leave(queue, lost)
            raise
        except BaseException as error:
            if marking and (isinstance(error, Unavailable) or not isinstance(error, JjqError)):
                self._departures.unsure(queue)
            else:
                await self._departures.stay(queue)
            raise
        ledgers = [ledger.settings for ledger in self._registry.ledgers_of(name)]
        await self._departures.leave(queue, NotFound(deletion.describe_deletion(marked)))
        failpoint.reach("delete.left")
        for each in ledgers:  # one that stays is of no queue, and does no harm
            await self._runner.run(lambda each=each: self._cold.delete_queue(each, wanted, None))  # type: ignore[misc]
        return _answer(marked, marked.deleted or wanted)

    async def _retire(self, queue: HotQueue, state: QueueState) -> Retired:
        kept = await self._owners.retire(queue.name, queue.epoch, state)
        if kept is not None:
            return kept
        objects = self._cold.objects
        name = await self._runner.run(lambda: state_document.put(objects, queue.name, queue.epoch + 1, state))
        return Retired(queue.epoch, name)

    async def undelete(self, name: str) -> QueueInfo:
        """Bring a deleted queue back with all that it had; one that is not deleted is left as it is."""
        await self._runner.run(lambda: self._cold.undelete_queue(name))
        await self._runner.run(lambda: self._undelete_ledgers(name))
        return (await self._registry.queue(name)).info()

    def _undelete_ledgers(self, name: str) -> None:
        """In a worker thread: the worker groups come back with their queue."""
        for ledger in self._cold.ledger_names(name):
            found = self._cold.find(ledger)
            if found is not None and found.deleted is not None and found.deleted.files == "kept":
                self._cold.undelete_queue(ledger)


def _answer(settings: QueueSettings, deleted: Deleted) -> Deletion:
    return Deletion(settings.name, settings.id, deleted.at_us, deleted.until_us)


def _check_grace(seconds: Any) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidInput(f"grace_seconds must be a number of seconds, not {seconds!r:.60}")
    if not 0 <= seconds <= DELETE_GRACE_SECONDS_MAX:
        raise InvalidInput(f"grace_seconds must be from 0 to {DELETE_GRACE_SECONDS_MAX:.0f}, not {seconds:g}")
    return float(seconds)


def _log_failure(name: str, error: BaseException) -> None:
    log.warning("deleting queue %s: %s", name, error)
