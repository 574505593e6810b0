"""Queues, subscribers, producers and doubts as tables of the checkpoint.

    queues          number · id · name · content · block_bytes · block_seconds · created · first_offset · next_offset ·
                    cold_offset · last (time of the last element) · epoch · standing
    subscriptions   number · queue_number · name · start · clamp · created: what never changes of a subscriber
    positions       number · queue_number · block · offset · previous · asleep: what does; view `subscribers` joins them
    producers       id · name · queue_number · receipts (sequence, first, count, time)
    doubts          queue_number · name · cause: queues that may have lost something; 0: one that is not known any more
    numbers         name · next: the next number of a queue and of a subscriber; none is given out twice

A row shows what is durable (part.py, rule 1): a subscriber's position as the journal has it, a queue or subscriber
only once the journal has its row, a subscriber that is being deleted until the journal says that it is gone. Replay
from any earlier record ends in the same state (rule 3): of positions, queue rows, subscriber rows, doubts and "gone"
the last record wins; what is sealed only grows; a receipt is taken once, because offsets only grow
(`Producers.remember`); a queue that left is known again for as long as the replay has not reached the record that
says so. Elements, and placeholders for lost ones, are in the journal alone, until they are cold.

A subscriber's block is what people want to know; a start does not need it. So it may be a little older.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from coldstore import compute as pc
from coldstore.layout.queue_settings import QueueSettings
from coldstore.shared import lists
from coldstore.shared.batch import TIMESTAMP, check_content
from coldstore.shared.errors import DataLoss
from hotstore.checkpoint.part import TableChange, TableForm
from hotstore.queue.changes import StateChanges
from hotstore.queue.moves import chunks
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.queue.subscriber import Subscriber
from hotstore.runner import Runner


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


_RECEIPT: Final = pa.struct(
    {"sequence": pa.int64(), "first": pa.int64(), "count": pa.int64(), "time": TIMESTAMP}
)
QUEUES: Final = TableForm(
    "queues",
    _schema(
        number=pa.int64(), id=pa.string(), name=pa.string(), content=pa.string(), block_bytes=pa.int64(),
        block_seconds=pa.float64(), created=TIMESTAMP, first_offset=pa.int64(), next_offset=pa.int64(),
        cold_offset=pa.int64(), last=TIMESTAMP, epoch=pa.int64(), standing=pa.int64(),
    ),
    "number",
)  # fmt: skip
SUBSCRIPTIONS: Final = TableForm(
    "subscriptions",
    _schema(
        number=pa.int64(), queue_number=pa.int64(), name=pa.string(), start=pa.string(), clamp=pa.bool_(),
        created=TIMESTAMP,
    ),
    "number",
)  # fmt: skip
POSITIONS: Final = TableForm(
    "positions",
    _schema(
        number=pa.int64(), queue_number=pa.int64(), block=pa.int64(), offset=pa.int64(), previous=pa.int64(),
        asleep=pa.bool_(),
    ),
    "number",
)  # fmt: skip
PRODUCERS: Final = TableForm(
    "producers",
    _schema(id=pa.string(), name=pa.string(), queue_number=pa.int64(), receipts=pa.list_(_RECEIPT)),
    "id",
)
DOUBTS: Final = TableForm(
    "doubts", _schema(queue_number=pa.int64(), name=pa.string(), cause=pa.string()), "name"
)
NUMBERS: Final = TableForm("numbers", _schema(name=pa.string(), next=pa.int64()), "name")


class RegistryPart:
    """The registry's share of the checkpoint."""

    forms: Sequence[TableForm] = (QUEUES, SUBSCRIPTIONS, POSITIONS, PRODUCERS, DOUBTS, NUMBERS)

    def __init__(self, registry: Registry, runner: Runner) -> None:
        self._registry = registry
        self._runner = runner

    def changed(self) -> bool:
        return bool(self._registry.changes)

    async def collect(self, *, whole: bool) -> dict[str, TableChange]:
        """Queues and producers on the event loop, in small pieces; subscribers in a worker thread."""
        registry = self._registry
        changes, registry.changes = registry.changes, StateChanges()
        queues: Collection[HotQueue] = changes.queues
        subscribers: Collection[Subscriber] = changes.subscribers
        fresh: Collection[Subscriber] = changes.new_subscribers
        if whole:
            queues = list(registry.by_number.values())
            subscribers = fresh = list(registry.subscribers.values())
        numbers: dict[str, list[Any]] = {
            "name": ["queue", "subscriber"],
            "next": [registry.numbers.queue, registry.numbers.subscriber],
        }
        queue_rows: list[tuple[Any, ...]] = []
        producers: list[tuple[int, str, list[Any]]] = []
        gone_producers: list[str] = []
        for some in chunks(queues):
            for queue in some:
                if queue.stored and registry.by_number.get(queue.number) is queue:
                    queue_rows.append(_queue_row(queue))
                    taken, dropped = queue.producers.take_changes(whole=whole)
                    producers += [(queue.number, *row) for row in taken]
                    gone_producers += [_producer_id(queue.number, name) for name in dropped]
            await asyncio.sleep(0)
        doubts = [queue.state.doubt_row(queue.number) for queue in registry.in_doubt()]
        doubts += [[0, name, cause] for name, cause in registry.suspects.items()]
        there = registry.subscribers

        def tables() -> dict[str, TableChange]:
            members = subscribers
            if changes.blocks and not whole:
                members = {
                    *members,
                    *(each for queue in changes.blocks for each in list(registry.of(queue).values())),
                }
            left = list(changes.gone_queues)
            gone_rows = {"number": list(changes.gone_subscribers), "queue_number": left}
            return {
                "queues": TableChange(_table(QUEUES, queue_rows), {"number": left}, whole),
                "subscriptions": TableChange(_subscriptions(_there(fresh, there)), gone_rows, whole),
                "positions": TableChange(_positions(_there(members, there)), gone_rows, whole),
                "producers": TableChange(
                    _producer_table(producers), {"id": gone_producers, "queue_number": left}, whole
                ),
                "doubts": TableChange(_table(DOUBTS, doubts), whole=True),
                "numbers": TableChange(lists.table(numbers, NUMBERS.schema), whole=True),
            }

        return await self._runner.run(tables)

    def restore(self, tables: Mapping[str, pa.Table], sequence: int) -> None:
        registry = self._registry
        for row in _rows(tables["queues"]):
            _restore_queue(registry, row)
        _restore_subscribers(registry, _rows(_join_tables(tables["subscriptions"], tables["positions"])))
        for number, name, receipts in _producers(tables["producers"]):
            queue = registry.by_number.get(number)
            if queue is not None:
                queue.producers.restore(name, receipts)
                queue.producers.forget_changes()
        for number, name, cause in _rows(tables["doubts"]):
            if number == 0:
                registry.suspects[name] = cause
            elif number in registry.by_number:
                registry.by_number[number].suspect(cause)
                registry.by_number[number].state.doubt_stored = True
        registry.numbers.reserve(*(next_ - 1 for _, next_ in sorted(_rows(tables["numbers"]))))
        registry.changes = StateChanges()


def _queue_row(queue: HotQueue) -> tuple[Any, ...]:
    s = queue.settings
    return (
        queue.number, s.id, s.name, s.content, s.block_bytes, float(s.block_seconds), s.created_us, queue.first,
        max(queue.next, queue.promised), queue.cold_offset, queue.last_us, queue.epoch, queue.state.standing,
    )  # fmt: skip


def _restore_queue(registry: Registry, row: Sequence[Any]) -> None:
    (number, id_, name, content, block_bytes, block_seconds, created_us,
     first, next_, cold_offset, last_us, epoch, standing) = row  # fmt: skip
    settings = QueueSettings(name, id_, check_content(content), block_bytes, block_seconds, created_us)
    queue = registry.add_queue(settings, number)
    queue.first, queue.next, queue.promised, queue.last_us = first, cold_offset, next_, last_us
    queue.start_tail()
    queue.epoch, queue.stored = epoch, True
    queue.state.recover(standing)


def _restore_subscribers(registry: Registry, rows: Iterable[Sequence[Any]]) -> None:
    """There may be very many, so nothing is done for each that can be done for all."""
    queues = registry.by_number
    now = next((queue.now() for queue in queues.values()), 0.0)
    for number, queue_number, name, start, clamp, created_us, previous, offset, asleep in rows:
        queue = queues.get(queue_number)
        if queue is not None:  # else it left, or came, between its row and this one: the journal tells
            subscriber = Subscriber(number, name, queue, start, clamp, created_us)
            subscriber.place(previous, offset)
            subscriber.asleep, subscriber.stored, subscriber.used = asleep, True, now
            registry.enter(subscriber)


def _join_tables(subscriptions: pa.Table, positions: pa.Table) -> pa.Table:
    """Subscriptions joined with their positions."""
    at = pc.index_in(subscriptions["number"], value_set=positions["number"].combine_chunks())
    if at.null_count:
        raise DataLoss(f"the checkpoint has no positions of {at.null_count} subscribers")
    places = positions.take(at)
    for name in ("previous", "offset", "asleep"):
        subscriptions = subscriptions.append_column(name, places[name])
    return subscriptions


def _there(subscribers: Collection[Subscriber], known: Mapping[int, Subscriber]) -> list[Subscriber]:
    return [each for each in subscribers if each.stored and known.get(each.number) is each]


def _subscriptions(subscribers: Sequence[Subscriber]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "number": [s.number for s in subscribers],
        "queue_number": [s.queue.number for s in subscribers],
        "name": [s.name for s in subscribers],
        "start": [s.start for s in subscribers],
        "clamp": [s.clamp for s in subscribers],
        "created": [s.created_us for s in subscribers],
    }
    return lists.table(columns, SUBSCRIPTIONS.schema)


def _positions(subscribers: Sequence[Subscriber]) -> pa.Table:
    """They may change meanwhile: each is read once."""
    places = [s.durable for s in subscribers]
    columns: dict[str, list[Any]] = {
        "number": [s.number for s in subscribers],
        "queue_number": [s.queue.number for s in subscribers],
        "block": [s.queue.block_of(offset) for s, (_, offset) in zip(subscribers, places, strict=True)],
        "offset": [offset for _, offset in places],
        "previous": [previous for previous, _ in places],
        "asleep": [s.asleep for s in subscribers],
    }
    return lists.table(columns, POSITIONS.schema)


def _producer_id(queue: int, name: str) -> str:
    return f"{queue}/{name}"


def _producer_table(rows: Sequence[tuple[int, str, list[Any]]]) -> pa.Table:
    receipts = [receipt for _, _, some in rows for receipt in some]
    fields = [lists.array([r[at] for r in receipts], field.type) for at, field in enumerate(_RECEIPT)]
    ends = [0]
    for _, _, some in rows:
        ends.append(ends[-1] + len(some))
    items = pa.StructArray.from_arrays(fields, fields=list(_RECEIPT))
    columns = [
        lists.array([_producer_id(queue, name) for queue, name, _ in rows], pa.string()),
        lists.array([name for _, name, _ in rows], pa.string()),
        lists.array([queue for queue, _, _ in rows], pa.int64()),
        pa.ListArray.from_arrays(
            lists.array(ends, pa.int32()), items, type=PRODUCERS.schema.field("receipts").type
        ),
    ]
    return pa.Table.from_arrays(columns, schema=PRODUCERS.schema)


def _producers(table: pa.Table) -> list[tuple[int, str, list[list[int]]]]:
    """Producers with their receipts, the one that pushed last at the end: so they are forgotten in that order."""
    if not table.num_rows:
        return []
    receipts = table.column("receipts").combine_chunks()
    values = receipts.flatten()
    flat = list(
        zip(*(lists.numbers(_times_as_numbers(values.field(at))).tolist() for at in range(4)), strict=True)
    )
    found: list[tuple[int, str, list[list[int]]]] = []
    at = 0
    sizes = [0 if each is None else each for each in _sizes(receipts)]
    for (number, name), size in zip(_rows(table, ("queue_number", "name")), sizes, strict=True):
        found.append((number, name, [list(each) for each in flat[at : at + size]]))
        at += size
    return sorted(found, key=lambda each: (each[0], each[2][-1][1]))


def _sizes(column: pa.ListArray) -> list[int]:
    return [end - start for start, end in pairwise(lists.numbers(column.offsets).tolist())]


def _table(form: TableForm, rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(form.schema)
    return lists.table(dict(zip(form.schema.names, map(list, columns), strict=True)), form.schema)


def _rows(table: pa.Table, names: Iterable[str] | None = None) -> Iterable[Any]:
    """The rows as tuples, times as microseconds."""
    wanted = table.select(list(names)) if names is not None else table
    return zip(
        *(_times_as_numbers(column.combine_chunks()).to_pylist() for column in wanted.columns), strict=True
    )


def _times_as_numbers(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
