"""Those who push: plain, idempotent, pipelined on a PushStream, and through the client library."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

import grpc

import jjq.aio
from coldstore.shared.errors import JjqError
from jjq.client.client import AsyncClient
from jjq.client.producer import AsyncProducer
from jjq.client.push_future import Pushed
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.status import error_in
from tests.faults.clients.doors import CallFailed
from tests.faults.clients.worker import CALL_SECONDS, SIZES, STEP_SECONDS, Worker
from tests.faults.history import Operation, Type, settled, type_of_call, type_of_error
from tests.faults.values import make_value

PATIENCE_SECONDS = 20.0
WINDOW = 16
ROOM_SECONDS = 0.5  # that a push waits where a group is full


class PlainPusher(Worker):
    """One attempt each, without an identity: an unknown outcome stays unknown."""

    async def once(self) -> None:
        numbers = self.numbers(1 + self.dice(4))
        op = self.pen.invoke("push", self.queue, values=numbers)
        request = pb.PushRequest(
            queue=self.queue, elements=self.elements(numbers), timeout_seconds=ROOM_SECONDS
        )
        reply = await self.call(op, "Push", request)
        if reply is not None:
            op.ok(offset=reply.receipt.first_offset)
            await self.pause(STEP_SECONDS)


class OncePusher(Worker):
    """Repeats with the same identity until it knows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._begin()

    def _begin(self) -> None:
        self._producer, self._sequence = self.chance.token(), 0

    async def once(self) -> None:
        numbers = self.numbers(1 + self.dice(4))
        op = self.pen.invoke("push", self.queue, values=numbers)
        request = pb.PushRequest(
            queue=self.queue,
            producer=self._producer,
            sequence=self._sequence,
            elements=self.elements(numbers),
        )
        attempts: list[Type] = []
        code = ""
        while len(attempts) < 1 + PATIENCE_SECONDS / CALL_SECONDS:
            try:
                reply = await self.ask("Push", request)
            except CallFailed as error:
                attempts.append(error.type)
                code = error.code
                if error.type == "fail" and not error.away and code != "RESOURCE_EXHAUSTED":
                    break
                await self.pause(0.3)
                continue
            op.ok(offset=reply.receipt.first_offset)
            self._sequence += 1
            await self.pause(STEP_SECONDS)
            return
        op.end(settled(attempts), code)
        self._begin()
        await self.pause()


@dataclass
class _Sent:
    op: Operation
    request: pb.PushRequest
    attempts: list[Type]


class StreamPusher(Worker):
    """Keeps many pushes in flight on one stream; after a break sends all that is unanswered again, in order."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pipeline = self.number * 1_000
        self._begin()

    def _begin(self) -> None:
        self._pipeline += 1
        self._producer, self._sequence = self.chance.token(), 0
        self._waiting: deque[_Sent] = deque()
        self._failures = 0

    def _next(self) -> _Sent:
        numbers = self.numbers(1 + self.dice(3))
        request = pb.PushRequest(
            queue=self.queue,
            producer=self._producer,
            sequence=self._sequence,
            elements=self.elements(numbers),
        )
        op = self.pen.invoke(
            "push", self.queue, values=numbers, pipeline=self._pipeline, place=self._sequence
        )
        self._sequence += 1
        return _Sent(op, request, [])

    async def once(self) -> None:
        """One stream, until it breaks or a push is refused."""
        call = self.stub.PushStream(timeout=CALL_SECONDS * 2)
        try:
            for sent in list(self._waiting):
                await call.write(sent.request)
            await self._exchange(call)
            self._failures = 0
        except grpc.aio.AioRpcError as error:
            self.failed(away=error.code() is grpc.StatusCode.UNAVAILABLE)
            self._note(type_of_call(error))
            await self._lose(error.code().name)
        except (asyncio.InvalidStateError, grpc.aio.UsageError):
            self._note("info")
            await self._lose("CANCELLED")
        finally:
            call.cancel()

    async def _exchange(self, call: Any) -> None:
        for _ in range(200):
            if self.stop.is_set() and not self._waiting:
                return
            while len(self._waiting) < WINDOW and not self.stop.is_set():
                self._waiting.append(self._next())
                await call.write(self._waiting[-1].request)
            response = await call.read()
            if response is grpc.aio.EOF:
                await self._lose("EOF")
                return
            await self.pause(STEP_SECONDS)
            for result in response.results:
                if not self._take(result):
                    await self.pause(0.3)
                    return

    def _take(self, result: pb.PushResult) -> bool:
        """Whether the stream may go on."""
        if result.WhichOneof("result") == "receipt":
            self._waiting.popleft().op.ok(offset=result.receipt.first_offset)
            return True
        self._note(type_of_error(error_in(result.error)))
        self._failures += 1
        if self._failures > PATIENCE_SECONDS / 0.3:
            self._give_up(pb.ErrorKind.Name(result.error.kind))
        return False

    def _note(self, kind: Type) -> None:
        for sent in self._waiting:
            sent.attempts.append(kind)

    async def _lose(self, code: str) -> None:
        self._failures += 1
        if self._failures > PATIENCE_SECONDS / CALL_SECONDS:
            self._give_up(code)
        await self.pause(0.3)

    def _give_up(self, code: str) -> None:
        for sent in self._waiting:
            sent.op.end(settled(sent.attempts or ["info"]), code)
        self._begin()


class LibraryPusher(Worker):
    """Single elements through `client.producer`: batched, pipelined and repeated by the library."""

    async def run(self) -> None:
        pipeline = self.number * 1_000
        async with jjq.aio.connect(self.address, timeout=PATIENCE_SECONDS) as client:
            while not self.stop.is_set():
                pipeline += 1
                await self._produce(client, pipeline)

    async def _produce(self, client: AsyncClient, pipeline: int) -> None:
        """One producer, until one of its elements fails."""
        producer = client.producer(self.queue, linger=0.002, deadline=PATIENCE_SECONDS)
        waiting: deque[tuple[Operation, Pushed]] = deque()
        for place in range(1_000_000):
            if self.stop.is_set():
                break
            waiting.append(await self._push(producer, pipeline, place))
            await self.pause(STEP_SECONDS)
            if len(waiting) > 4 * WINDOW and not await self._settle(*waiting.popleft()):
                break
        for each in waiting:
            await self._settle(*each)
        try:
            await producer.close()
        except JjqError:
            await self.pause()  # told about each element above

    async def _push(self, producer: AsyncProducer, pipeline: int, place: int) -> tuple[Operation, Pushed]:
        number = self.numbers(1)[0]
        op = self.pen.invoke("push", self.queue, values=[number], pipeline=pipeline, place=place)
        return op, await producer.push(make_value(number, SIZES[self.dice(len(SIZES))]))

    async def _settle(self, op: Operation, pushed: Pushed) -> bool:
        try:
            receipt = await pushed
        except JjqError as error:
            # The library repeats: a refusal that it reports may follow attempts of unknown outcome, and what
            # it gave up may be on its way still, while it goes on with the others under a new identity.
            op.end("info", error.code, late=True)
            return False
        op.ok(offset=receipt.first_offset)
        return True
