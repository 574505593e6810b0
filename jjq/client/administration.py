"""The verbs for operators of queues and servers, as a part of `AsyncClient`: seal, settings, deletion, loss, status.

A file of its own, so that the verbs that everybody uses stay together in client.py.
"""

from __future__ import annotations

from hotstore.port import Deletion, Loss, NodeStatus, QueueInfo, Store
from jjq.arguments import Size, flag, number, size, text, whole


class QueueAdministration:
    """Each verb checks its arguments and asks the store."""

    _store: Store

    async def seal(self, queue: str) -> QueueInfo:
        """Write the block that is being filled to the cold store now, whatever its size and age."""
        return await self._store.seal(text("queue", queue))

    async def accept_loss(self, queue: str, *, next_offset: int | None = None, dry_run: bool = False) -> Loss:
        """Give up what a queue has lost, so that it takes pushes again: an operator's last resort.

        Lost elements become placeholders with the header `jjq-lost`. With `dry_run` nothing is changed.
        """
        return await self._store.accept_loss(
            text("queue", queue),
            next_offset=None if next_offset is None else whole("next_offset", next_offset),
            dry_run=flag("dry_run", dry_run),
        )

    async def update_queue(
        self, name: str, *, block_bytes: Size | None = None, block_seconds: float | None = None
    ) -> QueueInfo:
        """Change the size or age at which blocks are sealed from now on; blocks that are there stay."""
        return await self._store.update_queue(
            text("name", name),
            block_bytes=None if block_bytes is None else size("block_bytes", block_bytes),
            block_seconds=None if block_seconds is None else number("block_seconds", block_seconds),
        )

    async def delete_queue(
        self, name: str, *, grace_seconds: float | None = None, dry_run: bool = False
    ) -> Deletion:
        """Delete a queue: nobody finds it any more. All of it is kept for the grace period, seven days by default.

        Until then `undelete_queue` brings it back; then its files are removed, and later its name is free.
        """
        return await self._store.delete_queue(
            text("name", name),
            grace_seconds=None if grace_seconds is None else number("grace_seconds", grace_seconds),
            dry_run=flag("dry_run", dry_run),
        )

    async def undelete_queue(self, name: str) -> QueueInfo:
        """Bring a deleted queue back, with its subscribers where they were."""
        return await self._store.undelete_queue(text("name", name))

    async def status(self) -> list[NodeStatus]:
        """How the server is, or every node of its cluster: version, figures, lag, whether the cold store answers."""
        return await self._store.status()
