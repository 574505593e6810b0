"""PushStream: many pushes in flight, results in the order of the requests.

The call itself reads and submits; a second coroutine answers. Every push is a task, started in the
order of arrival; the store gives offsets in that order. The stream is not read further while it has
too much in flight, so HTTP/2 holds the client back.

A producer's pushes must not overtake each other when one of them fails. Stores refuse a sequence
that does not follow the last one they know, which covers all but one case: they cannot know a
producer whose very first push failed. So the first push of a producer on a stream is sent alone, and
after a failure everything behind it is refused here until the failed sequence is pushed again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, InvalidInput, JjqError
from hotstore.port import Receipt, Store
from jjq.access.quotas import SPENDER
from jjq.limits import STREAM_BYTES_MAX, STREAM_PRODUCERS_MAX, STREAM_PUSHES_MAX
from jjq.server.cluster_port import Clustered, Hint
from jjq.server.handlers import Call
from jjq.server.loop_steps import StepScheduler
from jjq.server.shutdown import Drain
from jjq.server.streams.duplex import Duplex
from jjq.server.unary import open_push, payload_of, push
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.arrow_field import Span
from jjq.wire.convert import receipt_out
from jjq.wire.pushes import split_pushes
from jjq.wire.status import error_out

Outcome = asyncio.Future[Receipt]


class Order:
    """Keeps the pushes of each producer of a stream in order, also when one fails."""

    def __init__(self) -> None:
        self._unproven: dict[
            str, Outcome | None
        ] = {}  # the push that must succeed first, while it is in flight
        self._failed: dict[str, int] = {}

    async def admit(self, producer: str, sequence: int) -> bool:
        """Wait for the producer's turn; True if its next push must succeed before others follow."""
        first = self._unproven.get(producer)
        if first is not None:
            await asyncio.wait({first})
            self._unproven[producer] = None
        failed = self._failed.get(producer)
        if failed is not None:
            if sequence > failed:
                raise Conflict(
                    f"producer {producer!r} must push sequence {failed} again before {sequence}, as it failed"
                )
            del self._failed[producer]
            return True
        if producer in self._unproven:
            return False
        if len(self._unproven) >= STREAM_PRODUCERS_MAX:
            raise InvalidInput(f"a stream serves {STREAM_PRODUCERS_MAX} producers: open another one")
        return True

    def submitted(self, producer: str, sequence: int, outcome: Outcome, first: bool) -> None:
        if first:
            self._unproven[producer] = outcome
        outcome.add_done_callback(lambda done: self._done(producer, sequence, done))

    def _done(self, producer: str, sequence: int, outcome: Outcome) -> None:
        if outcome.cancelled() or outcome.exception() is not None:
            self._failed[producer] = min(sequence, self._failed.get(producer, sequence))


class PushStream(Duplex):
    """One open stream; see the module's docstring."""

    def __init__(
        self, store: Store, drain: Drain, scheduler: StepScheduler, hint: Hint, clock: Clock, call: Call
    ) -> None:
        super().__init__(store, drain, scheduler, hint, clock, call)
        self._queue = ""
        self._relay = store.relay if isinstance(store, Clustered) else None
        self._order = Order()
        self._waiting: deque[tuple[Outcome, int, float]] = deque()
        self._bytes = 0

    async def _listen(self, answers: asyncio.Task[None]) -> None:
        while not answers.done():
            while self._bytes > STREAM_BYTES_MAX or len(self._waiting) >= STREAM_PUSHES_MAX:
                self._room.clear()
                await self._room.wait()
            raw = await self._next_message()
            if raw is None:
                return
            for span in split_pushes(raw):
                outcome = await self._submit(span)
                self._bytes += span.size
                self._waiting.append((outcome, span.size, self._clock.monotonic()))
                self._changed.set()

    async def _submit(self, span: Span) -> Outcome:
        try:
            request, batch = open_push(span)
            self._queue = request.queue or self._queue
            producer = request.producer if request.HasField("producer") else None
            first = producer is not None and await self._order.admit(producer, request.sequence)
        except JjqError as error:
            outcome = _failed(error)
        else:
            outcome = await self._begin(request, batch, span)
            if producer is not None:
                self._order.submitted(producer, request.sequence, outcome, first)
        self._drain.keep(outcome)  # finished and written even if the client has gone
        return outcome

    async def _begin(self, request: pb.PushRequest, batch: Span | None, span: Span) -> Outcome:
        """Another node's push is passed on as it came; its owner looks into it."""
        queue = self._queue

        async def pushed() -> Receipt:
            return await push(self._store, request, await payload_of(batch, self._scheduler), queue)

        if self._relay is not None and request.queue:
            relayed = self._relay(queue, request.HasField("producer"), span.bytes, pushed)
            if relayed is not None:
                if (usage := SPENDER.get()) is not None:
                    usage.spend(0, span.size)  # how many elements it has is known to its owner alone
                return relayed
        try:
            payload = await payload_of(batch, self._scheduler)
        except JjqError as error:
            return _failed(error)
        return asyncio.create_task(push(self._store, request, payload, queue))

    async def _answer(self) -> None:
        while True:
            while not self._waiting:
                if self._closed:
                    return
                self._changed.clear()
                await self._changed.wait()
            await _settled(self._waiting[0][0])
            reply = pb.PushStreamResponse(owner=self._hint(self._queue), several=True)
            now = self._clock.monotonic()
            while self._waiting and self._waiting[0][0].done():
                outcome, size, began = self._waiting.popleft()
                self._bytes -= size
                self._call.meter.took(now - began)
                reply.results.append(self._result(outcome))
            self._room.set()
            await self._call.write(reply.SerializeToString())

    def _result(self, outcome: Outcome) -> pb.PushResult:
        error = outcome.exception()
        if error is None:
            receipt = outcome.result()
            self._call.meter.moved(receipt.count)
            return pb.PushResult(receipt=receipt_out(receipt))
        self._call.failed(error)
        return pb.PushResult(error=error_out(error))


async def _settled(outcome: Outcome) -> None:
    """Return when a push has its result."""
    if not isinstance(outcome, asyncio.Task):
        with suppress(Exception):  # the result has it; to await it directly is one round of the loop quicker
            await outcome
    elif not outcome.done():
        await asyncio.wait({outcome})  # it goes on if we are cancelled


def _failed(error: JjqError) -> Outcome:
    failed: Outcome = asyncio.get_running_loop().create_future()
    failed.set_exception(error)
    return failed
