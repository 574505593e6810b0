"""PopStream: many pops in flight, results as they are ready.

The call itself reads and starts a task for each pop; a second coroutine answers, with one message for all
results that are ready (duplex.py). A result is a slice of a block until it is written. A client that goes away
takes its pops with it, as it does with calls.

A file of its own: one file for each kind of stream.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import ClassVar

from hotstore.port import Popped
from jjq.limits import POP_STREAM_MAX
from jjq.server.streams.duplex import AddResult, NumberedStream
from jjq.server.unary import pop, pop_reply
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.enums import FORM
from jjq.wire.repeated_elements import Steps
from jjq.wire.results import Results, split_pops


class PopStream(NumberedStream):
    """One open stream; see the module's docstring."""

    most: ClassVar[int] = POP_STREAM_MAX

    async def _listen(self, answers: asyncio.Task[None]) -> None:
        while not answers.done():
            raw = await self._next_message()
            if raw is None:
                return
            for numbered in split_pops(raw):
                await self._admit(numbered.id)
                self._begin(numbered.id, partial(self._pop, numbered.id, numbered.pop))

    async def _pop(self, number: int, request: pb.PopRequest) -> AddResult:
        self._call.outgoing.check_room()
        popped = await pop(self._store, self._drain, request)
        return partial(self._add, number, request, popped)

    def _add(self, number: int, request: pb.PopRequest, popped: Popped, results: Results) -> Steps[None]:
        self._call.meter.moved(popped.batch.num_rows)
        reply = pop_reply(request, popped, self._hint)
        return results.popped(number, reply, popped.batch, FORM.word(request.form))
