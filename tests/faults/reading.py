"""Whole readings of a server: the last one of a run, and that of a damaged twin.

Both take DATA_LOSS for an answer: it is written down with the range it stands for, and reading goes on
behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import orjson

from coldstore.layout.ledger import TASK_EVENTS
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Exhausted, Fenced, Unavailable
from jjq.v1 import jjq_pb2 as pb
from jjq.v1 import jjq_pb2_grpc
from jjq.wire.status import status_in
from tests.faults.clients.takers import GROUP, TTR_SECONDS, Task, changing, refused, taken
from tests.faults.clients.worker import OPTIONS, seen
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
        self._pen = pen
        self._clock = SystemClock()
        self._address = address

    async def __aenter__(self) -> Reader:
        self._channel = grpc.aio.insecure_channel(self._address.split(",")[0], OPTIONS)
        self.stub: Any = jjq_pb2_grpc.JjqStub(self._channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def answered(self, ask: Callable[[], Awaitable[Any]], seconds: float = ANSWER_SECONDS) -> Any:
        """The answer; the last error if there is none in time, for a machine that may stand still at times."""
        deadline = self._clock.monotonic() + seconds
        tries = 2 * seconds
        while True:
            try:
                return await ask()
            except grpc.aio.AioRpcError as error:
                tries -= 1
                if not _may_come(error) or (tries < 0 and self._clock.monotonic() > deadline):
                    raise
            await asyncio.sleep(0.1)

    async def prepare(self, queues: dict[str, dict[str, Any]], subs: list[str]) -> None:
        """Make queues, their groups and subscribers."""
        backoff = pb.RetryBackoff(base=0.05, factor=2.0, max=0.4, jitter=0.5)
        for name, settings in queues.items():
            queue = pb.CreateQueueRequest(name=name, **settings)
            await self.answered(lambda queue=queue: self.stub.CreateQueue(queue))  # type: ignore[misc]
            group = pb.CreateGroupRequest(
                queue=name, name=GROUP, settings=pb.GroupSettings(ttr=TTR_SECONDS, backoff=backoff)
            )
            await self.answered(lambda group=group: self.stub.CreateGroup(group))  # type: ignore[misc]
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
            self._pen.invoke("seek", queue, sub=sub).end("fail", "DATA_LOSS")  # never drained: `unseen` tells
            return
        await self.drain(sub)

    async def push(self, queue: str, seconds: float = ANSWER_SECONDS) -> bool:
        """A push that must succeed by now; each attempt with a value of its own."""
        try:
            await self.answered(lambda: self._push(queue, PUSH_SECONDS), seconds)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def push_once(self, queue: str, seconds: float) -> bool:
        """Whether one attempt was acknowledged."""
        try:
            await self._push(queue, seconds)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def _push(self, queue: str, seconds: float) -> None:
        number = self._pen.process * WORKER + self._pen.ops
        op = self._pen.invoke("push", queue, values=[number])
        request = pb.PushRequest(queue=queue, elements=pb.Elements(elements=[_element(number)]))
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
            op = self._pen.invoke("pop", queue, sub=sub, most=PAGE)
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
                self._pen.note("drained", queue, sub=sub, next=reply.next)
                return

    async def work_off(self, queue: str, seconds: float) -> None:
        """Take and ack until no task of the queue's group is open, and write down its ledger.

        It gives up after so many seconds in which no task was done: a busy machine is slow, and loses nothing.
        """
        group = f"{queue}/{GROUP}"
        done, deadline = -1, 0.0
        while True:
            try:
                await self.answered(lambda: self.stub.KickTasks(pb.KickTasksRequest(group=group, count=PAGE)))
                await self._take_and_ack(queue, group)
                counts = (
                    await self.answered(
                        lambda: self.stub.GetGroupStatistics(pb.GetGroupStatisticsRequest(group=group))
                    )
                ).tasks
            except grpc.aio.AioRpcError as error:
                if error.code() is not _LOSS:
                    raise
                return  # the last reading tells of it
            now = self._clock.monotonic()
            if counts["done"] > done:
                done, deadline = counts["done"], now + seconds
            if not counts["total"] or now > deadline:
                break
        self._pen.note("worked", queue, open=counts["total"], done=counts["done"])
        await self._read_ledger(queue)

    async def _take_and_ack(self, queue: str, group: str) -> None:
        async def take() -> list[Task]:
            op = self._pen.invoke("take", queue, durable=True)
            request = pb.TakeRequest(
                group=group, max=PAGE, wait_seconds=0.2, session="last", stage=pb.STAGE_SYNCED
            )
            try:
                return taken(op, await self.stub.Take(request, timeout=ANSWER_SECONDS))
            except grpc.aio.AioRpcError as error:
                op.end(type_of_call(error), error.code().name)
                raise

        async def ack() -> None:
            op = self._pen.invoke("ack", queue, tasks=[t for t, _ in tasks], attempts=[a for _, a in tasks])
            try:
                op.ok(refused=refused(await self.stub.ChangeTasks(request, timeout=ANSWER_SECONDS)))
            except grpc.aio.AioRpcError as error:
                op.end(type_of_call(error), error.code().name)
                raise

        tasks = await self.answered(take)
        if tasks:
            request = changing(group, "ack", tasks, "last")
            await self.answered(ack)

    async def _read_ledger(self, queue: str) -> None:
        """The rows of the queue's group that are about tasks."""

        async def read() -> list[dict[str, Any]]:
            found = []
            async for message in self.stub.Read(
                pb.ReadRequest(queue=f"{queue}~{GROUP}"), timeout=ANSWER_SECONDS
            ):
                found += [orjson.loads(element.value) for element in message.elements.elements]
            return [row for row in found if row["event"] in TASK_EVENTS]

        op = self._pen.invoke("ledger", queue)
        rows = await self.answered(read)
        op.ok(
            tasks=[row["task"] for row in rows], counts=[row["count"] for row in rows],
            events=[row["event"] for row in rows], attempts=[row["attempt"] for row in rows],
        )  # fmt: skip

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
            op = self._pen.invoke(f, queue, **fields)
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
            request = pb.PushRequest(queue=queue, elements=pb.Elements(elements=[_element(0)]))
            await self.stub.Push(request, timeout=ANSWER_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is _LOSS:
                self._damaged(f, queue, end, ENDLESS, error, fields)

    def _damaged(
        self, f: str, queue: str, start: int, end: int, error: grpc.aio.AioRpcError | None, fields: dict[str, Any]
    ) -> None:  # fmt: skip
        if error is not None and error.code() is not _LOSS:
            raise error
        op = self._pen.invoke(f, queue, position=start, next=end, **fields)
        why = "" if error is None else (error.details() or "")[:200]
        op.end("fail", "DATA_LOSS", loss=True, why=why)


def _element(number: int) -> pb.Element:
    return pb.Element(value=make_value(number, 50))
