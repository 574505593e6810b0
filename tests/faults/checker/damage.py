"""silent-loss: what a damaged copy of the data does not give, it reports.

A twin is a copy of a stopped server's data with bits flipped in it, served on its own and read whole.
Other bytes are found by `values` and `offsets`; here it must not forget anything without a word.
"""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.table import F, Table, inside, match, place


def silent_loss(table: Table) -> list[Finding]:
    """Acknowledged before the copy was taken, neither read from it nor within what it calls damaged."""
    ops = table.ops
    findings = []
    reads = np.flatnonzero(ops.f == F["twin"])
    op, places, _ = table.acked
    for taken in np.unique(ops.taken[reads]):
        mine = reads[ops.taken[reads] == taken]
        had = np.unique(places[ops.t1[op] < taken])
        given = np.unique(table.seen_place[np.isin(table.seen_op, mine)])
        told = mine[ops.loss[mine] == 1]
        ranges = (place(ops.queue[told], ops.position[told]), place(ops.queue[told], ops.next[told]))
        gone = (match(given, had) < 0) & ~inside(had, ranges)
        findings += found(
            "silent-loss", had[gone], lambda at: f"{table.name(at)} is missing and nobody says so"
        )
    return findings
