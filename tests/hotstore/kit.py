"""The engine under test: a simulated disk, an object store that can fail, a clock moved by hand.

Everything runs on one thread and nothing happens on its own, so that a run repeats itself.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import pyarrow as pa

from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import Body, Object, ObjectInfo, ObjectStore
from coldstore.shared.batch import Content, elements, payload, to_us
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Unavailable
from coldstore.shared.limits import KIB, MIB
from coldstore.store import ColdStore
from hotstore.checkpoint.checkpoint_store import DiskCheckpoints
from hotstore.checkpoint.duckdb_file import CheckpointCodec
from hotstore.checkpoint.restore import CheckpointPlace
from hotstore.engine import Engine, Runners
from hotstore.journal import records
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Journal
from hotstore.journal.spares import Inline
from hotstore.port import Popped, Receipt, Stage
from hotstore.settings import HotSettings
from hotstore.store import HotStore
from hotstore.testing.simulated_disk import PowerCut, SimDisk
from hotstore.testing.simulated_disk import Verb as DiskVerb
from tests.hotstore.arrow_codec import SCRATCH, ArrowCodec

T = TypeVar("T")
Verb = Literal["get", "put", "put_if_absent", "put_if_match", "list", "head", "delete"]
WRITES: tuple[Verb, ...] = ("put", "put_if_absent", "put_if_match", "delete")
VERBS: tuple[Verb, ...] = ("get", "list", "head", *WRITES)

BLOCK_BYTES = 64 * KIB  # the smallest that a queue may have


class Seen(NamedTuple):
    """An element as a reader saw it."""

    offset: int
    timestamp_us: int
    value: bytes | str


@dataclass
class _Fault:
    verb: Verb | None  # None: any
    nth: int
    mode: Literal["before", "after", "cut-before", "cut-after"]


class Disk(SimDisk):
    """A simulated disk that tells when the machine stops, whoever notices."""

    on_cut: Callable[[], None] = staticmethod(lambda: None)

    def strike(self, verb: DiskVerb, *, change: bool) -> int | None:
        try:
            return super().strike(verb, change=change)
        except PowerCut:
            self.on_cut()
            raise


class FaultyObjects:
    """An object store that fails as it is told to; `after` does the work and loses the reply."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.down = False
        self.on_cut: Callable[[], None] = lambda: None
        self.calls: dict[str, int] = dict.fromkeys(VERBS, 0)
        self._faults: list[_Fault] = []

    def fail(
        self,
        verb: Verb | None = None,
        nth: int = 1,
        mode: Literal["before", "after", "cut-before", "cut-after"] = "before",
    ) -> None:
        """Let the `nth` use of `verb` from now fail: before it was done, or after. `cut` stops the machine."""
        self._faults.append(_Fault(verb, nth, mode))

    def heal(self) -> None:
        self.down = False
        self._faults.clear()

    @property
    def troubled(self) -> bool:
        """Whether a call may fail."""
        return self.down or bool(self._faults)

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        return self._do("get", lambda: self.inner.get(key, start, end))

    def put(self, key: str, data: Body) -> str:
        return self._do("put", lambda: self.inner.put(key, data))

    def put_if_absent(self, key: str, data: Body) -> str:
        return self._do("put_if_absent", lambda: self.inner.put_if_absent(key, data))

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        return self._do("put_if_match", lambda: self.inner.put_if_match(key, data, etag))

    def list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        return self._do("list", lambda: self.inner.list(prefix, after))

    def head(self, key: str) -> ObjectInfo:
        return self._do("head", lambda: self.inner.head(key))

    def delete(self, key: str) -> None:
        self._do("delete", lambda: self.inner.delete(key))

    def _do(self, verb: Verb, work: Callable[[], T]) -> T:
        self.calls[verb] += 1
        due = self._due(verb)
        if "cut-before" in due:
            self.on_cut()
            raise PowerCut
        if self.down or "before" in due:
            raise Unavailable("the object store is away, by order of a test")
        result = work()
        if "cut-after" in due:
            self.on_cut()
            raise PowerCut
        if due:
            raise Unavailable("the reply was lost, by order of a test")
        return result

    def _due(self, verb: Verb) -> set[str]:
        found: set[str] = set()
        for fault in [fault for fault in self._faults if fault.verb in (None, verb)]:
            fault.nth -= 1
            if fault.nth == 0:
                self._faults.remove(fault)
                found.add(fault.mode)
        return found


def settings(**changes: Any) -> HotSettings:
    """Settings for small worlds: what `HotSettings` would refuse is set behind its back."""
    small: dict[str, Any] = {
        "segment_bytes": 256 * KIB,
        "journal_bytes_max": 64 * MIB,
        "unsealed_bytes_max": 64 * MIB,
        "pending_bytes_max": 64 * MIB,
        "group_bytes_max": 96 * KIB,
        "hot_bytes_max": 64 * MIB,
        "disk_free_bytes_min": 0,
    }
    made = HotSettings()
    for name, value in {**small, **changes}.items():
        getattr(made, name)
        object.__setattr__(made, name, value)
    return made


class World:
    """A node and all that it stands on; it can be killed, lose power and start again."""

    def __init__(self, seed: int = 0, hot: HotSettings | None = None, **changes: Any) -> None:
        self.clock = ManualClock()
        self.chance = SeededChance(seed)
        self.disk = Disk(self.clock)
        self.objects = FaultyObjects(MemoryObjects(self.clock))
        self.settings = hot or settings(**changes)
        self.free_bytes = 1 << 40
        self.wrap: Callable[[Journal], Journal] = lambda journal: journal
        self.codec: CheckpointCodec = ArrowCodec()
        self.runners: Callable[[], Runners] = Runners.inline
        self._engine: Engine | None = None
        self._cut: asyncio.Future[None] | None = None

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "the world was not started"
        return self._engine

    @property
    def store(self) -> HotStore:
        return self.engine.store

    @property
    def journal(self) -> Journal:
        return self.engine.journal

    @property
    def cold(self) -> ColdStore:
        """A second pair of eyes on the object store, without its faults."""
        return ColdStore(self.objects.inner, self.clock, self.chance)

    async def start(self, *, background: bool = False) -> World:
        assert self._engine is None, "started twice"
        self._watch()
        checkpoint_store = DiskCheckpoints(self.disk, self.settings.checkpoint_seconds)
        journal = DiskJournal(
            self.disk,
            self.chance,
            segment_bytes=self.settings.segment_bytes,
            kinds=records.KINDS,
            background=Inline(),
            checkpoints=lambda: {name.journal: name.sequence for name in checkpoint_store.names()},
        )
        # Opening asks who the store is; a store that is down at that moment is another test's matter.
        down, self.objects.down = self.objects.down, False
        cold = ColdStore(self.objects, self.clock, self.chance)
        self.objects.down = down
        engine = Engine(
            self.wrap(journal),
            cold,
            CheckpointPlace(checkpoint_store, self.codec, SCRATCH),
            self.settings,
            self.clock,
            self.chance,
            self.runners(),
            lambda: self.free_bytes,
        )
        await self.until_cut(engine.start(background=background))
        self._engine = engine
        return self

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._cut = cut = loop.create_future()

        def stopped() -> None:
            if not cut.done():
                cut.set_result(None)

        def quietly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if not isinstance(context.get("exception"), PowerCut):
                loop.default_exception_handler(context)

        self.disk.on_cut = self.objects.on_cut = stopped
        loop.set_exception_handler(quietly)

    async def until_cut(self, work: Awaitable[T]) -> T:
        """The result of `work`, or PowerCut if the machine stops meanwhile, in whichever part of it."""
        assert self._cut is not None
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        await asyncio.wait([task, self._cut], return_when=asyncio.FIRST_COMPLETED)
        if self._cut.done():
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise PowerCut
        result: T = task.result()
        return result

    async def crash(self) -> None:
        """kill -9: the engine is gone, the page cache stays."""
        await self._forget()
        self.disk.crash()

    async def power_cut(self, seed: int = 0) -> None:
        """The machine stops: what was not synced survives as chance will have it."""
        await self._forget()
        self.disk.power_cut(SeededChance(seed))

    async def _forget(self) -> None:
        self._engine = None
        tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("jjq-")]
        pending = set(tasks)
        while pending:  # one that wants to tidy up first, on a machine that does not answer, is told again
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.01)
        for task in tasks:
            if not task.cancelled():
                task.exception()

    async def restart(self) -> World:
        """kill -9 and start."""
        await self.crash()
        return await self.start()

    async def close(self) -> None:
        """A clean end."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    def fork(self) -> World:
        """The same machine once more, stopped by kill -9: what happens to it does not happen here."""
        other = World(hot=self.settings)
        other.disk = copy.deepcopy(self.disk, {id(self.clock): other.clock})
        other.disk.crash()
        other.disk.capacity_bytes = 1 << 40
        other.clock.advance(self.clock.monotonic())
        other.clock.jump((self.clock.now_us() - other.clock.now_us()) / 1_000_000)
        for info in self.objects.inner.list(""):
            other.objects.put(info.key, self.objects.inner.get(info.key).data)
        return other

    async def quiet(self) -> None:
        """Let what was begun on the side come to its end: seals, and what they set off."""
        while tasks := [t for t in asyncio.all_tasks() if t.get_name().startswith(("jjq-seal", "jjq-open"))]:
            await asyncio.wait(tasks)

    async def maintain(self) -> None:
        """One round of maintenance, and all that it set off."""
        await self.engine.maintenance.once()
        await self.quiet()


async def push(
    store: HotStore,
    queue: str,
    *values: bytes | str,
    content: Content = "bytes",
    stage: Stage = "synced",
    **more: Any,
) -> Receipt:
    return await store.push(queue, payload(content, list(values)), stage=stage, **more)


def seen(batch: pa.RecordBatch | pa.Table) -> list[Seen]:
    return [Seen(e.offset, to_us(e.timestamp), e.value) for e in elements(batch)]


def values(popped: Popped) -> list[bytes | str]:
    return list(popped.batch.column("value").to_pylist())


async def read_all(
    store: HotStore, queue: str, start: str = "beginning", end: str | None = None
) -> list[Seen]:
    """Everything that a replay shows."""
    return [element async for batch in store.read(queue, start, end) for element in seen(batch)]


async def drain(store: HotStore, subscriber: str, most: int = 1_000) -> list[Seen]:
    """Pop until there is nothing left."""
    found: list[Seen] = []
    while (popped := await store.pop(subscriber, most)).batch.num_rows:
        found += seen(popped.batch)
    return found


def fat(name: str, size: int = 19 * KIB) -> bytes:
    """A value that tells what it is, of about `size` bytes that do not compress to nothing."""
    stamp = f"<{name}>".encode()
    return (stamp * (size // len(stamp) + 1))[: max(size, len(stamp))]


async def fill(
    store: HotStore, queue: str, count: int, prefix: str = "e", size: int = 19 * KIB
) -> list[bytes]:
    """Push `count` fat elements one by one; four make a full block of the smallest size."""
    made = [fat(f"{prefix}{n}", size) for n in range(count)]
    for value in made:
        await push(store, queue, value)
    return made


async def turns(count: int = 20) -> None:
    """Let the event loop come round, so that everything that can go on has gone on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def read_around(store: HotStore, queue: str) -> list[Seen]:
    """Everything that can be read of a queue that has a hole."""
    found: list[Seen] = []
    for block in await store.list_blocks(queue):
        if block.count:
            found += await read_all(
                store, queue, f"offset:{block.first_offset}", f"offset:{block.last_offset + 1}"
            )
    return found


def data_values(world: World, queue: str) -> list[Seen]:
    """What any engine reads in `data/`, file by file in the order of the listing."""
    import pyarrow.parquet as pq

    found: list[Seen] = []
    for info in world.objects.inner.list(f"queues/{queue}/data/"):
        table = pq.read_table(pa.BufferReader(world.objects.inner.get(info.key).data))
        found += seen(table)
    return found


def check_cold(world: World, queue: str, log: Sequence[Seen]) -> None:
    """`data/` is an exact prefix of the log, and every file of the queue is sound."""
    there = data_values(world, queue)
    assert there == list(log[: len(there)]), f"data/ of {queue} is not a prefix"
    report = world.cold.verify(queue)
    assert report.ok, report.defects
