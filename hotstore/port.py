"""The `Store` protocol: the verbs of a queue service.

`HotStore` (this node), `Router` (other nodes) and the asynchronous `Client` (over gRPC) satisfy it,
so everything above it does not care which one it talks to. All verbs are asynchronous; elements
travel as Arrow record batches (coldstore.shared.batch). What they answer is in coldstore.shared.results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import pyarrow as pa

from coldstore.shared.push import Push, PushTarget
from coldstore.shared.results import (
    STAGES,
    BlockInfo,
    Deletion,
    Loss,
    NodeStatus,
    Popped,
    QueueInfo,
    Receipt,
    Resolved,
    Stage,
    SubscriberInfo,
)

__all__ = [
    "STAGES",
    "BlockInfo",
    "Deletion",
    "Loss",
    "NodeStatus",
    "Popped",
    "Push",
    "QueueInfo",
    "Receipt",
    "Resolved",
    "Stage",
    "Store",
    "SubscriberInfo",
]


class Store(PushTarget, Protocol):
    """The verbs of jjq; `push` and `append` are those of `PushTarget`. Errors are those of coldstore.shared.errors."""

    async def create_queue(
        self,
        name: str,
        *,
        content: str = "bytes",
        block_bytes: int | None = None,
        block_seconds: float | None = None,
    ) -> QueueInfo:
        """Create; the same request again returns the existing queue, another one is a `Conflict`.

        What is None is a default of a new queue, and may be anything in one that exists.
        """
        ...

    async def get_queue(self, name: str) -> QueueInfo:
        """By name, or by the id of one of its subscribers."""
        ...

    async def list_queues(
        self, *, after: str = "", limit: int | None = None, ledgers: bool = False
    ) -> list[QueueInfo]:
        """By name: all, or the first `limit` of those whose names come after `after`; ledgers if asked for."""
        ...

    async def accept_loss(self, queue: str, *, next_offset: int | None = None, dry_run: bool = False) -> Loss:
        """Give up what a queue has lost: placeholders take the offsets, and pushes go on; `dry_run` only tells.

        `next_offset` is where the queue is to go on, if more elements were acknowledged than are known.
        """
        ...

    async def update_queue(
        self, name: str, *, block_bytes: int | None = None, block_seconds: float | None = None
    ) -> QueueInfo:
        """Change when blocks are sealed from now on; None: that stays."""
        ...

    async def delete_queue(
        self, name: str, *, grace_seconds: float | None = None, dry_run: bool = False
    ) -> Deletion:
        """Delete; all of it is kept for the grace period. Again: the same answer. `dry_run` changes nothing."""
        ...

    async def undelete_queue(self, name: str) -> QueueInfo:
        """Bring a deleted queue back with its subscribers; `NotFound` after its grace period."""
        ...

    async def seal(self, queue: str) -> QueueInfo:
        """Write the block that is being filled to the cold store now, whatever its size and age."""
        ...

    async def status(self) -> list[NodeStatus]:
        """The status of all nodes of this store."""
        ...

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

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[SubscriberInfo]:
        """Of one queue or all, by queue and name: all, or the first `limit` of those after the id `after`."""
        ...

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

    async def list_blocks(
        self, queue: str, *, from_offset: int = 0, limit: int | None = None
    ) -> list[BlockInfo]:
        """Oldest first: all, or the first `limit` from the one on that holds `from_offset`."""
        ...
