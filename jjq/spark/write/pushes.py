"""The pushes of one task, each written once, whatever became of previous attempts.

A task is named by what is the same whenever it runs again, and pushes with the identities

    producer <name>.0, sequences 0 … 63 · producer <name>.1, sequences 0 … 63 · …

A queue remembers 64 receipts of a producer, so none of these is forgotten before its producer is, which is after 7
days, or when 10,000 others have pushed to the queue since.

The first push of a task is sent alone. If the server has its receipt already, the task ran before. Then the task asks
for its other receipts, by pushes that can only be recognised or refused (no queue ever has the offset that they
expect). It reads back the elements that it finds and leaves them out (`leave_out`). Otherwise this is the first
attempt.

Spark may hand a task its rows in another order when it runs again. So the rows that were pushed are read back and
compared. As long as both go the same way, whole batches are compared by Arrow. From the first difference on, rows are
compared by their digests.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

import pyarrow as pa

from coldstore.shared.backoff import Backoff
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, Exhausted, Fenced, Unavailable
from coldstore.shared.limits import OFFSET_MAX, PRODUCER_RECEIPTS_MAX
from coldstore.shared.results import Receipt, Stage
from jjq.limits import BACKOFF_SECONDS, BACKOFF_SECONDS_MAX
from jjq.spark.limits import PUSH_SECONDS, PUSHES_IN_FLIGHT
from jjq.spark.server import ServerConnection

_Numbered = tuple[int, pa.RecordBatch]
_QUESTION = pa.record_batch({"value": pa.array([b"0"])})  # fits any queue; is never written


@dataclass(frozen=True, slots=True)
class PushTask:
    """To which queue, under which name, and how durable."""

    queue: str
    name: str
    stage: Stage


class Pushes:
    """What one attempt of a task pushes."""

    def __init__(self, server: ServerConnection, task: PushTask) -> None:
        self._server = server
        self._task = task
        self._clock, self._chance = SystemClock(), SystemChance()
        self.pushed = 0  # elements, of this attempt
        self.found = 0  # elements, of attempts before it

    def run(self, payloads: Iterable[pa.RecordBatch]) -> None:
        """Push all; returns when everything has reached its stage."""
        waiting = iter(payloads)
        first = next(waiting, None)
        if first is None:
            return
        receipt = self._server.run(self._push(0, first))
        if not receipt.duplicate:
            self.pushed += receipt.count
            self._push_all(waiting, 1)
            return
        receipts = [receipt, *self._server.run(self._known())]
        self.found = sum(receipt.count for receipt in receipts)
        self._push_all(leave_out(chain([first], waiting), self._read(receipts, first.schema)), len(receipts))

    def _push_all(self, payloads: Iterator[pa.RecordBatch], at: int) -> None:
        """Push in rounds, with several in flight; `at` is the number of the next push."""
        while True:
            # A queue that does not know a producer takes any sequence as its first: so the first is sent alone.
            left = PRODUCER_RECEIPTS_MAX - at % PRODUCER_RECEIPTS_MAX
            size = 1 if left == PRODUCER_RECEIPTS_MAX else min(left, PUSHES_IN_FLIGHT)
            batch = list(enumerate(islice(payloads, size), at))
            if not batch:
                return
            receipts = self._server.run(self._round(batch))
            for (_, payload), receipt in zip(batch, receipts, strict=True):
                self._settle(payload, receipt)
            at += len(batch)

    def _settle(self, payload: pa.RecordBatch, receipt: Receipt) -> None:
        if not receipt.duplicate:
            self.pushed += receipt.count
            return
        # Another attempt runs beside this one and was quicker. It has the same rows, or one of us fails.
        for _ in leave_out([payload], self._read([receipt], payload.schema)):
            raise Conflict(
                f"two attempts of task {self._task.name} push different rows at the same time: "
                f"make the query deterministic, or turn speculation off"
            )
        self.found += receipt.count

    async def _round(self, batch: list[_Numbered]) -> list[Receipt]:
        """Push side by side; then again, in order and one by one, what was refused or got no answer."""
        tries = await asyncio.gather(*(self._try(*each) for each in batch), return_exceptions=True)
        receipts = []
        for each, outcome in zip(batch, tries, strict=True):
            if isinstance(outcome, Unavailable | Exhausted | Conflict):  # Conflict: one before it was refused
                outcome = await self._push(*each)
            if isinstance(outcome, BaseException):
                raise outcome
            receipts.append(outcome)
        return receipts

    async def _push(self, at: int, payload: pa.RecordBatch, expected: int | None = None) -> Receipt:
        """One push, until its outcome is known or it has taken too long."""
        backoff = Backoff(BACKOFF_SECONDS, BACKOFF_SECONDS_MAX, self._chance)
        deadline = self._clock.monotonic() + PUSH_SECONDS
        while True:
            try:
                return await self._try(at, payload, expected)
            except (Unavailable, Exhausted, Fenced) as error:
                pause = error.retry_after if isinstance(error, Exhausted) else 0.0
                if not await backoff.wait(self._clock, deadline, pause):
                    raise
            except Conflict as refused:
                if expected is not None:
                    raise
                return await self._receipt(at, refused)

    async def _receipt(self, at: int, refused: Conflict) -> Receipt:
        """The receipt of a push that was `refused`, because an attempt before pushed other rows in its place."""
        try:
            return await self._push(at, _QUESTION, expected=OFFSET_MAX)
        except Fenced:
            raise
        except Conflict:
            raise refused from None

    async def _try(self, at: int, payload: pa.RecordBatch, expected: int | None = None) -> Receipt:
        run, sequence = divmod(at, PRODUCER_RECEIPTS_MAX)
        return await self._server.store.push(
            self._task.queue,
            payload,
            producer=f"{self._task.name}.{run}",
            sequence=sequence,
            expected_offset=expected,
            stage=self._task.stage,
        )

    # Attempts before this one ---------------------------------------------------------------------

    async def _known(self) -> list[Receipt]:
        """The receipts of all pushes after the first that attempts of this task have made."""
        return [receipt async for receipt in self._recognised()]

    async def _recognised(self) -> AsyncIterator[Receipt]:
        at = 1
        while True:
            try:
                yield await self._push(at, _QUESTION, expected=OFFSET_MAX)
            except Fenced:  # a Conflict that says nothing about receipts
                raise
            except Conflict:
                return
            at += 1

    def _read(self, receipts: list[Receipt], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for receipt in receipts:
            end = receipt.first_offset + receipt.count
            for batch in self._server.read(self._task.queue, receipt.first_offset, end):
                columns = [batch.column(field.name).cast(field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def leave_out(mine: Iterable[pa.RecordBatch], previous: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of `mine` that are not in `previous`; `Conflict` if `previous` has others."""
    known: Counter[bytes] = Counter()
    there: pa.RecordBatch | None = None
    for batch in mine:
        while not known and batch.num_rows:
            there = there if there is not None and there.num_rows else next(previous, None)
            if there is None:
                break
            count = min(batch.num_rows, there.num_rows)
            if batch.slice(0, count).equals(there.slice(0, count)):
                batch, there = batch.slice(count), there.slice(count)
            else:
                known = Counter(_digests(there))
                for more in previous:
                    known.update(_digests(more))
                there = None
        if known:
            batch = _without(batch, known)
        if batch.num_rows:
            yield batch
    left = known.total() + (0 if there is None else there.num_rows) + sum(b.num_rows for b in previous)
    if left:
        raise Conflict(
            f"an earlier attempt of this task pushed {left} elements that it does not have now: the rows differ from "
            f"attempt to attempt, so make the query deterministic, and write under a new producer or checkpoint"
        )


def _without(batch: pa.RecordBatch, known: Counter[bytes]) -> pa.RecordBatch:
    """The rows that are not among `known`, which loses those that are."""
    keep = []
    for digest in _digests(batch):
        keep.append(not known[digest])
        if known[digest]:
            known[digest] -= 1
    known += Counter()  # drops what has come down to 0
    return batch.filter(pa.array(keep))


def _digests(batch: pa.RecordBatch) -> Iterator[bytes]:
    """One for each row. Sixteen bytes stand for it, however large it is."""
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        yield hashlib.blake2b(repr(row).encode(), digest_size=16).digest()
