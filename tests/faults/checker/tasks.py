"""Worker groups: what was acked is done, once and for good; what was not is handed out until it is.

Each queue of a history has at most one group, so a place names a task. A take that was not durable may be forgotten
by a crash, and its attempt is given out again. So what rests on attempts is judged by durable takes.

    task-again       a task was handed out after its ack had been answered
    task-twice       two durable takes got the same task in the same attempt
    late-ack         an ack was accepted although a later attempt had been handed out, durably, before it was asked for
    task-early       a task was handed out before the delay of its nack or release was over
    task-stuck       in the end a task is not done, although everything was worked on
    task-ledger      the ledger does not say what clients were told: a change that was accepted, or a durable take, is
                     missing, a task was done twice, or something is there that nobody asked for
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coldstore.layout import ledger
from tests.faults.checker.finding import Finding, found
from tests.faults.table import NONE, OFFSET_BITS, Bools, Ints, Table, match

_ATTEMPT_BITS = 16
_ENDS = (ledger.ACK, ledger.DELETE, ledger.EXPIRE)  # the events that the clients of a run can end a task with
_VERBS = {  # events, and the operations that ask for them
    ledger.ACK: ("ack", "complete"), ledger.NACK: ("nack",), ledger.RELEASE: ("release",), ledger.TOUCH: ("touch",),
    ledger.BURY: ("bury",),
}  # fmt: skip
_EVER = 1 << 62


def _first_time(table: Table, rows: Ints, times: Ints) -> tuple[Ints, Ints]:
    """Each task of these rows once, sorted, with the earliest of its times."""
    places = table.tasks.place[rows]
    order = np.lexsort((times, places))
    unique, at = np.unique(places[order], return_index=True)
    return unique, times[order][at]


def _acks(table: Table) -> Ints:
    """The rows of acks that were accepted."""
    rows = table.tasks.of(table, "ack", "complete")
    return rows[table.tasks.refused[rows] == 0]


def _durable(table: Table) -> Ints:
    rows = table.tasks.of(table, "take")
    return rows[table.ops.durable[table.tasks.op[rows]] == 1]


def again(table: Table) -> list[Finding]:
    """An ack that was answered is the end of a task."""
    acks, takes = _acks(table), table.tasks.of(table, "take")
    acked, since = _first_time(table, acks, table.ops.t1[table.tasks.op[acks]])
    at = match(acked, table.tasks.place[takes])
    late = (at != NONE) & (table.ops.t0[table.tasks.op[takes]] > np.append(since, _EVER)[at])
    return found("task-again", takes[late], named(table, "was handed out after its ack"))


def twice(table: Table) -> list[Finding]:
    """One attempt, one take."""
    rows = _durable(table)
    given = receipts(table, rows)
    order = np.argsort(given, kind="stable")
    same = given[order][1:] == given[order][:-1]
    return found("task-twice", rows[order][1:][same], named(table, "was handed out twice"))


def late_ack(table: Table) -> list[Finding]:
    """The attempt of an ack is the last one that had been handed out when the ack was asked for."""
    takes, acks = _durable(table), _acks(table)
    ops, tasks = table.ops, table.tasks
    wrong = []
    takes = takes[np.argsort(tasks.place[takes], kind="stable")]
    places = tasks.place[takes]
    left, right = (np.searchsorted(places, tasks.place[acks], side=side) for side in ("left", "right"))
    for row, begin, end in zip(acks.tolist(), left.tolist(), right.tolist(), strict=True):
        known = takes[begin:end]
        later = tasks.attempt[known] > tasks.attempt[row]
        if (later & (ops.t1[tasks.op[known]] < ops.t0[tasks.op[row]])).any():
            wrong.append(row)
    return found("late-ack", np.array(wrong, np.int64), named(table, "was acked after a later attempt"))


def early(table: Table) -> list[Finding]:
    """A delay is over before the task comes again, whatever the wall clock does meanwhile.

    Not judged is a delay that was asked for while the wall clock was wrong: a restart finds a wrong time in the ledger
    then. Nor are takes that were not durable: a node that does not know yet that it was taken over ends the lease of
    what it handed out before, and hands the task out once more, while the next node, which has the ledger from there
    on, was told of the nack. The same attempt is then handed out again, after the delay.
    """
    ops, tasks = table.ops, table.tasks
    rows = tasks.of(table, "nack", "release")
    rows = rows[(tasks.refused[rows] == 0) & (ops.delay[tasks.op[rows]] > 0)]
    jumps = np.sort(ops.t1[ops.where("skewed")])
    wrong = np.searchsorted(jumps, ops.t1[tasks.op[rows]]) % 2 == 1
    wrong |= np.searchsorted(jumps, ops.t0[tasks.op[rows]]) % 2 == 1
    rows = rows[~wrong]
    takes = _durable(table)
    order = np.argsort(receipts(table, takes), kind="stable")
    following = receipts(table, rows) + 1  # the next attempt of the same task
    at = match(receipts(table, takes)[order], following)
    known = at != NONE
    taken = takes[order][at[known]]
    until = ops.t0[tasks.op[rows[known]]] + ops.delay[tasks.op[rows[known]]]
    soon = ops.t1[tasks.op[taken]] < until
    return found("task-early", taken[soon], named(table, "was handed out before its delay was over"))


def stuck(table: Table) -> list[Finding]:
    """In the end every element that the log has is a task that is done, also if wall clocks jumped. Of a damaged log
    nothing can be said."""
    ops = table.ops
    done = ops.where("worked")
    done = done[~np.isin(ops.queue[done], table.unreadable[0] >> OFFSET_BITS)]
    places, _ = table.final
    ends = np.bincount(places >> OFFSET_BITS, minlength=len(table.queues))
    wrong = (ops.open[done] != 0) | (ops.done[done] != ends[ops.queue[done]])
    return found(
        "task-stuck",
        done[wrong],
        lambda op: (
            f"{table.queues[ops.queue[op]]}: {ops.open[op]} tasks are open and {ops.done[op]} done of "
            f"{ends[ops.queue[op]]}"
        ),
    )


def in_ledger(table: Table) -> list[Finding]:
    """Every change that was accepted is there, every durable take too, no task ends twice, and nothing is there that
    nobody asked for."""
    tasks = table.tasks
    rows = tasks.of(table, "ledger")
    if not len(rows):
        return []
    read = np.unique(tasks.place[rows] >> OFFSET_BITS)
    ended, ended_rows = spread(table, rows[is_event(table, rows, *_ENDS)])
    order = np.argsort(ended, kind="stable")
    double = ended_rows[order][1:][ended[order][1:] == ended[order][:-1]]
    durable = _durable(table)
    durable = durable[np.isin(tasks.place[durable] >> OFFSET_BITS, read)]
    taken = spread_receipts(table, rows[is_event(table, rows, ledger.TAKE)])
    forgotten = [durable[~np.isin(receipts(table, durable), taken)]]
    invented = []
    kicked = tasks.of(table, "kick")  # they name no attempt
    kicked = kicked[(tasks.refused[kicked] == 0) & np.isin(tasks.place[kicked] >> OFFSET_BITS, read)]
    there, _ = spread(table, rows[is_event(table, rows, ledger.KICK)])
    forgotten.append(kicked[~np.isin(tasks.place[kicked], there)])
    for verb, names in _VERBS.items():
        there = spread_receipts(table, mine := rows[is_event(table, rows, verb)])
        changed = tasks.of(table, *names)
        changed = changed[np.isin(tasks.place[changed] >> OFFSET_BITS, read)]
        accepted = changed[tasks.refused[changed] == 0]
        forgotten.append(accepted[~np.isin(receipts(table, accepted), there)])
        if verb != ledger.RELEASE:  # what was taken for a caller who had left is released, too
            asked = np.concatenate([changed, tasks.of(table, *names, kind="info")])
            _, each = spread(table, mine)
            invented.append(each[~np.isin(there, receipts(table, asked))])
    return [
        *found("task-ledger", double, named(table, "is done twice by the ledger")),
        *found(
            "task-ledger",
            np.concatenate(forgotten),
            named(table, "was changed or taken, and the ledger lacks it"),
        ),
        *found("task-ledger", np.concatenate(invented), named(table, "was changed, and nobody asked for it")),
    ]


def named(table: Table, what: str) -> Callable[[int], str]:
    """Tells of a row of tasks."""
    return lambda row: (
        f"{table.name(int(table.tasks.place[row]))}, attempt {table.tasks.attempt[row]}, {what}"
    )


def receipts(table: Table, rows: Ints) -> Ints:
    """Task and attempt in one number. The bits of the queue move up, so histories have few queues."""
    return (table.tasks.place[rows] << _ATTEMPT_BITS) | table.tasks.attempt[rows]


def is_event(table: Table, rows: Ints, *events: str) -> Bools:
    return np.isin(table.tasks.event[rows], [ledger.EVENTS.index(event) for event in events])


def spread(table: Table, rows: Ints) -> tuple[Ints, Ints]:
    """The tasks of these rows of a ledger, one by one, and the row of each."""
    counts = table.tasks.count[rows]
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(table.tasks.place[rows], counts) + np.arange(counts.sum()) - starts, np.repeat(
        rows, counts
    )


def spread_receipts(table: Table, rows: Ints) -> Ints:
    places, mine = spread(table, rows)
    return (places << _ATTEMPT_BITS) | table.tasks.attempt[mine]
