"""A subscriber's way through its queue: nothing skipped, nothing repeated, never back, unless by a seek.

Every subscriber of a history has one client, so its operations follow each other. What is known of a
position is a range: a pop of unknown outcome has taken at most what it asked for, a confirmation of
unknown outcome has moved it or has not, and after a seek of unknown outcome anything goes. Where there are
several servers these may also be `late`: happen after what the client has asked another server meanwhile.

With Subscribe the position is what was confirmed, while elements go ahead of it: within a session
deliveries follow each other, and the next session begins at what was confirmed.
"""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.checker.zombies import may_be_stale
from tests.faults.table import NONE, OFFSET_BITS, TYPES, F, Ints, Table

LATE_NS = 30 * 10**9  # what has not happened so long after its end never will
_ANYWHERE = (0, 1 << 60)
_OK, _FAIL = TYPES["ok"], TYPES["fail"]


class _Chain:
    """One subscriber, operation by operation."""

    def __init__(self) -> None:
        self.low, self.high = _ANYWHERE  # the position is at least, and at most
        self._loose = 0  # elements that pops may still take, late
        self._adrift = 0  # until this time a late seek may happen
        self._session = NONE
        self._ahead: int | None = None  # where the deliveries of this session are

    def at(self, time: int) -> None:
        """It is `time` now."""
        if time < self._adrift:
            self.low, self.high = _ANYWHERE

    def _meets(self, position: int) -> str | None:
        """What is wrong with finding the subscriber at `position`."""
        if position < self.low:
            return "position-back"
        beyond = max(0, position - self.high)
        if beyond <= self._loose:
            self._loose -= beyond
            return None
        return "poll-skip"

    def pop(
        self, kind: int, position: int, following: int, most: int, count: int, *, late: bool
    ) -> str | None:
        if kind == _FAIL:
            return None
        if kind != _OK:
            if late:
                self._loose += max(most, 0)
            else:
                self.high += max(most, 0)
            return None
        wrong = self._meets(position) or ("poll-skip" if following != position + count else None)
        self.low = self.high = following
        return wrong

    def peek(self, position: int) -> str | None:
        wrong = self._meets(position)
        if wrong is None:
            self.low = self.high = position
        return wrong

    def deliver(
        self, session: int, position: int, following: int, count: int, *, stale: bool
    ) -> str | None:  # fmt: skip
        if session != self._session:
            self._session, self._ahead = session, None
            wrong = None if stale else self._meets(position)
            if wrong is None and not stale:
                self.low = self.high = position
        else:
            wrong = self._follows(position)
        if following != position + count:
            wrong = wrong or "poll-skip"
        self._ahead = following
        return wrong

    def _follows(self, position: int) -> str | None:
        if self._ahead is None or position == self._ahead:
            return None
        return "nonmonotonic-poll" if position < self._ahead else "poll-skip"

    def confirm(self, kind: int, offset: int) -> None:
        if kind == _OK:
            self.low = max(self.low, offset)
        if kind != _FAIL:
            self.high = max(self.high, offset)

    def seek(self, kind: int, position: int, late_until: int) -> None:
        if kind not in {_OK, _FAIL}:
            self._adrift = max(self._adrift, late_until)
        if kind == _OK:
            self.low = self.high = position
        elif kind != _FAIL:
            self.low, self.high = _ANYWHERE
        self._ahead = None if kind != _FAIL else self._ahead


def _step(chain: _Chain, table: Table, counts: Ints, op: int, *, stale: bool) -> str | None:
    ops = table.ops
    f, kind = int(ops.f[op]), int(ops.type[op])
    position, following, count = int(ops.position[op]), int(ops.next[op]), int(counts[op])
    late = bool(ops.late[op])
    chain.at(int(ops.t0[op]))
    if f == F["pop"]:
        return chain.pop(kind, position, following, int(ops.most[op]), count, late=late)
    if f == F["peek"] and kind == _OK:
        return None if stale else chain.peek(position)
    if f == F["deliver"]:
        return chain.deliver(int(ops.session[op]), position, following, count, stale=stale)
    if f == F["confirm"]:
        chain.confirm(kind, int(ops.offset[op]))
    if f == F["seek"]:
        chain.seek(kind, position, int(ops.t1[op]) + LATE_NS if late else 0)
    return None


def chains(table: Table) -> list[Finding]:
    """Every subscriber's way."""
    ops = table.ops
    counts = np.bincount(table.seen_op, minlength=len(ops.f))
    mine = np.flatnonzero(ops.sub != NONE)
    mine = mine[np.lexsort((ops.t0[mine], ops.sub[mine]))]
    wrong: dict[str, list[int]] = {}
    state: dict[int, _Chain] = {}
    for op, stale in zip(mine.tolist(), may_be_stale(table, mine).tolist(), strict=True):
        chain = state.setdefault(int(ops.sub[op]), _Chain())
        verdict = _step(chain, table, counts, op, stale=stale)
        if verdict is not None:
            wrong.setdefault(verdict, []).append(op)
    return [
        finding
        for name, rows in wrong.items()
        for finding in found(
            name, np.array(rows), lambda op: f"{table.subs[ops.sub[op]]} at {ops.position[op]}"
        )
    ]


def unseen(table: Table) -> list[Finding]:
    """In the end every subscriber has come to the end of its queue."""
    ops = table.ops
    done = ops.where("drained")
    if not len(done):
        return []
    places, _ = table.final
    ends = np.bincount(places >> OFFSET_BITS, minlength=len(table.queues))
    damaged = set(ops.queue[np.flatnonzero((ops.f == F["final"]) & (ops.loss == 1))].tolist())
    short = [
        op for op in done.tolist() if ops.queue[op] not in damaged and ops.next[op] < ends[ops.queue[op]]
    ]
    subs = set(ops.sub[ops.sub != NONE].tolist()) - set(ops.sub[done].tolist())
    missing = [int(np.flatnonzero(ops.sub == sub)[0]) for sub in sorted(subs)]
    return found(
        "unseen",
        np.array([*short, *missing], np.int64),
        lambda op: f"{table.subs[ops.sub[op]]} did not come to the end of {table.queues[ops.queue[op]]}",
    )
