"""lost-write: every acknowledged element is in the final log. phantom: so is everything anyone ever read.

An element that the final read was told is damaged is not lost in silence, and flagged as data-loss: no
nemesis damages what a run is judged by, only copies of it (see `damage`).
"""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.table import OFFSET_BITS, F, Ints, Table, inside, match


def lost(table: Table) -> list[Finding]:
    """Acknowledged, and nowhere in the final log; by where in the log they are missing."""
    _, places, values = table.acked
    gone = (table.offset_of(values) < 0) & ~inside(places, table.unreadable)
    missing = np.unique(places[gone])
    findings = []
    for name, rows in _split(table, missing).items():
        findings += found(f"lost-{name}", rows, lambda at: f"{table.name(at)} was acknowledged")
    return findings


def data_loss(table: Table) -> list[Finding]:
    """Acknowledged, and said to be damaged although nobody damaged anything."""
    places = np.unique(table.acked[1])
    told = places[inside(places, table.unreadable)]
    return found("data-loss", told, lambda at: f"{table.name(at)} was acknowledged and is said to be damaged")


def _split(table: Table, missing: Ints) -> dict[str, Ints]:
    """Lost at the beginning of what a queue has, at its end, or in between."""
    places, _ = table.final
    queue = missing >> OFFSET_BITS
    left = np.searchsorted(places, queue << OFFSET_BITS)
    right = np.searchsorted(places, (queue + 1) << OFFSET_BITS)
    none = left == right
    lowest = places[np.minimum(left, len(places) - 1)] if len(places) else missing
    highest = places[np.maximum(right - 1, 0)] if len(places) else missing
    prefix = ~none & (missing < lowest)
    postfix = none | (missing > highest)
    return {"prefix": missing[prefix], "middle": missing[~prefix & ~postfix], "postfix": missing[postfix]}


def phantom(table: Table) -> list[Finding]:
    """Returned to a reader, and not in the final log at that offset. Damaged copies are not the log."""
    rows = table.ops.f[table.seen_op] != F["twin"]
    places = np.unique(table.seen_place[rows])
    gone = (match(table.final[0], places) < 0) & ~inside(places, table.unreadable)
    return found("phantom", places[gone], lambda at: f"{table.name(at)} was read and is gone")
