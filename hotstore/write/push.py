"""One push on its way: waiting, in a group, durable, cold; and the reply that is owed for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Protocol

import pyarrow as pa

from coldstore.shared.attachments import with_attachments
from coldstore.shared.batch import Content, check_columns, check_sizes, payload_bytes, payload_schema
from coldstore.shared.errors import InvalidInput
from coldstore.shared.json_text import check_json
from coldstore.shared.limits import ELEMENT_BYTES_MAX, KIB, OFFSET_MAX
from coldstore.shared.push import Push
from hotstore.groups.options import check_options
from hotstore.journal.records import MESSAGE_BYTES
from hotstore.port import STAGES, Receipt, Stage
from hotstore.write.producers import KnownPush, check_identity

SMALL_BYTES: Final = 16 * KIB  # payloads below are gathered into one record; copying larger ones costs more
_BYTES_SCHEMA: Final = payload_schema("bytes")


_CHECKED: Final = object()


class QueueWriter(Protocol):
    """What a push needs of its queue."""

    def assign(self, entry: PushEntry) -> None: ...

    def publish(self, sequence: int) -> None: ...

    def discard(self) -> None: ...

    def answer_when_cold(self, end: int, entry: PushEntry) -> None: ...


class CheckLine(Protocol):
    """The queue of a push whose values are being checked: later pushes stay behind it."""

    in_line: int
    checking: asyncio.Lock


class PushEntry:
    """An entry of the committer. `first` is negative until, and unless, offsets are assigned."""

    __slots__ = (
        "_columns", "_refusal", "_reply", "bytes", "error", "expected", "first", "on_settled", "options", "payload",
        "producer", "queue", "receipt", "sequence", "stage", "timeout", "timestamp_us", "twin", "value",
    )  # fmt: skip

    def __init__(
        self,
        queue: QueueWriter,
        push: Push,
        value: bytes | None = None,
    ) -> None:
        _, payload, self.producer, self.sequence, self.expected, self.stage, serialized, self.timeout, _ = (
            push
        )
        self.queue = queue
        self.payload = payload
        self.value = value  # of the only element, if it has nothing else
        self._columns = serialized
        if value is not None:
            self.bytes = len(value) + MESSAGE_BYTES
        elif serialized is not None:  # its size, not that of the columns: there may be more in it
            self.bytes = serialized.size
        elif (size := payload.get_total_buffer_size()) < SMALL_BYTES:  # likely to be gathered with others
            self.bytes = size + MESSAGE_BYTES
        else:  # it is serialized when it is written: until then it may wait for long
            self.bytes = payload_bytes(payload)
        self.options: frozenset[str] = frozenset()  # that its elements have for worker groups
        self.first = -1
        self.timestamp_us = 0
        self.error: Exception | None = None  # why nothing is written for it
        self.twin: KnownPush | None = None  # the same push, made before
        self.on_settled: Callable[[int], None] | None = None  # gives the admitted bytes back
        self.receipt: Receipt | None = None  # the answer; most single pushes have it before anybody waits
        self._refusal: Exception | None = None
        self._reply: asyncio.Future[Receipt] | None = None

    @property
    def columns(self) -> pa.Buffer:
        """The payload as the journal will have it."""
        if self._columns is None:
            self._columns = self.payload.serialize()
        return self._columns

    def prepare(self) -> None:
        self.queue.assign(self)
        if self.stage == "ready" and self.first >= 0:
            self._answer("ready")

    def written(self) -> None:
        if self.stage == "written" and self.first >= 0:
            self._answer("written")

    def settle(self, sequence: int) -> None:
        self.queue.publish(sequence)
        self._leave()
        if self.error is not None:
            self.refuse(self.error)
        elif self.stage == "cold":
            first, count = (
                (self.twin.first, self.twin.count) if self.twin else (self.first, self.payload.num_rows)
            )
            self.queue.answer_when_cold(first + count, self)
        else:
            self._answer("written" if self.stage == "written" else "synced")  # the same at every retry

    def stored(self) -> None:
        """The elements are in the cold store."""
        self._answer("cold")

    def fail(self, error: Exception) -> None:
        self.queue.discard()
        self._leave()
        self.refuse(error)

    def give_up(self) -> None:
        """It was never given to a queue: only the room that was admitted for it is free again."""
        self._leave()

    def _leave(self) -> None:
        if self.on_settled is not None:
            self.on_settled(self.bytes)
            self.on_settled = None

    def _answer(self, stage: Stage) -> None:
        if self.receipt is not None:
            return
        twin = self.twin
        if twin is not None:
            # As the first one was, but for its flag: what is durable by now was asked for as `stage` then.
            self.receipt = Receipt(twin.first, twin.count, twin.timestamp_us, self.stage, duplicate=True)
        else:
            self.receipt = Receipt(self.first, self.payload.num_rows, self.timestamp_us, stage)
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(self.receipt)

    def refuse(self, error: Exception) -> None:
        self._refusal = error
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)

    def reply(self) -> asyncio.Future[Receipt]:
        """The receipt to wait for, by a caller that does not find it at once."""
        self._reply = asyncio.get_running_loop().create_future()
        if self._refusal is not None:
            self._reply.set_exception(self._refusal)
        return self._reply


class PushQueue(QueueWriter, Protocol):
    """What the checks of a push need of its queue."""

    name: str
    content: Content


def check_push(queue: PushQueue, push: Push) -> PushEntry:
    """The entry of a push that may be written; else raise what is wrong with it."""
    _, payload, producer, sequence, expected_offset, stage, *_ = push
    if stage not in STAGES:
        raise InvalidInput(f"stage {stage!r} is not known: use one of {', '.join(STAGES)}")
    if producer is not None or sequence is not None:
        check_identity(producer, sequence)
    single = None if push.objects else _only_element(payload, queue.content)
    value = _value_of(single)
    is_checked = value is not None or (
        single is not None and payload.get_total_buffer_size() <= ELEMENT_BYTES_MAX
    )
    if not is_checked:
        if queue.content == "ledger":
            raise InvalidInput(f"{queue.name} is the ledger of a group: only the group writes it")
        checked = check_columns(payload, queue.content)
        if push.objects:
            checked = check_sizes(
                with_attachments(checked, push.objects, "null" if queue.content == "json" else None)
            )
        if checked is not payload:
            push = push._replace(payload=checked, serialized=None)
    if expected_offset is not None and not 0 <= check_whole("expected_offset", expected_offset) <= OFFSET_MAX:
        raise InvalidInput(f"expected_offset must not be negative, not {expected_offset}")
    entry = PushEntry(queue, push, value)
    if not is_checked:
        entry.options = check_options(entry.payload.column(2))
    return entry


def check_whole(what: str, number: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidInput(f"{what} must be a whole number, not {number!r:.60}")
    return number


_Only = tuple[bool, pa.Array]  # whether the element has a key, and the column of its value


def _only_element(batch: pa.RecordBatch, content: Content) -> _Only | None:
    """Of a payload of one element of bytes without headers, valid but for its size: a shorter way than `check_payload`.

    None for everything else, valid or not: `check_payload` decides. After each sync of the disk the processor's caches
    are cold, and a single push waits for every Arrow object that is created: here there are four.
    """
    if content != "bytes" or not isinstance(batch, pa.RecordBatch) or batch.num_rows != 1:
        return None
    if not batch.schema.equals(_BYTES_SCHEMA):
        return None
    key, values, headers = batch.column(0), batch.column(1), batch.column(2)
    if not headers.null_count or values.null_count:
        return None
    return not key.null_count, values


def _value_of(only: _Only | None) -> bytes | None:
    """The value, which the journal writes as it is, unless there is a key, or it is too large."""
    if only is None or only[0]:
        return None
    value: bytes = only[1].to_pylist()[0]
    return value if len(value) <= ELEMENT_BYTES_MAX else None


def only_value(batch: pa.RecordBatch, content: Content) -> bytes | None:
    """The value of a valid payload of one element of bytes without key and headers."""
    return _value_of(_only_element(batch, content))


class JsonChecks:
    """Checks the values of pushes to JSON queues; raises at the first that is not JSON.

    A large batch is checked in steps, so that others work meanwhile: one step in each round of the loop, however many
    queues are pushed to.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()  # fair: the push that waits longest is next

    async def check(self, entry: PushEntry) -> None:
        await self._finish(check_json(entry.payload.column(1)))

    async def submit(
        self, line: CheckLine, entry: PushEntry, submit: Callable[[PushEntry], Awaitable[None]]
    ) -> None:
        """Submit a push when its values are checked. Pushes to the same queue stay behind it, in order."""
        steps = check_json(entry.payload.column(1))
        if not line.in_line and next(steps, _CHECKED) is _CHECKED:
            await submit(entry)
            return
        line.in_line += 1
        try:
            async with line.checking:
                await self._finish(steps)
                await submit(entry)
        finally:
            line.in_line -= 1

    async def _finish(self, steps: Iterator[None]) -> None:
        while True:
            async with self._turn:
                if next(steps, _CHECKED) is _CHECKED:
                    return
                await asyncio.sleep(0)
