"""Those who read: poppers, subscribers on streams, peekers, seekers and replayers."""

from __future__ import annotations

import asyncio

import grpc
import pyarrow as pa

import jjq.aio
from coldstore.shared.batch import elements
from coldstore.shared.errors import JjqError
from jjq.client.subscription import AsyncSubscription
from jjq.v1 import jjq_pb2 as pb
from tests.faults.clients.worker import CALL_SECONDS, Worker, seen
from tests.faults.history import type_of_call


class Popper(Worker):
    """Pops; mostly repeats a pop whose reply was lost, by naming the place, and at times does not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._known: int | None = None  # where the subscriber is, if that is known

    async def once(self) -> None:
        most = 1 + self.dice(40)
        patient = self._known is not None and self.dice(4) > 0
        op = self.pen.invoke("pop", self.queue, sub=self.sub, most=most)
        request = pb.PopRequest(subscriber=self.sub, max=most, wait_seconds=0.1)
        if patient:
            request.position = self._known or 0
        reply = await self.repeat(op, "Pop", request, 6 if patient else 1)
        if reply is not None:
            op.ok(position=reply.position, next=reply.next, **seen(reply.elements.elements, reply.position))
        self._known = None if reply is None else reply.next


class Streamer(Worker):
    """Subscribes through the library; what it asked to go on from counts as confirmed, for all it knows."""

    async def run(self) -> None:
        session = self.number * 1_000
        async with jjq.aio.connect(self.address, timeout=CALL_SECONDS) as client:
            while not self.stop.is_set():
                session += 1
                try:
                    async with client.subscribe(self.sub) as subscription:
                        await self._read(subscription, session)
                except JjqError:
                    await self.pause()

    async def _read(self, subscription: AsyncSubscription, session: int) -> None:
        at: int | None = None
        for n in range(10_000):
            if at is not None:  # asking for the next batch confirms this one, some time
                self.pen.invoke("confirm", self.queue, sub=self.sub, offset=at)
            batch = await self._next(subscription)
            if batch is None:
                return
            found = list(elements(batch))
            position, at = found[0].offset, found[0].offset + len(found)
            self.pen.note(
                "deliver", self.queue, sub=self.sub, session=session, position=position, next=at,
                **seen(found, position),
            )  # fmt: skip
            if n % 8 == self.dice(8):
                await self._confirm(subscription, at)

    async def _next(self, subscription: AsyncSubscription) -> pa.RecordBatch | None:
        """The next batch; None when it is time to stop. A wait that is broken off ends the session."""
        waiting = asyncio.create_task(subscription.next_batch())
        stopping = asyncio.create_task(self.stop.wait())
        await asyncio.wait([waiting, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait([waiting])
            return None
        return waiting.result()

    async def _confirm(self, subscription: AsyncSubscription, at: int) -> None:
        op = self.pen.invoke("confirm", self.queue, sub=self.sub, offset=at)
        try:
            await subscription.confirm()
        except JjqError as error:
            op.end("info", error.code)  # whatever is said now, an earlier one may have been heard
            raise
        op.ok()


class Peeker(Worker):
    """Looks twice, then pops: what it saw must be what it gets."""

    async def once(self) -> None:
        for method, f in (("Peek", "peek"), ("Peek", "peek"), ("Pop", "pop")):
            most = 1 + self.dice(20)
            kind = pb.PopRequest if f == "pop" else pb.PeekRequest
            op = self.pen.invoke(f, self.queue, sub=self.sub, most=most)
            reply = await self.call(op, method, kind(subscriber=self.sub, max=most))
            if reply is not None:
                fields = seen(reply.elements.elements, reply.position)
                op.ok(position=reply.position, next=reply.next, **fields)
        await self.pause()


class Seeker(Worker):
    """Seeks anywhere, and pops from there."""

    async def once(self) -> None:
        start = ("beginning", "end", f"last:{self.dice(200)}", f"offset:{self.dice(2_000)}")[self.dice(4)]
        op = self.pen.invoke("seek", self.queue, sub=self.sub, to=start)
        reply = await self.call(op, "Seek", pb.SeekRequest(subscriber=self.sub, start=start, clamp=True))
        if reply is not None:
            op.ok(position=reply.subscriber.offset)
        for _ in range(3):
            op = self.pen.invoke("pop", self.queue, sub=self.sub, most=15)
            reply = await self.call(op, "Pop", pb.PopRequest(subscriber=self.sub, max=15))
            if reply is not None:
                fields = seen(reply.elements.elements, reply.position)
                op.ok(position=reply.position, next=reply.next, **fields)
        await self.pause()


class Replayer(Worker):
    """Reads a range up to the end, without a subscriber."""

    async def once(self) -> None:
        start = ("beginning", f"last:{self.dice(500)}")[self.dice(8) > 0]
        op = self.pen.invoke("read", self.queue, start=start)
        found: list[pb.Element] = []
        position = end = 0
        try:
            async for message in self.stub.Read(
                pb.ReadRequest(queue=self.queue, start=start), timeout=CALL_SECONDS * 3
            ):
                if message.HasField("start_offset"):
                    position, end = message.start_offset, message.end_offset
                found.extend(message.elements.elements)
        except grpc.aio.AioRpcError as error:
            self.failed(away=error.code() is grpc.StatusCode.UNAVAILABLE)
            op.end(type_of_call(error), error.code().name)
        else:
            op.ok(position=position, next=end, end=True, **seen(found, position))
        await self.pause(0.2)
