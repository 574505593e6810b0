"""fence: once a later epoch has acknowledged something, no earlier one acknowledges what is asked later."""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.table import NONE, TYPES, Table


def fence(table: Table) -> list[Finding]:
    """For operations whose answers name the epoch that served them."""
    ops = table.ops
    ok = np.flatnonzero((ops.type == TYPES["ok"]) & (ops.epoch != NONE))
    wrong = []
    for queue in np.unique(ops.queue[ok]):
        mine = ok[ops.queue[ok] == queue]
        mine = mine[np.argsort(ops.t1[mine], kind="stable")]
        highest = np.maximum.accumulate(ops.epoch[mine])
        before = np.searchsorted(ops.t1[mine], ops.t0[mine], side="left") - 1
        stale = (before >= 0) & (highest[np.maximum(before, 0)] > ops.epoch[mine])
        wrong.append(mine[stale])
    return found(
        "fence",
        np.concatenate(wrong) if wrong else ok,
        lambda op: f"{table.queues[ops.queue[op]]}: epoch {ops.epoch[op]} answered after a later one had",
    )
