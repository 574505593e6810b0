"""What clients did and saw: JSON lines, one file for each client process.

    {"process", "op", "f", "type": "invoke|ok|fail|info", "t", "queue", "sub", "node", "epoch", …}

Every operation has an `invoke`, written before the request is sent, and at most one line that ends it:

    ok     it happened, as the line says
    fail   it certainly did not happen
    info   nobody knows. An operation without an end is one, too. Its process id ends with it

`t` is the machine's monotonic clock in nanoseconds, the same for all processes. What else a line has:

    push     values, pipeline and place in it → offset of the first, if the door tells it
    pop      position?, most, back (a repetition after a lost reply) → position, next, values
    peek     most → position, next, values
    deliver  (ok only; Subscribe) session, position, next, values
    confirm  offset
    seek     → position
    read     position → next, values; `end`: it reached the end of the queue
    final    as read, by a fresh subscriber, after everything was healed and restarted
    twin     as read, from a damaged copy; `taken` is when the copy was made
    take     durable → tasks (their ids), attempts, values
    ack, nack, release, touch, bury, kick   tasks, attempts?, delay? (ns) → refused: the tasks that were not changed;
             `until`: the session that has them is attached, and may hold them so long
    complete tasks, attempts, values → offset: acked and pushed at once
    group    (ok only) most: the capacity of the queue's group; keys: its tasks have so many keys
    ledger   → tasks (first of each row), counts, events, attempts, states, times (µs): the ledger of the queue's
             group, at the end
    at       time → tasks, attempts, states: as the group says that they were then
    worked   (ok only) open, done: how many tasks of the group are so, after everything was worked on
    skewed   (ok only) a wall clock jumps; the next of these lines: it jumps back
    drained  (ok only) sub, next: this subscriber found nothing more
    alive    (ok only) what was healed and serves again
    sync, begin, end   by servers: see `witness`

An `info` is `late` if it may take effect even after what its client asked for next, elsewhere. Values are
numbers (see `values`); `offsets` is there only where they do not follow each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import grpc
import orjson

from coldstore.shared.errors import JjqError, Unavailable
from jjq.wire.status import DETAILS

Type = Literal["ok", "fail", "info"]
SUFFIX = ".jsonl"
GENERATION = 10_000  # process ids of one worker are this far apart

_Code = grpc.StatusCode
_CERTAIN = {
    _Code.INVALID_ARGUMENT, _Code.OUT_OF_RANGE, _Code.NOT_FOUND, _Code.ALREADY_EXISTS,
    _Code.FAILED_PRECONDITION, _Code.PERMISSION_DENIED, _Code.UNAUTHENTICATED, _Code.DATA_LOSS,
    _Code.UNIMPLEMENTED,
}  # fmt: skip


def type_of(code: grpc.StatusCode, *, detailed: bool) -> Type:
    """How a call that ended with `code` ended.

    RESOURCE_EXHAUSTED without details of ours is gRPC's own, and it uses it also for a reply that is too
    large for this client: then a pop has moved already, so nothing is certain.
    """
    if code is _Code.RESOURCE_EXHAUSTED:
        return "fail" if detailed else "info"
    return "fail" if code in _CERTAIN else "info"


def type_of_call(error: grpc.aio.AioRpcError) -> Type:
    metadata = error.trailing_metadata()
    return type_of(error.code(), detailed=metadata is not None and metadata.get(DETAILS) is not None)


def type_of_error(error: JjqError) -> Type:
    """The same for what our own client raises."""
    return "info" if isinstance(error, Unavailable) else "fail"


def settled(attempts: list[Type]) -> Type:
    """How an operation of several attempts ended: a refusal says nothing about an attempt before it."""
    if attempts[-1] == "fail" and "info" in attempts:
        return "info"
    return attempts[-1]


class Operation:
    """An operation under way."""

    def __init__(self, recorder: Recorder, common: dict[str, Any]) -> None:
        self._recorder = recorder
        self._common = common

    def ok(self, **fields: Any) -> None:
        self._recorder.write({**self._common, "type": "ok", **fields})

    def end(self, kind: Type, code: str = "", **fields: Any) -> None:
        """End as `kind`; after `info` the worker goes on under another process id."""
        self._recorder.write({**self._common, "type": kind, "code": code, **fields})
        if kind == "info":
            self._recorder.process += GENERATION


class Recorder:
    """One worker's pen. A line is one system call, so a killed client leaves whole lines."""

    def __init__(self, file: int, process: int, now_ns: Callable[[], int]) -> None:
        self.process = process
        self._file = file
        self.now_ns = now_ns
        self.ops = 0  # so far

    def invoke(self, f: str, queue: str, *, sub: str | None = None, **fields: Any) -> Operation:
        self.ops += 1
        common = {"process": self.process, "op": self.ops, "f": f, "queue": queue, "sub": sub}
        self.write({**common, "type": "invoke", **fields})
        return Operation(self, common)

    def note(self, f: str, queue: str, *, sub: str | None = None, **fields: Any) -> None:
        """Something that is known as soon as it happens."""
        self.ops += 1
        common = {"process": self.process, "op": self.ops, "f": f, "queue": queue, "sub": sub}
        self.write({**common, "type": "ok", **fields})

    def write(self, event: dict[str, Any]) -> None:
        event["t"] = self.now_ns()
        os.write(self._file, orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))


def open_history(folder: Path, name: str) -> int:
    """A new file of the history in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder / f"{name}{SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def events(folder: Path) -> Iterator[dict[str, Any]]:
    """Every line of a history, file by file; the half line of a killed client is left out."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with path.open("rb") as file:
            yield from (orjson.loads(line) for line in file if line.endswith(b"\n"))
