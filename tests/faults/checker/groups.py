"""What a group promises beside the life of single tasks.

capacity     more tasks were open than the group may have
half-done    of a completion, the ack happened and the push did not, or the other way round
lease-lost   a session that was attached all the time was refused a task that it might still hold
"""

from __future__ import annotations

import numpy as np

from coldstore.layout import ledger
from tests.faults.checker.finding import Finding, found
from tests.faults.checker.tasks import is_event, named, receipts, spread_receipts
from tests.faults.table import NONE, OFFSET_BITS, TYPES, Table, match

_EVER = 1 << 62


def capacity(table: Table) -> list[Finding]:
    """At no time were so many elements acknowledged whose end nobody had asked for yet."""
    ops, tasks = table.ops, table.tasks
    groups = ops.where("group")
    op, places, _ = table.acked
    asked = np.concatenate([tasks.of(table, "ack", "complete", kind=kind) for kind in ("ok", "info")])
    asked = asked[np.argsort(ops.t0[tasks.op[asked]], kind="stable")]
    ended, first = np.unique(tasks.place[asked], return_index=True)
    ends = np.append(ops.t0[tasks.op[asked]][first], _EVER)
    findings = []
    for group in groups[ops.most[groups] != NONE].tolist():
        mine = np.flatnonzero(places >> OFFSET_BITS == ops.queue[group])
        begin = ops.t1[op[mine]]
        end = np.maximum(begin, ends[match(ended, places[mine])])
        times = np.concatenate([begin, end])
        order = np.lexsort((np.repeat([1, 0], len(mine)), times))  # ends first
        count = np.cumsum(np.repeat([1, -1], len(mine))[order])
        most = int(count.max()) if len(count) else 0
        if most > ops.most[group]:
            name, allowed = table.queues[ops.queue[group]], ops.most[group]
            findings.append(Finding("capacity", 1, (f"{name} had {most} open tasks of at most {allowed}",)))
    return findings


def half_done(table: Table) -> list[Finding]:
    """Also, and above all, where the outcome was unknown.

    A take that was lost with the completion comes again with the same attempt, and then the ack may be that of the
    next holder.
    """
    ops, tasks = table.ops, table.tasks
    rows = tasks.of(table, "ledger")
    read = np.unique(tasks.place[rows] >> OFFSET_BITS)
    acked = spread_receipts(table, rows[is_event(table, rows, ledger.ACK)])
    asked = np.concatenate([tasks.of(table, "complete", kind=kind) for kind in TYPES])
    asked = asked[np.isin(tasks.place[asked] >> OFFSET_BITS, read)]
    done = np.isin(receipts(table, asked), acked)
    pushed = table.offset_of(table.pushed_value[table.pushed_start[tasks.op[asked]]]) != NONE
    acks = np.concatenate([tasks.of(table, "ack", kind=kind) for kind in ("ok", "info")])
    others = np.concatenate([receipts(table, acks), receipts(table, asked[pushed])])
    half = np.where(done, ~pushed & ~np.isin(receipts(table, asked), others), pushed)
    damaged = np.isin(ops.queue[tasks.op[asked]], table.unreadable[0] >> OFFSET_BITS)
    return found("half-done", asked[half & ~damaged], named(table, "was completed by half"))


def lease_lost(table: Table) -> list[Finding]:
    """Where no wall clock jumped: after a restart, times count as the ledger has them."""
    ops, tasks = table.ops, table.tasks
    if len(ops.where("skewed")):
        return []
    rows = tasks.of(table, "ack")
    op = tasks.op[rows]
    lost = rows[(tasks.refused[rows] == 1) & (ops.until[op] != NONE) & (ops.t1[op] < ops.until[op])]
    return found("lease-lost", lost, named(table, "was refused to the session that held it"))
