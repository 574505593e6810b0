"""Routes of the past of worker groups, for people who look at it: one task's life, all tasks at a time, activity.

All of it is in the group's ledger, which is read for each request: by columns, and on a thread.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from coldstore import compute as pc
from coldstore.layout.ledger import CREATE, SEEK, TASK_EVENTS
from coldstore.shared import lists
from coldstore.shared.batch import from_us
from coldstore.shared.errors import InvalidInput
from hotstore.groups.values import TASK_STATES, ledger_of
from jjq.http.replies import Reply, document
from jjq.http.request import Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.v1.groups import GROUP, group_id, work_of
from jjq.http.v1.tasks import requested_state, requested_task, requested_time
from jjq.limits import HTTP_BUCKETS_MAX, HTTP_PAGE_ELEMENTS

_BUCKETS: Final = 120
_STATES: Final = pa.array(TASK_STATES, pa.string())
_NEVER: Final = len(TASK_STATES)  # code of a task that is not there at that time

_Numbers = np.ndarray[Any, np.dtype[np.int64]]


class TransitionDocument(Struct):
    """`state` is what the task is since; null: the event is about the group. `until`: a deadline, or a delay's end."""

    offset: int
    timestamp: datetime
    event: str
    state: str | None
    attempt: int
    worker: str | None
    session: str | None
    until: datetime | None
    priority: int | None
    reason: str | None


class TaskHistory(Struct):
    """The newest transitions, oldest first. `earlier` counts those that are left out."""

    task: int
    transitions: list[TransitionDocument]
    earlier: int


class PastTask(Struct):
    """`before` is the state at the earlier time, if there is one; null: it was no task then."""

    task: int
    state: str | None
    attempt: int
    since: datetime | None
    worker: str | None
    reason: str | None
    before: str | None = None


class ChangeCount(Struct):
    """How many tasks went from one state to another; null: they were no tasks. Equal states: there and back."""

    before: str | None
    after: str | None
    count: int


class PastDocument(Struct):
    """`changes` are those since the earlier time, and `tasks` then those that changed."""

    time: datetime
    counts: dict[str, int]
    tasks: list[PastTask]
    since: datetime | None = None
    counts_since: dict[str, int] | None = None
    changes: list[ChangeCount] | None = None


class ActivityDocument(Struct):
    """Transitions of tasks by event, in `events[…][n]` those of the n-th part of the time from start to end."""

    start: datetime
    end: datetime
    bucket_seconds: float
    events: dict[str, list[int]]


# One task ------------------------------------------------------------------------------------------------


async def _history(request: Request) -> Reply:
    request.query()
    group, task = group_id(request), requested_task(request)
    await work_of(request).peek_task(group, task)
    found: list[dict[str, Any]] = []
    earlier = 0
    source: Any = request.backend.store.read(ledger_of(group))
    async with aclosing(source):
        async for batch in source:
            found += await asyncio.to_thread(_about, batch, task)
            over = max(0, len(found) - HTTP_PAGE_ELEMENTS)
            earlier += over
            del found[:over]
    return document(TaskHistory(task, [TransitionDocument(**row) for row in found], earlier))


def _about(batch: pa.RecordBatch, task: int) -> list[dict[str, Any]]:
    """The rows about a task, and those that made it one."""
    value = batch.column("value")
    first, count, event, state = (
        pc.struct_field(value, name) for name in ("task", "count", "event", "state")
    )
    begun = pc.less_equal(first, task)
    inside = pc.and_(pc.is_valid(state), pc.greater(pc.add(first, count.cast(pa.int64())), task))
    begins = pc.is_in(event, lists.array([CREATE, SEEK], pa.string()))
    rows = batch.filter(pc.and_(begun, pc.or_(inside, begins)))
    names = TransitionDocument.__struct_fields__
    shown = []
    for row in rows.to_pylist():
        fields = {**row["value"], "offset": row["offset"], "timestamp": row["timestamp"]}
        if fields["state"] is None:
            fields |= {"reason": None, "attempt": 0}  # of a group it is its settings
        shown.append({name: fields[name] for name in names})
    return shown


# All tasks at a time -------------------------------------------------------------------------------------


async def _past(request: Request) -> Reply:
    query = request.query("time", "since", "state", "after", "limit")
    work, group = work_of(request), group_id(request)
    time_us = requested_time(request, "time")
    since_us = requested_time(request, "since") if "since" in query else None
    state = requested_state(query.get("state"))
    after = request.number("after", -1)
    limit = request.number("limit", 100, HTTP_PAGE_ELEMENTS)
    if since_us is not None and since_us > time_us:
        raise InvalidInput("since is later than time: the earlier time is since")
    now = await work.tasks_at(group, time_us)
    then = None if since_us is None else await work.tasks_at(group, since_us)
    past = await asyncio.to_thread(_compared, now, then, state, after, limit)
    past.time = from_us(time_us)
    past.since = None if since_us is None else from_us(since_us)
    return document(past)


def _compared(
    now: pa.Table, then: pa.Table | None, state: str | None, after: int, limit: int
) -> PastDocument:
    past = PastDocument(from_us(0), _counts(now), [])
    if then is None:
        picked = pc.greater(now.column("task"), after)
        if state is not None:
            picked = pc.and_(picked, pc.equal(now.column("state"), state))
        past.tasks = [PastTask(**row) for row in now.filter(picked).slice(0, limit).to_pylist()]
        return past
    first = min((_first(table) for table in (now, then) if table.num_rows), default=0)
    size = max(_first(table) + table.num_rows for table in (now, then)) - first
    was, was_since = _spread(then, first, size)
    is_, is_since = _spread(now, first, size)
    changed = (was != is_) | (was_since != is_since)
    past.counts_since = _counts(then)
    past.changes = _changes(was[changed], is_[changed])
    if state is not None:
        changed &= is_ == TASK_STATES.index(state)
    ids = np.flatnonzero(changed) + first
    rows = {row["task"]: row for row in _picked(now, ids[ids > after][:limit])}
    for id_ in ids[ids > after][:limit].tolist():
        row = rows.get(
            id_, {"task": id_, "state": None, "attempt": 0, "since": None, "worker": None, "reason": None}
        )
        past.tasks.append(PastTask(**row, before=_named(int(was[id_ - first]))))
    return past


def _counts(table: pa.Table) -> dict[str, int]:
    codes = pc.index_in(table.column("state"), _STATES).to_numpy()
    found = np.bincount(codes.astype(np.int64), minlength=len(TASK_STATES))
    return {state: int(found[at]) for at, state in enumerate(TASK_STATES)}


def _first(table: pa.Table) -> int:
    return int(table.column("task")[0].as_py()) if table.num_rows else 0


def _spread(table: pa.Table, first: int, size: int) -> tuple[_Numbers, _Numbers]:
    """State and time of the last transition for each task of a range; the ids of a table are consecutive."""
    states: _Numbers = np.full(size, _NEVER, dtype=np.int64)
    times: _Numbers = np.zeros(size, dtype=np.int64)
    if table.num_rows:
        place = slice(_first(table) - first, _first(table) - first + table.num_rows)
        states[place] = pc.index_in(table.column("state"), _STATES).to_numpy()
        times[place] = pc.fill_null(table.column("since").cast(pa.int64()), 0).to_numpy()
    return states, times


def _changes(was: _Numbers, is_: _Numbers) -> list[ChangeCount]:
    width = _NEVER + 1
    counts = np.bincount(was * width + is_, minlength=width * width)
    return [
        ChangeCount(_named(int(at) // width), _named(int(at) % width), int(counts[at]))
        for at in np.flatnonzero(counts)
    ]


def _named(code: int) -> str | None:
    return None if code == _NEVER else TASK_STATES[code]


def _picked(table: pa.Table, ids: _Numbers) -> list[dict[str, Any]]:
    places = ids - _first(table)
    inside = places[(places >= 0) & (places < table.num_rows)]
    rows: list[dict[str, Any]] = table.take(pa.array(inside)).to_pylist()
    return rows


# Activity ------------------------------------------------------------------------------------------------


async def _activity(request: Request) -> Reply:
    query = request.query("start", "end", "buckets")
    group = group_id(request)
    info = await work_of(request).get_group(group)
    start_us = requested_time(request, "start") if "start" in query else info.created_us
    end_us = requested_time(request, "end") if "end" in query else request.backend.clock.now_us()
    buckets = request.number("buckets", _BUCKETS, HTTP_BUCKETS_MAX)
    if not buckets or end_us <= start_us:
        raise InvalidInput("the end must be later than the start, and there is at least one bucket")
    edges = np.linspace(start_us, end_us, buckets + 1)
    found = {event: np.zeros(buckets, dtype=np.int64) for event in TASK_EVENTS}
    source: Any = request.backend.store.read(ledger_of(group))
    async with aclosing(source):
        async for batch in source:
            await asyncio.to_thread(_add_activity, found, batch, edges)
    return document(
        ActivityDocument(
            from_us(start_us),
            from_us(end_us),
            (end_us - start_us) / buckets / 1e6,
            {event: counts.tolist() for event, counts in found.items() if counts.any()},
        )
    )


def _add_activity(found: dict[str, _Numbers], batch: pa.RecordBatch, edges: Any) -> None:
    value = batch.column("value")
    times = batch.column("timestamp").cast(pa.int64()).to_numpy()
    count = pc.struct_field(value, "count").to_numpy()
    code = pc.index_in(pc.struct_field(value, "event"), pa.array(TASK_EVENTS, pa.string()))
    codes = pc.fill_null(code, -1).to_numpy()
    for at, event in enumerate(TASK_EVENTS):
        of_it = codes == at
        if of_it.any():
            found[event] += np.histogram(times[of_it], edges, weights=count[of_it])[0].astype(np.int64)


ROUTES = (
    HttpRoute(
        "GET", f"{GROUP}/tasks/{{task}}/history", _history, "task_history", "One task's life, from the ledger",
        "work|read", "queue", reply=TaskHistory,
    ),
    HttpRoute(
        "GET", f"{GROUP}/past", _past, "group_past",
        "Tasks by state as they were at a time, and what changed since an earlier one", "work|read", "queue",
        reply=PastDocument,
        parameters=(
            Parameter("time", "RFC 3339, with a zone"),
            Parameter("since", "an earlier time: the tasks are those that changed since"),
            Parameter("state", "list only tasks that were in this state at that time"),
            Parameter("after", "list tasks after this id", "integer"),
            Parameter("limit", f"tasks that are listed; 100 if not given, at most {HTTP_PAGE_ELEMENTS}", "integer"),
        ),
    ),
    HttpRoute(
        "GET", f"{GROUP}/activity", _activity, "group_activity", "How many transitions of tasks, over time",
        "work|read", "queue", reply=ActivityDocument,
        parameters=(
            Parameter("start", "RFC 3339, with a zone; the group's creation if not given"),
            Parameter("end", "RFC 3339, with a zone; now if not given"),
            Parameter("buckets", f"parts of that time; {_BUCKETS} if not given, at most {HTTP_BUCKETS_MAX}", "integer"),
        ),
    ),
)  # fmt: skip
