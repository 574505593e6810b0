"""batch: of a push, all elements are in the log, one after the other, or none."""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.table import NONE, Table


def batch(table: Table) -> list[Finding]:
    """Also where the outcome was unknown; where the log was damaged, nothing can be said of a push in it."""
    if not len(table.pushed_op) or len(table.unreadable[0]):
        return []
    at = table.offset_of(table.pushed_value)
    ops, starts = np.unique(table.pushed_op, return_index=True)
    there = at != NONE
    some = np.logical_or.reduceat(there, starts)
    whole = np.logical_and.reduceat(there, starts)
    begin = at - table.pushed_at
    scattered = np.minimum.reduceat(begin, starts) != np.maximum.reduceat(begin, starts)
    wrong = (some & ~whole) | (whole & scattered)
    queues = table.ops.queue
    return found(
        "batch",
        ops[wrong],
        lambda op: (
            f"a push to {table.queues[queues[op]]} is there in part, or scattered: "
            f"{table.pushed_value[table.pushed_op == op][:3].tolist()}…"
        ),
    )
