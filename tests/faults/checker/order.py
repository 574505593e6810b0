"""Real time: what was acknowledged comes before what is pushed later, and is seen by who asks later."""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.checker.zombies import may_be_stale
from tests.faults.table import NONE, OFFSET_BITS, Ints, Rows, Table, place


def _told(ops: Rows) -> Ints:
    """Pushes that were acknowledged with their offset."""
    ok = ops.where("push")
    return ok[ops.offset[ok] != NONE]


class _Acked:
    """How far each queue was acknowledged at any time."""

    def __init__(self, table: Table) -> None:
        ops = table.ops
        ok = _told(ops)
        counts = np.bincount(table.pushed_op, minlength=len(ops.f))[ok]
        ends = place(ops.queue[ok], ops.offset[ok] + counts)
        order = np.lexsort((ops.t1[ok], ops.queue[ok]))
        self._queue, self._time = ops.queue[ok][order], ops.t1[ok][order]
        # Queues lie one after the other and their places grow, so one running maximum serves them all.
        self._ends = np.maximum.accumulate(ends[order]) if len(ok) else ends
        self._base = int(self._time.min()) if len(ok) else 0
        self._keys = self._key(self._queue, self._time)

    def _key(self, queue: Ints, time: Ints) -> Ints:
        """Queue and time in one number, in microseconds: rounding down may miss, never accuse."""
        return (queue << 44) + np.clip((time - self._base) // 1_000, 0, (1 << 44) - 1)

    def before(self, queue: Ints, time: Ints) -> Ints:
        """The place after the last acknowledged one, `time` excluded; the queue's beginning if there is none."""
        start = queue << OFFSET_BITS
        if not len(self._keys):
            return start
        at = np.searchsorted(self._keys, self._key(queue, time), side="left") - 1
        known = (at >= 0) & (self._queue[np.maximum(at, 0)] == queue)
        return np.where(known, self._ends[np.maximum(at, 0)], start)


def nonmonotonic_send(table: Table) -> list[Finding]:
    """A push acknowledged before another is sent has the smaller offset."""
    ops = table.ops
    ok = _told(ops)
    mine = place(ops.queue[ok], ops.offset[ok])
    late = ok[_Acked(table).before(ops.queue[ok], ops.t0[ok]) > mine]
    return found(
        "nonmonotonic-send",
        late,
        lambda op: (
            f"{table.queues[ops.queue[op]]}: a push got {ops.offset[op]} after a later offset was "
            f"acknowledged"
        ),
    )


def pipeline(table: Table) -> list[Finding]:
    """The pushes of one pipeline are in the log in the order in which they were sent, but for late ones."""
    ops = table.ops
    sent = np.flatnonzero((ops.pipeline != NONE) & (ops.late == 0))
    first = table.pushed_start[sent]
    at = table.offset_of(table.pushed_value[np.minimum(first, len(table.pushed_value) - 1)])
    known = at != NONE
    sent, at = sent[known], at[known]
    order = np.lexsort((ops.place[sent], ops.pipeline[sent]))
    sent, at = sent[order], at[order]
    back = (ops.pipeline[sent][1:] == ops.pipeline[sent][:-1]) & (at[1:] < at[:-1])
    return found(
        "nonmonotonic-pipeline",
        np.flatnonzero(back),
        lambda n: f"{table.name(int(at[n + 1]))} was sent after {table.name(int(at[n]))}",
    )


def stale_tail(table: Table) -> list[Finding]:
    """Who asks after an acknowledgement and is told that there is nothing more has passed that element."""
    ops = table.ops
    empty = ops.where("pop", "peek")
    empty = empty[ops.next[empty] == ops.position[empty]]
    reads = ops.where("read")
    ended = np.concatenate([empty, reads[ops.end[reads] == 1]])
    short = ended[
        _Acked(table).before(ops.queue[ended], ops.t0[ended]) > place(ops.queue[ended], ops.next[ended])
    ]
    return found(
        "stale-tail",
        short[~may_be_stale(table, short)],
        lambda op: (
            f"{table.queues[ops.queue[op]]}: said to end at {ops.next[op]} after more was acknowledged"
        ),
    )
