"""The pushes of one task, each written once, whatever became of earlier attempts.

A task is named by what is the same whenever it runs again, and pushes with the identities

    producer <name>.0, sequences 0 … 63 · producer <name>.1, sequences 0 … 63 · …

A queue remembers 64 receipts of a producer, so none of these is forgotten before its producer is, which is
after 7 days, or when 10,000 others have pushed to the queue since.

The first push of a task goes alone. If the server has its receipt already, the task ran before: then its other
receipts are asked for, by pushes that can only be recognised or refused (no queue ever has the offset that they
expect), and what is found is read back and left out (earlier.py). Otherwise this is the first attempt.
"""

from __future__ import annotations

import asyncio
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
from jjq.spark.server import Server
from jjq.spark.write.earlier import remaining

_Numbered = tuple[int, pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Task:
    """To which queue, under which name, and how durable."""

    queue: str
    name: str
    stage: Stage


class Pushes:
    """What one attempt of a task pushes."""

    def __init__(self, server: Server, task: Task) -> None:
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
        self._push_all(remaining(chain([first], waiting), self._read(receipts, first.schema)), len(receipts))

    def _push_all(self, payloads: Iterator[pa.RecordBatch], at: int) -> None:
        """Push in rounds, with several in flight; `at` is the number of the next push."""
        while True:
            # A queue that does not know a producer takes any sequence as its first: so the first goes alone.
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
        for _ in remaining([payload], self._read([receipt], payload.schema)):
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
        question = pa.record_batch({"value": pa.array([b"0"])})  # fits any queue; is never written
        at = 1
        while True:
            try:
                yield await self._push(at, question, expected=OFFSET_MAX)
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
