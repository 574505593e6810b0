"""A server that has a store for itself. It says so in a tenure like that of a node.

    cluster/tenures/_lone.json     see tenure.py and holder.py. Its journal is on the disk; there are no orphan journals

    start      the tenure names our own data directory, or nobody's: begin the next run at once
               it names another directory: refuse, however silent that server is. What it acknowledged may be on its
               disk alone
               nodes have open tenures: refuse. They have the store
    beat       every few seconds. A beat finds out whether an operator has released the store (`release`)
    stop       if everything is in the cold store, settle the tenure: anyone may start. Else the store stays ours

The server acknowledges without asking anybody: what it acknowledges is on its own disk, and no other server starts
while the tenure is open. So it goes on while the store cannot be reached, even for hours. Only an operator can end its
tenure: by saying that the server is gone, after its beats were missing for longer than a lease. A server that was
merely paused finds that its lease has run out. It asks before it acknowledges anything, and stops.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, Fenced, JjqError, NotFound
from coldstore.store import ColdStore
from hotstore.engine import Engine
from hotstore.journal.directory_lock import lock_directory
from hotstore.opening import open_engine
from hotstore.runner import ThreadRunner
from hotstore.settings import HotSettings
from sharding.documents import tenure
from sharding.documents.holder import Holder, hold
from sharding.documents.tenure import OwnTenure, StoredTenure, Tenure
from sharding.journal.fencing import admit, begin, is_silent
from sharding.journal.lease import Lease, LeasedJournal
from sharding.limits import CLOSE_SECONDS, SINGLE_NODE_LEASES
from sharding.takeover.watch import Heartbeat, TenureSettings

log = logging.getLogger("jjq.sharding")

_OPERATOR: Final = "an operator"
_SHOWN: Final = 3  # nodes that a refusal names


class SingleNodeTenure(OwnTenure):
    """The tenure of a single server. If the document is gone, it is put again: nobody has taken the store."""

    def _mine(self, found: Tenure | None) -> Tenure:
        return self.tenure if found is None else super()._mine(found)

    def _fenced(self, found: Tenure | None) -> Fenced:
        by = None if found is None else found.by
        holder = None if found is None else found.holder
        return Fenced(
            f"this server lost its store: {by or holder or 'another server'} has taken it; what is in its journal "
            f"and not in the store was given up with that"
        )

    def leave(self, sealed: bool) -> None:
        """The process ends. If everything is `sealed` in the cold store, others may have the store."""

        def stop(now: Tenure) -> Tenure:
            if sealed:
                return replace(now, state="settled", beat=now.beat + 1)
            stopped = None if now.holder is None else replace(now.holder, stopped=True)
            return replace(now, holder=stopped, beat=now.beat + 1)

        self.change(stop)


class SingleNodeHeartbeat(Heartbeat):
    """Beats, and keeps the lease while the store cannot be reached."""

    def start(self) -> None:
        super().start()
        self._tasks.append(self._repeat(self._settings.beat_seconds, self.stay))

    async def stay(self) -> None:
        self._lease.stay()


async def open_single_node(
    directory: Path,
    cold: ColdStore,
    store: str,
    settings: HotSettings,
    tenure_settings: TenureSettings,
    clock: Clock,
    chance: Chance,
) -> Engine:
    """Make the store ours, recover the journal, serve. `store` says where the cold store is."""
    lock = lock_directory(directory)
    runner = ThreadRunner("jjq-tenure", 2, urgent=True)
    wanted = TenureSettings.for_lease(SINGLE_NODE_LEASES * tenure_settings.lease_seconds)
    begun = clock.monotonic()
    try:
        holder = hold(directory, store, wanted.lease_seconds, clock, chance)
        held = await runner.run(lambda: claim(cold.objects, holder, clock, chance))
    except BaseException:
        runner.close()
        lock.release()
        raise
    lease = Lease(held.beat, clock, wanted.lease_seconds, patient=True, begun=begun)
    beats = SingleNodeHeartbeat(lease, runner, wanted)
    beats.start()  # before the journal is replayed, which may take longer than a lease
    try:
        engine = await open_engine(
            directory, cold, settings=settings, clock=clock, chance=chance, place=store, lock=lock,
            guard=lambda journal: LeasedJournal(journal, lease), may_store=lease.confirm,
        )  # fmt: skip
    except BaseException:
        await _leave(held, beats, runner, sealed=False)
        raise
    engine.on_leaving = partial(_leave, held, beats, runner)
    beats.on_lost = partial(_lost, engine)
    if lease.lost is not None:
        _lost(engine, lease.lost)
    return engine


def _lost(engine: Engine, error: Exception) -> None:
    if not engine.failed.done():  # else it was said, and the server is about to stop
        log.critical("%s", error)
    engine.fail(error)


async def _leave(held: SingleNodeTenure, beats: Heartbeat, runner: ThreadRunner, sealed: bool) -> None:
    """Write that this process is gone. If that fails, the next start from this directory goes on all the same."""
    await beats.close()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await runner.run(lambda: held.leave(sealed))
    except Fenced:
        log.info("this server no longer owns the store")
    except (JjqError, TimeoutError) as error:
        log.warning(
            "could not note in the store that this server stops: %s", str(error) or "it does not answer"
        )
    finally:
        runner.close(wait=False)


# In a worker thread ---------------------------------------------------------------------------------


def claim(objects: ObjectStore, holder: Holder, clock: Clock, chance: Chance) -> SingleNodeTenure:
    """Make the store ours, or `Conflict` that says whose it is."""
    held = SingleNodeTenure(
        objects, begin(objects, paths.SINGLE_NODE, "disk", chance.token(), holder, clock).tenure
    )
    # A node looks at our tenure after it has begun its own (`check_no_single_node`). We look at the nodes' tenures
    # after we have begun ours. So of two that start at once, at least one sees the other.
    nodes = _nodes(objects, holder)
    if nodes:
        held.leave(sealed=held.tenure.since == held.run)  # what an earlier run left here stays ours
        raise Conflict(
            f"this store is served by nodes ({', '.join(nodes)}), and a server without a name does not know what is "
            f"theirs: start it with --node and a name of its own, or that of the node whose data directory it has"
        )
    return held


def _nodes(objects: ObjectStore, own: Holder) -> list[str]:
    """Some of the nodes that have queues in this store, or journals."""
    names = []
    for info in objects.list(paths.TENURES):
        node = paths.tenure_node(info.key)
        found = None if node is None else tenure.read(objects, node)
        if found is None or (found.tenure.state == "settled" and not found.tenure.orphans):
            continue
        if found.tenure.holder is None or found.tenure.holder.is_same_store(own):
            names.append(found.tenure.node)
        if len(names) == _SHOWN:
            break
    return names


def check_no_single_node(objects: ObjectStore, holder: Holder, clock: Clock) -> StoredTenure | None:
    """For a node that joins: `Conflict` if a single server has the store; its tenure if it ran in this directory."""
    found = tenure.read(objects, paths.SINGLE_NODE)
    if found is None or found.tenure.state != "open":
        return None
    admit(objects, found, holder, clock)
    return found


def release(objects: ObjectStore, clock: Clock, *, accept_loss: bool = False) -> Holder | None:
    """End the tenure of a single server that is gone. Returns its holder; None if nobody has the store."""
    found = tenure.read(objects, paths.SINGLE_NODE)
    if found is None and not _exists(objects):
        raise NotFound(f"nothing was ever written to {objects!r}: correct its address")
    if found is None or found.tenure.state != "open":
        return None
    holder = found.tenure.holder
    if not accept_loss:
        return holder
    if (holder is None or not holder.stopped) and not is_silent(objects, found, clock):
        raise Conflict(f"this store is in use by {holder}, and it is alive: stop it first")
    try:
        tenure.end(objects, found, _OPERATOR)
    except Conflict:
        raise Conflict(f"this store is in use by {holder}, and it is alive: stop it first") from None
    return holder


def _exists(objects: ObjectStore) -> bool:
    try:
        objects.head(paths.STORE)
    except NotFound:
        return False
    return True
