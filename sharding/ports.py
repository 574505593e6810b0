"""The ports of `sharding`, and the values that pass through them.

`Ownership`    who serves a queue, on this node; changes it. The router and the operator's commands ask it. Safety rests
               on it. What it answers without `await` is a look-up in memory. Tests of the router fake it
`Operations`   the verbs of jjq.v1.Operator. `NodeOperator` has them for one node, `ClusterOperator` for all nodes, and
               the client for callers outside the cluster
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hotstore.port import BlockInfo, QueueInfo
from sharding.documents.load import Load
from sharding.documents.node_info import Node
from sharding.documents.shards import Range, Shards
from sharding.documents.tenure import JournalKind


@dataclass(frozen=True, slots=True)
class Lost:
    """Elements of a queue that a takeover cannot recover: acknowledged, and on a disk that cannot be reached."""

    queue: str
    first: int  # the first offset that is not in the cold store; how many elements followed is not known


@dataclass(frozen=True, slots=True)
class Takeover:
    """The outcome of a takeover from a dead node."""

    node: str
    journal: JournalKind
    moved: tuple[str, ...]  # queues that are served by `to` now
    lost: tuple[Lost, ...]  # with the disk journal only


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node, and whether it is alive."""

    node: Node
    alive: bool


@dataclass(frozen=True, slots=True)
class Shard:
    """A block range of a queue, or its tail (`next` is None), served by one node."""

    queue: str
    first: int
    next: int | None
    node: str
    epoch: int
    load: Load


@dataclass(frozen=True, slots=True)
class Move:
    """A shard, and the node that it should move to."""

    shard: Shard
    to: str


@dataclass(frozen=True, slots=True)
class Share:
    """A node's part of all load, in percent."""

    node: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, the heaviest first; and the share of each node before and after."""

    moves: tuple[Move, ...]
    shares: tuple[Share, ...]


class Ownership(Protocol):
    """Port: which node serves a queue, as this node sees it. Errors are those of coldstore.shared.errors."""

    @property
    def node(self) -> str:
        """The name of this node."""
        ...

    def owns(self, queue: str) -> bool:
        """Whether this node serves the queue's tail, as far as it knows. No input, no output."""
        ...

    def held(self) -> Mapping[str, Shards]:
        """The documents of the queues that this node owns, as it last read or wrote them. In memory."""
        ...

    async def shards(self, queue: str) -> Shards | None:
        """The queue's shards document as it is now, read again; None if the queue has no owner yet."""
        ...

    async def acquire(self, queue: str) -> QueueInfo:
        """Serve a queue that is ours by its document, or nobody's. Otherwise `Fenced` names the owner."""
        ...

    async def expect(self, queue: str) -> None:
        """Read the list of the queue's blocks in advance: the queue is about to be handed over to this node."""
        ...

    async def hand_over(self, queue: str, to: str) -> Shards:
        """Give a queue of ours to node `to`. Nothing is lost; pushes wait meanwhile. Repeating is safe.

        Returns the new document; its state is complete, `to` serves at its first request or `acquire`.
        `Fenced` if the queue is not ours, `NotFound` if `to` never joined, `Unavailable` if it cannot be
        known whether the swap took place: ask again.
        """
        ...

    async def lost_by(self, node: str) -> Sequence[Lost]:
        """What a takeover of `node` would lose; nothing where its journal is on object storage.

        `Conflict` while the node is alive: then nothing is to be taken over.
        """
        ...

    async def take_over(self, node: str, *, accept_loss: bool = False) -> Takeover:
        """Serve the queues of a dead node here. If its journal is on object storage, that happens by itself.

        `Conflict` while the node is alive, and, with the disk journal, unless `accept_loss`.
        """
        ...

    async def set_ranges(self, queue: str, ranges: Sequence[Range]) -> Shards:
        """Say which nodes serve which historic blocks; the owner serves the rest. Keeps the epoch."""
        ...

    def read_history(self, queue: str, start: int, end: int) -> AsyncIterator[pa.RecordBatch]:
        """Elements `start`..`end` from the cold store, also of other nodes' queues. `OutOfRange` if not there."""
        ...

    async def list_history(self, queue: str) -> list[BlockInfo]:
        """The blocks in the cold store as they are now, also of queues of other nodes."""
        ...


class Operations(Protocol):
    """The verbs of jjq.v1.Operator."""

    async def nodes(self) -> list[NodeState]: ...

    async def drain(self, node: str, *, undo: bool = False) -> NodeState: ...

    async def take_over(self, node: str, *, accept_loss: bool = False, dry_run: bool = False) -> Takeover: ...

    async def shards(
        self, queue: str = "", node: str = "", *, after: str = "", limit: int | None = None
    ) -> dict[str, list[Shard]]:
        """By queue: all, or the first `limit` queues after `after`. With `node`, queues may have no shards."""
        ...

    async def plan(self, leaving: str = "") -> Plan: ...

    async def move(self, queue: str, to: str, first: int | None = None) -> Shard:
        """Let `to` serve the tail, or the range that begins at `first`."""
        ...

    async def prepare(self, queue: str) -> None:
        """The queue is about to be moved to this node: read it now, so that the move is quicker. Changes nothing."""
        ...

    async def split(self, queue: str, parts: int = 0, *, dry_run: bool = False) -> list[Shard]: ...
