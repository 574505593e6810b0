"""Posts of one client: pushed in their order, those that wait together as one batch.

The push is answered at the strongest of the stages ready, write and sync of which its sender wants notices, and then
the notices of all of them are sent; without any it is synced. assign, finish, retry and drop come from the ledger
(notices.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AsyncExitStack
from typing import Final

import grpc

from coldstore.shared.batch import payload
from coldstore.shared.errors import InvalidInput, JjqError
from coldstore.shared.headers import TASK_OPTIONS
from coldstore.shared.results import Receipt, Stage
from hotstore.port import Push
from jjq.access.quotas import KeyUsage
from jjq.http.backend import Backend
from jjq.http.priority_socket.frames import ErrorReply, NoticeName, NoticeReply, PostRequest
from jjq.http.priority_socket.notices import LATER, Awaited, LedgerFollower, NoticeBoard
from jjq.http.priority_socket.queues import error_reply, group_of
from jjq.http.priority_socket.session import SocketSession
from jjq.limits import CONNECT_POST_BYTES, CONNECT_POSTS_MAX
from jjq.wire.status import kind_of

_STAGES: Final[dict[NoticeName, Stage]] = {"ready": "ready", "write": "written", "sync": "synced"}


class Posts:
    """The posts of one client that are not answered yet."""

    def __init__(
        self, backend: Backend, board: NoticeBoard, session: SocketSession, usage: KeyUsage | None
    ) -> None:
        self._backend = backend
        self._board = board
        self._session = session
        self._usage = usage
        self._waiting: deque[PostRequest] = deque()
        self._bytes = 0
        self._pushing: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._progress = asyncio.Event()
        self._added = 0
        self._answered = 0

    async def add(self, post: PostRequest) -> None:
        """Push this behind the others; waits while many wait."""
        while len(self._waiting) >= CONNECT_POSTS_MAX or self._bytes >= CONNECT_POST_BYTES:
            self._room.clear()
            await self._room.wait()
        self._waiting.append(post)
        self._bytes += len(post.message)
        self._added += 1
        if self._pushing is None:
            self._pushing = asyncio.create_task(self._push_all(), name="jjq-connect-posts")
            self._backend.drain.keep(self._pushing)  # also what a client posts before it hangs up is written

    async def settled(self) -> None:
        """Return when the posts that were added so far are pushed."""
        last = self._added
        while self._answered < last and self._pushing is not None:
            self._progress.clear()
            await self._progress.wait()

    async def _push_all(self) -> None:
        try:
            while self._waiting:
                batch = self._next_batch()
                await self._push_or_refuse(batch)
                self._answered += len(batch)
                self._progress.set()
        finally:
            self._pushing = None
            self._room.set()
            self._progress.set()

    async def _push_or_refuse(self, batch: list[PostRequest]) -> None:
        meter, clock = self._backend.metrics.meter("connect_post"), self._backend.clock
        began = clock.monotonic()
        try:
            await self._push(batch)
            code = grpc.StatusCode.OK
        except JjqError as error:
            if isinstance(error, InvalidInput) and len(batch) > 1:
                for post in batch:  # one of them is wrong, and does not stop the others
                    await self._push_or_refuse([post])
                return
            code = kind_of(error).code
            for post in batch:
                self._session.send(error_reply(post.label, post.queue, error))
        except Exception as error:
            code = grpc.StatusCode.INTERNAL
            self._backend.log.error("unforeseen", method=meter.method, exc_info=error)
            for post in batch:
                self._session.send(
                    ErrorReply(post.label, "PermissionDenied", "the server failed: its log says why")
                )
        for _ in batch:
            meter.ended(code)
        meter.took(clock.monotonic() - began)

    def _next_batch(self) -> list[PostRequest]:
        """The first posts, as long as they are for the same queue and want the same stage."""
        waiting, first = self._waiting, self._waiting[0]
        queue, stage = first.queue, _stage(first)
        batch: list[PostRequest] = []
        size = 0
        while waiting and waiting[0].queue == queue and _stage(waiting[0]) == stage:
            if batch and size + len(waiting[0].message) > CONNECT_POST_BYTES:
                break
            post = waiting.popleft()
            size += len(post.message)
            batch.append(post)
        self._bytes -= size
        self._room.set()
        return batch

    async def _push(self, batch: list[PostRequest]) -> None:
        queue = batch[0].queue
        later = sum(not LATER.isdisjoint(post.notify) for post in batch)
        async with AsyncExitStack() as work:
            follower: LedgerFollower | None = None
            if later:
                follower = await work.enter_async_context(
                    self._board.pushing(group_of(queue), self._session, later)
                )
            receipt = await self._append(batch)
            self._tell(batch, receipt, follower)

    async def _append(self, batch: list[PostRequest]) -> Receipt:
        usage = self._usage
        if usage is not None and (seconds := usage.seconds()) > 0:
            await asyncio.sleep(seconds)  # the socket is read more slowly, which holds the sender back
        name = TASK_OPTIONS["priority"]
        headers = [{name: b"%d" % -post.priority} if post.priority else None for post in batch]
        values = payload("bytes", [post.message for post in batch], None, headers if any(headers) else None)
        receipt = await self._backend.store.append(Push(batch[0].queue, values, stage=_stage(batch[0])))
        if usage is not None:
            usage.spend(receipt.count, values.nbytes)
        self._backend.metrics.meter("connect_post").moved(receipt.count)
        return receipt

    def _tell(self, batch: list[PostRequest], receipt: Receipt, follower: LedgerFollower | None) -> None:
        for offset, post in enumerate(batch, receipt.first_offset):
            for notice in _STAGES:
                if notice in post.notify:
                    self._session.send(NoticeReply(post.label, notice))
            later = LATER.intersection(post.notify)
            if later and follower is not None:
                follower.expect(offset, Awaited(self._session, post.label, later))


def _stage(post: PostRequest) -> Stage:
    stage: Stage = "synced"
    for notice, reached in _STAGES.items():
        if notice in post.notify:
            stage = reached
    return stage
