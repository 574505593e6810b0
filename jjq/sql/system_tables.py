"""System tables: what the verbs of a store tell, as tables of the schema jjq.

    jjq.tables        every table there is
    jjq.queues        queues and how far they go
    jjq.subscribers   positions, and how far each is behind, in elements and seconds
    jjq.blocks        blocks of all queues, or of those that a filter names
    jjq.nodes         the nodes of a cluster; of a server that is alone, that one
    jjq.shards        which node serves what
    jjq.groups, jjq.tasks, jjq.transitions   worker groups (group_tables.py)

Another part of jjq adds a table with `register`: a name, a schema, and a coroutine that makes the rows. The module that
calls `register` must be imported by `jjq/sql/source.py`, so that every process knows the table. A table is made when
a query asks for it, and not before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from coldstore.shared.batch import TIMESTAMP
from coldstore.shared.errors import NotFound, check
from coldstore.shared.results import BlockInfo, NodeStatus, QueueInfo, SubscriberInfo
from jjq.sql.query import TableName

SCHEMA: Final = "jjq"


class StoreVerbs(Protocol):
    """The verbs of a `Store` that tables are made of."""

    async def list_queues(self, *, after: str = "", limit: int | None = None) -> list[QueueInfo]: ...

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[SubscriberInfo]: ...

    async def list_blocks(
        self, queue: str, *, from_offset: int = 0, limit: int | None = None
    ) -> list[BlockInfo]: ...

    async def status(self) -> list[NodeStatus]: ...


class ClusterVerbs(Protocol):
    """The verbs of an operator that tables are made of, as in `sharding.ports`; None: the server is alone."""

    async def nodes(self) -> list[Any] | None: ...

    async def shards(
        self, queue: str = "", node: str = "", *, after: str = "", limit: int | None = None
    ) -> dict[str, list[Any]] | None: ...


@dataclass(frozen=True, slots=True)
class TableSource:
    """What the rows of system tables are made of."""

    store: StoreVerbs
    operator: ClusterVerbs | None = None  # None: a server that is alone


# The rows, of these queues alone where the table has a column `queue` and a filter names some; or a table of Arrow.
MakeRows = Callable[[TableSource, Sequence[str] | None], Awaitable[Iterable[Sequence[Any]] | pa.Table]]


@dataclass(frozen=True, slots=True)
class SystemTable:
    """A table of the schema jjq."""

    name: str
    schema: pa.Schema
    rows: MakeRows
    by_queue: bool = False  # rows cost something for each queue: made for those alone that a filter names

    async def make(self, source: TableSource, queues: Sequence[str] | None = None) -> pa.Table:
        made = await self.rows(source, queues)
        if isinstance(made, pa.Table):
            return made
        rows = list(made)
        columns = [[row[place] for row in rows] for place in range(len(self.schema))]
        arrays = [_array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == TIMESTAMP:  # all times of ours are microseconds
        return pa.array(values, pa.int64()).cast(TIMESTAMP)
    return pa.array(values, kind)


_TABLES: dict[str, SystemTable] = {}


def register(table: SystemTable) -> SystemTable:
    """Add a table; a name can be used once."""
    check(table.name not in _TABLES, f"there is a system table {table.name} already")
    _TABLES[table.name] = table
    return table


def find(name: str) -> SystemTable | None:
    return _TABLES.get(name.lower())


async def make(name: str, source: TableSource, queues: Sequence[str] | None) -> pa.Table:
    """The rows of a table, by its name."""
    found = find(name)
    if found is None:
        raise NotFound(f"no system table {name}: jjq.tables lists them")
    return await found.make(source, queues)


def names() -> list[TableName]:
    return [TableName(SCHEMA, name) for name in sorted(_TABLES)]


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


_TEXT, _WHOLE, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()


async def _tables(source: TableSource, _queues: Sequence[str] | None) -> list[tuple[Any, ...]]:
    system = [(SCHEMA, name, "system", None) for name in sorted(_TABLES)]
    return system + [("", q.name, "queue", q.content) for q in await source.store.list_queues()]


async def _queues(source: TableSource, _queues: Sequence[str] | None) -> list[tuple[Any, ...]]:
    return [
        (
            q.name, q.id, q.content, q.created_us, q.block_bytes, q.block_seconds, q.first_offset, q.next_offset,
            q.cold_offset, q.next_offset - q.first_offset, q.subscribers,
        )
        for q in await source.store.list_queues()
    ]  # fmt: skip


async def _subscribers(source: TableSource, queues: Sequence[str] | None) -> list[tuple[Any, ...]]:
    found = await source.store.list_subscribers()
    return [
        (s.id, s.name, s.queue, s.offset, s.previous, s.block, s.start, s.created_us, s.asleep, s.lag, s.lag_seconds)
        for s in found
        if queues is None or s.queue in queues
    ]  # fmt: skip


async def _blocks(source: TableSource, queues: Sequence[str] | None) -> list[tuple[Any, ...]]:
    wanted = [q.name for q in await source.store.list_queues()] if queues is None else queues
    return [
        (
            queue, b.id, b.kind, b.first_offset, b.last_offset, b.count, b.min_timestamp_us, b.max_timestamp_us,
            b.raw_bytes, b.stored_bytes, b.loaded, b.subscribers, b.sha256, b.key,
        )
        for queue in wanted
        for b in await source.store.list_blocks(queue)
        if b.count
    ]  # fmt: skip


async def _nodes(source: TableSource, _queues: Sequence[str] | None) -> list[tuple[Any, ...]]:
    found = None if source.operator is None else await source.operator.nodes()
    if found is None:
        return [
            (s.node, None, not s.error, False, None, s.version, s.uptime_seconds, None, None, None, None)
            for s in await source.store.status()
        ]
    return [
        (
            each.node.id, each.node.address, each.alive, each.node.draining, each.node.journal, each.node.version,
            each.node.uptime_seconds, each.node.load.count, each.node.load.bytes, each.node.load.traffic,
            each.node.load.memory,
        )
        for each in found
    ]  # fmt: skip


async def _shards(source: TableSource, queues: Sequence[str] | None) -> list[tuple[Any, ...]]:
    found = None if source.operator is None else await source.operator.shards()
    if found is None:
        node = (await source.store.status())[0].node
        return [(q.name, 0, None, node, None, None) for q in await source.store.list_queues()]
    return [
        (shard.queue, shard.first, shard.next, shard.node, shard.epoch, shard.load.bytes)
        for queue, shards in found.items()
        for shard in shards
        if queues is None or queue in queues
    ]


register(SystemTable("tables", _schema(schema=_TEXT, name=_TEXT, kind=_TEXT, content=_TEXT), _tables))
register(
    SystemTable(
        "queues",
        _schema(
            name=_TEXT, id=_TEXT, content=_TEXT, created=TIMESTAMP, block_bytes=_WHOLE, block_seconds=_REAL,
            first_offset=_WHOLE, next_offset=_WHOLE, cold_offset=_WHOLE, elements=_WHOLE, subscribers=_WHOLE,
        ),
        _queues,
    )
)  # fmt: skip
register(
    SystemTable(
        "subscribers",
        _schema(
            id=_TEXT, name=_TEXT, queue=_TEXT, offset=_WHOLE, previous=_WHOLE, block=_WHOLE, start=_TEXT,
            created=TIMESTAMP, asleep=_FLAG, lag=_WHOLE, lag_seconds=_REAL,
        ),
        _subscribers,
    )
)  # fmt: skip
register(
    SystemTable(
        "blocks",
        _schema(
            queue=_TEXT, id=_WHOLE, kind=_TEXT, first_offset=_WHOLE, last_offset=_WHOLE, elements=_WHOLE,
            min_timestamp=TIMESTAMP, max_timestamp=TIMESTAMP, raw_bytes=_WHOLE, stored_bytes=_WHOLE, loaded=_FLAG,
            subscribers=_WHOLE, sha256=_TEXT, key=_TEXT,
        ),
        _blocks,
        by_queue=True,
    )
)  # fmt: skip
register(
    SystemTable(
        "nodes",
        _schema(
            node=_TEXT, address=_TEXT, alive=_FLAG, draining=_FLAG, journal=_TEXT, version=_TEXT, uptime_seconds=_REAL,
            shards=_WHOLE, history_bytes=_WHOLE, elements_per_second=_REAL, memory_bytes=_WHOLE,
        ),
        _nodes,
    )
)  # fmt: skip
register(
    SystemTable(
        "shards",
        _schema(
            queue=_TEXT,
            first_offset=_WHOLE,
            next_offset=_WHOLE,
            node=_TEXT,
            epoch=_WHOLE,
            history_bytes=_WHOLE,
        ),
        _shards,
    )
)
