"""Pushes with an identity: one PushStream per queue, many in flight, in order, resent until answered.

Whatever is not answered is kept and, after a broken connection or a refusal that will pass, sent
again in its order on a new stream; the server knows what it has by (producer, sequence). When a push
is refused for now, those behind it of the same producer are refused with it, so the stream is ended,
the rest of its answers is read, and what remains begins the next one. The same is done when the queue's
owner becomes known, or becomes another one: the next stream goes there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

import grpc

from coldstore.shared.chance import Chance
from coldstore.shared.errors import Conflict, Exhausted, JjqError, Unavailable
from coldstore.shared.limits import PRODUCER_RECEIPTS_MAX
from coldstore.shared.results import Receipt
from jjq.limits import STREAM_MESSAGE_BYTES, STREAM_MESSAGE_PUSHES
from jjq.remote.called import received
from jjq.remote.channels import Link
from jjq.remote.retry import LinkBackoff
from jjq.remote.settle import settle
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.convert import receipt_in
from jjq.wire.pushes import joined
from jjq.wire.status import error_in

Call = grpc.aio.StreamStreamCall[bytes, bytes]


class Push:
    """One push on its way."""

    __slots__ = ("producer", "raw", "reply", "sequence")

    def __init__(self, raw: bytes, producer: str, sequence: int) -> None:
        self.raw = raw
        self.producer = producer
        self.sequence = sequence
        self.reply: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()


class Pipeline:
    """The pushes of one queue; see the module's docstring."""

    def __init__(self, link: Link, chance: Chance, queue: str, bytes_max: int) -> None:
        self._link = link
        self._queue = queue
        self._bytes_max = bytes_max
        self._bytes = 0
        self._backoff = LinkBackoff(link, chance)
        self._pending: dict[Push, None] = {}  # not answered, in order
        self._unsent: deque[Push] = deque()  # of the present stream
        self._sent: deque[Push] = deque()
        self._refused: dict[str, JjqError] = {}  # producers that wait for another attempt
        self._leaving = False  # the present stream, for a new one
        self._several = False  # the server takes several pushes in one message
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._gate = asyncio.Lock()  # first come, first sent, also when there is no room
        self._task: asyncio.Task[None] | None = None

    async def push(self, raw: bytes, producer: str, sequence: int) -> Receipt:
        """The receipt; waits for room first."""
        if self._gate.locked() or self._bytes > self._bytes_max:
            async with self._gate:
                while self._bytes > self._bytes_max:
                    self._room.clear()
                    await self._room.wait()
                push = self._enqueue(raw, producer, sequence)
        else:
            push = self._enqueue(raw, producer, sequence)
        return await push.reply

    @property
    def busy(self) -> bool:
        """Whether something waits for its outcome, or for room."""
        return bool(self._pending) or self._gate.locked()

    async def answered(self) -> None:
        """Return when nothing does."""
        while self.busy:
            self._room.clear()
            await self._room.wait()

    def _enqueue(self, raw: bytes, producer: str, sequence: int) -> Push:
        push = Push(raw, producer, sequence)
        self._bytes += len(raw)
        self._pending[push] = None
        self._unsent.append(push)
        self._more.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="jjq-pipeline")
        return push

    async def close(self) -> None:
        """Stop; whatever is not answered is of unknown outcome."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(Unavailable("the client was closed before an answer came; the outcome is unknown"))

    async def _run(self) -> None:
        while True:
            while not self._pending:
                self._more.clear()
                await self._more.wait()
            try:
                await self._stream()
                waits = [error for error in self._refused.values() if not self._is_elsewhere(error)]
                pause = max((self._backoff.pause(error) for error in waits), default=0.0)
            except (Unavailable, Exhausted) as error:
                pause = self._backoff.pause(error)
                if not self._link.patient:
                    self._fail(error)
                    continue
            except JjqError as error:
                self._fail(error)
                continue
            except Exception as error:  # noqa: BLE001 - callers must not wait for ever
                self._fail(Unavailable(f"the push stream failed ({error!r}); the outcome is unknown"))
                continue
            await asyncio.sleep(pause)

    async def _stream(self) -> None:
        """One stream, from connecting to its end; returns after a refusal, when all answers are read."""
        self._unsent = deque(self._pending)
        self._sent.clear()
        self._refused.clear()
        self._leaving = self._several = False
        with self._link.stream(self._queue) as lane:
            call: Call = lane.both_streams("PushStream")()
            sender = asyncio.create_task(self._send(call), name="jjq-sender")
            try:
                while (raw := await received(call)) is not None:
                    self._take(parse(pb.PushStreamResponse, raw))
                    self._leaving |= self._link.target(self._queue) != lane.target
                    self._more.set()  # the sender may go on, or has to stop
            except Unavailable:
                self._link.failed(lane)
                raise
            finally:
                sender.cancel()
                call.cancel()
        if not self._refused and not self._leaving:
            raise Unavailable("the server ended the stream")

    def _is_elsewhere(self, error: JjqError) -> bool:
        """Refused because the queue has moved, and we know where to: no reason to wait."""
        return self._leaving and isinstance(error, Unavailable)

    async def _send(self, call: Call) -> None:
        # A broken stream is the reader's to tell about. Cancelling a write would cancel the stream.
        with suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            while not self._refused and not self._leaving:
                # A queue remembers so many receipts of a producer: with more in flight, a resent push could
                # no longer be told from a new one.
                if not self._unsent or len(self._sent) >= PRODUCER_RECEIPTS_MAX:
                    self._more.clear()
                    await self._more.wait()
                    continue
                await call.write(joined([push.raw for push in self._leave()]))
            await call.done_writing()

    def _leave(self) -> list[Push]:
        """What goes into the next message: one push, or what waits if the server takes several."""
        pushes: list[Push] = []
        size = 0
        while self._unsent and len(self._sent) < PRODUCER_RECEIPTS_MAX:
            size += len(self._unsent[0].raw)
            if pushes and (
                not self._several or size > STREAM_MESSAGE_BYTES or len(pushes) == STREAM_MESSAGE_PUSHES
            ):
                break
            pushes.append(self._unsent.popleft())
            self._sent.append(pushes[-1])
        return pushes

    def _take(self, response: pb.PushStreamResponse) -> None:
        self._link.learn(self._queue, response.owner)
        self._several = response.several
        for result in response.results:
            push = self._sent.popleft()
            if result.WhichOneof("result") == "receipt":
                self._backoff.reset()
                self._settle(push, receipt_in(result.receipt))
                continue
            error = error_in(result.error)
            # A server refuses what follows a failed push until that is pushed again, on the same stream. Who
            # is not patient will push it again somewhere else, so it must not come back to this stream.
            self._leaving |= not self._link.patient
            if isinstance(error, Unavailable | Exhausted) and self._link.patient:
                self._refused.setdefault(push.producer, error)
            elif not (isinstance(error, Conflict) and push.producer in self._refused):
                self._settle(push, error)

    def _settle(self, push: Push, outcome: Receipt | JjqError) -> None:
        del self._pending[push]
        self._bytes -= len(push.raw)
        self._room.set()
        settle(push.reply, outcome)

    def _fail(self, error: JjqError) -> None:
        for push in list(self._pending):
            self._settle(push, error)
