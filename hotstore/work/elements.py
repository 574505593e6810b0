"""The elements of tasks: what they say to the driver, and what they are to who takes them.

Most are in memory, in the tail or in a loaded block. Others are loaded, a block at a time: whoever asks waits then, and
looks again at what has changed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from coldstore.shared import lists
from coldstore.shared.batch import schema
from coldstore.shared.clock import SteadyClock
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import READ_BATCH_BYTES
from hotstore.groups.drivers import KEY, OPTIONS
from hotstore.groups.keyed import TaskRun
from hotstore.groups.options import TaskOptions, read_options
from hotstore.groups.order import SECOND_US, TaskFacts, TaskOrder
from hotstore.limits import KEYED_TASKS_MAX, TAIL_READ_BYTES
from hotstore.queue.queue import HotQueue
from hotstore.read.hot_blocks import HotBlocks
from hotstore.read.listing import time_of
from hotstore.read.reading import Reading
from hotstore.runner import Runner

_LOOKS: Final = 2  # batches of elements that are looked at in one step …
_LOOK_ROWS: Final = 5_000  # … and how many elements each


class FetchedTasks(NamedTuple):
    """Elements of tasks, and the runs that they are of: perhaps fewer than were asked for."""

    batch: pa.RecordBatch
    runs: list[TaskRun]
    left: list[TaskRun]  # what would have been too much for one reply


class TaskElements:
    """Reads the elements of one queue for one group."""

    def __init__(
        self, queue: HotQueue, reading: Reading, blocks: HotBlocks, clock: SteadyClock, run: Runner
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._run = run.run
        self.reading = reading
        self._blocks = blocks

    def leave(self) -> None:
        """Nothing is read any more: loaded blocks may go."""
        self._blocks.leave(self)

    def look_at_hand(self, order: TaskOrder) -> bool:
        """Look at some elements that are in memory. False: the next ones must be loaded."""
        order.grow(self._queue.next)
        for _ in range(_LOOKS):
            if not self.is_behind(order):
                break
            first = order.scanned
            rows = min(order.end - first, _LOOK_ROWS)
            batch = self.reading.at_hand(self._queue, first, rows, self, TAIL_READ_BYTES)
            if batch is None:
                return False
            order.now_us = max(order.now_us, self._clock.now_us())  # later than all of them were pushed
            order.look(first, pushed_times(batch), facts_of(batch, order.kind.uses), self._clock.measure())
        return True

    def is_behind(self, order: TaskOrder) -> bool:
        """A driver with keys has to know every waiting task: of a long backlog, it knows the first ones."""
        known = len(order.facts) if KEY in order.kind.uses else 0
        return order.waits_for_elements and known < KEYED_TASKS_MAX

    async def look(self, order: TaskOrder) -> None:
        """Look at all elements up to the queue's end."""
        while True:
            if not self.look_at_hand(order):
                await self._blocks.get(self._queue, order.scanned, self)
            elif self.is_behind(order):
                await asyncio.sleep(0)  # a long backlog is looked at in steps: others work meanwhile
            else:
                return

    async def facts(
        self, tasks: Sequence[int], uses: frozenset[str]
    ) -> tuple[dict[int, TaskFacts], dict[int, int]]:
        """What the elements of these tasks say, and when they were pushed; in order of their ids."""
        found: dict[int, TaskFacts] = {}
        pushed: dict[int, int] = {}
        at = 0
        while at < len(tasks):
            batch = await self._load(tasks[at], TAIL_READ_BYTES)
            end, first = tasks[at] + batch.num_rows, tasks[at]
            some = []
            while at < len(tasks) and tasks[at] < end:
                some.append(tasks[at] - first)
                at += 1
            rows = batch.take(lists.array(some, pa.int64()))
            pushed.update(zip([first + row for row in some], pushed_times(rows), strict=True))
            said = facts_of(rows, uses)
            if said is not None:
                found.update({first + row: facts for row, facts in zip(some, said, strict=True) if facts})
        return found, pushed

    async def asleep(self, first: int, end: int, time_us: int, delay: float) -> list[int]:
        """The tasks that were delayed at a time, if nothing happened to them; `delay` is that of the group."""
        found: list[int] = []
        async for batch in self.reading.read(self._queue, first, end):
            found += await self._run(partial(_asleep_in, batch, time_us, delay))
        return found

    async def rows(self, tasks: Sequence[int]) -> pa.RecordBatch:
        """The elements of these tasks, in order of their ids; as many as are asked for, so ask for few."""
        found: list[pa.RecordBatch] = []
        at = 0
        while at < len(tasks):
            first = tasks[at]
            batch = await self._load(first, READ_BATCH_BYTES)
            some = []
            while at < len(tasks) and tasks[at] < first + batch.num_rows:
                some.append(tasks[at] - first)
                at += 1
            found.append(batch.take(lists.array(some, pa.int64())))
        return _concat(found)

    async def _load(self, task: int, most_bytes: int) -> pa.RecordBatch:
        while True:
            batch = self.reading.at_hand(self._queue, task, self._queue.next - task, self, most_bytes)
            if batch is not None:
                return batch
            await self._blocks.get(self._queue, task, self)

    def fetch_at_hand(self, runs: Sequence[TaskRun], used: int = 0) -> FetchedTasks | None:
        """The elements of the runs if all of them are in memory, as many as go in one reply beside `used` bytes.

        Only a single element may be larger than a reply aims at: two such would not fit into one message.
        """
        if len(runs) == 1 and runs[0][1] == 1 and not used:  # what a worker takes that wants one task
            batch = self.reading.at_hand(self._queue, runs[0][0], 1, self, READ_BATCH_BYTES)
            return None if batch is None else FetchedTasks(batch, list(runs), [])
        found: list[pa.RecordBatch] = []
        size = used
        several = used or len(runs) > 1
        for at, (first, count) in enumerate(runs):
            end = first + count
            while first < end:
                room = max(1, READ_BATCH_BYTES - size)
                batch = self.reading.at_hand(self._queue, first, end - first, self, room)
                if batch is None:
                    return None
                if several or batch.num_rows < count:
                    size += batch.nbytes
                    if size > READ_BATCH_BYTES and (found or used):
                        return self._cut(found, runs, at, first)
                found.append(batch)
                first += batch.num_rows
        return FetchedTasks(_concat(found), list(runs), [])

    def _cut(
        self, found: list[pa.RecordBatch], runs: Sequence[TaskRun], at: int, first: int
    ) -> FetchedTasks | None:
        """What was found of the runs before `first`, which is in run number `at`, and what is left."""
        if not found:
            return None
        begin, count = runs[at]
        taken = [*runs[:at], *([(begin, first - begin)] if first > begin else [])]
        return FetchedTasks(_concat(found), taken, [(first, begin + count - first), *runs[at + 1 :]])

    async def fetch(self, runs: Sequence[TaskRun]) -> FetchedTasks:
        """As above; what is not in memory is loaded. If blocks are dropped as quickly, fewer come."""
        some = self.fetch_at_hand(runs)
        if some is not None:
            return some
        first, count = runs[0]
        batch = await self._load(first, READ_BATCH_BYTES)
        batch = batch.slice(0, count)
        left = [(first + batch.num_rows, count - batch.num_rows)] if batch.num_rows < count else []
        more = [*left, *runs[1:]]
        rest = (
            self.fetch_at_hand(more, batch.nbytes) if more and batch.nbytes < READ_BATCH_BYTES // 2 else None
        )
        head = (first, batch.num_rows)
        if rest is None:
            return FetchedTasks(batch, [head], more)
        return FetchedTasks(_concat([batch, rest.batch]), [head, *rest.runs], rest.left)

    def pushed_us(self, task: int) -> int:
        """When a task was pushed; if its element is not in memory, when the first one of its block was."""
        return time_of(self._queue, self._blocks, task)

    def none(self) -> pa.RecordBatch:
        return lists.no_rows(schema(self._queue.content))


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def pushed_times(batch: pa.RecordBatch) -> list[int]:
    """When the elements were pushed."""
    times: list[int] = lists.numbers(batch.column("timestamp").view(pa.int64())).tolist()
    return times


def facts_of(batch: pa.RecordBatch, uses: frozenset[str]) -> list[TaskFacts | None] | None:
    """What each element says of what a driver uses; None if none of them says anything."""
    rows = batch.num_rows
    keys, headers = batch.column("key"), batch.column("headers")
    with_keys = KEY in uses and keys.null_count < rows
    with_options = bool(uses & OPTIONS) and headers.null_count < rows
    if not with_keys and not with_options:
        return None
    key_list: Iterable[bytes | None] = keys.to_pylist() if with_keys else [None] * rows
    if not with_options:
        return [None if key is None else TaskFacts(key) for key in key_list]
    options = _options(headers)
    shared: dict[TaskOptions | None, TaskFacts | None] = {None: None}
    found = [
        shared.setdefault(said, TaskFacts(None, said or TaskOptions()))
        if key is None
        else TaskFacts(key, said or TaskOptions())
        for key, said in zip(key_list, options, strict=True)
    ]
    return found if any(found) else None


def _asleep_in(batch: pa.RecordBatch, time_us: int, delay: float) -> list[int]:
    facts, stamps = facts_of(batch, OPTIONS), lists.numbers(batch.column("timestamp").view(pa.int64()))
    delays = np.full(batch.num_rows, delay)
    for at, said in enumerate(facts or ()):
        if said is not None and said.options.delay is not None:
            delays[at] = said.options.delay
    asleep = stamps + np.round(delays * SECOND_US).astype(np.int64) > time_us
    found: list[int] = lists.numbers(batch.column("offset"))[asleep].tolist()
    return found


def _options(headers: pa.MapArray) -> list[TaskOptions | None]:
    return [None if not pairs else _read_options(tuple(pairs)) for pairs in headers.to_pylist()]


@lru_cache(maxsize=1_024)
def _read_options(pairs: tuple[tuple[str, bytes], ...]) -> TaskOptions | None:
    """Most tasks of a push have the same options: they share one value. What came by another way than a push, and makes
    no sense, is as if it were not there."""
    try:
        return read_options(dict(pairs))
    except InvalidInput:
        return None
