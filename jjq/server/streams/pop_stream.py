"""PopStream: many pops in flight, results as they are ready.

The call itself reads and starts a task for each pop; a second coroutine answers, with one message for all
results that are ready. A subscriber that waits for a block or for an element holds up nobody else, until
so many wait that the stream is not read further: then HTTP/2 holds the client back.

A result is a slice of a block until it is written, so however many are ready, the stream takes the memory
of one message. A client that goes away takes its pops with it, as it does with calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput
from hotstore.port import Popped, Store
from jjq.limits import POP_STREAM_MAX
from jjq.server.cluster_port import Hint
from jjq.server.handlers import Call
from jjq.server.loop_steps import Turns
from jjq.server.shutdown import Drain
from jjq.server.streams.duplex import Duplex
from jjq.server.unary import pop, pop_reply
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.enums import FORM
from jjq.wire.results import Results, pops


@dataclass(frozen=True, slots=True)
class Ready:
    """A pop that is done, but not yet answered."""

    number: int
    request: pb.PopRequest
    began: float
    outcome: Popped | Exception


class PopStream(Duplex):
    """One open stream; see the module's docstring."""

    def __init__(
        self, store: Store, drain: Drain, turns: Turns, hint: Hint, clock: Clock, call: Call
    ) -> None:
        super().__init__(store, drain, turns, hint, clock, call)
        self._in_flight: set[int] = set()  # not yet answered
        self._ready: deque[Ready] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            for task in self._tasks:
                task.cancel()

    async def _listen(self, answers: asyncio.Task[None]) -> None:
        while not answers.done():
            raw = await self._hear()
            if raw is None:
                return
            for asked in pops(raw):
                await self._begin(asked)

    async def _begin(self, asked: pb.NumberedPop) -> None:
        while len(self._in_flight) >= POP_STREAM_MAX:
            self._room.clear()
            await self._drain.wait(self._room.wait())
        if asked.id in self._in_flight:
            raise InvalidInput(f"pop {asked.id} is not answered yet: give each pop a number of its own")
        self._in_flight.add(asked.id)
        task = asyncio.create_task(self._one(asked.id, asked.pop))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._drain.keep(task)

    async def _one(self, number: int, request: pb.PopRequest) -> None:
        began = self._clock.monotonic()
        outcome: Popped | Exception
        try:
            self._call.outgoing.check_room()
            outcome = await pop(self._store, self._drain, request)
        except Exception as error:  # noqa: BLE001 - told to the client, as the result of this pop alone
            outcome = error
        self._ready.append(Ready(number, request, began, outcome))
        self._changed.set()

    async def _answer(self) -> None:
        while True:
            while not self._ready:
                if self._closed and not self._in_flight:
                    return
                self._changed.clear()
                await self._changed.wait()
            await self._call.write(await self._message())

    async def _message(self) -> bytes:
        """What is ready, as long as the message is not large enough."""
        results = Results()
        now = self._clock.monotonic()
        while self._ready and results.size < self._call.outgoing.room():
            ready = self._ready.popleft()
            self._in_flight.discard(ready.number)
            self._call.meter.took(now - ready.began)
            await self._add(results, ready)
        self._room.set()
        return results.encode()

    async def _add(self, results: Results, ready: Ready) -> None:
        if isinstance(ready.outcome, Exception):
            self._call.failed(ready.outcome)
            results.failed(ready.number, ready.outcome)
            return
        batch = ready.outcome.batch
        self._call.meter.moved(batch.num_rows)
        reply = pop_reply(ready.request, ready.outcome, self._hint)
        form = FORM.word(ready.request.form)
        await self._turns.run(results.popped(ready.number, reply, batch, form))
