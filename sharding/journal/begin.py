"""Becoming a node: the next run of its tenure, whoever had the name before.

Unless the tenure is open and its journal is on the disk of another data directory (holder.py): then what was
acknowledged there would be missing here, and the start is refused. A tenure whose journal is on object
storage may go on anywhere.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from coldstore.layout import paths
from coldstore.objects.port import Object, ObjectStore
from coldstore.objects.swap import Change, swap
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import Conflict
from sharding.documents import tenure
from sharding.documents.holder import Holder
from sharding.documents.liveness import Liveness
from sharding.documents.tenure import Estate, Found, Held, JournalKind, Tenure
from sharding.journal.fencing import Walk
from sharding.limits import LEASE_MARGIN, WATCH_LOOKS

log = logging.getLogger("jjq.sharding")


def begin(
    objects: ObjectStore,
    node: str,
    journal: JournalKind,
    token: str,
    holder: Holder | None = None,
    clock: Clock | None = None,
) -> Held:
    """Be `node` from now on: every other process of this name is fenced. `Conflict` if it must not be."""
    key = paths.tenure(node)

    def decide(found: Object | None) -> Change[Tenure]:
        if found is None:
            new = Tenure(node=node, run=1, since=1, token=token, journal=journal)
        else:
            old = tenure.decode(found.data, key)
            if holder is not None:
                admit(objects, Found(old, found.etag), holder, clock or SystemClock())
            new = _next(objects, old, journal, token)
        new = replace(new, holder=holder)
        return Change(tenure.encode(new), new)

    # If another process of this name starts as well, the last one stays.
    busy = Conflict(f"other processes keep starting as node {node}: give every node a name of its own")
    return Held(objects, swap(objects, key, decide, busy=busy).result)


def admit(objects: ObjectStore, found: Found, here: Holder, clock: Clock) -> None:
    """Return if the tenure may go on `here`, else `Conflict` that names its holder and says what to do."""
    there = found.tenure.holder
    if found.tenure.state != "open" or found.tenure.journal != "disk" or there is None:
        return
    if not there.is_same_store(here):
        log.warning("this store is a copy: it says that %s has it, which does not count here", there)
        return
    if there.identity == here.identity:
        if there.inode == here.inode or there.stopped:
            return
        log.warning("data directory %s is a copy: its original may be in use by %s", here.data, there)
        if is_silent(objects, found, clock):
            return
        raise Conflict(
            f"{here.data} is a copy of the data directory that is in use by {there}: stop that first"
        )
    raise Conflict(_refusal(found.tenure, there))


def _refusal(now: Tenure, there: Holder) -> str:
    if now.node == paths.LONE:
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


def is_silent(objects: ObjectStore, found: Found, clock: Clock) -> bool:
    """Watch a tenure for longer than a lease of its holder; whether it did not beat. Blocks for all that time."""
    if found.tenure.holder is None:
        return True  # a tenure of an early release: it names no lease to wait for
    seconds = LEASE_MARGIN * found.tenure.holder.lease_seconds
    pause = seconds / WATCH_LOOKS
    log.warning("waiting for %.0f s to see whether it gives a sign of life", seconds)
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
        estates=old.estates,
        beat=old.beat + 1,
    )
    if old.journal == "disk":
        return fresh  # what was on its disk is lost, or was taken over with the loss accepted
    walk = Walk(objects, old.node, old.boundary, old.run, bytes.fromhex(token))
    for _ in walk.batches():
        pass
    estates = old.estates
    if old.state != "settled":
        estates = (*estates, Estate(old.since, old.run, old.boundary, walk.end))
    return replace(fresh, boundary=walk.next, estates=estates)
