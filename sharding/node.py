"""One node of a cluster: its tenure, its journal, its engine, and the watch over the other nodes.

`open_member` begins the node's tenure, starts its heartbeat, recovers its journal and serves. `Member.close` ends all
of that in the opposite order. The composition root (jjq/node/node.py) calls it with settings that are complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from coldstore.objects.selftest import self_test
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, InvalidInput, Unavailable
from coldstore.store import ColdStore
from hotstore.engine import Engine
from hotstore.journal import records
from hotstore.journal.directory_lock import lock_directory
from hotstore.opening import open_engine
from hotstore.runner import ThreadRunner
from hotstore.settings import HotSettings
from sharding.documents import tenure
from sharding.documents.holder import hold
from sharding.documents.tenure import JournalKind, OwnTenure
from sharding.journal.checkpoint_objects import ObjectCheckpoints
from sharding.journal.fencing import begin
from sharding.journal.lease import Lease, LeasedJournal
from sharding.journal.object_journal import ObjectJournal
from sharding.limits import CLOSE_SECONDS, JOURNAL_FLUSH_SECONDS_MAX
from sharding.ownership import NodeOwnership
from sharding.single_node import check_no_single_node
from sharding.takeover.claims import Claims
from sharding.takeover.takeover import TakeoverWorker
from sharding.takeover.watch import TenureSettings, TenureWatch

log = logging.getLogger("jjq.sharding")


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The name of this node, its journal and its store."""

    node: str
    journal: JournalKind = "disk"
    hot: HotSettings = field(default_factory=HotSettings)
    tenure: TenureSettings = field(default_factory=TenureSettings)
    place: str = ""  # where the cold store is, so that a copy of it is recognised; "": not known
    flush_seconds: float = 0.0  # least time between two groups of puts of a journal on object storage

    def __post_init__(self) -> None:
        if not 0.0 <= self.flush_seconds <= JOURNAL_FLUSH_SECONDS_MAX:
            raise InvalidInput(f"journal_flush_seconds must be from 0 to {JOURNAL_FLUSH_SECONDS_MAX:g}")


class Member:
    """A node that serves. `failed` is done when the node must stop: its journal failed, or it was taken over."""

    def __init__(
        self,
        engine: Engine,
        ownership: NodeOwnership,
        watch: TenureWatch,
        lease: Lease,
        runners: Sequence[ThreadRunner],
    ) -> None:
        self.engine = engine
        self.ownership = ownership
        self.objects = ownership.objects
        self._watch = watch
        self._lease = lease
        self._runners = runners
        watch.on_lost = self._lost

    @property
    def failed(self) -> asyncio.Future[Exception]:
        return self.engine.failed

    def _lost(self, error: Exception) -> None:
        if not self.failed.done():  # else it was said, and the node is about to stop
            log.critical("%s", error)
        self.engine.fail(error)

    async def close(self) -> None:
        """Finish the work in flight. The queues stay ours until other nodes find that we are gone."""
        journal = self.engine.journal
        if isinstance(journal, ObjectJournal):
            journal.hurry()
        self.engine.committer.every_seconds = 0.0
        await self._watch.close()
        await self.ownership.close()
        gone = Unavailable("the node is closing")
        late = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._lease.end, gone)
        await self.engine.close()
        late.cancel()
        for runner in self._runners:
            runner.close()


async def open_member(
    directory: Path, cold: ColdStore, settings: MemberSettings, clock: Clock, chance: Chance
) -> Member:
    """Become the node that the settings name, recover its journal, and serve."""
    lock = lock_directory(directory)
    runner = ThreadRunner("jjq-owners", 4, urgent=True)
    beats = ThreadRunner("jjq-tenure", 2, urgent=True)  # its own, so that nothing delays a beat
    try:
        held = await runner.run(lambda: _join(directory, cold, settings, clock, chance))
        claims = Claims(cold.objects, held, runner)
        takeovers = TakeoverWorker(cold, claims, clock)
        lease = Lease(held.beat, clock, settings.tenure.lease_seconds)
        watch = TenureWatch(cold.objects, held, takeovers, lease, beats, clock, settings.tenure)
        on_disk = settings.journal == "disk"
        await watch.beat()
    except BaseException:
        runner.close()
        beats.close()
        lock.release()
        raise
    watch.start()  # before the journal is replayed, which may take longer than a lease
    try:
        engine = await open_engine(
            directory, cold, settings=settings.hot, clock=clock, chance=chance, place=settings.place,
            node=settings.node, lock=lock, owners=claims,
            journal=None if on_disk else ObjectJournal(cold.objects, held, clock, kinds=records.KINDS),
            checkpoint_store=lambda local: (
                local if on_disk else ObjectCheckpoints(cold.objects, held.node, held.tenure.since, local)
            ),
            guard=lambda journal: LeasedJournal(journal, lease),
            may_store=lease.confirm if on_disk else None,
            flush_seconds=0.0 if on_disk else settings.flush_seconds,
        )  # fmt: skip
    except BaseException:
        await watch.close()
        runner.close()
        beats.close()
        raise
    ownership = NodeOwnership(engine, cold, claims, takeovers, watch, runner)
    ownership.start()
    return Member(engine, ownership, watch, lease, (runner, beats))


def _join(
    directory: Path, cold: ColdStore, settings: MemberSettings, clock: Clock, chance: Chance
) -> OwnTenure:
    """Begin the tenure. Refuse a store without conditional writes; refuse to leave a journal on the disk behind."""
    self_test(cold.objects, chance)
    if settings.journal == "s3" and any((directory / "journal").glob("*.seg")):
        raise Conflict(
            f"{directory / 'journal'} has a journal: start once with --journal disk --seal-on-close, stop, and remove "
            f"that folder; or use another data directory"
        )
    objects = cold.objects
    holder = hold(directory, settings.place, settings.tenure.lease_seconds, clock, chance)
    check_no_single_node(objects, holder, clock)
    held = begin(objects, settings.node, settings.journal, chance.token(), holder, clock)
    try:
        single = check_no_single_node(objects, holder, clock)  # once more: see `single_node.claim`
    except Conflict:
        if held.tenure.since == held.run:  # nothing is ours yet
            held.change(lambda now: replace(now, state="settled", beat=now.beat + 1))
        raise
    if single is not None:  # a single server ran in this directory: the node goes on with its queues
        tenure.swap(objects, single, replace(single.tenure, state="settled", by=settings.node))
    return held
