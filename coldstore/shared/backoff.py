"""`Backoff`: how long to pause between attempts.

The pause doubles with every failed attempt, up to a longest one. With a `Chance` it is spread between half and
all of that, so that many clients that failed together do not come back together.
"""

from __future__ import annotations

import asyncio

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock

_DOUBLINGS = 30  # more would only overflow: every longest pause is reached long before


class Backoff:
    """The pauses of one operation; counts its failed attempts."""

    def __init__(self, first_seconds: float, longest_seconds: float, chance: Chance | None = None) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._chance = chance
        self.attempts = 0

    def pause_after(self, attempts: int) -> float:
        """Seconds to wait after so many failed attempts, from 1 on."""
        seconds = min(self._longest, self._first * 2.0 ** min(attempts - 1, _DOUBLINGS))
        return seconds if self._chance is None else seconds * (1 + self._chance.jitter()) / 2

    def next_pause(self) -> float:
        """One more attempt has failed: seconds to wait before the next one."""
        self.attempts += 1
        return self.pause_after(self.attempts)

    def reset(self) -> None:
        """An attempt has succeeded: begin with the first pause again."""
        self.attempts = 0

    async def wait(self, clock: Clock, deadline: float, at_least: float = 0.0) -> bool:
        """Pause before the next attempt. False, at once, if the pause would end after `deadline` (monotonic)."""
        seconds = max(at_least, self.next_pause())
        if clock.monotonic() + seconds > deadline:
            return False
        await asyncio.sleep(seconds)
        return True
