"""Pushes with an identity: one PushStream per queue, many in flight, in order, sent again until answered.

A push without an answer is kept. After a broken connection, or a refusal that will pass, it is sent again on
a new stream, in its order. The server recognises it by producer and sequence.

When a server refuses a push for now, it also refuses the later pushes of the same producer. So the stream is
ended, the rest of its answers is read, and the next stream begins with the pushes that remain. The stream is
ended in the same way when the owner of the queue becomes known, or changes: the next stream goes there.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from coldstore.shared.chance import Chance
from coldstore.shared.deadline import broken_off, settle
from coldstore.shared.errors import Conflict, Exhausted, JjqError, Unavailable
from coldstore.shared.limits import PRODUCER_RECEIPTS_MAX
from coldstore.shared.results import Receipt
from jjq.limits import CONNECT_SECONDS
from jjq.remote.channels import Lane, Link
from jjq.remote.multiplexer import Multiplexer, Policy, PushCodec, StreamRequest
from jjq.remote.retry import LinkBackoff


class OrderedPush(StreamRequest[bytes, Receipt]):
    """One push on its way."""

    __slots__ = ("doubtful", "producer", "refusal", "sequence", "under_way")

    def __init__(self, raw: bytes, producer: str, sequence: int) -> None:
        super().__init__(raw)
        self.producer = producer
        self.sequence = sequence
        self.doubtful = False  # it was sent, and there was no answer: it may have been written
        self.under_way = False  # it was sent on the present stream, and not answered yet
        self.refusal: JjqError | None = None  # the last answer, if it is certain


class OrderedPushes(Policy[OrderedPush]):
    """The pushes of one queue, and the policy of their stream: what has no answer is sent again."""

    def __init__(self, link: Link, chance: Chance, queue: str, bytes_max: int) -> None:
        self._link = link
        self._queue = queue
        self._bytes_max = bytes_max
        self._bytes = 0
        self._backoff = LinkBackoff(link, chance)
        self._pending: dict[OrderedPush, None] = {}  # not answered, in order
        self._stream: Multiplexer[OrderedPush] | None = None  # while there is one
        self._target = ""  # its server
        self._refused: dict[str, JjqError] = {}  # producers that wait for another attempt
        self._failure: JjqError | None = None  # why there is no stream
        self._leaving = False  # end the present stream, for a new one
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._given_up = asyncio.Event()  # nobody waits any more
        self._gate = asyncio.Lock()  # first come, first sent, also when there is no room
        self._task: asyncio.Task[None] | None = None

    async def push(self, raw: bytes, producer: str, sequence: int) -> Receipt:
        """The receipt; waits for room first."""
        if self._gate.locked() or self._bytes > self._bytes_max:
            try:
                async with self._gate:
                    while self._bytes > self._bytes_max:
                        self._room.clear()
                        await self._room.wait()
                    push = self._enqueue(raw, producer, sequence)
            except asyncio.CancelledError:
                broken_off(self._unsent_because())
        else:
            push = self._enqueue(raw, producer, sequence)
        try:
            return await push.reply
        except asyncio.CancelledError:
            broken_off(self._withdraw(push))

    def _unsent_because(self) -> JjqError:
        """What keeps a push from being sent."""
        refused = (push.refusal for push in self._pending if push.refusal is not None)
        why = next(refused, self._failure)
        if isinstance(why, Exhausted):
            return why
        reason = "those before it were not answered" if why is None else why.message
        return Unavailable(f"the push could not be sent in time, it was not written: {reason}", sent=False)

    def _withdraw(self, push: OrderedPush) -> JjqError | None:
        """Give up a push that was certainly not written, and say why; None if it may have been written.

        A push that may have been written stays, and is sent again: its caller may ask for the receipt by the
        same identity. Later pushes of the same producer are given up together with this one. Without it they
        would leave a gap, or take its place.
        """
        if push not in self._pending:
            return push.refusal  # it was settled just when time ran out
        if push.under_way or push.doubtful:
            return None
        refusal = push.refusal or self._unsent_because()
        pending = list(self._pending)
        for other in pending[pending.index(push) :]:
            if other.producer == push.producer and not other.under_way and not other.doubtful:
                self._settle(other, refusal.copy())
        if not self._pending:
            self._given_up.set()
        return refusal

    @property
    def busy(self) -> bool:
        """Whether something waits for its outcome, or for room."""
        return bool(self._pending) or self._gate.locked()

    async def all_answered(self) -> None:
        """Return when nothing does."""
        while self.busy:
            self._room.clear()
            await self._room.wait()

    def _enqueue(self, raw: bytes, producer: str, sequence: int) -> OrderedPush:
        push = OrderedPush(raw, producer, sequence)
        self._bytes += len(raw)
        self._pending[push] = None
        self._more.set()
        if self._stream is not None:
            self._stream.add(push)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="jjq-pipeline")
        return push

    async def close(self) -> None:
        """Stop; pushes without an answer are of unknown outcome."""
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
                await self._run_stream()
                waits = [error for error in self._refused.values() if not self._is_elsewhere(error)]
                pause = max((self._backoff.pause(error) for error in waits), default=0.0)
                self._failure = next(iter(waits), None)
            except (Unavailable, Exhausted) as error:
                pause, self._failure = self._backoff.pause(error), error
                if not self._link.patient or (isinstance(error, Unavailable) and not error.reached):
                    self._fail(error)
                    continue
            except JjqError as error:
                self._fail(error)
                continue
            except Exception as error:  # noqa: BLE001 - callers must not wait for ever
                self._fail(Unavailable(f"the push stream failed ({error!r}); the outcome is unknown"))
                continue
            await self._rest(pause)

    async def _rest(self, seconds: float) -> None:
        """Wait before the next attempt, but only while a caller waits. A push that comes later is sent at once."""
        self._given_up.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._given_up.wait()

    async def _run_stream(self) -> None:
        """One stream, from connecting to its end; returns after a refusal, when all answers are read."""
        self._refused.clear()
        self._leaving = False
        with self._link.stream(self._queue) as lane:
            self._target = lane.target
            await self._reach(lane)
            # A queue remembers so many receipts of a producer: with more in flight, the server could no longer
            # tell a push that is sent again from a new one.
            self._stream = Multiplexer(
                PushCodec(self._link, self._queue), self, self._pending, PRODUCER_RECEIPTS_MAX
            )
            try:
                await self._stream.run(lane)
            except Unavailable:
                self._link.failed(lane)
                raise
            finally:
                self._stream.abandon(Unavailable("the stream is over"))
                self._stream = None
        if not self._refused and not self._leaving:
            raise Unavailable("the server ended the stream")

    async def _reach(self, lane: Lane) -> None:
        """Connect first: gRPC counts what a call gets before as sent, and then its outcome would be unknown."""
        await self._link.meet()
        try:
            await lane.ready(CONNECT_SECONDS)
        except Unavailable:
            self._link.failed(lane)
            raise

    def _is_elsewhere(self, error: JjqError) -> bool:
        """Whether the queue has moved to a known server: then there is no reason to wait."""
        return self._leaving and isinstance(error, Unavailable)

    # The policy of the stream -----------------------------------------------------------------------

    def ends(self, waiting: bool) -> bool:
        return bool(self._refused) or self._leaving

    def may_send(self, request: OrderedPush) -> bool:
        if request not in self._pending:  # withdrawn
            return False
        request.under_way, request.refusal = True, None
        return True

    def answered(self, request: OrderedPush, answer: object) -> None:
        request.under_way = False
        self._failure = None
        if isinstance(answer, Receipt):
            self._backoff.reset()
            self._settle(request, answer)
        elif isinstance(answer, JjqError):
            self._refused_with(request, answer)

    def message_read(self) -> None:
        self._leaving |= self._link.target(self._queue) != self._target

    def unanswered(self, sent: list[OrderedPush], unsent: list[OrderedPush], error: JjqError) -> None:
        for push in sent:
            push.doubtful, push.under_way = True, False

    def _refused_with(self, push: OrderedPush, error: JjqError) -> None:
        # A server refuses what follows a failed push until that is pushed again, on the same stream. A caller
        # that is not patient pushes it again somewhere else, so it must not come back to this stream.
        self._leaving |= not self._link.patient
        if isinstance(error, Unavailable | Exhausted) and self._link.patient:
            self._refused.setdefault(push.producer, error)
            self._send_again(push, error)
        elif isinstance(error, Conflict) and push.producer in self._refused:
            self._send_again(push, self._refused[push.producer])
        else:
            self._settle(push, error)

    def _send_again(self, push: OrderedPush, error: JjqError) -> None:
        """It will be sent again. Whether it is certain until then that it was not written depends on the error."""
        if isinstance(error, Unavailable):
            push.doubtful = True
        else:
            push.refusal = error

    def _settle(self, push: OrderedPush, outcome: Receipt | JjqError) -> None:
        del self._pending[push]
        self._bytes -= len(push.body)
        self._room.set()
        if isinstance(outcome, JjqError) and not (isinstance(outcome, Unavailable) and outcome.sent):
            push.refusal = outcome
        settle(push.reply, outcome)

    def _fail(self, error: JjqError) -> None:
        for push in list(self._pending):
            self._settle(push, error)
