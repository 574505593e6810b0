"""Long work on the event loop, done a little at a time, in turns.

A large message takes a second to decode. A thread would hold the interpreter's lock all the while and everybody up
with it; so the work is made of steps of a millisecond (see jjq/wire/friendly.py), and between two steps everybody else
is served. Those who have long work take turns: however many they are, the loop does one step at a time, and
whoever has a few steps only does not wait for the end of a thousand.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from jjq.wire.friendly import Steps

T = TypeVar("T")


class Turns:
    """Who has long work to do, one after the other."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()  # fair: whoever waits longest is next
        self.steps = 0  # done in turns so far

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
