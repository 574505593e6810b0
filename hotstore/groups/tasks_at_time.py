"""The tasks of a group as they were at a time: the last row about each task, taken from the ledger by columns.

Nothing loops over rows: a million of them take a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.layout import ledger as events
from coldstore.shared import lists
from coldstore.shared.batch import LEDGER_FIELDS, TIMESTAMP

PAST_SCHEMA: Final = pa.schema(
    [
        pa.field("task", pa.int64(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("since", TIMESTAMP),
        pa.field("worker", pa.string()),
        pa.field("reason", pa.string()),
    ]
)
_BEGINS: Final = [events.CREATE, events.SEEK, events.REMOVE]

_Numbers = np.ndarray[Any, np.dtype[np.int64]]


def tasks_at_time(ledger: Sequence[pa.RecordBatch], time_us: int, end: int) -> pa.Table:
    """One row for each task before the queue's offset `end`, as it was at `time_us`; `since` its last transition.

    A task that rows up to then name was there, also if its element has a later time: a wall clock that was wrong for a
    while may have stamped the one and not the other.
    """
    rows = _until(ledger, time_us)
    begin = _last_begin(rows)
    if begin is None or rows.column("event")[begin].as_py() == events.REMOVE:
        return PAST_SCHEMA.empty_table()
    first = rows.column("task")[begin].as_py()
    rows = rows.slice(begin)
    about = pc.is_valid(rows.column("state"))
    rows = rows.filter(about)
    task, count = _numbers(rows, "task"), _numbers(rows, "count")
    end = max(first, end, int((task + count).max(initial=0)))
    last = _last_rows(task, count, first, end - first)
    # The row that no task has: what an untouched task is.
    rows = pa.concat_tables([rows, pa.Table.from_pylist([{"state": "ready", "attempt": 0}], rows.schema)])
    picked = rows.take(pa.array(np.where(last < 0, rows.num_rows - 1, last)))
    until = picked.column("until").cast(pa.int64())
    awake = pc.and_(pc.equal(picked.column("state"), "delayed"), pc.less_equal(until, time_us))
    state = pc.if_else(pc.fill_null(awake, False), "ready", picked.column("state"))
    columns = [
        pa.array(np.arange(first, first + len(last), dtype=np.int64)),
        state,
        picked.column("attempt"),
        picked.column("since"),
        picked.column("worker"),
        picked.column("reason"),
    ]
    return pa.table(columns, schema=PAST_SCHEMA)


def first_untouched(tasks: pa.Table) -> int | None:
    """The first task to which nothing had happened at that time."""
    found = np.flatnonzero(pc.is_null(tasks.column("since")).to_numpy(zero_copy_only=False))
    return int(tasks.column("task")[int(found[0])].as_py()) if len(found) else None


def put_to_sleep(tasks: pa.Table, asleep: Sequence[int]) -> pa.Table:
    """Those of these tasks to which nothing had happened were delayed by what was said with their push."""
    if not asleep:
        return tasks
    sleeping = pc.is_in(tasks.column("task"), lists.array(list(asleep), pa.int64()))
    sleeping = pc.and_(sleeping, pc.is_null(tasks.column("since")))
    state = pc.if_else(sleeping, "delayed", tasks.column("state"))
    return tasks.set_column(tasks.schema.get_field_index("state"), PAST_SCHEMA.field("state"), state)


def _until(ledger: Sequence[pa.RecordBatch], time_us: int) -> pa.Table:
    """The fields of the rows up to that time, and `since`, their times."""
    names = [*(field.name for field in LEDGER_FIELDS), "since"]
    parts = []
    for batch in ledger:
        value = batch.column("value")
        columns = [pc.struct_field(value, [at]) for at in range(len(LEDGER_FIELDS))]
        part = pa.table([*columns, batch.column("timestamp")], names=names)
        parts.append(part.filter(pc.less_equal(part.column("since").cast(pa.int64()), time_us)))
    if not parts:
        fields = [pa.field(field.name, field.type) for field in LEDGER_FIELDS]
        return pa.schema([*fields, pa.field("since", TIMESTAMP)]).empty_table()
    return pa.concat_tables(parts)


def _last_begin(rows: pa.Table) -> int | None:
    """The last row after which all tasks are new."""
    found = np.flatnonzero(
        pc.is_in(rows.column("event"), lists.array(_BEGINS, pa.string())).to_numpy(zero_copy_only=False)
    )
    return int(found[-1]) if len(found) else None


def _numbers(rows: pa.Table, name: str) -> _Numbers:
    numbers: _Numbers = rows.column(name).to_numpy().astype(np.int64)
    return numbers


def _last_rows(task: _Numbers, count: _Numbers, first: int, tasks: int) -> _Numbers:
    """For each task the last row about it, -1: none. Of several values for one place, numpy keeps the last."""
    last = np.full(tasks, -1, dtype=np.int64)
    row = np.repeat(np.arange(len(task)), count)
    place = np.repeat(task - first - np.cumsum(count) + count, count) + np.arange(len(row))
    inside = (place >= 0) & (place < tasks)
    last[place[inside]] = row[inside]
    return last
