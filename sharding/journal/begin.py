"""Becoming a node: the next run of its tenure, whoever had the name before."""

from __future__ import annotations

from dataclasses import replace

from coldstore.layout import paths
from coldstore.objects.port import Object, ObjectStore
from coldstore.objects.swap import Change, swap
from coldstore.shared.errors import Conflict
from sharding.documents import tenure
from sharding.documents.tenure import Estate, Held, JournalKind, Tenure
from sharding.journal.fencing import Walk


def begin(objects: ObjectStore, node: str, journal: JournalKind, token: str) -> Held:
    """Be `node` from now on: every other process of this name is fenced."""
    key = paths.tenure(node)

    def decide(found: Object | None) -> Change[Tenure]:
        if found is None:
            new = Tenure(node=node, run=1, since=1, token=token, journal=journal)
        else:
            new = _next(objects, tenure.decode(found.data, key), journal, token)
        return Change(tenure.encode(new), new)

    # If another process of this name starts as well, the last one stays.
    busy = Conflict(f"other processes keep starting as node {node}: give every node a name of its own")
    return Held(objects, swap(objects, key, decide, busy=busy).result)


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
