"""When a node may have been asked that was taken over and did not know it yet.

What it reads may be stale (docs/sharding.md): it may say that a queue ends where it ended for this node,
and that a subscriber is where it was. That is excused for as long as such a process may live, from the end
of its tenure until the next process is the node. What it acknowledges is not excused.
"""

from __future__ import annotations

import numpy as np

from tests.faults.table import Bools, Ints, Table

_EVER = 1 << 62


def intervals(table: Table) -> list[tuple[int, int]]:
    """From when to when, one for each tenure that was ended."""
    ops = table.ops
    begins = ops.where("begin")
    found = []
    for end in ops.where("end").tolist():
        later = begins[(ops.queue[begins] == ops.queue[end]) & (ops.epoch[begins] > ops.epoch[end])]
        until = int(ops.t0[later].min()) if len(later) else _EVER
        found.append((int(ops.t0[end]), until))
    return found


def may_be_stale(table: Table, rows: Ints) -> Bools:
    """Which of these operations overlap such a time."""
    ops = table.ops
    found = np.zeros(len(rows), bool)
    for since, until in intervals(table):
        found |= (ops.t0[rows] < until) & (ops.t1[rows] > since)
    return found
