"""Whole readings of a server: the last one of a run, and that of a damaged twin.

Both take DATA_LOSS for an answer: it is written down with the range it stands for, and reading goes on
behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Exhausted, Fenced, Unavailable
from jjq.v1 import jjq_pb2 as pb
from jjq.v1 import jjq_pb2_grpc
from jjq.wire.status import status_in
from tests.faults.clients.doors import OPTIONS
from tests.faults.clients.takers import TTR_SECONDS
from tests.faults.clients.worker import KEYED, KEYS, key_of, seen
from tests.faults.history import Recorder, type_of_call
from tests.faults.values import WORKER, make_value

PAGE = 1_000
ANSWER_SECONDS = 30.0
PUSH_SECONDS = 5.0
READ_TRIES = 100
ENDLESS = 1 << 39  # the end of a range that nobody can tell
_LOSS = grpc.StatusCode.DATA_LOSS
_AGAIN = (Fenced, Exhausted, Unavailable)  # the queue changes hands, or waits for object storage
_LATER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED}


def _may_come(error: grpc.aio.AioRpcError) -> bool:
    """Whether the answer may be another one in a moment."""
    return error.code() in _LATER or isinstance(status_in(error), _AGAIN)


class Reader:
    """Asks again until it is answered: by now everything is healed."""

    def __init__(self, address: str, pen: Recorder) -> None:
        self.pen = pen
        self.clock = SystemClock()
        self._address = address

    async def __aenter__(self) -> Reader:
        self._channel = grpc.aio.insecure_channel(self._address.split(",")[0], OPTIONS)
        self.stub: Any = jjq_pb2_grpc.JjqStub(self._channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def answered(self, ask: Callable[[], Awaitable[Any]], seconds: float = ANSWER_SECONDS) -> Any:
        """The answer; the last error if there is none in time, for a machine that may stand still at times."""
        deadline = self.clock.monotonic() + seconds
        tries = 2 * seconds
        while True:
            try:
                return await ask()
            except grpc.aio.AioRpcError as error:
                tries -= 1
                if not _may_come(error) or (tries < 0 and self.clock.monotonic() > deadline):
                    raise
            await asyncio.sleep(0.1)

    async def prepare(
        self,
        queues: dict[str, dict[str, Any]],
        groups: dict[str, tuple[str, dict[str, Any]]],
        subs: list[str],
    ) -> None:
        """Make queues, their groups and subscribers."""
        backoff = pb.RetryBackoff(base=0.05, factor=2.0, max=0.4, jitter=0.5)
        for name, settings in queues.items():
            queue = pb.CreateQueueRequest(name=name, **settings)
            await self.answered(lambda queue=queue: self.stub.CreateQueue(queue))  # type: ignore[misc]
            called, special = groups[name]
            made = pb.GroupSettings(ttr=TTR_SECONDS, backoff=backoff, **special)
            group = pb.CreateGroupRequest(queue=name, name=called, settings=made)
            await self.answered(lambda group=group: self.stub.CreateGroup(group))  # type: ignore[misc]
            keys = KEYS if name == KEYED else None
            self.pen.note("group", name, most=special.get("capacity"), keys=keys)
        for sub in subs:
            await self.subscribe(sub)

    async def subscribe(self, sub: str) -> None:
        queue, _, name = sub.partition("/")
        request = pb.CreateSubscriberRequest(queue=queue, name=name, start="beginning")
        await self.answered(lambda: self.stub.CreateSubscriber(request, timeout=ANSWER_SECONDS))

    async def read_afresh(self, queue: str) -> None:
        """Read the queue with a subscriber that nobody has used yet."""
        sub = f"{queue}/fresh"
        try:
            await self.subscribe(sub)
        except grpc.aio.AioRpcError as error:
            if error.code() is not _LOSS:
                raise
            self.pen.invoke("seek", queue, sub=sub).end("fail", "DATA_LOSS")  # never drained: `unseen` tells
            return
        await self.drain(sub)

    async def push(self, queue: str, group: str, seconds: float = ANSWER_SECONDS) -> bool:
        """A push that must succeed by now; each attempt with a value of its own.

        First what was buried in the queue's group is revived: a worker that buries all the tasks that it may have,
        and whose server is then killed, leaves it full.
        """
        try:
            await self.kick(group, seconds)
            await self.answered(lambda: self._push(queue, PUSH_SECONDS), seconds)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def kick(self, group: str, seconds: float = ANSWER_SECONDS) -> None:
        """Revive what was buried."""
        request = pb.KickTasksRequest(group=group, count=PAGE)
        await self.answered(lambda: self.stub.KickTasks(request, timeout=PUSH_SECONDS), seconds)

    async def push_once(self, queue: str, seconds: float) -> bool:
        """Whether one attempt was acknowledged."""
        try:
            await self._push(queue, seconds)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def _push(self, queue: str, seconds: float) -> None:
        number = self.pen.process * WORKER + self.pen.ops
        op = self.pen.invoke("push", queue, values=[number])
        request = pb.PushRequest(
            queue=queue, elements=pb.Elements(elements=[_element(queue, number)]), timeout_seconds=seconds / 2
        )
        try:
            reply = await self.stub.Push(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            op.end(type_of_call(error), error.code().name, why=(error.details() or "")[:200])
            raise
        op.ok(offset=reply.receipt.first_offset)

    async def drain(self, sub: str) -> None:
        """Pop until there is nothing more."""
        queue = sub.partition("/")[0]

        async def ask() -> Any:
            op = self.pen.invoke("pop", queue, sub=sub, most=PAGE)
            try:
                return op, await self.stub.Pop(
                    pb.PopRequest(subscriber=sub, max=PAGE), timeout=ANSWER_SECONDS
                )
            except grpc.aio.AioRpcError as error:
                op.end(type_of_call(error), error.code().name, why=(error.details() or "")[:200])
                raise

        while True:
            try:
                op, reply = await self.answered(ask)
            except grpc.aio.AioRpcError:
                return  # `unseen` tells
            op.ok(position=reply.position, next=reply.next, **seen(reply.elements.elements, reply.position))
            if reply.next == reply.position:
                self.pen.note("drained", queue, sub=sub, next=reply.next)
                return

    async def whole(self, f: str, queue: str, **fields: Any) -> None:
        """Every element of a queue, and every range that is said to be damaged."""
        try:
            end = (
                await self.answered(lambda: self.stub.GetQueue(pb.GetQueueRequest(name=queue)))
            ).queue.next_offset
        except grpc.aio.AioRpcError as error:
            self._damaged(f, queue, 0, ENDLESS, error, fields)
            return
        position, step, tries = 0, 0, READ_TRIES
        while position + step < end:
            op = self.pen.invoke(f, queue, **fields)
            found: list[Any] = []
            start = position + step
            failed: grpc.aio.AioRpcError | None = None
            try:
                request = pb.ReadRequest(queue=queue, start=f"offset:{start}", end=f"offset:{end}")
                async for message in self.stub.Read(request, timeout=ANSWER_SECONDS):
                    found.extend(message.elements.elements)
            except grpc.aio.AioRpcError as error:
                failed = error
            op.ok(position=start, next=start + len(found), **seen(found, start))
            if failed is not None and failed.code() is not _LOSS:
                tries -= 1
                if not tries or not _may_come(failed):
                    raise failed
                await asyncio.sleep(0.3)
            if found and step:
                self._damaged(f, queue, position, start, None, fields)
            position, step = (start + len(found), 0) if found else (position, step)
            if failed is not None and failed.code() is _LOSS:
                step = max(1, step * 2)
        if step:
            self._damaged(f, queue, position, end, None, fields)

    async def suspects(self, f: str, queue: str, **fields: Any) -> None:
        """Whether the queue refuses a push because of damage: then what lies at its end may be missing."""
        end = 0
        try:
            end = (await self.stub.GetQueue(pb.GetQueueRequest(name=queue))).queue.next_offset
            request = pb.PushRequest(queue=queue, elements=pb.Elements(elements=[_element(queue, 0)]))
            await self.stub.Push(request, timeout=ANSWER_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is _LOSS:
                self._damaged(f, queue, end, ENDLESS, error, fields)

    def _damaged(
        self, f: str, queue: str, start: int, end: int, error: grpc.aio.AioRpcError | None, fields: dict[str, Any]
    ) -> None:  # fmt: skip
        if error is not None and error.code() is not _LOSS:
            raise error
        op = self.pen.invoke(f, queue, position=start, next=end, **fields)
        why = "" if error is None else (error.details() or "")[:200]
        op.end("fail", "DATA_LOSS", loss=True, why=why)


def _element(queue: str, number: int) -> pb.Element:
    return pb.Element(value=make_value(number, 50), key=key_of(number) if queue == KEYED else None)
