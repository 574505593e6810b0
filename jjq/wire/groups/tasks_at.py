"""The tasks of a group as they were at a time: a table, sent in parts and put together again.

The fast form is an Arrow IPC stream in each part, with the schema of the table. The friendly form has a message for
each task. Parts are about as large as a message of a stream, so a table of any size passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import pyarrow as pa

from coldstore.shared.batch import TIMESTAMP
from coldstore.shared.errors import Unavailable
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.groups.group_messages import STATE

TASKS_AT_SCHEMA: Final = pa.schema([
    pa.field("task", pa.int64(), nullable=False),
    pa.field("state", pa.string(), nullable=False),
    pa.field("attempt", pa.int64(), nullable=False),
    pa.field("since", TIMESTAMP),
    pa.field("worker", pa.string()),
    pa.field("reason", pa.string()),
])  # fmt: skip
_FRIENDLY_ROWS: Final = 1_000  # of a message


def table_parts(table: pa.Table, form: str, owner: str, room: Callable[[], int]) -> Iterator[bytes]:
    """The messages that carry a table, in order; at least one."""
    table = _conform(table)
    at = 0
    while True:
        share = max(1, table.num_rows * room() // max(1, table.nbytes))
        part = table.slice(at, share if form == "arrow" else min(share, _FRIENDLY_ROWS))
        message = pb.TasksAtResponse(owner=owner)
        if form == "arrow":
            message.arrow.ipc = _stream(part)
        else:
            message.tasks.extend(_moments(part))
        yield message.SerializeToString()
        at += part.num_rows
        if at >= table.num_rows:
            return


def _conform(table: pa.Table) -> pa.Table:
    """The columns in their order, each in its plain type."""
    columns = [table.column(field.name).cast(field.type) for field in TASKS_AT_SCHEMA]
    return pa.Table.from_arrays(columns, schema=TASKS_AT_SCHEMA)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _moments(table: pa.Table) -> Iterator[pb.TaskMoment]:
    since = table.column("since").cast(pa.int64()).to_pylist()
    for row, us in zip(table.drop_columns(["since"]).to_pylist(), since, strict=True):
        state = cast("Any", STATE.number(row.pop("state")))
        yield pb.TaskMoment(
            state=state, since_us=us, **{name: value for name, value in row.items() if value is not None}
        )


def part_in(raw: bytes) -> tuple[list[pa.RecordBatch], str]:
    """The rows of one message in the fast form, and the hint."""
    message = pb.TasksAtResponse.FromString(raw)
    try:
        with pa.ipc.open_stream(message.arrow.ipc) as reader:
            return list(reader), message.owner
    except pa.ArrowException as error:
        raise Unavailable(f"the server sent tasks that cannot be read: {error}") from None
