"""Streams that are read by one coroutine and answered by another.

`Duplex` is such a stream. `NumberedStream` is one whose requests have numbers: each is a task, and one message
answers all that are done, in any order. A request that waits holds up nobody else, until so many wait that the
stream is not read further: then HTTP/2 holds the client back.

A result is not encoded before it is written, so however many are ready, the stream takes the memory of one message.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import ClassVar, NamedTuple

from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput, JjqError, Unavailable
from hotstore.port import Store
from jjq.server.cluster_port import Hint
from jjq.server.handlers import Call
from jjq.server.loop_steps import StepScheduler
from jjq.server.shutdown import Drain, Interrupt, Interrupted
from jjq.wire.repeated_elements import Steps
from jjq.wire.results import Results

AddResult = Callable[[Results], Steps[None]]  # encodes one result, in steps


class Duplex(ABC):
    """One open stream. It ends when the client has closed its side and all is answered."""

    def __init__(
        self, store: Store, drain: Drain, scheduler: StepScheduler, hint: Hint, clock: Clock, call: Call
    ) -> None:
        self._store = store
        self._drain = drain
        self._scheduler = scheduler
        self._hint = hint
        self._clock = clock
        self._call = call
        self._changed = asyncio.Event()  # there is something to answer, or nothing more will come
        self._room = asyncio.Event()
        self._closed = False
        self._client: Interrupt[bytes | None] = Interrupt()  # breaks off waiting for the client

    async def run(self) -> None:
        answers = asyncio.create_task(self._answer(), name="jjq-answers")
        self._drain.keep(answers)
        answers.add_done_callback(lambda _: self._client.fire())
        try:
            await self._listen(answers)
        except Unavailable:
            await self._finish(answers)  # the server stops: what is in flight is still answered
            raise
        except JjqError:
            await self._break_off(answers)
            raise
        except BaseException:
            answers.cancel()
            raise
        await self._finish(answers)

    async def _next_message(self) -> bytes | None:
        """The next message; None when there is no other, or when nobody answers any more."""
        try:
            return await self._drain.wait(self._call.read(), self._client)
        except Interrupted:
            return None

    async def _finish(self, answers: asyncio.Task[None]) -> None:
        self._closed = True
        self._changed.set()
        await answers

    async def _break_off(self, answers: asyncio.Task[None]) -> None:
        """The client's request was wrong: answer no more."""
        answers.cancel()

    @abstractmethod
    async def _listen(self, answers: asyncio.Task[None]) -> None:
        """Read until the client has closed its side, or nobody answers any more."""

    @abstractmethod
    async def _answer(self) -> None:
        """Write until `_closed` is set and nothing is in flight."""


class ReadyResult(NamedTuple):
    """A request that is done, but not yet answered."""

    number: int
    began: float
    outcome: AddResult | Exception


class NumberedStream(Duplex):
    """Requests with numbers, and results as they are ready. What waits ends with the stream."""

    most: ClassVar[int]  # requests that are not yet answered

    def __init__(
        self, store: Store, drain: Drain, scheduler: StepScheduler, hint: Hint, clock: Clock, call: Call
    ) -> None:
        super().__init__(store, drain, scheduler, hint, clock, call)
        self._in_flight: set[int] = set()  # not yet answered
        self._ready: deque[ReadyResult] = deque()
        self._waiting: set[asyncio.Task[None]] = set()  # end with the stream
        self._broken = False

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            for task in self._waiting:
                task.cancel()

    async def _admit(self, number: int) -> None:
        """Wait for room; the client chooses the number."""
        while len(self._in_flight) >= self.most:
            self._room.clear()
            await self._drain.wait(self._room.wait())
        if number in self._in_flight:
            raise InvalidInput(f"request {number} is not answered yet: give each request a number of its own")
        self._in_flight.add(number)

    def _begin(
        self, number: int, work: Callable[[], Awaitable[AddResult]], *, finished: bool = False
    ) -> asyncio.Task[None]:
        """Start an admitted request. If it is to be `finished`, it goes on when the stream ends."""
        task = asyncio.create_task(self._one(number, work))
        if not finished:
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        self._drain.keep(task)
        return task

    async def _one(self, number: int, work: Callable[[], Awaitable[AddResult]]) -> None:
        began = self._clock.monotonic()
        outcome: AddResult | Exception
        try:
            outcome = await work()
        except Exception as error:  # noqa: BLE001 - becomes the result of this request alone
            outcome = error
        self._ready.append(ReadyResult(number, began, outcome))
        self._changed.set()

    async def _break_off(self, answers: asyncio.Task[None]) -> None:
        """As above, but a message that is being written is finished: to cancel a write would cancel the call, and the
        client would not learn why."""
        self._broken = True
        self._changed.set()
        await asyncio.wait([answers])

    async def _answer(self) -> None:
        while not self._broken:
            if self._ready:
                await self._call.write(await self._message())
            elif self._closed and not self._in_flight:
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    async def _message(self) -> bytes:
        """What is ready, as long as the message is not large enough."""
        results = Results()
        now = self._clock.monotonic()
        while self._ready and results.size < self._call.outgoing.room():
            number, began, outcome = self._ready.popleft()
            self._in_flight.discard(number)
            self._call.meter.took(now - began)
            if isinstance(outcome, Exception):
                self._call.failed(outcome)
                results.failed(number, outcome)
            else:
                await self._scheduler.run(outcome(results))
        self._room.set()
        return results.encode()
