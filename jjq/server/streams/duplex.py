"""Streams that are read by one coroutine and answered by another."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Unavailable
from hotstore.port import Store
from jjq.server.cluster_port import Hint
from jjq.server.handlers import Call
from jjq.server.interrupt import Interrupt, Interrupted
from jjq.server.loop_steps import Turns
from jjq.server.shutdown import Drain


class Duplex(ABC):
    """One open stream. It ends when the client has closed its side and all is answered."""

    def __init__(
        self, store: Store, drain: Drain, turns: Turns, hint: Hint, clock: Clock, call: Call
    ) -> None:
        self._store = store
        self._drain = drain
        self._turns = turns
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
        except BaseException:
            answers.cancel()
            raise
        await self._finish(answers)

    async def _hear(self) -> bytes | None:
        """The next message; None when there is no other, or when nobody answers any more."""
        try:
            return await self._drain.wait(self._call.read(), self._client)
        except Interrupted:
            return None

    async def _finish(self, answers: asyncio.Task[None]) -> None:
        self._closed = True
        self._changed.set()
        await answers

    @abstractmethod
    async def _listen(self, answers: asyncio.Task[None]) -> None:
        """Read until the client has closed its side, or nobody answers any more."""

    @abstractmethod
    async def _answer(self) -> None:
        """Write until `_closed` is set and nothing is in flight."""
