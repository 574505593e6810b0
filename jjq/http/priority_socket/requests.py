"""What the requests of one client do.

    post     pushed with the others of this client (posts.py)
    fetch    a take that waits up to block_timeout; the task is held for work_timeout
    finish   an ack by the session of this client
    pop      a take and its ack, which is durable before the message is sent
    create   a queue and its group

Requests are answered when they are done, in any order, but a fetch or pop sees what this client posted before it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from typing import Final, TypeVar

import grpc

from coldstore.shared.errors import Conflict, Exhausted, InvalidInput, JjqError
from hotstore.groups.values import Take, TakenTasks, TaskChange, TaskOutcomes, TaskVerb
from hotstore.limits import SECONDS_MAX
from jjq.access.quotas import KeyUsage
from jjq.http.backend import Backend
from jjq.http.priority_socket import bincode
from jjq.http.priority_socket.frames import (
    CreateRequest,
    ErrorReply,
    FetchRequest,
    FinishRequest,
    Firmness,
    MessageReply,
    NoMessageReply,
    NoticeReply,
    PopRequest,
    PostRequest,
    SocketRequest,
    decode_json,
)
from jjq.http.priority_socket.notices import POP_WORKER, NoticeBoard
from jjq.http.priority_socket.posts import Posts
from jjq.http.priority_socket.queues import SocketQueues, error_reply, group_of
from jjq.http.priority_socket.session import SocketSession
from jjq.limits import (
    CONNECT_FETCHES_MAX,
    CONNECT_LARGE_BYTES,
    CONNECT_REQUESTS_MAX,
    ERROR_BYTES_MAX,
    SESSION_SECONDS,
    WAIT_SECONDS_MAX,
)
from jjq.server.meter import Meter
from jjq.wire.status import kind_of

T = TypeVar("T")
_STAGES: Final[dict[Firmness, str]] = {"ready": "ready", "write": "written", "sync": "synced"}
_SHORTEST_WORK: Final = 0.001  # seconds that a task is held at least


class SocketRequests:
    """The requests of one session."""

    def __init__(
        self,
        backend: Backend,
        queues: SocketQueues,
        board: NoticeBoard,
        session: SocketSession,
        usage: KeyUsage | None,
    ) -> None:
        self._backend = backend
        self._queues = queues
        self._session = session
        self._usage = usage
        self._posts = Posts(backend, board, session, usage)
        self._slots = asyncio.Semaphore(CONNECT_REQUESTS_MAX)
        self._attaching = asyncio.Lock()

    async def handle(self, frame: bytes, *, text: bool) -> None:
        """Begin what a frame asks for. It waits while the client has too much under way, or does not read."""
        await self._session.room()
        try:
            if len(frame) > CONNECT_LARGE_BYTES:
                request = await asyncio.to_thread(_decode, frame, text)
            else:
                request = _decode(frame, text)
        except InvalidInput as error:
            self._session.send(ErrorReply(0, "PermissionDenied", error.message[:ERROR_BYTES_MAX]))
            return
        self._meter(request).received(len(frame))
        try:
            await self._begin(request)
        except JjqError as error:
            self._refuse(request, error)

    def _meter(self, request: SocketRequest) -> Meter:
        return self._backend.metrics.meter(f"connect_{_NAMES[type(request)]}")

    def _refuse(self, request: SocketRequest, error: JjqError) -> None:
        self._meter(request).ended(kind_of(error).code)
        self._session.send(error_reply(request.label or 0, request.queue, error))

    async def _begin(self, request: SocketRequest) -> None:
        self._require(_RIGHTS[type(request)], request.queue)
        match request:
            case PostRequest():
                self._check_post(request)
                await self._queues.check(request.queue)
                await self._posts.add(request)
            case FetchRequest() | PopRequest():
                take = self._take(request)
                await self._start(request, partial(self._fetch, request, take))
            case FinishRequest():
                await self._start(request, lambda slot: self._finish(request))
            case CreateRequest():
                await self._start(request, lambda slot: self._create(request))

    async def _start(self, request: SocketRequest, work: Callable[[ExitStack], Awaitable[None]]) -> None:
        """Begin when there is a slot for it, so that a client that sends quickly is read more slowly."""
        await self._slots.acquire()
        self._session.start(self._answer(request, work))

    # Rights ----------------------------------------------------------------------------------------------

    def _require(self, right: str, queue: str) -> None:
        keys = self._backend.keys
        if keys is not None:
            keys.require(self._session.key, right, queue)

    def _check_post(self, post: PostRequest) -> None:
        """A frame has no place for a signature, so queues with signed pushes take no posts."""
        keys = self._backend.keys
        if keys is not None:
            keys.check_signature(post.queue, None, b"")
            keys.check_size(post.queue, len(post.message))

    # Fetch and pop ---------------------------------------------------------------------------------------

    def _take(self, request: FetchRequest | PopRequest) -> Take:
        group, session = group_of(request.queue), self._session.name
        if isinstance(request, PopRequest):
            wait = _seconds("timeout", request.timeout)
            return Take(group, 1, wait, session, worker=POP_WORKER)
        wait = _seconds("block_timeout", request.block_timeout)
        work = max(_SHORTEST_WORK, _seconds("work_timeout", request.work_timeout, SECONDS_MAX))
        return Take(group, 1, wait, session, work, stage=_STAGES[request.sync])

    async def _fetch(self, request: FetchRequest | PopRequest, take: Take, slot: ExitStack) -> None:
        await self._queues.check(request.queue)
        await self._attach()
        await self._posts.settled()
        work, drain = self._queues.work, self._backend.drain
        taken = await work.take(take._replace(wait=0.0))
        if not len(taken.attempts) and take.wait and not drain.stopping:
            slot.close()  # it may wait for long, and others come meanwhile
            taken = await self._wait(request, take)
        if not len(taken.attempts):
            self._session.send(NoMessageReply(request.label))
            return
        await self._hand_over(request, take.group, taken)

    async def _wait(self, request: FetchRequest | PopRequest, take: Take) -> TakenTasks:
        """Wait for a task. A key that is revoked meanwhile ends it."""
        session, keys = self._session, self._backend.keys
        if session.fetches >= CONNECT_FETCHES_MAX:
            raise Exhausted(f"{session.fetches} fetches and pops of this client wait: wait for one of them")
        session.fetches += 1
        try:
            with nullcontext() if keys is None else keys.watch(lambda: self._require("work", request.queue)):
                return await self._backend.drain.wait(self._queues.work.take(take))
        finally:
            session.fetches -= 1

    async def _hand_over(self, request: FetchRequest | PopRequest, group: str, taken: TakenTasks) -> None:
        """Send a task that was taken; one that cannot be sent is given back."""
        popped = isinstance(request, PopRequest)
        sequence, attempt = taken.ids[0], taken.attempts[0]
        value = taken.elements.column("value")[0]
        size = value.as_buffer().size
        reserved = False
        try:
            await self._session.reserve(size)
            reserved = True
            if popped:
                outcomes = await self._kept(self._change(group, "ack", sequence, attempt))
                if not outcomes.changed:
                    raise Conflict(outcomes.errors[0].message)  # its time was over, and another client has it
        except BaseException:
            if reserved:
                self._session.give_up(size)
            self._backend.drain.keep(asyncio.ensure_future(self._change(group, "release", sequence, attempt)))
            raise
        body = value.as_buffer().to_pybytes()
        self._session.send(MessageReply(request.label, attempt, sequence, body, popped))
        self._meter(request).moved(1)

    async def _attach(self) -> None:
        """Let the store know that this session has a connection: its tasks are given back when it has gone."""
        async with self._attaching:
            if not self._session.attached:
                await self._queues.work.attach_session(self._session.name, SESSION_SECONDS)
                self._session.attached = True

    async def resume(self) -> None:
        """A client goes on with an id: what it holds stays its own."""
        with suppress(JjqError):  # its next fetch tries again
            await self._attach()

    # Finish and create -----------------------------------------------------------------------------------

    async def _finish(self, request: FinishRequest) -> None:
        await self._queues.check(request.queue)
        outcomes = await self._kept(
            self._change(group_of(request.queue), "ack", request.sequence, request.shard)
        )
        if request.label is None:
            return
        if outcomes.changed:
            self._session.send(NoticeReply(request.label, "finish"))
        else:
            self._session.send(
                ErrorReply(request.label, "PermissionDenied", outcomes.errors[0].message[:ERROR_BYTES_MAX])
            )

    async def _create(self, request: CreateRequest) -> None:
        await self._kept(self._create_named(request))
        audit = self._backend.audit
        if audit is not None and self._backend.keys is not None and self._backend.keys.closed:
            audit.record(self._session.key, "socket", "create_queue", request.queue)
        self._session.send(NoticeReply(request.label, "ready"))

    async def _create_named(self, request: CreateRequest) -> None:
        usage, store = self._usage, self._backend.store
        async with nullcontext() if usage is None else usage.new_queue(store, request.queue):
            await self._queues.create(request)

    def _change(self, group: str, verb: TaskVerb, task: int, attempt: int) -> Awaitable[TaskOutcomes]:
        return self._queues.work.change_tasks(TaskChange(group, verb, [task], [attempt], self._session.name))

    async def _kept(self, work: Awaitable[T]) -> T:
        """Finished and written even if the client has gone."""
        task = asyncio.ensure_future(work)
        self._backend.drain.keep(task)
        return await asyncio.shield(task)

    async def _answer(self, request: SocketRequest, work: Callable[[ExitStack], Awaitable[None]]) -> None:
        """Do the work of a request; tell the client of an error."""
        meter, clock = self._meter(request), self._backend.clock
        began = clock.monotonic()
        slot = ExitStack()
        slot.callback(self._slots.release)
        try:
            await work(slot)
            meter.ended(grpc.StatusCode.OK)
        except JjqError as error:
            if not self._backend.drain.stopping:  # a waiting client connects again
                self._refuse(request, error)
        except Exception as error:
            meter.ended(grpc.StatusCode.INTERNAL)
            self._backend.log.error("unforeseen", method=meter.method, exc_info=error)
            reply = ErrorReply(request.label or 0, "PermissionDenied", "the server failed: its log says why")
            self._session.send(reply)
        finally:
            meter.took(clock.monotonic() - began)
            slot.close()


_RIGHTS: Final[dict[type, str]] = {
    PostRequest: "push",
    FetchRequest: "work",
    FinishRequest: "work",
    PopRequest: "work",
    CreateRequest: "admin",
}
_NAMES: Final[dict[type, str]] = {
    PostRequest: "post",
    FetchRequest: "fetch",
    FinishRequest: "finish",
    PopRequest: "pop",
    CreateRequest: "create",
}


def _decode(frame: bytes, text: bool) -> SocketRequest:
    if text:
        return decode_json(frame)
    request: SocketRequest = bincode.decode(frame, bincode.REQUESTS)
    return request


def _seconds(name: str, seconds: float | None, most: float = WAIT_SECONDS_MAX) -> float:
    """A time as the store takes it: none is zero, and so is one below zero; one that is too long is shortened."""
    if seconds is None:
        return 0.0
    if math.isnan(seconds):
        raise InvalidInput(f"{name} is not a number of seconds")
    return min(max(seconds, 0.0), most)
