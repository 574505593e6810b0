"""The ports of `sharding`: what the router and the operator's commands ask of the node they run on.

`Ownership` is safety: it says who serves a queue, and changes it. Everything it answers without
`await` is a look-up in memory. `Held` by the router, faked in its tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hotstore.port import BlockInfo, QueueInfo
from sharding.documents.shards import Range, Shards
from sharding.documents.tenure import JournalKind


@dataclass(frozen=True, slots=True)
class Lost:
    """Elements of a queue that a takeover cannot recover: acknowledged, and on a disk that is away."""

    queue: str
    first: int  # the first offset that is not in the cold store; what lay behind it is not known


@dataclass(frozen=True, slots=True)
class Takeover:
    """What became of a dead node's queues."""

    node: str
    journal: JournalKind
    moved: tuple[str, ...]  # queues that are served by `to` now
    lost: tuple[Lost, ...]  # with the disk journal only


class Ownership(Protocol):
    """Who serves what, on this node. Errors are those of coldstore.shared.errors."""

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
        """The queue's shards document as it is now, read anew; None if the queue has no owner yet."""
        ...

    async def acquire(self, queue: str) -> QueueInfo:
        """Serve a queue that is ours by its document, or nobody's. `Fenced` names the owner otherwise."""
        ...

    async def expect(self, queue: str) -> None:
        """Look at the queue's history in advance: it is about to be handed over to this node."""
        ...

    async def hand_over(self, queue: str, to: str) -> Shards:
        """Give a queue of ours to node `to`: nothing is lost, pushes wait meanwhile. Repeating is safe.

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
        """Serve the queues of a dead node here. With the object-storage journal it happens by itself.

        `Conflict` while the node is alive, and, with the disk journal, unless `accept_loss`.
        """
        ...

    async def set_ranges(self, queue: str, ranges: Sequence[Range]) -> Shards:
        """Say which nodes serve which historic blocks; the owner serves the rest. Keeps the epoch."""
        ...

    def read_history(self, queue: str, start: int, end: int) -> AsyncIterator[pa.RecordBatch]:
        """Elements `start`..`end` from the cold store, whoever owns the queue; `OutOfRange` beyond it."""
        ...

    async def list_history(self, queue: str) -> list[BlockInfo]:
        """The blocks in the cold store as they are now, whoever owns the queue."""
        ...
