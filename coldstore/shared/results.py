"""Results of the verbs: frozen values, the same from a store in this process and from a server.

They are defined here, below the stores, so that a client such as a Spark executor need not import a hot
store.

A subscriber's id is `<queue>/<name>`. People can read it, and a request can be routed by it without a look-
up. Names are unique within a queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

import pyarrow as pa

from coldstore.shared.batch import Content, from_us

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
class Loss:
    """What a queue has lost: elements that were acknowledged and are nowhere."""

    queue: str
    ranges: tuple[tuple[int, int], ...]  # offsets from the first up to, not including, the second
    in_doubt: bool  # there may have been more behind the last element that is known
    cause: str  # of the loss or of the doubt; empty if nothing is lost
    next_offset: int  # where the queue goes on

    @property
    def count(self) -> int:
        """How many elements are known to be lost."""
        return sum(end - first for first, end in self.ranges)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A queue that was deleted, and until when it can be brought back."""

    queue: str
    id: str
    deleted_us: int
    until_us: int

    @property
    def deleted(self) -> datetime:
        return from_us(self.deleted_us)

    @property
    def until(self) -> datetime:
        return from_us(self.until_us)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How one node is. `figures` are those of its metrics, by name, units last: `journal_bytes`, …"""

    node: str  # empty: it is alone
    version: str
    uptime_seconds: float
    figures: Mapping[str, float]
    lag_elements: int = 0  # of the subscriber that is most elements behind
    lag_seconds: float = 0.0  # of the one that is longest behind, which may be another
    cold_seconds: float = 0.0  # what a small question to the cold store took
    cold_error: str = ""  # why it has no answer; empty: it has
    error: str = ""  # why the node itself has none; empty: it has


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where a starting point leads, and why."""

    offset: int
    timestamp_us: int | None  # of the element at `offset`; None where there is none yet
    first_offset: int
    next_offset: int
    rule: str  # which rule was applied, for people and tests: "offset", "before all → beginning", …

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
    previous: int  # where the last pop began: the only position before `offset` that a pop may name
    block: int  # id of the block that holds `offset`
    start: str  # the starting point it was created with
    created_us: int
    asleep: bool
    lag: int  # elements between `offset` and the end of the queue
    resolved: Resolved | None = None  # in replies to create and seek
    # Age of the element at `offset`, as exactly as memory tells; in get and in lists. It grows all the while.
    lag_seconds: float = field(default=0.0, compare=False)

    @property
    def created(self) -> datetime:
        return from_us(self.created_us)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a push. Elements got `first_offset` … `first_offset + count - 1`."""

    first_offset: int
    count: int
    timestamp_us: int
    stage: Stage
    duplicate: bool = False  # an idempotent producer has pushed this already; it was not written again

    @property
    def timestamp(self) -> datetime:
        return from_us(self.timestamp_us)


@dataclass(frozen=True, slots=True)
class UploadState:
    """An upload: its name from now on, how many bytes came, and whether the object is there already.

    `digest_first`: nothing was begun, as the digest must be known before the first byte is sent.
    """

    upload: str
    received: int = 0
    done: bool = False
    digest_first: bool = False


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


def queue_part(subscriber: str) -> str:
    """The queue of a subscriber's id, `<queue>/<name>`; of a queue's own name, that name."""
    return subscriber.partition("/")[0]


def in_order(names: Iterable[str], after: str, limit: int | None) -> list[str]:
    """The names that come after `after`, the first `limit` of them; a few of many are not sorted all."""
    rest = (name for name in names if name > after)
    return sorted(rest) if limit is None else heapq.nsmallest(limit, rest)
