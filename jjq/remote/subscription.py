"""Subscribe, as an iterator that survives broken connections.

    async with store.subscribe("orders/billing") as subscription:
        async for delivery in subscription:
            handle(delivery.batch)
            await subscription.confirm(delivery)

A reader of its own fills a buffer that the credit bounds, so elements are here before they are asked
for. After a broken connection it goes on where it was: nothing is skipped, nothing comes twice. When
a seek moves the subscriber the buffer is dropped, and confirmations of what came before are ignored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import grpc

from coldstore.shared.chance import Chance
from coldstore.shared.errors import Conflict, Exhausted, JjqError, Unavailable
from coldstore.shared.results import Popped, queue_part
from jjq.limits import CONFIRM_SECONDS, CREDIT_BYTES, CREDIT_ELEMENTS
from jjq.remote.channels import Call, Link, read_message
from jjq.remote.retry import LinkBackoff
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import decode

if TYPE_CHECKING:
    from jjq.remote.call_socket import SocketStream


@dataclass(frozen=True, slots=True)
class RemoteDelivery(Popped):
    """Elements of a subscriber, still to be confirmed."""

    generation: int = 0  # which of the subscriber's moves it follows
    bytes: int = 0  # as the server counts them: by our own count, credit would be lost bit by bit


class RemoteSubscription:
    """See the module's docstring. Open it with `async with`, or `close` it."""

    def __init__(
        self,
        link: Link,
        chance: Chance,
        subscriber: str,
        seconds: float,
        *,
        elements: int = CREDIT_ELEMENTS,
        nbytes: int = CREDIT_BYTES,
        batch_elements: int = 0,
    ) -> None:
        self.subscriber = subscriber
        self._queue = queue_part(subscriber)
        self.confirmed = -1  # durably; -1 before the first answer
        self._link = link
        self._seconds = seconds
        self._backoff = LinkBackoff(link, chance)
        self._deadline = link.clock.monotonic() + seconds
        self._credit = (elements, nbytes)
        self._owed = [0, 0]  # taken from the buffer, not yet allowed again
        self._batch_elements = batch_elements
        self._buffer: deque[RemoteDelivery] = deque()
        self._next = 0
        self._wanted = -1  # confirmed by the user
        self._confirming: asyncio.TimerHandle | None = None
        self._sending: asyncio.Future[None] | None = None
        self._generation = 0
        self._server_generation = 0
        self._call: Call | SocketStream | None = None
        self._writing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._error: JjqError | None = None
        self._task: asyncio.Task[None] | None = None

    # The user's side ------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RemoteDelivery:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="jjq-subscription")
        while not self._buffer:
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()
        delivery = self._buffer.popleft()
        await self._allow(delivery)
        return delivery

    async def confirm(self, delivery: RemoteDelivery, offset: int | None = None) -> None:
        """All of `delivery` was handled, or all before `offset`. Returns before it is durable: see `settled`.

        Sent a moment later, with what is confirmed until then: each costs a message, a sync and a reply.
        """
        wanted = delivery.next if offset is None else offset
        if delivery.generation == self._generation and wanted > self._wanted:
            self._wanted = wanted
            if self._confirming is None:
                self._confirming = asyncio.get_running_loop().call_later(CONFIRM_SECONDS, self._confirm_late)

    def _confirm_late(self) -> None:
        self._sending = asyncio.ensure_future(self._confirm_now())

    async def _confirm_now(self) -> None:
        """Send what waits to be sent; what is on its way is not sent again."""
        if self._confirming is None:
            return
        self._confirming.cancel()
        self._confirming = None
        if self._wanted > self.confirmed:
            await self._write(pb.SubscribeRequest(confirm=self._confirmation()))

    async def settled(self) -> None:
        """Return when everything confirmed so far is durable."""
        await self._confirm_now()
        while self.confirmed < self._wanted:
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """End the stream, after confirmations that were made."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(self._seconds):
                await self.settled()
        except (JjqError, TimeoutError):
            pass  # what was not confirmed will come again
        if self._confirming is not None:
            self._confirming.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._error = self._error or Unavailable("the subscription is closed")
        self._changed.set()

    # The stream's side ----------------------------------------------------------------------------

    def _confirmation(self) -> pb.Confirmation:
        return pb.Confirmation(offset=self._wanted, generation=self._server_generation)

    async def _allow(self, delivery: RemoteDelivery) -> None:
        """Give credit back once enough of it is used up to be worth a message."""
        self._owe(delivery)
        if any(self._owed[i] * 2 > self._credit[i] > 0 for i in (0, 1)):
            await self._pay()

    def _owe(self, delivery: RemoteDelivery) -> None:
        self._owed[0] += delivery.batch.num_rows
        self._owed[1] += delivery.bytes

    async def _pay(self) -> None:
        owed, self._owed = self._owed, [0, 0]
        await self._write(pb.SubscribeRequest(credit=pb.Credit(elements=owed[0], bytes=owed[1])))

    async def _write(self, request: pb.SubscribeRequest) -> None:
        call = self._call
        if call is None:
            return  # the next stream begins with all of it
        async with self._writing:
            try:
                await call.write(request.SerializeToString())
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
                return  # broken: the reader will see it

    async def _run(self) -> None:
        try:
            while True:
                try:
                    if await self._stream():
                        continue
                    failure: JjqError = Unavailable("the server ended the stream")
                except (Unavailable, Exhausted) as error:
                    failure = error
                pause = self._backoff.pause(failure)
                never = isinstance(failure, Unavailable) and not failure.reached
                if self._link.closed or never or self._link.clock.monotonic() + pause > self._deadline:
                    raise failure
                await asyncio.sleep(pause)
        except JjqError as error:
            self._error = error
            self._changed.set()

    async def _stream(self) -> bool:
        """Until the server ends it, or, True, until another server is known to have the queue."""
        await self._link.meet()
        with self._link.stream(self._queue) as lane:
            if lane.strict:
                await lane.ready(self._seconds)
            call = lane.subscription()
            try:
                await call.write(self._start().SerializeToString())
                self._server_generation = 0
                while (raw := await read_message(call, writes=False)) is not None:
                    first = self._call is None
                    self._call = call
                    if self._take(raw, first):
                        await self._pay()  # for what was dropped: nobody will take it and pay
                    if self._link.target(self._queue) != lane.target:
                        return True
                return False
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
                await read_message(call, writes=False)  # the write failed; reading tells why
                raise Unavailable("the stream broke as it began") from None
            except Unavailable:
                self._link.failed(lane)
                raise
            finally:
                self._call = None
                self._deadline = self._link.clock.monotonic() + self._seconds
                call.cancel()

    def _start(self) -> pb.SubscribeRequest:
        """What is in the buffer, or owed, counts as used of a new stream's credit."""
        used = [sum(d.batch.num_rows for d in self._buffer), sum(d.bytes for d in self._buffer)]
        self._owed = [0, 0]
        elements, nbytes = (max(1, c - u) if c else 0 for c, u in zip(self._credit, used, strict=True))
        start = pb.SubscribeStart(
            subscriber=self.subscriber,
            form=pb.FORM_ARROW,
            credit=pb.Credit(elements=elements, bytes=nbytes),
            batch_elements=self._batch_elements,
        )
        if self.confirmed >= 0:
            start.resume.CopyFrom(
                pb.Resume(
                    confirmed=self.confirmed, confirm=max(self._wanted, self.confirmed), next=self._next
                )
            )
        return pb.SubscribeRequest(start=start)

    def _take(self, raw: bytes, first: bool) -> bool:
        """Keep what came; True if that made us drop what had come before."""
        message, batch = decode(pb.SubscribeResponse, raw)
        self._link.learn(self._queue, message.owner)
        self._backoff.reset()
        moved = message.position != self._next if first else message.generation != self._server_generation
        dropped = moved and self.confirmed >= 0
        if dropped:
            self._drop()
        if first or moved:
            self._next = message.position
        self._server_generation = message.generation
        self.confirmed = message.confirmed
        if batch is not None and batch.num_rows:
            if message.position != self._next:
                raise Conflict(f"the server went from {self._next} to {message.position}: a gap")
            self._next = message.next
            nbytes = message.bytes or (batch.nbytes if self._credit[1] else 0)
            self._buffer.append(
                RemoteDelivery(batch, message.position, message.next, self._generation, nbytes)
            )
        self._changed.set()
        return dropped

    def _drop(self) -> None:
        """The subscriber was moved: what is buffered is not what the user wants next."""
        self._generation += 1
        self._wanted = -1
        for delivery in self._buffer:
            self._owe(delivery)
        self._buffer.clear()
