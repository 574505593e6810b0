"""How long to wait before the next attempt: longer each time, spread by chance, never past a deadline."""

from __future__ import annotations

import asyncio

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from jjq.limits import BACKOFF_SECONDS, BACKOFF_SECONDS_MAX


class Backoff:
    """The pauses of one operation, which has until `deadline` on the monotonic clock."""

    def __init__(self, clock: Clock, chance: Chance, deadline: float) -> None:
        self._clock = clock
        self._chance = chance
        self._deadline = deadline
        self._pause = BACKOFF_SECONDS

    async def wait(self, at_least: float = 0.0) -> bool:
        """Pause; False, and at once, where the deadline comes first."""
        seconds = max(at_least, self._pause * (0.5 + self._chance.jitter() / 2))
        self._pause = min(2 * self._pause, BACKOFF_SECONDS_MAX)
        if self._clock.monotonic() + seconds > self._deadline:
            return False
        await asyncio.sleep(seconds)
        return True
