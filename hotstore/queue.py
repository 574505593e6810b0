"""A queue on this node: its writer, its unsealed blocks, and those who wait for its next element.

`next` is the first offset that readers cannot see yet; `assigned` runs ahead of it by the one group
that is on its way to the disk. Only the committer's group calls move either, on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from coldstore.clock import Clock
from coldstore.coldqueue import ColdQueue
from coldstore.errors import Conflict, DataLoss, Fenced, JjqError
from coldstore.queue import QueueSettings
from hotstore import records
from hotstore.admission import Usage
from hotstore.committer import Committer
from hotstore.journal import Record
from hotstore.port import QueueInfo
from hotstore.producers import Producers, Pushed
from hotstore.push import SMALL_BYTES, PushEntry
from hotstore.tail import TailBlock


class HotQueue:
    """See the module's docstring."""

    def __init__(
        self, number: int, settings: QueueSettings, clock: Clock, committer: Committer, usage: Usage
    ) -> None:
        self.number = number
        self.settings = settings
        self.name = settings.name
        self.content = settings.content
        self.cold: ColdQueue | None = None  # opened when the queue is first used
        self.open = False  # requests are served; else they go through the registry, and may have to wait
        self.epoch = 0  # of this node's tenure; 0 where it is the only node
        self.standing = records.SETTLED
        self.barred: Fenced | None = None  # set while another node is about to serve it: nothing is written
        self.gate: asyncio.Future[None] | None = None  # done when it is decided who serves the queue
        self.first = 0
        self.next = 0
        self.promised = 0  # the journal says that elements before it were acknowledged
        self.tail = TailBlock(0)
        self.sealing: list[TailBlock] = []
        self.producers = Producers()
        self.subscribers = 0  # how many; the registry knows who
        self.damage: DataLoss | None = None  # a hole in the journal: reads around it go on, pushes do not
        self.doubt: DataLoss | None = None  # elements may be lost: no pushes in this run, all else goes on
        self.last_us = 0
        self.stamped_us = 0
        self.on_grown: Callable[[HotQueue], None] = lambda queue: None
        self._clock = clock
        self._committer = committer
        self._usage = usage
        self._assigned = 0
        self._sequences: dict[str, int] = {}  # producers' last sequences in the group being formed
        self._group: list[PushEntry] = []
        self._writes: list[tuple[pa.RecordBatch, int]] = []  # payloads of the group, and their bytes
        self._readers: set[asyncio.Future[None]] = set()
        self._ended: JjqError | None = None
        self._cold_waiters: list[tuple[int, PushEntry]] = []

    # The writer ---------------------------------------------------------------------------------

    def assign(self, entry: PushEntry) -> None:
        """Give an entry its offsets, or the reason why it gets none."""
        if not self._group:
            self._assigned = self.next
            self.stamped_us = max(self._clock.now_us(), self.last_us)
        self._group.append(entry)
        try:
            if self.barred is not None:
                raise self.barred.with_traceback(None)
            if entry.producer is not None:
                entry.twin = self._twin(entry, entry.producer)
            if entry.twin is None and entry.expected is not None and entry.expected != self._assigned:
                raise Conflict(
                    f"queue {self.name}: the push expected offset {entry.expected} but the next is "
                    f"{self._assigned}; read what was added, then decide"
                )
        except Conflict as error:
            entry.error = error
            return
        if entry.twin is not None:
            return
        entry.first = self._assigned
        entry.timestamp_us = self.stamped_us
        self._assigned += entry.payload.num_rows
        if entry.producer is not None and entry.sequence is not None:
            self._sequences[entry.producer] = entry.sequence
        if entry.stage == "written":
            self._committer.want_written()
        self._committer.touch(self)

    def _twin(self, entry: PushEntry, producer: str) -> Pushed | None:
        if entry.sequence is None:
            return None
        last = self._sequences.get(producer)
        if last is None:
            return self.producers.find(producer, entry.sequence)
        if entry.sequence == last + 1:
            return None
        for other in self._group:
            if other.producer == entry.producer and other.sequence == entry.sequence and other.first >= 0:
                return Pushed(entry.sequence, other.first, other.payload.num_rows, self.stamped_us)
        known = self.producers.find(producer, entry.sequence) if entry.sequence < last else None
        if known is None:
            raise Conflict(
                f"producer {producer!r} went from sequence {last} to {entry.sequence}: "
                f"push {last + 1} first, in order"
            )
        return known

    def records(self) -> list[Record]:
        """The group's pushes as few records: neighbours that are small go together."""
        if len(self._group) == 1:
            return [self._record(self._group)]  # it has offsets, else nobody had asked for records
        made: list[Record] = []
        run: list[PushEntry] = []
        for entry in [e for e in self._group if e.first >= 0]:
            if run and (entry.bytes >= SMALL_BYTES or run[-1].bytes >= SMALL_BYTES):
                made.append(self._record(run))
                run = []
            run.append(entry)
        if run:
            made.append(self._record(run))
        return made

    def _record(self, run: list[PushEntry]) -> Record:
        first = run[0].first
        if len(run) == 1:
            payload, columns = run[0].payload, run[0].columns
        else:
            payload = pa.concat_batches([entry.payload for entry in run])
            columns = payload.serialize()
        parts = [
            records.Part(e.first - first, e.payload.num_rows, e.producer, e.sequence)
            for e in run
            if e.producer is not None and e.sequence is not None
        ]
        self._writes.append((payload, columns.size))
        return records.push(self.number, first, self.stamped_us, parts, payload.num_rows, columns)

    def publish(self, sequence: int) -> None:
        """The group is durable: show it to readers. The first of its entries does this for all."""
        if not self._group:
            return
        now, before = self._clock.monotonic(), self.tail.bytes
        for payload, size in self._writes:
            self.tail.append(payload, size, self.stamped_us, sequence, now)
        self._usage.unsealed_bytes += self.tail.bytes - before
        for entry in self._group:
            if entry.first >= 0 and entry.producer is not None and entry.sequence is not None:
                pushed = Pushed(entry.sequence, entry.first, entry.payload.num_rows, self.stamped_us)
                self.producers.remember(entry.producer, pushed)
        if self._writes:
            self.next = self._assigned
            self.last_us = self.stamped_us
            self.wake()
        self._forget_group()
        self.on_grown(self)

    def discard(self) -> None:
        """The group was not written: its offsets were never given out."""
        self._assigned = self.next
        self._forget_group()

    def _forget_group(self) -> None:
        self._group, self._writes = [], []
        self._sequences.clear()

    # Readers ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let everyone who waits at this queue look again."""
        if self._readers:
            for reader in self._readers:
                if not reader.done():
                    reader.set_result(None)
            self._readers.clear()

    async def changed(self) -> None:
        """Wait until elements were added or a subscriber was moved."""
        reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.add(reader)
        try:
            if self._ended is None:
                await reader
        finally:
            self._readers.discard(reader)
        if self._ended is not None:
            raise self._ended.with_traceback(None)

    def end_waits(self, error: JjqError) -> None:
        """Nothing will come any more: tell those who wait for elements, or for the cold store."""
        self._ended = error
        self.wake()
        waiting, self._cold_waiters = self._cold_waiters, []
        for _, entry in waiting:
            entry.refuse(error)

    def in_memory(self, position: int) -> TailBlock | None:
        """The unsealed block that holds `position`."""
        if position >= self.tail.first:
            return self.tail if position < self.tail.next else None
        for block in reversed(self.sealing):
            if block.first <= position < block.next:
                return block
        return None

    def block_of(self, offset: int) -> int:
        """Id of the block that holds `offset`; the next element will go to the hot-hot block."""
        if offset >= self.tail.first:
            return self.tail.first
        block = self.in_memory(offset)
        if block is not None:
            return block.first
        if self.cold is None or offset >= self.cold.next_offset:
            return self.tail.first
        return self.cold.block_for(offset).first

    # Sealing ------------------------------------------------------------------------------------

    @property
    def cold_offset(self) -> int:
        return self.sealing[0].first if self.sealing else self.tail.first

    @property
    def unsealed_bytes(self) -> int:
        return self.tail.bytes + sum(block.bytes for block in self.sealing)

    def floor(self) -> int | None:
        """The first journal batch that is still needed for this queue's elements."""
        for block in (*self.sealing, self.tail):
            if block.sequence is not None:
                return block.sequence
        return None

    def freeze(self) -> None:
        """End the hot-hot block and begin the next one."""
        if len(self.tail):
            self.sealing.append(self.tail)
            self.tail = TailBlock(self.tail.next)

    def start_tail(self, first: int | None = None) -> None:
        """Begin a hot-hot block at the queue's end; recovery may name another place."""
        self.tail = TailBlock(self.next if first is None else first)

    def thaw(self, block: TailBlock) -> None:
        """`block` is in the cold store now."""
        self.sealing.remove(block)
        self._usage.unsealed_bytes -= block.bytes
        reached, self._cold_waiters = self._cold_waiters, []
        for end, entry in reached:
            if end <= self.cold_offset:
                entry.stored()
            else:
                self._cold_waiters.append((end, entry))

    def answer_when_cold(self, end: int, entry: PushEntry) -> None:
        if end <= self.cold_offset:
            entry.stored()
        else:
            self._cold_waiters.append((end, entry))
            self.on_grown(self)  # it waits no longer for the block to fill

    @property
    def wanted_cold(self) -> bool:
        return bool(self._cold_waiters)

    def info(self) -> QueueInfo:
        settings = self.settings
        return QueueInfo(
            id=settings.id,
            name=self.name,
            content=self.content,
            block_bytes=settings.block_bytes,
            block_seconds=settings.block_seconds,
            created_us=settings.created_us,
            first_offset=self.first,
            next_offset=self.next,
            cold_offset=self.cold_offset,
            subscribers=self.subscribers,
        )

    def row(self) -> list[Any]:
        """All that a restart must know, as a row of a QUEUES record."""
        s = self.settings
        return [
            self.number, s.name, s.id, s.content, s.block_bytes, s.block_seconds, s.created_us,
            self.next, self.cold_offset, self.last_us, *([self.epoch, self.standing] if self.epoch else []),
        ]  # fmt: skip
