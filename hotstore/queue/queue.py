"""A queue on this node: its writer, its unsealed blocks, and the readers that wait for its next element.

`next` is the first offset that readers cannot see yet; `assigned` runs ahead by those on their way into the journal,
one on a disk, each in a stage of its own. Only the committer's group calls move either, on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from coldstore.layout.queue_settings import QueueSettings
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, JjqError, NotFound
from hotstore.journal import records
from hotstore.journal.port import Record
from hotstore.port import QueueInfo
from hotstore.queue.changes import StateChanges
from hotstore.queue.placeholders import Fill
from hotstore.queue.state import Lifecycle
from hotstore.queue.tail import TailBlock
from hotstore.write.admission import Usage
from hotstore.write.committer import Committer
from hotstore.write.producers import KnownPush, Producers
from hotstore.write.push import SMALL_BYTES, PushEntry


class _Stage:
    """What one group of the committer holds of a queue, from the first assignment until it is settled."""

    __slots__ = ("end", "entries", "group", "sequences", "stamped_us", "writes")

    def __init__(self, group: int, end: int, stamped_us: int) -> None:
        self.group = group
        self.end = end  # the offset behind its last element
        self.stamped_us = stamped_us
        self.entries: list[PushEntry] = []
        self.sequences: dict[str, int] = {}  # producers' last sequences in it
        self.writes: list[tuple[pa.RecordBatch, int]] = []  # payloads of its records, and their bytes


class SealsBlocks(Protocol):
    """What a queue needs of the sealer."""

    def seal_due(self, queue: HotQueue) -> None: ...


class NoSealer:
    """For a registry that only replays a journal: it takes no pushes."""

    def seal_due(self, queue: HotQueue) -> None: ...


class QueueHome(Protocol):
    """What a queue needs of the registry."""

    sealer: SealsBlocks
    changes: StateChanges[HotQueue, Any]


class HotQueue:
    """See the module's docstring."""

    def __init__(
        self,
        number: int,
        settings: QueueSettings,
        clock: Clock,
        committer: Committer,
        usage: Usage,
        home: QueueHome,
    ) -> None:
        self.number = number
        self.settings = settings
        self.name = settings.name
        self.content = settings.content
        self.cold: ColdQueue | None = None  # opened when the queue is first used
        self.state = Lifecycle(settings.name)
        self.epoch = 0  # of this node's tenure; 0 where it is the only node
        self.checking = asyncio.Lock()  # held by a push that takes long to check, and by those behind it …
        self.in_line = 0  # … as many as these
        self.first = self.next = 0
        self.promised = 0  # the journal says that elements before it were acknowledged
        self.tail = TailBlock(0)
        self.sealing: list[TailBlock] = []
        self.producers = Producers()
        self.subscribers = 0  # how many; the registry knows who
        self.fills: list[Fill] = []  # what an operator gave up, and what is not all cold yet
        self.stored = False  # whether the journal has a row of it
        self.row_chapter: int | None = None  # the file of the journal that has the queue's row
        self.last_us = 0
        self._clock = clock
        self._committer = committer
        self._usage = usage
        self._home = home
        self._staged: deque[_Stage] = deque()  # oldest first
        self._readers: set[asyncio.Future[None]] = set()
        self._ended: JjqError | None = None
        self.on_grown: Callable[[], None] | None = None  # worker groups, which may have takes that wait
        self._cold_waiters: list[tuple[int, PushEntry]] = []

    # The writer ---------------------------------------------------------------------------------

    def assign(self, entry: PushEntry, *, accepted: bool = False) -> None:
        """Give an entry its offsets, or the reason why it gets none; `accepted`: whether the queue leaves or not."""
        stage = self.forming_stage()
        stage.entries.append(entry)
        try:
            if self.state.refusal is not None and not accepted:
                raise self.state.refusal.with_traceback(None)
            if entry.producer is not None:
                entry.twin = self._twin(entry, entry.producer)
            if entry.twin is None and entry.expected is not None and entry.expected != stage.end:
                raise Conflict(
                    f"queue {self.name}: the push expected offset {entry.expected} but the next is "
                    f"{stage.end}; read what was added, then decide"
                )
        except (Conflict, NotFound) as error:
            entry.error = error
            return
        if entry.twin is not None:
            return
        entry.first = stage.end
        entry.timestamp_us = stage.stamped_us
        stage.end += entry.payload.num_rows
        if entry.producer is not None and entry.sequence is not None:
            stage.sequences[entry.producer] = entry.sequence
        if entry.stage == "written":
            self._committer.want_written()
        self._committer.touch(self)

    def forming_stage(self) -> _Stage:
        """Of the group that is being formed; it goes on where the one before it ends, durable or not."""
        end, last_us = self.next, self.last_us
        if self._staged:
            last = self._staged[-1]
            if last.group == self._committer.forming:
                return last
            end, last_us = last.end, last.stamped_us
        stage = _Stage(self._committer.forming, end, max(self._clock.now_us(), last_us))
        self._staged.append(stage)
        return stage

    def _twin(self, entry: PushEntry, producer: str) -> KnownPush | None:
        if entry.sequence is None:
            return None
        last = next((s.sequences[producer] for s in reversed(self._staged) if producer in s.sequences), None)
        if last is None:
            return self.producers.find(producer, entry.sequence)
        if entry.sequence == last + 1:
            return None
        for other in (e for stage in self._staged for e in stage.entries if e.first >= 0):
            if other.producer == entry.producer and other.sequence == entry.sequence:
                return KnownPush(entry.sequence, other.first, other.payload.num_rows, other.timestamp_us)
        known = self.producers.find(producer, entry.sequence) if entry.sequence < last else None
        if known is None:
            raise Conflict(
                f"producer {producer!r} went from sequence {last} to {entry.sequence}: "
                f"push {last + 1} first, in order"
            )
        return known

    def records(self) -> list[Record]:
        """What the formed group has of this queue; the first in a file of the journal comes with the queue's row."""
        chapter = self._committer.chapter
        if chapter is not None and chapter == self.row_chapter:
            return self._pushes()
        self.row_chapter = chapter
        return [records.rows(records.QUEUES, [self.row()]), *self._pushes()]

    def _pushes(self) -> list[Record]:
        """The pushes as few records: neighbours that are small go together."""
        stage = self._staged[-1]
        if len(stage.entries) == 1:  # it has offsets, or nobody would ask for records
            entry = stage.entries[0]
            if entry.value is None:
                return [self._record(stage, stage.entries)]
            stage.writes.append((entry.payload, entry.bytes))
            parts = () if entry.producer is None else _parts(stage.entries)
            return [records.push_value(self.number, entry.first, stage.stamped_us, parts, entry.value)]
        result: list[Record] = []
        run: list[PushEntry] = []
        for entry in [e for e in stage.entries if e.first >= 0]:
            if run and (entry.bytes >= SMALL_BYTES or run[-1].bytes >= SMALL_BYTES):
                result.append(self._record(stage, run))
                run = []
            run.append(entry)
        if run:
            result.append(self._record(stage, run))
        return result

    def _record(self, stage: _Stage, run: list[PushEntry]) -> Record:
        first = run[0].first
        if len(run) == 1:
            payload, columns = run[0].payload, run[0].columns
        else:
            payload = pa.concat_batches([entry.payload for entry in run])
            columns = payload.serialize()
        stage.writes.append((payload, columns.size))
        return records.push(self.number, first, stage.stamped_us, _parts(run), payload.num_rows, columns)

    def publish(self, sequence: int) -> None:
        """The group is durable: show it to readers. The first of its entries does this for all."""
        stage = self._take_stage()
        if stage is None:
            return
        if stage.writes:
            tail = self.tail
            before = tail.bytes
            now = 0.0 if len(tail) else self._clock.monotonic()  # only a block's first push looks at it
            for payload, size in stage.writes:
                tail.append(payload, size, stage.stamped_us, sequence, now)
            self._usage.unsealed_bytes += tail.bytes - before
            self.next = stage.end
            self.last_us = stage.stamped_us
            if stage.sequences:
                self._remember(stage)
            self.wake()
            self._home.changes.queues.add(self)
        if self.is_due:
            self._home.sealer.seal_due(self)

    def _remember(self, stage: _Stage) -> None:
        for entry in stage.entries:
            if entry.first >= 0 and entry.producer is not None and entry.sequence is not None:
                pushed = KnownPush(entry.sequence, entry.first, entry.payload.num_rows, stage.stamped_us)
                self.producers.remember(entry.producer, pushed)

    def discard(self) -> None:
        """The group was not written: its offsets were never given out, nor those of groups behind it."""
        self._take_stage()
        self.row_chapter = None  # the row was not written either

    def _take_stage(self) -> _Stage | None:
        """That of the group which is being settled; None if it was taken already, or never was."""
        if self._staged and self._staged[0].group == self._committer.settling:
            return self._staged.popleft()
        return None

    # Readers ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let all waiting readers of this queue look again."""
        for reader in self._readers:
            if not reader.done():
                reader.set_result(None)
        self._readers.clear()
        if self.on_grown is not None:
            self.on_grown()

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
        """Nothing more will come: fail the calls that wait for elements, or for the cold store."""
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
        if self.fills and self.cold is not None:
            self.fills = [fill for fill in self.fills if fill.next > self.cold_offset]
        if self.fills:  # they were journalled later than what lies behind them
            blocks = [block.sequence for block in (*self.sealing, self.tail) if block.sequence is not None]
            return min([*blocks, *(fill.sequence for fill in self.fills)])
        for block in (*self.sealing, self.tail):
            if block.sequence is not None:
                return block.sequence
        return None

    def suspect(self, cause: str) -> None:
        """Elements behind the queue's known end may be lost."""
        self.state.suspect(cause, self.next)

    def now(self) -> float:
        return self._clock.monotonic()

    def use(self, settings: QueueSettings) -> None:
        """Cut blocks by these from now on."""
        self.settings = settings
        if self.cold is not None:
            self.cold.use(settings)

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
            self._home.sealer.seal_due(self)  # it waits no longer for the block to fill

    @property
    def is_due(self) -> bool:
        """Whether the hot-hot block is to be sealed now: it is full, or a push waits for the cold store."""
        return self.is_full or bool(self._cold_waiters)

    @property
    def is_full(self) -> bool:
        return self.tail.bytes >= self.settings.block_bytes

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
        s, standing = self.settings, self.state.standing
        return [
            self.number, s.name, s.id, s.content, s.block_bytes, s.block_seconds, s.created_us,
            max(self.next, self.promised), self.cold_offset, self.last_us,
            *([self.epoch, standing] if self.epoch or standing else []),
        ]  # fmt: skip


def _parts(run: list[PushEntry]) -> tuple[records.ProducerPart, ...]:
    """The shares of idempotent producers in a record of these pushes."""
    return tuple(
        records.ProducerPart(e.first - run[0].first, e.payload.num_rows, e.producer, e.sequence)
        for e in run
        if e.producer is not None and e.sequence is not None
    )
