"""A history as columns, so that a million operations are judged in seconds: everything is sorts over arrays.

    ops      a row for each operation, its end joined to its beginning
    pushed   a row for each element of each push, in the order of `ops`
    seen     a row for each element that any reader or worker was given
    tasks    a row for each task of each take and of each change, and for each row of a ledger

A place is (queue, offset) in one number: `queue << OFFSET_BITS | offset`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coldstore.layout.ledger import EVENTS
from tests.faults.history import events

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OFFSET_BITS = 40
NONE = -1
NOWHERE = 1 << 38  # in place of the offset of an element that is not in the log
WITNESSED = ("sync", "begin", "end")  # by servers
CHANGES = ("ack", "nack", "release", "touch", "bury", "kick")  # of tasks, by clients
PUSHES = ("push", "complete")
STATES = ("ready", "taken", "delayed", "buried", "done")  # of tasks
F = {
    name: n
    for n, name in enumerate(
        ("push", "pop", "peek", "deliver", "confirm", "seek", "read", "final", "twin", "drained", "alive",
         "take", *CHANGES, "complete", "group", "ledger", "at", "worked", "skewed", *WITNESSED)
    )
}  # fmt: skip
TYPES = {"info": 0, "ok": 1, "fail": 2}
_FIELDS = (
    "offset", "position", "next", "most", "epoch", "pipeline", "place", "session", "taken", "delay", "open", "done",
    "keys", "until", "time",
)  # fmt: skip
_FLAGS = ("end", "back", "loss", "late", "durable")


@dataclass
class Rows:
    """Operations, column by column."""

    f: Ints
    type: Ints
    process: Ints
    queue: Ints
    sub: Ints
    t0: Ints
    t1: Ints
    offset: Ints
    position: Ints
    next: Ints
    most: Ints
    epoch: Ints
    pipeline: Ints
    place: Ints
    session: Ints
    taken: Ints
    delay: Ints
    open: Ints
    done: Ints
    keys: Ints
    until: Ints
    time: Ints
    end: Ints
    back: Ints
    loss: Ints
    late: Ints
    durable: Ints

    def where(self, *names: str, kind: str = "ok") -> Ints:
        """The operations of these kinds that ended so."""
        fs = [F[name] for name in names]
        return np.flatnonzero(np.isin(self.f, fs) & (self.type == TYPES[kind]))


@dataclass
class Tasks:
    """Tasks of takes, changes and rows of ledgers, column by column."""

    op: Ints
    place: Ints  # the queue and the task's id
    attempt: Ints  # NONE where a change names none
    refused: Ints  # of a change: whether this task was not changed
    count: Ints  # of a ledger's row: so many tasks, from this one on
    event: Ints  # of a ledger's row: a number of EVENTS
    state: Ints  # of a ledger's row, and of a task at a time: a number of STATES
    time: Ints  # of a ledger's row, by the wall clock, in microseconds

    def of(self, table: Table, *names: str, kind: str = "ok") -> Ints:
        """The rows of these operations that ended so."""
        return np.flatnonzero(np.isin(self.op, table.ops.where(*names, kind=kind)))


@dataclass
class Table:
    """See the module."""

    queues: list[str]
    subs: list[str]
    ops: Rows
    tasks: Tasks
    pushed_op: Ints
    pushed_value: Ints
    seen_op: Ints
    seen_offset: Ints
    seen_value: Ints
    pushed_start: Ints = field(init=False)  # where the elements of a push begin, by operation

    def __post_init__(self) -> None:
        self.pushed_start = np.searchsorted(self.pushed_op, np.arange(len(self.ops.f)))

    @cached_property
    def pushed_at(self) -> Ints:
        """How far into its push each pushed element is."""
        return np.arange(len(self.pushed_op)) - self.pushed_start[self.pushed_op]

    @cached_property
    def seen_place(self) -> Ints:
        return place(self.ops.queue[self.seen_op], self.seen_offset)

    @cached_property
    def acked(self) -> tuple[Ints, Ints, Ints]:
        """Every acknowledged element: operation, place, value."""
        ok = (self.ops.type[self.pushed_op] == TYPES["ok"]).nonzero()[0]
        op, values = self.pushed_op[ok], self.pushed_value[ok]
        places = place(self.ops.queue[op], self.ops.offset[op] + self.pushed_at[ok])
        untold = (
            self.ops.offset[op] == NONE
        )  # such an acknowledgement names no offset: the log says where it is
        if untold.any():
            found = self.offset_of(values[untold])
            nowhere = place(self.ops.queue[op[untold]], np.full(len(found), NOWHERE))
            places[untold] = np.where(found == NONE, nowhere, found)
        return op, places, values

    @cached_property
    def final(self) -> tuple[Ints, Ints]:
        """The log at the end, as the fresh subscriber read it: places, sorted, and their values."""
        return first_of(*self.read_by("final"))

    def read_by(self, *names: str) -> tuple[Ints, Ints]:
        """Places and values that these operations returned."""
        rows = np.isin(self.ops.f[self.seen_op], [F[name] for name in names])
        return self.seen_place[rows], self.seen_value[rows]

    @cached_property
    def unreadable(self) -> tuple[Ints, Ints]:
        """Ranges of places of which the final read was told that they are damaged."""
        rows = np.flatnonzero((self.ops.f == F["final"]) & (self.ops.loss == 1))
        queue = self.ops.queue[rows]
        return place(queue, self.ops.position[rows]), place(queue, self.ops.next[rows])

    def offset_of(self, values: Ints) -> Ints:
        """Where in the final log each value is, as a place; NONE where it is not."""
        places, logged = self.final
        order = np.argsort(logged, kind="stable")
        found = match(logged[order], values)
        return np.where(found >= 0, places[order][found], NONE) if len(places) else np.full_like(values, NONE)

    def name(self, at: int) -> str:
        """A place, for people."""
        return f"{self.queues[at >> OFFSET_BITS]}[{at & (1 << OFFSET_BITS) - 1}]"


def place(queue: Ints, offset: Ints) -> Ints:
    return (queue.astype(np.int64) << OFFSET_BITS) | offset


def match(table: Ints, wanted: Ints) -> Ints:
    """Where in the sorted `table` each of `wanted` is; NONE where it is not."""
    if not len(table):
        return np.full(len(wanted), NONE, np.int64)
    at = np.searchsorted(table, wanted)
    at[at == len(table)] = 0
    return np.where(table[at] == wanted, at, NONE)


def first_of(places: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Each place once, sorted, with the first value given for it."""
    unique, at = np.unique(places, return_index=True)
    return unique, values[at]


def inside(places: Ints, ranges: tuple[Ints, Ints]) -> Bools:
    """Which places lie in one of these ranges."""
    starts, ends = ranges
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order]) if len(ends) else ends
    at = np.searchsorted(starts, places, side="right") - 1
    return (at >= 0) & (places < ends[at]) if len(starts) else np.zeros(len(places), bool)


class _Names:
    """Numbers for names, in the order of their appearance."""

    def __init__(self) -> None:
        self.found: dict[str | None, int] = {None: NONE}

    def __call__(self, name: str | None) -> int:
        return self.found.setdefault(name, len(self.found) - 1)

    @property
    def names(self) -> list[str]:
        return [name for name in self.found if name is not None]


class _Builder:
    """Joins ends to beginnings, and fills the columns."""

    def __init__(self) -> None:
        self.queues, self.subs = _Names(), _Names()
        self.columns = {name: array("q") for name in Rows.__dataclass_fields__}
        self.pushed = (array("q"), array("q"))
        self.seen = (array("q"), array("q"), array("q"))
        self.tasks = {name: array("q") for name in Tasks.__dataclass_fields__}

    def add(self, begun: dict[str, Any], ended: dict[str, Any] | None) -> None:
        both = begun if ended is None else {**begun, **ended}
        row = {
            "f": F[both["f"]],
            "type": TYPES[ended["type"]] if ended else TYPES["info"],
            "process": both["process"],
            "queue": self.queues(both["queue"]),
            "sub": self.subs(both["sub"]),
            "t0": begun["t"],
            "t1": ended["t"] if ended else (1 << 62),
        }
        columns = self.columns
        number = len(columns["f"])
        for name, value in row.items():
            columns[name].append(value)
        for name in _FIELDS:
            value = both.get(name)
            columns[name].append(NONE if value is None else value)
        for name in _FLAGS:
            columns[name].append(1 if both.get(name) else 0)
        if both["f"] in PUSHES:
            self._extend(self.pushed, number, begun["values"])
        elif ended and ended["type"] == "ok" and (values := ended.get("values")):
            start = ended["position"]
            self._extend(self.seen, number, ended.get("offsets") or range(start, start + len(values)), values)
        if both.get("tasks"):
            self._add_tasks(number, row["queue"], both)

    def _add_tasks(self, op: int, queue: int, both: dict[str, Any]) -> None:
        ids = both["tasks"]
        refused = set(both.get("refused") or ())
        columns = self.tasks
        columns["op"].extend([op] * len(ids))
        columns["place"].extend((queue << OFFSET_BITS) | task for task in ids)
        columns["attempt"].extend(both.get("attempts") or [NONE] * len(ids))
        columns["refused"].extend(int(task in refused) for task in ids)
        columns["count"].extend(both.get("counts") or [1] * len(ids))
        columns["event"].extend(map(EVENTS.index, both.get("events") or ["take"] * len(ids)))
        columns["state"].extend(both.get("states") or [NONE] * len(ids))
        columns["time"].extend(both.get("times") or [NONE] * len(ids))

    def _extend(self, arrays: Iterable[array[int]], op: int, *columns: Any) -> None:
        first, *others = arrays
        first.extend([op] * len(columns[-1]))
        for into, values in zip(others, columns, strict=True):
            into.extend(values)

    def table(self) -> Table:
        rows = Rows(**{name: _ints(column) for name, column in self.columns.items()})
        pushed, seen = map(_ints, self.pushed), map(_ints, self.seen)
        tasks = Tasks(**{name: _ints(column) for name, column in self.tasks.items()})
        return Table(self.queues.names, self.subs.names, rows, tasks, *pushed, *seen)


def _ints(column: array[int]) -> Ints:
    return np.frombuffer(column, np.int64) if len(column) else np.zeros(0, np.int64)


def build(lines: Iterable[dict[str, Any]]) -> Table:
    """The table of these events; those of one process are in order."""
    builder = _Builder()
    open_: dict[tuple[int, int], dict[str, Any]] = {}
    for event in lines:
        key = (event["process"], event["op"])
        if event["type"] == "invoke":
            open_[key] = event
        else:
            builder.add(open_.pop(key, event), event)
    for begun in open_.values():
        builder.add(begun, None)
    return builder.table()


def load(folder: Path) -> Table:
    """The table of the history in `folder`."""
    return build(events(folder))
