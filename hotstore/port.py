"""The `Store` protocol: what a queue service can do, whoever does it.

`HotStore` (this node), `Router` (other nodes) and the asynchronous `Client` (over gRPC) satisfy it,
so everything above it does not care which one it talks to. All verbs are asynchronous; elements
travel as Arrow record batches (coldstore.batch).

A subscriber's id is `<queue>/<name>`: it can be read by a person, routed without a look-up, and
names are unique in a queue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, get_args

import pyarrow as pa

from coldstore.batch import Content, from_us

Stage = Literal["ready", "written", "synced", "cold"]
STAGES: tuple[str, ...] = get_args(Stage)


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue and its extent: elements `first_offset` up to, not including, `next_offset`."""

    id: str
    name: str
    content: Content
    block_bytes: int
    block_seconds: float
    created_us: int
    first_offset: int
    next_offset: int
    cold_offset: int  # everything before it is in the cold store
    subscribers: int

    @property
    def created(self) -> datetime:
        return from_us(self.created_us)


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where a starting point leads, and why."""

    offset: int
    timestamp_us: int | None  # of the element at `offset`; None where there is none yet
    first_offset: int
    next_offset: int
    rule: str  # which rule fired, for people and tests: "offset", "before all → beginning", …

    @property
    def timestamp(self) -> datetime | None:
        return None if self.timestamp_us is None else from_us(self.timestamp_us)


@dataclass(frozen=True, slots=True)
class SubscriberInfo:
    """A named position in one queue. `offset` is the next element that a pop returns."""

    id: str
    name: str
    queue: str
    offset: int
    previous: int  # where the last pop began: the only earlier position that a pop may name
    block: int  # id of the block that holds `offset`
    start: str  # the starting point it was created with
    created_us: int
    asleep: bool
    lag: int  # elements between `offset` and the end of the queue
    resolved: Resolved | None = None  # in replies to create and seek

    @property
    def created(self) -> datetime:
        return from_us(self.created_us)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a push. Elements got `first_offset` … `first_offset + count - 1`."""

    first_offset: int
    count: int
    timestamp_us: int
    stage: Stage
    duplicate: bool = False  # an idempotent producer pushed this before; it was not written again

    @property
    def timestamp(self) -> datetime:
        return from_us(self.timestamp_us)


@dataclass(frozen=True, slots=True)
class Popped:
    """Elements, the position they begin at and the one that follows them."""

    batch: pa.RecordBatch
    position: int
    next: int


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """A run of elements and where it is: hot-hot, hot, young or final (and loaded or not)."""

    id: int
    first_offset: int
    last_offset: int
    count: int
    kind: Literal["hot-hot", "sealing", "young", "final"]
    loaded: bool
    min_timestamp_us: int
    max_timestamp_us: int
    raw_bytes: int
    stored_bytes: int | None
    sha256: str | None
    key: str | None
    subscribers: int

    @property
    def min_timestamp(self) -> datetime:
        return from_us(self.min_timestamp_us)

    @property
    def max_timestamp(self) -> datetime:
        return from_us(self.max_timestamp_us)


class Store(Protocol):
    """The verbs of jjq. Errors are those of coldstore.errors."""

    async def create_queue(
        self,
        name: str,
        *,
        content: str = "bytes",
        block_bytes: int | None = None,
        block_seconds: float | None = None,
    ) -> QueueInfo:
        """Create; the same request again returns the existing queue, another one is a `Conflict`."""
        ...

    async def get_queue(self, name: str) -> QueueInfo:
        """By name, or by the id of one of its subscribers."""
        ...

    async def list_queues(self) -> list[QueueInfo]: ...

    async def create_subscriber(
        self,
        queue: str,
        name: str | None = None,
        start: str = "end",
        *,
        clamp: bool = False,
        dry_run: bool = False,
    ) -> SubscriberInfo:
        """Create at a starting point (starts.py); idempotent; `dry_run` resolves and creates nothing."""
        ...

    async def get_subscriber(self, subscriber: str) -> SubscriberInfo: ...

    async def list_subscribers(self, queue: str | None = None) -> list[SubscriberInfo]: ...

    async def delete_subscriber(self, subscriber: str) -> None:
        """Delete; `NotFound` where there is none."""
        ...

    async def seek(
        self, subscriber: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> SubscriberInfo:
        """Move to a starting point, also while readers wait."""
        ...

    async def sleep(self, subscriber: str) -> SubscriberInfo:
        """Unload: its blocks no longer count as read. Its position stays; a pop wakes it."""
        ...

    async def wakeup(self, subscriber: str) -> SubscriberInfo:
        """Load its block ahead of the first pop."""
        ...

    async def push(
        self,
        queue: str,
        payload: pa.RecordBatch,
        *,
        producer: str | None = None,
        sequence: int | None = None,
        expected_offset: int | None = None,
        stage: Stage = "synced",
    ) -> Receipt:
        """Append a batch, all of it or nothing; returns when `stage` is reached."""
        ...

    async def pop(
        self, subscriber: str, max: int = 1, wait: float = 0.0, *, position: int | None = None
    ) -> Popped:
        """Take up to `max` elements and move past them; waits up to `wait` seconds for the first.

        `position` is where the caller believes the subscriber to be: naming the start of the last
        pop returns the same elements again, so a retry after a lost reply skips nothing.
        """
        ...

    async def peek(self, subscriber: str, max: int = 1, wait: float = 0.0) -> Popped:
        """As pop, but the position stays."""
        ...

    async def confirm(self, subscriber: str, offset: int) -> None:
        """Everything before `offset` was handled: move there, never back. Streams commit by it."""
        ...

    def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncIterator[pa.RecordBatch]:
        """Elements from `start` up to, not including, `end` (now by default; never with `follow`).

        Batches have at most limits.READ_BATCH_BYTES, so each fits into one message.
        """
        ...

    async def list_blocks(self, queue: str) -> list[BlockInfo]: ...
