"""One node among others, put together: its tenure, its journal, its engine, and what watches the others."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from coldstore.objects.selftest import self_test
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, InvalidInput, Unavailable
from coldstore.store import ColdStore
from hotstore.catalog.catalog import Catalog
from hotstore.catalog.view import CatalogView, Relational
from hotstore.engine import Engine, Runners
from hotstore.journal import records
from hotstore.journal.directory_lock import lock_directory
from hotstore.journal.disk import RealDisk
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Journal
from hotstore.journal.witness import Witness
from hotstore.queue.registry import Registry
from hotstore.runner import ThreadRunner, use_quick_pool
from hotstore.settings import HotSettings
from sharding.documents import tenure
from sharding.documents.holder import hold
from sharding.documents.tenure import Held, JournalKind
from sharding.journal.begin import begin
from sharding.journal.lease import Lease, LeasedJournal
from sharding.journal.object_journal import ObjectJournal
from sharding.limits import CLOSE_SECONDS, JOURNAL_FLUSH_SECONDS_MAX
from sharding.ownership import NodeOwnership
from sharding.single_node import check_no_lone
from sharding.takeover.claims import Claims
from sharding.takeover.takeover import Estates
from sharding.takeover.watch import Keeper, TenureSettings

log = logging.getLogger("jjq.sharding")


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Who this node is, and where its journal is."""

    node: str
    journal: JournalKind = "disk"
    hot: HotSettings = field(default_factory=HotSettings)
    tenure: TenureSettings = field(default_factory=TenureSettings)
    place: str = ""  # of the cold store, so that a copy of it is known for one; "": not known
    flush_seconds: float = 0.0  # puts of the journal on object storage begin no quicker after one another

    def __post_init__(self) -> None:
        if not 0.0 <= self.flush_seconds <= JOURNAL_FLUSH_SECONDS_MAX:
            raise InvalidInput(f"journal_flush_seconds must be from 0 to {JOURNAL_FLUSH_SECONDS_MAX:g}")


class Member:
    """A node that serves. `failed` is done when it must stop: its journal failed, or it was taken over."""

    def __init__(
        self,
        engine: Engine,
        ownership: NodeOwnership,
        keeper: Keeper,
        lease: Lease,
        runners: Sequence[ThreadRunner],
    ) -> None:
        self.engine = engine
        self.ownership = ownership
        self.objects = ownership.objects
        self._keeper = keeper
        self._lease = lease
        self._runners = runners
        keeper.on_lost = self._lost

    @property
    def failed(self) -> asyncio.Future[Exception]:
        return self.engine.failed

    def _lost(self, error: Exception) -> None:
        log.critical("%s", error)
        self.engine.fail(error)

    async def close(self) -> None:
        """Finish what is in flight. The queues stay ours until others find that we are gone."""
        journal = self.engine.journal
        if isinstance(journal, ObjectJournal):
            journal.hurry()
        self.engine.committer.every_seconds = 0.0
        await self._keeper.close()
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
    use_quick_pool(os.environ)
    runners = Runners.threads()
    runner = ThreadRunner("jjq-owners", 4)
    beats = ThreadRunner("jjq-tenure", 2)  # its own, so that nothing delays a beat
    try:
        held = await runner.run(lambda: _join(directory, cold, settings, clock, chance))
        claims = Claims(cold.objects, held, runner)
        estates = Estates(cold, claims, clock)
        lease = Lease(held.beat, clock, settings.tenure.lease_seconds)
        keeper = Keeper(cold.objects, held, estates, lease, beats, clock, settings.tenure)
        witness = Witness(cold.objects, settings.node, settings.place) if settings.journal == "disk" else None
        journal = _journal(directory, cold, held, lease, settings, clock, chance, witness)
        catalog = Catalog(directory / "catalog.duckdb", directory / "quarantine", clock, chance)

        def view(registry: Registry) -> Relational:
            return CatalogView(catalog, registry, runners.seal, lambda: journal.next_sequence - 1)

        free_bytes = RealDisk(directory).free_bytes
        engine = Engine(
            journal,
            cold,
            view,
            settings.hot,
            clock,
            chance,
            runners,
            free_bytes,
            lock.release,
            claims,
            witness,
            lock.is_in_place,
            settings.node,
        )
        if settings.journal == "s3":
            engine.committer.every_seconds = settings.flush_seconds
        else:
            engine.sealer.may_store = lease.confirm
        await keeper.beat()
        keeper.start()  # before the journal is replayed, which may take longer than a lease
        try:
            await engine.start()
        except BaseException:
            await keeper.close()
            raise
    except BaseException:
        runner.close()
        beats.close()
        runners.close()
        lock.release()
        raise
    ownership = NodeOwnership(engine, cold, claims, estates, keeper, runner)
    ownership.start()
    return Member(engine, ownership, keeper, lease, (runner, beats))


def _join(directory: Path, cold: ColdStore, settings: MemberSettings, clock: Clock, chance: Chance) -> Held:
    """Fencing rests on the store's conditional writes, and a journal on the disk must not be left behind."""
    self_test(cold.objects, chance)
    if settings.journal == "s3" and any((directory / "journal").glob("*.seg")):
        raise Conflict(
            f"{directory / 'journal'} has a journal: start once with --journal disk --seal-on-close, stop, and remove "
            f"that folder; or use another data directory"
        )
    objects = cold.objects
    holder = hold(directory, settings.place, settings.tenure.lease_seconds, clock, chance)
    check_no_lone(objects, holder, clock)
    held = begin(objects, settings.node, settings.journal, chance.token(), holder, clock)
    try:
        lone = check_no_lone(objects, holder, clock)  # once more: see `lone.claim`
    except Conflict:
        if held.tenure.since == held.run:  # nothing is ours yet
            held.change(lambda now: replace(now, state="settled", beat=now.beat + 1))
        raise
    if lone is not None:  # this directory was that of a lone server, whose queues the node goes on with
        tenure.swap(objects, lone, replace(lone.tenure, state="settled", by=settings.node))
    return held


def _journal(
    directory: Path,
    cold: ColdStore,
    held: Held,
    lease: Lease,
    settings: MemberSettings,
    clock: Clock,
    chance: Chance,
    witness: Witness | None,
) -> Journal:
    if witness is None:
        return ObjectJournal(cold.objects, held, clock, kinds=records.KINDS)
    disk = RealDisk(directory / "journal")
    inner = DiskJournal(
        disk,
        chance,
        segment_bytes=settings.hot.segment_bytes,
        kinds=records.KINDS,
        beside=RealDisk(directory),
        elsewhere=witness.extent,
    )
    return LeasedJournal(inner, lease)
