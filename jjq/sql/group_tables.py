"""System tables of worker groups: groups, their tasks as they are now, and what happened to each task.

    jjq.groups        groups, their settings, and how many tasks are in each state
    jjq.tasks         one row for each task that a group sees: state, attempt, since when, worker, reason
    jjq.transitions   the ledgers of the groups, one row for each step of a task, or of a run of `count` tasks

Tasks and transitions are made for the queues that a filter names, so that a query about one group does not read all
ledgers. A ledger is also a table by its own name, "queue~group", which reads history as Parquet; jjq.transitions asks
the store for all of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Protocol, cast

import pyarrow as pa

from coldstore.shared.batch import LEDGER_FIELDS, TIMESTAMP
from coldstore.shared.errors import InvalidInput
from hotstore.groups.values import GroupInfo, ledger_of
from jjq.limits import EVER_US
from jjq.sql.system_tables import SystemTable, TableSource, register

_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()
_WHOSE: Final = [pa.field("queue", _TEXT), pa.field("group", _TEXT)]
_GROUPS: Final = pa.schema(
    {
        "id": _TEXT, "name": _TEXT, "queue": _TEXT, "driver": _TEXT, "paused": pa.bool_(), "waiting": _WHOLE,
        "ready": _WHOLE, "taken": _WHOLE, "delayed": _WHOLE, "buried": _WHOLE, "done": _WHOLE,
        "ttr": _REAL, "ttl": _REAL, "max_attempts": _WHOLE, "capacity": _WHOLE, "start": _TEXT, "created": TIMESTAMP,
        "ledger": _TEXT,
    }.items()
)  # fmt: skip
_TASKS: Final = pa.schema(
    [
        *_WHOSE,
        pa.field("task", _WHOLE),
        pa.field("state", _TEXT),
        pa.field("attempt", _WHOLE),
        pa.field("since", TIMESTAMP),
        pa.field("worker", _TEXT),
        pa.field("reason", _TEXT),
    ]
)
_TRANSITIONS: Final = pa.schema(
    [*_WHOSE, pa.field("offset", _WHOLE), pa.field("timestamp", TIMESTAMP), *(f for f in LEDGER_FIELDS)]
)


class GroupTableVerbs(Protocol):
    """The verbs of a store that these tables are made of."""

    async def list_groups(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[GroupInfo]: ...

    async def tasks_at(self, group: str, time_us: int) -> pa.Table: ...

    def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncIterator[pa.RecordBatch]: ...


def _verbs(source: TableSource) -> GroupTableVerbs:
    if not hasattr(source.store, "list_groups"):
        raise InvalidInput(
            'groups are known to servers only: give the server, too (--server); a ledger is the table "QUEUE~GROUP"'
        )
    return cast("GroupTableVerbs", source.store)


async def _found(source: TableSource, queues: Sequence[str] | None) -> list[GroupInfo]:
    verbs = _verbs(source)
    if queues is None:
        return await verbs.list_groups()
    return [group for queue in queues for group in await verbs.list_groups(queue)]


async def _groups(source: TableSource, queues: Sequence[str] | None) -> list[tuple[Any, ...]]:
    return [
        (
            g.id, g.name, g.queue, g.settings.driver, g.paused, g.waiting,
            *(g.tasks.get(state, 0) for state in ("ready", "taken", "delayed", "buried", "done")),
            g.settings.ttr, g.settings.ttl, g.settings.max_attempts, g.settings.capacity, g.start, g.created_us,
            ledger_of(g.id),
        )
        for g in await _found(source, queues)
    ]  # fmt: skip


async def _tasks(source: TableSource, queues: Sequence[str] | None) -> pa.Table:
    parts = [_TASKS.empty_table()]
    for group in await _found(source, queues):
        tasks = await _verbs(source).tasks_at(group.id, EVER_US)
        columns = [tasks.column(name).cast(_TASKS.field(name).type) for name in _TASKS.names[len(_WHOSE) :]]
        parts.append(_of_group(group, columns, _TASKS))
    return pa.concat_tables(parts)


async def _transitions(source: TableSource, queues: Sequence[str] | None) -> pa.Table:
    parts = [_TRANSITIONS.empty_table()]
    for group in await _found(source, queues):
        async for batch in _verbs(source).read(ledger_of(group.id)):
            columns = [batch.column("offset"), batch.column("timestamp"), *batch.column("value").flatten()]
            parts.append(_of_group(group, columns, _TRANSITIONS))
    return pa.concat_tables(parts)


def _of_group(group: GroupInfo, columns: list[Any], schema: pa.Schema) -> pa.Table:
    rows = len(columns[0])
    whose = [pa.repeat(pa.scalar(text, _TEXT), rows) for text in (group.queue, group.name)]
    return pa.Table.from_arrays([*whose, *columns], schema=schema)


register(SystemTable("groups", _GROUPS, _groups, by_queue=True))
register(SystemTable("tasks", _TASKS, _tasks, by_queue=True))
register(SystemTable("transitions", _TRANSITIONS, _transitions, by_queue=True))
