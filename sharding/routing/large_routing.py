"""Large objects, taken and given by the node that is asked: all nodes have the same cold store. Part of the stores of
this room.

A file of its own because it routes nothing: only where the queue goes on is asked of its owner, for the note beside the
upload. The push that names the object is routed as any other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

from coldstore.shared.results import UploadState
from hotstore.large.desk import LargeVerbs
from hotstore.port import QueueInfo, Store


class LargeRouting:
    """The verbs of `LargeStore` over the store of this node."""

    local: Store

    async def get_queue(self, name: str) -> QueueInfo:
        raise NotImplementedError

    @property
    def object_bytes_max(self) -> int:
        return self._local.object_bytes_max

    async def begin_upload(self, queue: str, sha256: str, size: int, *, upload: str = "") -> UploadState:
        info = await self.get_queue(queue)
        return await self._local.begin_upload(
            info.name, sha256, size, upload=upload, from_offset=info.next_offset
        )

    async def upload(self, upload: str, at: int, data: bytes) -> None:
        await self._local.upload(upload, at, data)

    async def finish_upload(self, upload: str, sha256: str = "") -> None:
        await self._local.finish_upload(upload, sha256)

    def read_object(
        self, queue: str, sha256: str, size: int, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        return self._local.read_object(queue, sha256, size, start, end)

    @property
    def _local(self) -> LargeVerbs:
        return cast("LargeVerbs", self.local)
