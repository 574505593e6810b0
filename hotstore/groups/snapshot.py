"""A snapshot: the state of a group as one object, beside its ledger, so that a start folds only the rows after it.

queues/<ledger>/groups/<next:020d>-<digest>.arrow

One Arrow stream with one row of binary columns, compressed: `head` is JSON; each other column has the little-endian
numbers of one column of the open tasks, of the runs of tasks ahead of the floor, or of the takes that a rate counts.
`next` is the ledger's offset up to which rows are in it, `digest` the first half of the sha256 of its bytes. A snapshot
saves time and nothing else: one that is missing or damaged costs a longer fold.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from coldstore.shared import lists
from coldstore.shared.errors import DataLoss
from hotstore.groups.group import GroupState
from hotstore.groups.open_tasks import TAKEN, OpenTasks
from hotstore.groups.settings import definition_text, read_definition

FORMAT: Final = 1

_COLUMNS: Final = ("attempt", "failures", "holder", "priority", "until", "expires", "since")
_TIMES: Final = ("until", "expires", "since")
_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.large_binary()) for name in ("head", "task", "state", *_COLUMNS, "ahead", "takes")]
)


def encode_snapshot(group: GroupState, shift_us: int = 0) -> bytes:
    """The state as bytes. Times get the wall clock's shift, as in the ledger."""
    tasks = group.open
    slots = np.fromiter(tasks.index.values(), np.int64, len(tasks))
    head: dict[str, Any] = {
        "format": FORMAT,
        "rows": group.rows,
        "settings": definition_text(group.definition),
        "exists": group.exists,
        "paused": group.paused,
        "created": group.created_us,
        "first": group.first,
        "floor": group.floor,
        "calls": group.calls,
        "sessions": _held_sessions(group),
        "holders": tasks.holders.pairs,
        "reasons": [
            [at, reason] for at, slot in enumerate(slots.tolist()) if (reason := tasks.reasons.get(slot)) is not None
        ] if tasks.reasons else [],
    }  # fmt: skip
    ahead = np.array(list(group.ahead.runs()), np.int64)
    values = [
        orjson.dumps(head),
        np.fromiter(tasks.index.keys(), np.int64, len(tasks)).tobytes(),
        np.frombuffer(tasks.state, np.uint8)[slots].tobytes() if len(tasks) else b"",
        *(_column(getattr(tasks, name), slots, shift_us * (name in _TIMES)) for name in _COLUMNS),
        ahead.tobytes(),
        np.array([(time_us + shift_us, *run) for time_us, *run in group.takes], np.int64).tobytes(),
    ]
    columns = [lists.array([value], pa.binary()).cast(pa.large_binary()) for value in values]
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, _SCHEMA, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _column(column: array[int], slots: np.ndarray[Any, Any], more: int) -> bytes:
    if not len(slots):
        return b""
    numbers = np.frombuffer(column, f"i{column.itemsize}")[slots]
    found: bytes = np.where(numbers == 0, 0, numbers + more).tobytes() if more else numbers.tobytes()
    return found


def _held_sessions(group: GroupState) -> dict[str, int]:
    """The sessions that hold tasks; others need not be remembered."""
    tasks = group.open
    held = {
        tasks.holders.pairs[tasks.holder[slot]][0]
        for slot in tasks.index.values()
        if tasks.state[slot] == TAKEN
    }
    return {session: ttr for session, ttr in group.sessions.items() if session in held}


def decode_snapshot(data: bytes | memoryview, key: str) -> GroupState:
    """The group of a snapshot, or `DataLoss` naming it."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            row = reader.read_next_batch().to_pylist()[0]
        head = orjson.loads(row["head"])
        if head["format"] != FORMAT:
            raise DataLoss(f"{key} has format {head['format']}: start the version that wrote it", key=key)
        group = GroupState()
        group.define(read_definition(head["settings"]))
        group.exists, group.paused, group.created_us = head["exists"], head["paused"], head["created"]
        group.first, group.floor, group.rows = head["first"], head["floor"], head["rows"]
        group.calls, group.sessions = head["calls"], head["sessions"]
        for first, count in np.frombuffer(row["ahead"], np.int64).reshape(-1, 2).tolist():
            group.ahead.add_run(first, count)
        # A snapshot of an earlier version has no takes.
        for time_us, first, count in np.frombuffer(row.get("takes", b""), np.int64).reshape(-1, 3).tolist():
            group.takes.append((time_us, first, count))
        _fill(group.open, row, head)
        group.check_counts()
    except (pa.ArrowException, KeyError, ValueError, TypeError, AssertionError, StopIteration) as error:
        raise DataLoss(f"{key} is damaged: {error}", key=key) from error
    return group


def _fill(tasks: OpenTasks, row: dict[str, Any], head: dict[str, Any]) -> None:
    ids = np.frombuffer(row["task"], np.int64).tolist()
    tasks.index = dict(zip(ids, range(len(ids)), strict=True))
    tasks.state = bytearray(row["state"])
    for name in _COLUMNS:
        getattr(tasks, name).frombytes(row[name])
    counts = np.bincount(np.frombuffer(row["state"], np.uint8), minlength=4).tolist()
    tasks.by_state = [int(count) for count in counts]
    for session, worker in head["holders"]:
        tasks.holders.number(session, worker)
    tasks.reasons = dict(head["reasons"])


def snapshot_digest(data: bytes | memoryview) -> str:
    """As it stands in the name of a snapshot."""
    return hashlib.sha256(data).hexdigest()[:32]
