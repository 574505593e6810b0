"""liveness: after healing every queue takes pushes again, and was read to its end."""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.table import F, Table


def liveness(table: Table) -> list[Finding]:
    """Only for histories of whole runs, which say when everything was healed."""
    ops = table.ops
    healed = ops.where("alive")
    if not len(healed):
        return []
    since = ops.t0[healed].min()
    pushes = ops.where("push")
    served = set(ops.queue[pushes[ops.t0[pushes] > since]].tolist())
    read = set(ops.queue[ops.where("final")].tolist())
    used = set(ops.queue[ops.f == F["push"]].tolist())
    return [
        *found("liveness", _array(used - served), lambda q: f"{table.queues[q]} takes no push after healing"),
        *found("liveness", _array(used - read), lambda q: f"{table.queues[q]} was never read in the end"),
    ]


def _array(queues: set[int]) -> np.ndarray:
    return np.array(sorted(queues), np.int64)
