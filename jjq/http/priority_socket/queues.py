"""Queues as the protocol knows them: a queue of jjq with one group, `GROUP`, and the errors that tell of them.

Its messages are the tasks of the group: sequence is the offset of the element, shard the attempt that handed it out. So
the pair of both is the receipt of a task, and a finish needs nothing that a server would have to remember.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from coldstore.layout.paths import is_name
from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import Conflict, Denied, JjqError, NotFound
from coldstore.shared.limits import BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, NAME_CHARS_MAX
from hotstore.groups.port import WorkStore
from hotstore.groups.values import GroupSettings
from hotstore.limits import ATTEMPTS_MAX
from jjq.http.backend import Backend
from jjq.http.priority_socket.frames import CreateRequest, ErrorReply
from jjq.limits import CONNECT_KNOWN_SECONDS, ERROR_BYTES_MAX, HINTS_MAX, HTTP_PAGE_ELEMENTS

GROUP: Final = "workers"
DRIVER: Final = "fifottl"  # by priority, then the oldest


class NameTaken(Conflict):
    """There is a queue of this name."""


def group_of(queue: str) -> str:
    """The group whose tasks are the messages of a queue."""
    return f"{queue}/{GROUP}"


def error_reply(label: int, queue: str, error: JjqError) -> ErrorReply:
    """The error reply to a client. The protocol has three codes; every other error is "not permitted", and the key says
    why."""
    if isinstance(error, NotFound):
        return ErrorReply(label, "NoObject", queue)
    if isinstance(error, NameTaken):
        return ErrorReply(label, "ObjectAlreadyExists", queue)
    if isinstance(error, Denied):
        return ErrorReply(label, "PermissionDenied", queue)
    return ErrorReply(label, "PermissionDenied", error.message[:ERROR_BYTES_MAX])


class SocketQueues:
    """Finds, creates and describes queues. `creates`: whether clients may create them."""

    def __init__(self, backend: Backend, *, creates: bool) -> None:
        self._backend = backend
        self._creates = creates
        self._known: BoundedDict[str, float] = BoundedDict(HINTS_MAX)
        self._creating = asyncio.Lock()

    @property
    def work(self) -> WorkStore:
        return cast("WorkStore", self._backend.store)

    async def check(self, queue: str) -> None:
        """Return if there is such a queue; `NotFound` else."""
        now = self._backend.clock.monotonic()
        known = self._known.get(queue)
        if known is None or known < now:
            if not is_name(queue):  # nor a ledger, which only its group writes
                raise NotFound(f"there is no queue {queue[:NAME_CHARS_MAX]!r}")
            await self.work.get_group(group_of(queue))
            self._known[queue] = now + CONNECT_KNOWN_SECONDS

    async def create(self, request: CreateRequest) -> None:
        """Create a queue; `NameTaken` if there is one."""
        if not self._creates:
            raise Denied(
                "clients of this server may not create queues: set connect_create_queues, or ask an administrator"
            )
        attempts = None if request.retries is None else min(max(request.retries, 1), ATTEMPTS_MAX)
        settings = GroupSettings(driver=DRIVER, max_attempts=attempts, on_exhausted="drop")
        size = request.shard_max_bytes
        block_bytes = None if size is None else min(max(size, BLOCK_BYTES_MIN), BLOCK_BYTES_MAX)
        async with self._creating:  # of two requests for one name, the second finds what the first has made
            if await self._is_taken(request.queue):
                raise NameTaken(f"queue {request.queue} exists: use it, or choose another name")
            await self._backend.store.create_queue(request.queue, block_bytes=block_bytes)
            await self.work.create_group(request.queue, GROUP, settings)

    async def _is_taken(self, name: str) -> bool:
        try:
            found = await self._backend.store.get_queue(name)
        except NotFound:
            return False
        # One without elements and groups may be what a crash has left between the two steps of a creation.
        return found.next_offset > 0 or bool(await self.work.list_groups(name, limit=1))

    async def status(self, queue: str) -> dict[str, Any]:
        """How the queue is, as the protocol describes it. Shards are blocks of the log, counted up to a thousand."""
        try:
            await self.check(queue)
            group = await self.work.get_group(group_of(queue))
            first = await self.work.list_tasks(group_of(queue), limit=1)
            blocks = await self._backend.store.list_blocks(queue, limit=HTTP_PAGE_ELEMENTS)
        except NotFound:
            return {
                "type": "Error",
                "name": queue,
                "code": "QueueNotFound",
                "message": "Named queue not found",
            }
        sealed = [block for block in blocks if block.kind != "hot-hot"]
        finished = sum(not first or block.last_offset < first[0].id for block in sealed)
        return {
            "type": "Status",
            "length": group.tasks["ready"],
            "readers_waiting": group.waiting,
            "shards_read_write": 1,
            "shards_read_only": len(sealed) - finished,
            "shards_finished": finished,
        }
