"""Becoming a node: the next run of its tenure, whoever had the name before."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.shared.errors import Conflict
from sharding.documents import tenure
from sharding.documents.tenure import Estate, Found, Held, JournalKind, Tenure
from sharding.journal.fencing import Walk

_TRIES: Final = 16


def begin(objects: ObjectStore, node: str, journal: JournalKind, token: str) -> Held:
    """Be `node` from now on: every other process of this name is fenced."""
    for _ in range(_TRIES):
        found = tenure.read(objects, node)
        try:
            if found is None:
                first = Tenure(node=node, run=1, since=1, token=token, journal=journal)
                objects.put_if_absent(paths.tenure(node), tenure.encode(first))
                return Held(objects, first)
            return Held(objects, tenure.swap(objects, found, _next(objects, found, journal, token)).tenure)
        except Conflict:
            continue  # another process of this name starts as well: the last one stays
    raise Conflict(f"other processes keep starting as node {node}: give every node a name of its own")


def _next(objects: ObjectStore, found: Found, journal: JournalKind, token: str) -> Tenure:
    old = found.tenure
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
