"""Verbs of `RemoteStore` for operators: delete, change and seal a queue, and ask how servers are.

All of them may happen twice: deleting again gives the same answer, and the others come to the same.
A file of its own: operator.py imports sharding, which Spark, a user of `RemoteStore`, must not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from google.protobuf.message import Message

from coldstore.shared.results import Deletion, NodeStatus, QueueInfo
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import convert
from jjq.wire.request import make_message

M = TypeVar("M", bound=Message)


class RemoteAdministration(ABC):
    """The verbs; a subclass makes the calls."""

    @abstractmethod
    async def _call(self, method: str, request: Message, reply: type[M]) -> M: ...

    async def update_queue(
        self, name: str, *, block_bytes: int | None = None, block_seconds: float | None = None
    ) -> QueueInfo:
        request = make_message(
            pb.UpdateQueueRequest, queue=name, block_bytes=block_bytes, block_seconds=block_seconds
        )
        return convert.queue_in((await self._call("UpdateQueue", request, pb.UpdateQueueResponse)).queue)

    async def delete_queue(
        self, name: str, *, grace_seconds: float | None = None, dry_run: bool = False
    ) -> Deletion:
        request = make_message(
            pb.DeleteQueueRequest, queue=name, grace_seconds=grace_seconds, dry_run=dry_run
        )
        return convert.deletion_in(
            (await self._call("DeleteQueue", request, pb.DeleteQueueResponse)).deletion
        )

    async def undelete_queue(self, name: str) -> QueueInfo:
        request = make_message(pb.UndeleteQueueRequest, queue=name)
        return convert.queue_in((await self._call("UndeleteQueue", request, pb.UndeleteQueueResponse)).queue)

    async def seal(self, queue: str) -> QueueInfo:
        request = make_message(pb.SealQueueRequest, queue=queue)
        return convert.queue_in((await self._call("SealQueue", request, pb.SealQueueResponse)).queue)

    async def status(self) -> list[NodeStatus]:
        reply = await self._call("GetStatus", pb.GetStatusRequest(), pb.GetStatusResponse)
        return [convert.status_in(node) for node in reply.nodes]
