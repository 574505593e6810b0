"""Tasks to be looked at: which are in a state, what each is, with its element, and who acked it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from coldstore.layout.ledger import ACK, TAKE
from coldstore.shared import lists
from coldstore.shared.batch import Element, elements, to_us
from hotstore.groups.drivers import OPTIONS
from hotstore.groups.ledger import LedgerRow, decode_rows
from hotstore.groups.live_group import LiveGroup
from hotstore.groups.open_tasks import NUMBERS
from hotstore.groups.options import TaskOptions, read_options
from hotstore.groups.order import PLAIN, TaskFacts
from hotstore.groups.values import TaskChange, TaskInfo, TaskOutcomes, TaskState
from hotstore.work.work_group import WorkGroup

_STEP_ROWS: Final = 10_000  # of the ledger, that are read in one step backwards


def tasks_in_state(live: LiveGroup, state: TaskState | None, after: int, limit: int) -> list[int]:
    """Ids of tasks in this state, or of all that are not done, from the one after `after` on."""
    first = max(after + 1, live.state.first)
    if state == "done":
        return list(islice(_done(live, first), limit))
    open_ = _open(live, state, first, limit)
    untouched: Iterator[int] = iter(())
    if state in (None, "ready", "delayed"):
        untouched = _untouched(live, state, first)
    return list(islice(heapq.merge(open_, untouched), limit))


def _open(live: LiveGroup, state: TaskState | None, first: int, limit: int) -> list[int]:
    tasks = live.state.open
    wanted = None if state is None else NUMBERS[state]
    found = (
        task
        for task, slot in tasks.index.items()
        if task >= first and (wanted is None or tasks.state[slot] == wanted)
    )
    return heapq.nsmallest(limit, found)


def _untouched(live: LiveGroup, state: TaskState | None, first: int) -> Iterator[int]:
    for task in range(max(first, live.state.floor), live.end):
        if live.state.is_untouched(task) and (
            state is None or (state == "delayed") == (task in live.sleeping)
        ):
            yield task


def _done(live: LiveGroup, first: int) -> Iterator[int]:
    index = live.state.open.index
    for task in range(first, live.end):
        if task not in index and not live.state.is_untouched(task):
            yield task


async def task_infos(group: WorkGroup, ids: Sequence[int]) -> list[TaskInfo]:
    """What these tasks are, and their elements. The ledger knows those that were done long ago."""
    if not ids:
        return []
    batch = await group.elements.rows(ids)
    live = group.advance()
    found = [_info(group, live, element) for element in elements(batch)]
    if len(ids) == 1 and found[0].state == "done":
        return [await _from_ledger(group, found[0])]
    return found


def _info(group: WorkGroup, live: LiveGroup, element: Element) -> TaskInfo:
    task, tasks = element.offset, live.state.open
    pushed_us = to_us(element.timestamp)
    slot = tasks.index.get(task)
    facts = live.facts.get(task, PLAIN)
    if facts is PLAIN and OPTIONS & live.kind.uses:  # a task that is only delayed is not remembered
        facts = TaskFacts(None, read_options(element.headers) or TaskOptions())
    session = worker = reason = ""
    attempt, priority, until = 0, live.priority_of(task, facts), 0
    state = live.state_name(task)
    if slot is not None:
        session, worker = tasks.holders.pairs[tasks.holder[slot]]
        attempt, priority, until = tasks.attempt[slot], tasks.priority[slot], tasks.until[slot]
        reason = tasks.reasons.get(slot, "")
    elif state == "delayed":
        until = live.ready_times(live.pushes.of(task, pushed_us), facts)[0]
    return TaskInfo(
        id=task,
        state=cast("TaskState", state),
        attempt=attempt,
        priority=priority,
        key=element.key,
        value=element.value,
        headers=element.headers,
        session=session,
        worker=worker,
        created_us=pushed_us,
        until_us=group.shown_us(until) if until else None,
        reason=reason,
    )


async def _from_ledger(group: WorkGroup, info: TaskInfo) -> TaskInfo:
    """How a task that is done came to its end: its last take, and the last row about it."""
    attempt, session, worker, reason = 0, "", "", ""
    async for batch in group.history():
        values = batch.column("value")
        first, count = lists.numbers(values.field(0)), lists.numbers(values.field(1))
        hit = ((first <= info.id) & (info.id < first + count)).nonzero()[0].tolist()
        for _, row in decode_rows(batch.take(lists.array(hit, pa.int64()))) if hit else ():
            attempt = row.attempt or attempt
            if row.event == TAKE:
                session, worker = row.session or "", row.worker or ""
            reason = row.reason or reason
    return replace(info, attempt=attempt, session=session, worker=worker, reason=reason)


async def settle_repeated(group: WorkGroup, change: TaskChange, outcomes: TaskOutcomes) -> TaskOutcomes:
    """A repeated ack: tasks that are refused since this session has acked them before, with this attempt, count."""
    done = {error.id for error in outcomes.errors if error.state == "done"}
    if change.verb != "ack" or not done:
        return outcomes
    attempts = dict(zip(change.ids, change.attempts or (), strict=True))
    enders = await _last_rows(group, sorted(done))
    made = {
        task
        for task, row in enders.items()
        if (row.event, row.attempt, row.session or "") == (ACK, attempts[task], change.session)
    }
    if not made:
        return outcomes
    states = {**outcomes.states, "done": outcomes.states.get("done", 0) + len(made)}
    refused = [error for error in outcomes.errors if error.id not in made]
    return TaskOutcomes(outcomes.changed + len(made), refused, states)


async def _last_rows(group: WorkGroup, tasks: list[int]) -> dict[int, LedgerRow]:
    """The rows that ended these tasks. The search begins at the ledger's end, where recent rows are."""
    found: dict[int, LedgerRow] = {}
    end = group.ledger.next
    while end > group.ledger.first and tasks:
        start = max(group.ledger.first, end - _STEP_ROWS)
        here: dict[int, LedgerRow] = {}
        async for batch in group.history(start, end):
            here.update(_ended_in(batch, np.array(tasks)))
        found.update(here)
        tasks = [task for task in tasks if task not in here]
        end = start
    return found


def _ended_in(batch: pa.RecordBatch, tasks: np.ndarray[Any, np.dtype[np.int64]]) -> dict[int, LedgerRow]:
    """The last row of these that is about each of some tasks, which are in order."""
    values = batch.column("value")
    first, count = lists.numbers(values.field(0)), lists.numbers(values.field(1))
    begin, end = np.searchsorted(tasks, first), np.searchsorted(tasks, first + count)
    hit = np.flatnonzero(begin < end)
    rows = decode_rows(batch.take(lists.array(hit.tolist(), pa.int64()))) if len(hit) else ()
    return {
        task: row
        for (_, row), at in zip(rows, hit, strict=True)
        if row.state is not None
        for task in tasks[begin[at] : end[at]].tolist()
    }
