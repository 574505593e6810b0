"""Long work on the event loop, done a little at a time.

A large message takes a second to decode. In a thread, that work would hold the interpreter's lock, and everybody would
wait. So the work is made of steps of a millisecond (jjq/wire/repeated_elements.py), and the loop serves others between
two steps. Callers with long work take turns: however many they are, the loop does one step at a time, and a caller with
few steps does not wait for the end of one with a thousand.

Short work of thousands is long work too. If thousands of streams are ready in the same moment, a push that comes in
waits for all of them, several times on its way. `Pace` lets one of them go on in each round of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from jjq.limits import DECODES_MAX, LARGE_BYTES
from jjq.wire.repeated_elements import Steps

T = TypeVar("T")


class Pace:
    """Lets one of many go on in each round of the loop. A single one never waits."""

    def __init__(self) -> None:
        self._line: deque[asyncio.Future[None]] = deque()
        self._taken = False  # in this round

    async def turn(self) -> None:
        """Return when the caller may work for about a millisecond."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._next)
            return
        mine = loop.create_future()
        self._line.append(mine)
        await mine

    def _next(self) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._taken = False


class StepScheduler:
    """Runs long work in steps. Callers take turns."""

    def __init__(self) -> None:
        self.pace = Pace()  # of streams, whose work is short
        self._turn = asyncio.Lock()  # fair: the caller that waits longest is next
        self._large = asyncio.Semaphore(DECODES_MAX)
        self.steps = 0  # done in turns so far

    @asynccontextmanager
    async def holding(self, size: int) -> AsyncIterator[None]:
        """While a message of `size` bytes is decoded in turns. Its elements may take ten times as much as their bytes,
        so of those that are large only a few are decoded at a time."""
        if size < LARGE_BYTES:
            yield
        else:
            async with self._large:
                yield

    async def run(self, work: Steps[T]) -> T:
        """The result of all steps. The first is done at once, and most work has no other."""
        try:
            next(work)
            while True:
                async with self._turn:
                    self.steps += 1
                    next(work)
                    await asyncio.sleep(0)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            work.close()
