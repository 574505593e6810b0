"""All properties over one history."""

from __future__ import annotations

from tests.faults.checker import (
    batches,
    damage,
    fence,
    groups,
    ledgers,
    liveness,
    lost,
    offsets,
    order,
    subscribers,
    tasks,
    values,
)
from tests.faults.checker.finding import Finding, Property
from tests.faults.table import Table

PROPERTIES: tuple[Property, ...] = (
    lost.lost,
    lost.data_loss,
    lost.phantom,
    offsets.inconsistent,
    offsets.dense,
    values.duplicate,
    values.from_nowhere,
    values.aborted_read,
    values.corruption,
    values.isolation,
    order.nonmonotonic_send,
    order.pipeline,
    order.stale_tail,
    subscribers.chains,
    subscribers.unseen,
    tasks.again,
    tasks.twice,
    tasks.late_ack,
    tasks.early,
    tasks.stuck,
    tasks.in_ledger,
    ledgers.steps,
    ledgers.moments,
    groups.capacity,
    groups.half_done,
    groups.lease_lost,
    batches.batch,
    fence.fence,
    damage.silent_loss,
    liveness.liveness,
)


def judge(table: Table) -> list[Finding]:
    """Everything that does not hold."""
    return [finding for check in PROPERTIES for finding in check(table)]
